"""Compiler of conditions: tree -> term with its values. A kind of node that is not named here is refused.

Put here: what conditions may say. Not here: what computed columns may say besides (value_compiler.py), comparisons
(comparisons.py), numbers (exact_numbers.py).

An expression looks at its row alone: no subquery, no variable, nothing that differs from call to call. What servers do
by rules that the lake does not know (collations, division, text beside numbers) is refused. docs/filters.md lists what
is left for users, and tests/differential/test_expressions.py asks servers about it.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_jobs.expressions import exact_numbers
from spark_jobs.expressions.comparisons import (
    BINARY_COLLATIONS,
    BY_COLLATION,
    NULL_TRUTH,
    OPERATIONS,
    as_reals,
    compared,
    require_bounds,
)
from spark_jobs.expressions.exact_numbers import MOST_DIGITS, MOST_SCALE, number, widened, with_whole
from spark_jobs.expressions.terms import (
    TIMES,
    Resolve,
    Sort,
    Term,
    Values,
    choice,
    combined,
    conjunction,
    constant,
    mapped,
)
from spark_jobs.expressions.tree import refused

_ARGUMENTS = frozenset(
    ("this", "expression", "expressions", "low", "high", "start", "length", "ifs", "default", "true", "false")
)
_MORE_ARGUMENTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Column: frozenset(("table", "db", "catalog")),
    exp.Literal: frozenset(("is_string",)),
    exp.Like: frozenset(("negate",)),
    exp.In: frozenset(("query",)),
    exp.Length: frozenset(("binary",)),
    exp.Concat: frozenset(("safe",)),
}
"""Arguments of nodes that are looked at."""
_PARTS: dict[type[exp.Expr], Callable[[Values], Values]] = {exp.Year: pc.year, exp.Month: pc.month, exp.Day: pc.day}


class Compiler:
    """Gives the terms of a tree."""

    nodes: tuple["Node", ...]
    """Kinds of nodes, and what gives the term of each."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def truth(self, node: exp.Expr) -> Term:
        """A condition: TRUE, FALSE or NULL. Raises ConfigError."""
        if isinstance(node, exp.Boolean):
            return Term(Sort.TRUTH, constant(bool(node.this), pa.bool_()))
        term = self.term(node)
        match term.sort:
            case Sort.TRUTH | Sort.UNKNOWN:
                return replace(term, sort=Sort.TRUTH)
            case Sort.NULL:
                return NULL_TRUTH
            case Sort.NUMBER | Sort.REAL:
                zero = pa.scalar(Decimal(0) if term.sort is Sort.NUMBER else 0.0, term.arrow)
                return Term(Sort.TRUTH, mapped(term.evaluate, lambda values: pc.not_equal(values, zero)))
        raise refused(node, f"is {term.sort.value}, and no condition")

    def term(self, node: exp.Expr) -> Term:
        """The term that evaluates a node. Raises ConfigError if a filter may not contain it."""
        # An argument that nobody looks at would change what the node says.
        unknown = {name for name, value in node.args.items() if value not in (None, False, [])} - _ARGUMENTS
        for kinds, term_of in self.nodes:
            if isinstance(node, kinds) and unknown <= _MORE_ARGUMENTS.get(type(node), frozenset()):
                term = term_of(self, node)
                return term if node.find(exp.Column) else replace(term, is_constant=True)
        if isinstance(node, exp.Subquery | exp.Select | exp.Exists):
            raise refused(node, "is a subquery, and a filter looks at its row alone")
        if isinstance(node, exp.Func | exp.Anonymous):
            raise refused(node, "is no function that a filter may use")
        raise refused(node, "is not among what a filter may say")

    def column(self, node: exp.Column) -> Term:
        if node.args.get("table"):
            raise refused(node, "names a table; a filter names columns of its row alone")
        return self._resolve(str(node.name).casefold())

    def literal(self, node: exp.Literal) -> Term:
        """A text or a number; numbers are exact, but for those with an exponent."""
        text = str(node.this)
        if node.is_string:
            return Term(Sort.LITERAL, constant(text, pa.string()), text=text)
        if not re.fullmatch(r"\d*\.?\d*", text):
            if not re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][-+]?\d+", text):
                raise refused(node, "is no number")
            if not isfinite(float(text)):
                raise refused(node, "is larger than any DOUBLE")
            return Term(Sort.REAL, constant(float(text), pa.float64()))
        term = exact_numbers.literal(text)
        require_exact(node, term.digits, term.scale, has="has")
        return term

    def boolean(self, node: exp.Boolean) -> Term:
        """Number of a boolean: TRUE is 1."""
        return exact_numbers.literal(str(int(node.this)))

    def null(self, _: exp.Null) -> Term:
        return Term(Sort.NULL)

    def paren(self, node: exp.Paren) -> Term:
        return self.term(node.this)

    def conjunction(self, node: exp.And | exp.Or) -> Term:
        sides = self.truth(node.left).evaluate, self.truth(node.right).evaluate
        return Term(Sort.TRUTH, conjunction(*sides, is_and=isinstance(node, exp.And)))

    def negation(self, node: exp.Not) -> Term:
        return Term(Sort.TRUTH, mapped(self.truth(node.this).evaluate, pc.invert))

    def comparison(self, node: exp.Binary) -> Term:
        return compared(node, type(node), self.term(node.left), self.term(node.right))

    def among(self, node: exp.In) -> Term:
        """TRUE where one of the list is equal, NULL where none is and one is NULL."""
        listed = node.args.get("expressions")
        if not listed:
            raise refused(node, "is a subquery, and a filter looks at its row alone")
        # One equality after the other: NULL in the list leaves NULL where none is TRUE.
        term, *items = self.term(node.this), *(self.term(item) for item in listed)
        comparisons = [compared(node, exp.EQ, term, item).evaluate for item in items]
        union = comparisons[0]
        for comparison in comparisons[1:]:
            union = conjunction(union, comparison, is_and=False)
        return Term(Sort.TRUTH, union)

    def between(self, node: exp.Between) -> Term:
        middle, low, high = as_reals(self.term(node.args[name]) for name in ("this", "low", "high"))
        require_bounds(node, middle, low, high)
        lower, upper = compared(node, exp.GTE, middle, low), compared(node, exp.LTE, middle, high)
        return Term(Sort.TRUTH, conjunction(lower.evaluate, upper.evaluate, is_and=True))

    def test(self, node: exp.Is) -> Term:
        """IS NULL, IS TRUE, IS FALSE: never NULL."""
        if isinstance(node.expression, exp.Null):
            term = self.term(node.this)
            is_null = constant(True, pa.bool_()) if term.sort is Sort.NULL else mapped(term.evaluate, pc.is_null)
            return Term(Sort.TRUTH, is_null)
        if isinstance(node.expression, exp.Boolean):
            truth_value, truth = pa.scalar(bool(node.expression.this)), self.truth(node.this)
            return Term(
                Sort.TRUTH, mapped(truth.evaluate, lambda values: pc.fill_null(pc.equal(values, truth_value), False))
            )
        raise refused(node, "is not among what a filter may say")

    def likeness(self, node: exp.Like) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if left.sort is Sort.TEXT or left.sort is Sort.LABEL:
            raise refused(node, BY_COLLATION)
        if left.sort not in (Sort.POINTS, Sort.UNKNOWN) or right.sort is not Sort.LITERAL:
            raise refused(node, "needs text on its left and a literal on its right")
        if "\\" in right.text:
            raise refused(node, "has a backslash in its pattern, which servers read by their sql_mode")
        is_like = mapped(left.evaluate, lambda values: pc.match_like(values, right.text))
        return Term(Sort.TRUTH, mapped(is_like, pc.invert) if node.args.get("negate") else is_like)

    def collated(self, node: exp.Collate) -> Term:
        name = str(node.expression.name or node.expression.this)
        if name.casefold() not in BINARY_COLLATIONS:
            raise refused(node, f"names a collation that the lake does not know; {BINARY_COLLATIONS[0]} is known")
        inner = self.term(node.this)
        if inner.sort not in (Sort.TEXT, Sort.LABEL, Sort.LITERAL, Sort.POINTS, Sort.UNKNOWN):
            raise refused(node, f"has a collation, but is {inner.sort.value}")
        return replace(inner, sort=Sort.UNKNOWN if inner.sort is Sort.UNKNOWN else Sort.POINTS)

    def sum(self, node: exp.Add | exp.Sub) -> Term:
        left, right = self._numbers(node, node.left, node.right)
        scale = max(left.scale, right.scale)
        digits = max(left.integer_digits, right.integer_digits) + 1 + scale
        require_exact(node, digits, scale)
        operation = pc.add if isinstance(node, exp.Add) else pc.subtract
        return number(combined((left.evaluate, right.evaluate), operation), digits, scale)

    def product(self, node: exp.Mul) -> Term:
        left, right = self._numbers(node, node.left, node.right)
        digits, scale = left.digits + right.digits + 1, left.scale + right.scale
        require_exact(node, digits, scale)
        return number(combined((left.evaluate, right.evaluate), pc.multiply), digits, scale)

    def remainder(self, node: exp.Mod) -> Term:
        """NULL where the divisor is 0, with the sign of what is divided."""
        left, right = self._numbers(node, node.left, node.right)
        scale = max(left.scale, right.scale)
        digits = max(left.integer_digits, right.integer_digits) + scale
        require_exact(node, digits, scale)
        sides = widened(left, digits, scale), widened(right, digits, scale)
        return number(combined(sides, exact_numbers.remainder), digits, scale)

    def minus(self, node: exp.Neg) -> Term:
        (inner,) = self._numbers(node, node.this)
        return number(mapped(inner.evaluate, pc.negate), inner.digits, inner.scale)

    def absolute(self, node: exp.Abs) -> Term:
        (inner,) = self._numbers(node, node.this)
        return number(mapped(inner.evaluate, pc.abs), inner.digits, inner.scale)

    def first(self, node: exp.Coalesce) -> Term:
        """The first number that is not NULL."""
        terms = self._numbers(node, node.this, *node.expressions)
        scale, digits = max(term.scale for term in terms), max(term.integer_digits for term in terms)
        digits += scale
        require_exact(node, digits, scale)
        # From the last one backwards: each where it is not NULL, else what comes after it.
        evaluate = widened(terms[-1], digits, scale)
        for term in reversed(terms[:-1]):
            value = widened(term, digits, scale)
            evaluate = choice(mapped(value, pc.is_valid), value, evaluate)
        return number(evaluate, digits, scale)

    def length(self, node: exp.Length) -> Term:
        inner, in_bytes = self.term(node.this), bool(node.args.get("binary"))
        sorts = (Sort.BYTES,) if in_bytes else (Sort.TEXT, Sort.POINTS, Sort.LABEL)
        if inner.sort not in (*sorts, Sort.UNKNOWN):
            reason = "counts bytes of " if in_bytes else "counts characters of what is "
            raise refused(node, reason + inner.sort.value)
        return with_whole(mapped(inner.evaluate, pc.binary_length if in_bytes else pc.utf8_length), 10)

    def part(self, node: exp.Func) -> Term:
        of = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        inner = self.term(of)
        if inner.sort not in (*TIMES, Sort.UNKNOWN):
            raise refused(node, f"is taken of what is {inner.sort.value}")
        return with_whole(mapped(inner.evaluate, _PARTS[type(node)]), 4)

    def _numbers(self, node: exp.Expr, *parts: exp.Expr) -> list[Term]:
        terms = [self.term(part) for part in parts]
        for term in terms:
            if term.sort not in (Sort.NUMBER, Sort.UNKNOWN):
                raise refused(node, f"counts with what is {term.sort.value}, not {Sort.NUMBER.value}")
        return [replace(term, sort=Sort.NUMBER, digits=1) if term.sort is Sort.UNKNOWN else term for term in terms]


def require_exact(node: exp.Expr, digits: int, scale: int, *, has: str = "may have") -> None:
    """Check that neither the lake nor a server rounds a number of so many digits. Raises ConfigError."""
    if digits > MOST_DIGITS:
        raise refused(node, f"{has} more than {MOST_DIGITS} digits, which the lake does not hold")
    if scale > MOST_SCALE:
        raise refused(node, f"{has} more than {MOST_SCALE} digits after the point, where servers round")


Node = tuple[tuple[type[exp.Expr], ...], Callable[..., Term]]
NODES: tuple[Node, ...] = (
    ((exp.Column,), Compiler.column),
    ((exp.Literal,), Compiler.literal),
    ((exp.Boolean,), Compiler.boolean),
    ((exp.Null,), Compiler.null),
    ((exp.Paren,), Compiler.paren),
    ((exp.And, exp.Or), Compiler.conjunction),
    ((exp.Not,), Compiler.negation),
    ((*OPERATIONS, exp.NullSafeEQ), Compiler.comparison),
    ((exp.In,), Compiler.among),
    ((exp.Between,), Compiler.between),
    ((exp.Is,), Compiler.test),
    ((exp.Like,), Compiler.likeness),
    ((exp.Collate,), Compiler.collated),
    ((exp.Add, exp.Sub), Compiler.sum),
    ((exp.Mul,), Compiler.product),
    ((exp.Mod,), Compiler.remainder),
    ((exp.Neg,), Compiler.minus),
    ((exp.Abs,), Compiler.absolute),
    ((exp.Coalesce,), Compiler.first),
    ((exp.Length,), Compiler.length),
    (tuple(_PARTS), Compiler.part),
)
Compiler.nodes = NODES
