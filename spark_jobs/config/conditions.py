"""A condition over one row, written in MySQL's SQL -> the same condition in Spark's, or an error that says what is not.

Put here: which parts of MySQL's expressions mean the same in both, and writing them. Not here: which rows a condition
is asked about (filters.py), or of which columns (silver/row_filters.py).

The text is read by sqlglot, and what is allowed is listed here; everything else is refused by name. No part of the text
reaches Spark as it is: names come from the table's definition, numbers and texts are written again. A condition looks
at its row alone: no subquery, no variable, nothing that differs from call to call.

What MySQL does otherwise than Spark is either written out (integers and decimals are compared exactly, ``% 0`` is NULL)
or refused (collations, division, text beside numbers). docs/filters.md lists it for users.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from math import isfinite
from typing import Self

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_jobs.errors import ConfigError
from spark_jobs.text.sql import encoded

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of what it leaves unparsed; here that is an error

_MOST_DIGITS = 38
BINARY_COLLATIONS = ("utf8mb4_0900_bin", "utf8mb4_nopad_bin")
"""Collations by which two texts are equal where their characters are (MySQL's name and MariaDB's)."""
_BY_COLLATION = f"compares text by a collation, which the lake does not know; write it COLLATE {BINARY_COLLATIONS[0]}"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")


class Sort(Enum):
    """What values are compared with each other."""

    TRUTH = "a condition"
    NUMBER = "a whole number or a DECIMAL"
    REAL = "a FLOAT or a DOUBLE"
    TEXT = "text"
    POINTS = "text compared by its characters"
    BYTES = "bytes"
    LABEL = "an ENUM"
    DATE = "a DATE"
    DATETIME = "a DATETIME"
    MOMENT = "a TIMESTAMP"
    OTHER = "of a type that is asked for NULL alone"
    LITERAL = "a text literal"
    NULL = "NULL"
    UNKNOWN = "not known yet"


_TIMES = (Sort.DATE, Sort.DATETIME, Sort.MOMENT)


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a condition: Spark's SQL for it, and what it is.

    digits, scale: of a number, as in DECIMAL(digits, scale). labels: of an ENUM. text: of a literal.
    """

    sql: str
    sort: Sort
    digits: int = 0
    scale: int = 0
    labels: tuple[str, ...] = ()
    text: str = ""

    @property
    def integer_digits(self) -> int:
        """Digits before the point."""
        return self.digits - self.scale


Resolve = Callable[[str], Term]
"""Of a column's name in small letters, the column as a term. Raises ConfigError where there is none."""


MOST_LEVELS = 100
"""How deep a condition may nest; a chain of ANDs or ORs nests once a link."""
_TOO_DEEP = f"nests more than {MOST_LEVELS} levels deep; write several rules, or IN (...) in the place of ORs"


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. ``columns``: the names in it, in small letters."""

    text: str
    columns: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigError for what no row of any table could be asked."""
        tree = tree_of(text)
        names = frozenset(str(column.name).casefold() for column in tree.find_all(exp.Column))
        SqlWriter(lambda _: Term("NULL", Sort.UNKNOWN)).truth(tree)
        if not names:
            raise ConfigError(f"{text!r} names no column, and so says nothing about a row")
        return cls(text, names)

    def to_spark(self, resolve: Resolve) -> str:
        """Spark's SQL for it. Raises ConfigError where a column is not there, or of a type that is not compared so."""
        return SqlWriter(resolve).truth(tree_of(self.text)).sql


def number(sql: str, digits: int, scale: int = 0) -> Term:
    """A number as a term, exact in all that is done with it."""
    return Term(f"CAST({sql} AS DECIMAL({digits},{scale}))", Sort.NUMBER, digits, scale)


def _levels(tree: exp.Expr) -> int:
    """How deep a tree nests."""
    count, level = 0, [tree]
    while level:
        count += 1
        level = [child for node in level for child in node.iter_expressions()]
    return count


def tree_of(text: str) -> exp.Expr:
    """An expression of MySQL. Raises ConfigError."""
    try:
        trees = sqlglot.parse(text, read="mysql")
    except RecursionError:
        raise ConfigError(_TOO_DEEP) from None
    except SqlglotError as error:
        message = str(error).splitlines()[0].split(" Line ")[0].rstrip(".")
        raise ConfigError(f"{text!r} is no expression of MySQL: {message}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        raise ConfigError(f"{text!r} must be one expression")
    if _levels(trees[0]) > MOST_LEVELS:
        raise ConfigError(_TOO_DEEP)
    return trees[0]


class SqlWriter:
    """Writes a tree as Spark's SQL; every kind of node that is not named here is refused."""

    nodes: tuple["Node", ...]
    """Kinds of nodes, and what writes each."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def truth(self, node: exp.Expr) -> Term:
        """A condition: TRUE, FALSE or NULL."""
        if isinstance(node, exp.Boolean):
            return Term(str(bool(node.this)).upper(), Sort.TRUTH)
        term = self.term(node)
        match term.sort:
            case Sort.TRUTH | Sort.UNKNOWN:
                return replace(term, sort=Sort.TRUTH)
            case Sort.NULL:
                return Term("CAST(NULL AS BOOLEAN)", Sort.TRUTH)
            case Sort.NUMBER | Sort.REAL:
                return Term(f"({term.sql} <> 0)", Sort.TRUTH)
        raise refused(node, f"is {term.sort.value}, and no condition")

    def term(self, node: exp.Expr) -> Term:
        """Raises ConfigError."""
        for kinds, write in self.nodes:
            if isinstance(node, kinds):
                return write(self, node)
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
            return Term(encoded(text), Sort.LITERAL, text=text)
        if not re.fullmatch(r"\d*\.?\d*", text):
            if not isfinite(float(text)):
                raise refused(node, "is larger than any DOUBLE")
            return Term(f"CAST('{float(text)!r}' AS DOUBLE)", Sort.REAL)
        before, _, after = text.partition(".")
        before = before.lstrip("0")
        digits = max(len(before) + len(after), 1)
        if digits > _MOST_DIGITS:
            raise refused(node, f"has more than {_MOST_DIGITS} digits")
        return number(f"'{before or 0}.{after or 0}'", digits, len(after))

    def boolean(self, node: exp.Boolean) -> Term:
        """Among numbers TRUE is 1."""
        return number(str(int(node.this)), 1)

    def null(self, _: exp.Null) -> Term:
        return Term("NULL", Sort.NULL)

    def paren(self, node: exp.Paren) -> Term:
        return self.term(node.this)

    def conjunction(self, node: exp.And | exp.Or) -> Term:
        word = "AND" if isinstance(node, exp.And) else "OR"
        return Term(f"({self.truth(node.left).sql} {word} {self.truth(node.right).sql})", Sort.TRUTH)

    def negation(self, node: exp.Not) -> Term:
        return Term(f"(NOT {self.truth(node.this).sql})", Sort.TRUTH)

    def comparison(self, node: exp.Binary) -> Term:
        return self._compared(node, _COMPARISONS[type(node)], self.term(node.left), self.term(node.right))

    def among(self, node: exp.In) -> Term:
        listed = node.args.get("expressions")
        if not listed:
            raise refused(node, "is a subquery, and a filter looks at its row alone")
        term = self.term(node.this)
        comparisons = (self._compared(node, "=", term, self.term(literal)).sql for literal in listed)
        return Term(f"({' OR '.join(comparisons)})", Sort.TRUTH)

    def between(self, node: exp.Between) -> Term:
        middle, low, high = (self.term(node.args[name]) for name in ("this", "low", "high"))
        lower, upper = self._compared(node, ">=", middle, low), self._compared(node, "<=", middle, high)
        return Term(f"({lower.sql} AND {upper.sql})", Sort.TRUTH)

    def test(self, node: exp.Is) -> Term:
        if isinstance(node.expression, exp.Null):
            return Term(f"({self.term(node.this).sql} IS NULL)", Sort.TRUTH)
        if isinstance(node.expression, exp.Boolean):
            word = "TRUE" if node.expression.this else "FALSE"
            return Term(f"({self.truth(node.this).sql} IS {word})", Sort.TRUTH)
        raise refused(node, "is not among what a filter may say")

    def likeness(self, node: exp.Like) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if left.sort is Sort.TEXT or left.sort is Sort.LABEL:
            raise refused(node, _BY_COLLATION)
        if left.sort not in (Sort.POINTS, Sort.UNKNOWN) or right.sort is not Sort.LITERAL:
            raise refused(node, "needs text on its left and a literal on its right")
        if "\\" in right.text:
            raise refused(node, "has a backslash in its pattern, which servers read by their sql_mode")
        return Term(f"({left.sql} LIKE {right.sql})", Sort.TRUTH)

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
        word = "+" if isinstance(node, exp.Add) else "-"
        scale = max(left.scale, right.scale)
        return self.exact(
            node, f"({left.sql} {word} {right.sql})", max(left.integer_digits, right.integer_digits) + 1 + scale, scale
        )

    def product(self, node: exp.Mul) -> Term:
        left, right = self._numbers(node, node.left, node.right)
        digits = left.digits + right.digits + 1
        return self.exact(node, f"({left.sql} * {right.sql})", digits, left.scale + right.scale)

    def remainder(self, node: exp.Mod) -> Term:
        """NULL where the divisor is 0, with the sign of what is divided: as both have it."""
        left, right = self._numbers(node, node.left, node.right)
        scale = max(left.scale, right.scale)
        return self.exact(
            node, f"try_mod({left.sql}, {right.sql})", max(left.integer_digits, right.integer_digits) + scale, scale
        )

    def minus(self, node: exp.Neg) -> Term:
        (inner,) = self._numbers(node, node.this)
        return replace(inner, sql=f"(-{inner.sql})")

    def absolute(self, node: exp.Abs) -> Term:
        (inner,) = self._numbers(node, node.this)
        return replace(inner, sql=f"abs({inner.sql})")

    def first(self, node: exp.Coalesce) -> Term:
        terms = self._numbers(node, node.this, *node.expressions)
        scale, digits = max(term.scale for term in terms), max(term.integer_digits for term in terms)
        return self.exact(node, f"coalesce({', '.join(term.sql for term in terms)})", digits + scale, scale)

    def length(self, node: exp.Length) -> Term:
        inner, in_bytes = self.term(node.this), bool(node.args.get("binary"))
        sorts = (Sort.BYTES,) if in_bytes else (Sort.TEXT, Sort.POINTS, Sort.LABEL)
        if inner.sort not in (*sorts, Sort.UNKNOWN):
            reason = "counts bytes of " if in_bytes else "counts characters of what is "
            raise refused(node, reason + inner.sort.value)
        return number(f"{'octet_length' if in_bytes else 'char_length'}({inner.sql})", 10)

    def part(self, node: exp.Func) -> Term:
        of = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        inner = self.term(of)
        if inner.sort not in (*_TIMES, Sort.UNKNOWN):
            raise refused(node, f"is taken of what is {inner.sort.value}")
        return number(f"{_PARTS[type(node)]}({inner.sql})", 4)

    def exact(self, node: exp.Expr, sql: str, digits: int, scale: int) -> Term:
        if digits > _MOST_DIGITS:
            raise refused(node, f"may have more than {_MOST_DIGITS} digits, which the lake does not hold")
        return number(sql, digits, scale)

    def _numbers(self, node: exp.Expr, *parts: exp.Expr) -> list[Term]:
        terms = [self.term(part) for part in parts]
        for term in terms:
            if term.sort not in (Sort.NUMBER, Sort.UNKNOWN):
                raise refused(node, f"counts with what is {term.sort.value}, not {Sort.NUMBER.value}")
        return [number(term.sql, 1) if term.sort is Sort.UNKNOWN else term for term in terms]

    def _compared(self, node: exp.Expr, word: str, left: Term, right: Term) -> Term:
        sides = _alike(node, word, left, right)
        return Term(f"({sides[0]} {word} {sides[1]})", Sort.TRUTH)


def _alike(node: exp.Expr, word: str, left: Term, right: Term) -> tuple[str, str]:
    """Both sides as Spark compares them the way MySQL does."""
    # Sorts that MySQL compares by rules that Spark does not have are refused.
    sorts = {left.sort, right.sort}
    if Sort.TRUTH in sorts:
        raise refused(node, "compares a condition; write AND, OR, NOT, IS TRUE")
    if Sort.OTHER in sorts:
        raise refused(node, f"compares what is {Sort.OTHER.value}")
    if sorts & {Sort.UNKNOWN, Sort.NULL}:
        return left.sql, right.sql
    # Numbers first, then text, whose order depends on a collation, then literals, which take the sort of the other
    # side.
    if sorts <= {Sort.NUMBER, Sort.REAL}:
        return _as_numbers(node, left, right)
    if Sort.TEXT in sorts:
        raise refused(node, _BY_COLLATION)
    if Sort.LITERAL in sorts:
        return _with_literal(node, word, left, right)
    if len(sorts) == 1 and left.sort in (*_TIMES, Sort.POINTS, Sort.BYTES):
        return left.sql, right.sql
    raise refused(node, f"compares {left.sort.value} with {right.sort.value}")


def _as_numbers(node: exp.Expr, left: Term, right: Term) -> tuple[str, str]:
    if Sort.REAL in (left.sort, right.sort):
        return f"CAST({left.sql} AS DOUBLE)", f"CAST({right.sql} AS DOUBLE)"
    if max(left.integer_digits, right.integer_digits) + max(left.scale, right.scale) > _MOST_DIGITS:
        raise refused(node, f"compares numbers of together more than {_MOST_DIGITS} digits")
    return left.sql, right.sql


def _with_literal(node: exp.Expr, word: str, left: Term, right: Term) -> tuple[str, str]:
    """A text literal, as what it is compared with."""
    # MySQL converts the literal to the type of the column; what it would compare otherwise is refused.
    literal, term = (left, right) if left.sort is Sort.LITERAL else (right, left)
    match term.sort:
        case Sort.POINTS:
            text = literal.sql
        case Sort.BYTES:
            text = f"X'{literal.text.encode().hex()}'"
        case Sort.LABEL:
            if word not in ("=", "<>", "<=>"):
                raise refused(node, "puts an ENUM in an order, which depends on how it is compared")
            if literal.text not in term.labels:
                raise refused(node, f"asks for {literal.text!r}, which is none of ({', '.join(term.labels)})")
            text = literal.sql
        case Sort.DATE | Sort.DATETIME | Sort.MOMENT:
            text = _time(node, term.sort, literal.text)
        case _:
            raise refused(node, f"compares a text literal with what is {term.sort.value}")
    return (text, right.sql) if literal is left else (left.sql, text)


def _time(node: exp.Expr, sort: Sort, text: str) -> str:
    form, like = (_DAY, "2024-02-29") if sort is Sort.DATE else (_MOMENT, "2024-02-29 or 2024-02-29 12:00:00")
    unlike = refused(node, f"compares {sort.value} with {text!r}; write it like {like}")
    if not form.fullmatch(text):
        raise unlike
    try:
        moment = datetime.fromisoformat(text).isoformat(" ")
    except ValueError:
        raise unlike from None
    if sort is Sort.DATE:
        return f"DATE'{text}'"
    return f"TIMESTAMP_NTZ'{moment}'" if sort is Sort.DATETIME else f"TIMESTAMP'{moment}Z'"


def refused(node: exp.Expr, reason: str) -> ConfigError:
    """The error about a part of an expression."""
    return ConfigError(f"`{node.sql(dialect='mysql')}` {reason}")


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_PARTS: dict[type[exp.Expr], str] = {exp.Year: "year", exp.Month: "month", exp.Day: "day"}
Node = tuple[tuple[type[exp.Expr], ...], Callable[..., Term]]
NODES: tuple[Node, ...] = (
    ((exp.Column,), SqlWriter.column),
    ((exp.Literal,), SqlWriter.literal),
    ((exp.Boolean,), SqlWriter.boolean),
    ((exp.Null,), SqlWriter.null),
    ((exp.Paren,), SqlWriter.paren),
    ((exp.And, exp.Or), SqlWriter.conjunction),
    ((exp.Not,), SqlWriter.negation),
    (tuple(_COMPARISONS), SqlWriter.comparison),
    ((exp.In,), SqlWriter.among),
    ((exp.Between,), SqlWriter.between),
    ((exp.Is,), SqlWriter.test),
    ((exp.Like,), SqlWriter.likeness),
    ((exp.Collate,), SqlWriter.collated),
    ((exp.Add, exp.Sub), SqlWriter.sum),
    ((exp.Mul,), SqlWriter.product),
    ((exp.Mod,), SqlWriter.remainder),
    ((exp.Neg,), SqlWriter.minus),
    ((exp.Abs,), SqlWriter.absolute),
    ((exp.Coalesce,), SqlWriter.first),
    ((exp.Length,), SqlWriter.length),
    (tuple(_PARTS), SqlWriter.part),
)
SqlWriter.nodes = NODES
