"""A computed column: an expression over one row, written in MySQL's SQL, and the type that it has in the lake.

Put here: what an expression may say beside what a condition may, and which types hold its values. Not here: conditions
(conditions.py), which tables have such columns (filters.py), or evaluating them (silver/masking.py).

The rules are those of conditions: the text is read by sqlglot, everything that is not listed is refused by name, and no
part of the text reaches Spark as it is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from sqlglot import exp

from spark_jobs.config.conditions import NODES, Node, Resolve, Sort, SqlWriter, Term, number, refused, tree_of
from spark_jobs.errors import ConfigError

_DIGITS = {"SMALLINT": 4, "INT": 9, "BIGINT": 18}
"""How many digits every one of which a whole number may have in a type."""
_BY_SORT = {
    Sort.TRUTH: "BOOLEAN",
    Sort.REAL: "DOUBLE",
    Sort.TEXT: "STRING",
    Sort.POINTS: "STRING",
    Sort.LABEL: "STRING",
    Sort.LITERAL: "STRING",
    Sort.BYTES: "BINARY",
    Sort.DATE: "DATE",
    Sort.DATETIME: "TIMESTAMP_NTZ",
    Sort.MOMENT: "TIMESTAMP",
}
_MOST_DIGITS = {"SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""Digits of the largest whole number of a type."""
_TEXTS = (Sort.TEXT, Sort.POINTS, Sort.LABEL, Sort.LITERAL, Sort.NULL, Sort.UNKNOWN)
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_EXACT_IN_DOUBLE = 15


def type_text(text: str) -> str:
    """A type as Spark writes it. Raises ConfigError for one that no computed column has."""
    kind = re.sub(r"\s+", "", text.upper())
    matched = _DECIMAL.fullmatch(kind)
    if matched and 1 <= int(matched[1]) <= 38 and int(matched[2]) <= int(matched[1]):
        return kind
    if kind not in (*_DIGITS, *_BY_SORT.values()):
        names = ", ".join([*_DIGITS, "DECIMAL(p,s)", *dict.fromkeys(_BY_SORT.values())])
        raise ConfigError(f"{text!r} is no type of a computed column; there are {names}")
    return kind


@dataclass(frozen=True, slots=True)
class Computed:
    """A checked expression. name: as the lake has it. columns: the names in it, in small letters. type: Spark's."""

    name: str
    text: str
    type: str
    columns: frozenset[str]

    @classmethod
    def parse(cls, name: str, text: str, type_: str) -> Self:
        """Raises ConfigError for what no row of any table could have."""
        tree = tree_of(text)
        names = frozenset(str(column.name).casefold() for column in tree.find_all(exp.Column))
        if not names:
            raise ConfigError(f"{text!r} names no column, and so says nothing about a row")
        computed = cls(name, text, type_text(type_), names)
        ValueWriter(lambda _: Term("NULL", Sort.UNKNOWN)).value(tree)
        return computed

    def to_spark(self, resolve: Resolve) -> str:
        """Spark's SQL for it, of its type. Raises ConfigError where the type does not hold every value."""
        tree = tree_of(self.text)
        term = ValueWriter(resolve).value(tree)
        if not _holds(self.type, term):
            raise ConfigError(f"`{self.text}` is {_described(term)}, which {self.type} does not hold")
        return f"CAST({term.sql} AS {self.type})"

    def term(self, resolve: Resolve) -> Term:
        """The column as a part of conditions. Raises ConfigError as ``to_spark`` does."""
        sql = self.to_spark(resolve)
        if self.type in _MOST_DIGITS:
            return number(sql, _MOST_DIGITS[self.type])
        matched = _DECIMAL.fullmatch(self.type)
        if matched:
            return number(sql, *map(int, matched.groups()))
        return Term(sql, next(sort for sort, kind in _BY_SORT.items() if kind == self.type))


def _holds(kind: str, term: Term) -> bool:
    """Whether a type holds every value of a term as it is."""
    if term.sort in (Sort.NULL, Sort.UNKNOWN):
        return True
    if term.sort is not Sort.NUMBER:
        return _BY_SORT.get(term.sort) == kind
    if kind in _DIGITS:
        return term.scale == 0 and term.digits <= _DIGITS[kind]
    if kind == "DOUBLE":
        return term.digits <= _EXACT_IN_DOUBLE
    matched = _DECIMAL.fullmatch(kind)
    if not matched:
        return False
    digits, scale = map(int, matched.groups())
    return scale >= term.scale and digits - scale >= term.integer_digits


def _described(term: Term) -> str:
    return f"DECIMAL({term.digits},{term.scale})" if term.sort is Sort.NUMBER else term.sort.value


class ValueWriter(SqlWriter):
    """Writes a tree whose value is kept."""

    def value(self, node: exp.Expr) -> Term:
        """Raises ConfigError."""
        term = self.term(node)
        if term.sort is Sort.OTHER:
            raise refused(node, f"is {Sort.OTHER.value}")
        return term

    def case(self, node: exp.Case) -> Term:
        if node.this is not None:
            raise refused(node, "compares behind CASE; write CASE WHEN with conditions")
        branches = [(self.truth(branch.this).sql, self.value(branch.args["true"])) for branch in node.args["ifs"]]
        default = node.args.get("default")
        return self._common(node, branches, self.value(default) if default is not None else Term("NULL", Sort.NULL))

    def if_function(self, node: exp.If) -> Term:
        default = node.args.get("false")
        if default is None:
            raise refused(node, "needs three arguments")
        return self._common(node, [(self.truth(node.this).sql, self.value(node.args["true"]))], self.value(default))

    def joined(self, node: exp.Concat) -> Term:
        terms = [self._text(node, part) for part in node.expressions]
        return Term(f"concat({', '.join(term.sql for term in terms)})", Sort.TEXT)

    def begin(self, node: exp.Left | exp.Right) -> Term:
        word = "left" if isinstance(node, exp.Left) else "right"
        return Term(f"{word}({self._text(node, node.this).sql}, {_count(node, node.expression)})", Sort.TEXT)

    def section(self, node: exp.Substring) -> Term:
        start = _count(node, node.args.get("start"))
        if not start:
            raise refused(node, "begins at 0; the first character is 1")
        length = node.args.get("length")
        rest = f", {_count(node, length)}" if length is not None else ""
        return Term(f"substring({self._text(node, node.this).sql}, {start}{rest})", Sort.TEXT)

    def day(self, node: exp.Expr) -> Term:
        inner = self.term(node.this)
        if inner.sort not in (Sort.DATE, Sort.DATETIME, Sort.UNKNOWN):
            raise refused(node, f"is taken of what is {inner.sort.value}")
        return Term(f"CAST({inner.sql} AS DATE)", Sort.DATE)

    def _text(self, node: exp.Expr, part: exp.Expr) -> Term:
        term = self.term(part)
        if term.sort not in _TEXTS:
            raise refused(node, f"is made of text, and `{part.sql(dialect='mysql')}` is {_described(term)}")
        return term

    def _common(self, node: exp.Expr, branches: list[tuple[str, Term]], default: Term) -> Term:
        """One of several values, as a value of what holds all of them."""
        # Numbers become the type that holds all of them; texts are text; all other sorts are refused beside each other.
        terms = [*(term for _, term in branches), default]
        sorts = {term.sort for term in terms} - {Sort.NULL, Sort.UNKNOWN}
        if sorts <= {Sort.NUMBER, Sort.REAL} and Sort.REAL in sorts:
            terms = [replace(term, sql=f"CAST({term.sql} AS DOUBLE)") for term in terms]
            result = Term("", Sort.REAL)
        elif sorts <= {Sort.NUMBER} and sorts:
            scale = max(term.scale for term in terms)
            digits = max(term.integer_digits for term in terms) + scale
            result = self.exact(node, "", digits, scale)
            terms = [replace(term, sql=f"CAST({term.sql} AS DECIMAL({digits},{scale}))") for term in terms]
        elif sorts <= {*_TEXTS} and sorts:
            result = Term("", Sort.TEXT)
        elif len(sorts) <= 1:
            result = Term("", next(iter(sorts), Sort.NULL))
        else:
            raise refused(node, f"is {' or '.join(sorted(sort.value for sort in sorts))}; write one of them")
        cases = " ".join(
            f"WHEN {condition} THEN {term.sql}" for (condition, _), term in zip(branches, terms, strict=False)
        )
        return replace(result, sql=f"CASE {cases} ELSE {terms[-1].sql} END")


def _count(node: exp.Expr, literal: exp.Expr | None) -> int:
    """A whole number from 0 on, written as such."""
    text = str(literal.this) if isinstance(literal, exp.Literal) and not literal.is_string else ""
    if not re.fullmatch(r"\d{1,9}", text):
        raise refused(node, "counts by what is not a whole number from 0 on")
    return int(text)


_WRITERS: tuple[tuple[tuple[type[exp.Expr], ...], Callable[..., Term]], ...] = (
    ((exp.Case,), ValueWriter.case),
    ((exp.If,), ValueWriter.if_function),
    ((exp.Concat,), ValueWriter.joined),
    ((exp.Left, exp.Right), ValueWriter.begin),
    ((exp.Substring,), ValueWriter.section),
    ((exp.Date, exp.TsOrDsToDate), ValueWriter.day),
)
_ALL: tuple[Node, ...] = (*_WRITERS, *NODES)
ValueWriter.nodes = _ALL
