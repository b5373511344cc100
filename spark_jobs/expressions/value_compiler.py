"""Compiler of computed columns: tree -> term with its values; what conditions may have, choices, parts of values.

Put here: what is said of values that are stored. Not here: conditions (compiler.py), or types of columns (computed.py).
"""

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_jobs.expressions.compiler import NODES, Compiler, Node, require_exact
from spark_jobs.expressions.exact_numbers import as_real, widened
from spark_jobs.expressions.terms import Evaluate, Sort, Term, Values, choice, combined, constant, mapped
from spark_jobs.expressions.tree import refused

_TEXTS = (Sort.TEXT, Sort.POINTS, Sort.LABEL, Sort.LITERAL, Sort.NULL, Sort.UNKNOWN)


class ValueCompiler(Compiler):
    """Gives the terms of a tree whose value is kept."""

    def value(self, node: exp.Expr) -> Term:
        """The term that evaluates a node to a value of a known sort. Raises ConfigError."""
        term = self.term(node)
        if term.sort is Sort.OTHER:
            raise refused(node, f"is {Sort.OTHER.value}")
        return term

    def case(self, node: exp.Case) -> Term:
        if node.this is not None:
            raise refused(node, "compares a value after CASE; write CASE WHEN with conditions")
        branches = [(self.truth(branch.this), self.value(branch.args["true"])) for branch in node.args["ifs"]]
        default = node.args.get("default")
        return self._common(node, branches, self.value(default) if default is not None else Term(Sort.NULL))

    def if_function(self, node: exp.If) -> Term:
        default = node.args.get("false")
        if default is None:
            raise refused(node, "needs three arguments")
        return self._common(node, [(self.truth(node.this), self.value(node.args["true"]))], self.value(default))

    def joined(self, node: exp.Concat) -> Term:
        terms = [self._text_term(node, part) for part in node.expressions]
        return Term(Sort.TEXT, combined(tuple(typed(term, Sort.TEXT) for term in terms), _concatenated))

    def begin(self, node: exp.Left | exp.Right) -> Term:
        text, count = self._text_term(node, node.this), _count(node, node.expression)
        # No character at all, or so many from the end.
        bounds = (0, count) if isinstance(node, exp.Left) or not count else (-count, None)
        return Term(Sort.TEXT, mapped(typed(text, Sort.TEXT), _cut(*bounds)))

    def section(self, node: exp.Substring) -> Term:
        start = _count(node, node.args.get("start"))
        if not start:
            raise refused(node, "begins at 0; the first character is 1")
        length = node.args.get("length")
        stop = None if length is None else start - 1 + _count(node, length)
        return Term(Sort.TEXT, mapped(typed(self._text_term(node, node.this), Sort.TEXT), _cut(start - 1, stop)))

    def day(self, node: exp.Expr) -> Term:
        inner = self.term(node.this)
        if inner.sort not in (Sort.DATE, Sort.DATETIME, Sort.UNKNOWN):
            raise refused(node, f"is taken of what is {inner.sort.value}")
        return Term(Sort.DATE, mapped(inner.evaluate, lambda values: values.cast(pa.date32())))

    def _text_term(self, node: exp.Expr, part: exp.Expr) -> Term:
        term = self.term(part)
        if term.sort not in _TEXTS:
            raise refused(node, f"is made of text, and `{part.sql(dialect='mysql')}` is {described(term)}")
        return term

    def _common(self, node: exp.Expr, branches: list[tuple[Term, Term]], default: Term) -> Term:
        """One of several values, as a value of what holds all of them."""
        # Numbers become the type that holds all of them; texts are text; all other sorts are refused beside each other.
        terms = [*(term for _, term in branches), default]
        sorts = {term.sort for term in terms} - {Sort.NULL, Sort.UNKNOWN}
        digits = scale = 0
        if sorts == {Sort.NUMBER}:
            scale = max(term.scale for term in terms)
            digits = max(term.integer_digits for term in terms) + scale
            require_exact(node, digits, scale)
            sort = Sort.NUMBER
        elif sorts and sorts <= {Sort.NUMBER, Sort.REAL}:
            sort = Sort.REAL
        elif sorts and sorts <= {*_TEXTS}:
            sort = Sort.TEXT
        elif len(sorts) <= 1:
            sort = next(iter(sorts), Sort.NULL)
        else:
            raise refused(node, f"is {' or '.join(sorted(sort.value for sort in sorts))}; write one of them")
        if sort is Sort.NULL:
            return Term(sort)
        # From the last branch backwards: its value where the condition is TRUE, else what comes after it.
        evaluate = typed(default, sort, digits, scale)
        for condition, term in reversed(branches):
            evaluate = choice(condition.evaluate, typed(term, sort, digits, scale), evaluate)
        return Term(sort, evaluate, digits, scale)


def typed(term: Term, sort: Sort, digits: int = 0, scale: int = 0) -> Evaluate:
    """A term's values as those of a sort that holds them; digits, scale: of a number."""
    if term.sort is Sort.NULL:
        return constant(None, Term(sort, digits=digits, scale=scale).arrow)
    if sort is Sort.REAL:
        return as_real(term)
    if sort is Sort.NUMBER and term.sort is Sort.NUMBER:
        return widened(term, digits, scale)
    return term.evaluate


def described(term: Term) -> str:
    """Description of a term, for messages."""
    return f"DECIMAL({term.digits},{term.scale})" if term.sort is Sort.NUMBER else term.sort.value


def _concatenated(*texts: Values) -> Values:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _cut(start: int, stop: int | None) -> Callable[[Values], Values]:
    return lambda values: pc.utf8_slice_codeunits(values, start, stop)


def _count(node: exp.Expr, literal: exp.Expr | None) -> int:
    """A whole number from 0 on, written as such."""
    text = str(literal.this) if isinstance(literal, exp.Literal) and not literal.is_string else ""
    if not re.fullmatch(r"\d{1,9}", text):
        raise refused(node, "counts by what is not a whole number from 0 on")
    return int(text)


_OF_VALUES: tuple[Node, ...] = (
    ((exp.Case,), ValueCompiler.case),
    ((exp.If,), ValueCompiler.if_function),
    ((exp.Concat,), ValueCompiler.joined),
    ((exp.Left, exp.Right), ValueCompiler.begin),
    ((exp.Substring,), ValueCompiler.section),
    ((exp.Date, exp.TsOrDsToDate), ValueCompiler.day),
)
_ALL: tuple[Node, ...] = (*_OF_VALUES, *NODES)
ValueCompiler.nodes = _ALL
