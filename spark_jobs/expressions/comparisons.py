"""Comparisons as MySQL makes them, by rules that the lake knows; others are refused.

Put here: which sorts are compared, and how. Not here: operators of logic, or where comparisons stand (compiler.py).
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_jobs.expressions.exact_numbers import MOST_DIGITS, as_real, widened
from spark_jobs.expressions.terms import ARROW, TIMES, Evaluate, Sort, Term, Values, combined, constant, mapped
from spark_jobs.expressions.tree import refused

BINARY_COLLATIONS = ("utf8mb4_0900_bin", "utf8mb4_nopad_bin")
"""Collations by which two texts are equal where their characters are (MySQL's name and MariaDB's)."""
BY_COLLATION = f"compares text by a collation, which the lake does not know; write it COLLATE {BINARY_COLLATIONS[0]}"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")
OPERATIONS: dict[type[exp.Expr], Callable[[Values, Values], Values]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_LEAST_YEAR = 100
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)
NULL_TRUTH = Term(Sort.TRUTH, constant(None, pa.bool_()))


def compared(node: exp.Expr, kind: type[exp.Expr], left: Term, right: Term) -> Term:
    """A comparison of two terms as a truth. kind: of OPERATIONS, or NullSafeEQ. Raises ConfigError."""
    sides = _alike(node, kind, left, right)
    if sides is None:
        return Term(Sort.TRUTH) if Sort.UNKNOWN in (left.sort, right.sort) else _with_null(kind, left, right)
    return Term(Sort.TRUTH, combined(sides, _null_safe if kind is exp.NullSafeEQ else OPERATIONS[kind]))


def as_reals(terms: Iterable[Term]) -> list[Term]:
    """Terms that are compared with each other, all numbers as DOUBLE where one is."""
    all_terms = list(terms)
    if all(term.sort is not Sort.REAL for term in all_terms):
        return all_terms
    return [Term(Sort.REAL, as_real(term)) if term.sort is Sort.NUMBER else term for term in all_terms]


def require_bounds(node: exp.Expr, middle: Term, low: Term, high: Term) -> None:
    """Check the bounds of a BETWEEN of times, which servers evaluate differently if a bound is NULL.

    Raises ConfigError.
    """
    if middle.sort is Sort.LITERAL:
        raise refused(node, "begins with a text literal; write two comparisons")
    if middle.sort in TIMES and not {low.sort, high.sort} <= {Sort.LITERAL, Sort.UNKNOWN}:
        raise refused(node, f"puts {middle.sort.value} between what are no literals; write two comparisons")


def _null_safe(left: Values, right: Values) -> Values:
    """Equal, where NULL is a value."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both_null, pc.fill_null(pc.equal(left, right), False))


def _with_null(kind: type[exp.Expr], left: Term, right: Term) -> Term:
    """A comparison with NULL itself: NULL, and of ``<=>`` whether the other side is NULL."""
    if kind is not exp.NullSafeEQ:
        return NULL_TRUTH
    if left.sort is right.sort:
        return Term(Sort.TRUTH, constant(True, pa.bool_()))
    return Term(Sort.TRUTH, mapped((right if left.sort is Sort.NULL else left).evaluate, pc.is_null))


def _alike(node: exp.Expr, kind: type[exp.Expr], left: Term, right: Term) -> tuple[Evaluate, Evaluate] | None:
    """Both sides as values that are compared the way MySQL compares; None where one is NULL or not known yet."""
    # Sorts that MySQL compares by rules that are not followed here are refused.
    sorts = {left.sort, right.sort}
    if Sort.TRUTH in sorts:
        raise refused(node, "compares a condition; write AND, OR, NOT, IS TRUE")
    if Sort.OTHER in sorts:
        raise refused(node, f"compares what is {Sort.OTHER.value}")
    if sorts & {Sort.UNKNOWN, Sort.NULL}:
        return None
    if kind is exp.NullSafeEQ and sorts & {*TIMES}:
        raise refused(node, "compares times by <=>, which MySQL before 9 does otherwise; write = and IS NULL")
    # Numbers first, then text, whose order depends on a collation, then literals, which take the sort of the other
    # side.
    if sorts <= {Sort.NUMBER, Sort.REAL}:
        return _as_numbers(node, left, right)
    if Sort.TEXT in sorts:
        raise refused(node, BY_COLLATION)
    if Sort.LITERAL in sorts:
        return _with_literal(node, kind, left, right)
    if len(sorts) == 1 and left.sort in (*TIMES, Sort.POINTS, Sort.BYTES):
        return left.evaluate, right.evaluate
    raise refused(node, f"compares {left.sort.value} with {right.sort.value}")


def _as_numbers(node: exp.Expr, left: Term, right: Term) -> tuple[Evaluate, Evaluate]:
    for year, term in ((left, right), (right, left)):
        if year.is_year and term.is_constant and not (term.text.isdecimal() and int(term.text) >= _LEAST_YEAR):
            raise refused(node, "compares a YEAR with what a server may read as one of two digits; write it with four")
    if Sort.REAL in (left.sort, right.sort):
        return as_real(left), as_real(right)
    scale = max(left.scale, right.scale)
    digits = max(left.integer_digits, right.integer_digits) + scale
    if digits > MOST_DIGITS:
        raise refused(node, f"compares numbers of together more than {MOST_DIGITS} digits")
    return widened(left, digits, scale), widened(right, digits, scale)


def _with_literal(node: exp.Expr, kind: type[exp.Expr], left: Term, right: Term) -> tuple[Evaluate, Evaluate]:
    """A text literal, as what it is compared with."""
    # MySQL converts the literal to the type of the column; what it would compare otherwise is refused.
    literal, term = (left, right) if left.sort is Sort.LITERAL else (right, left)
    if kind is exp.NullSafeEQ and literal is left:
        raise refused(node, "has a text literal left of <=>, which MySQL before 9 does otherwise; write it right of it")
    match term.sort:
        case Sort.POINTS:
            value: object = literal.text
        case Sort.BYTES:
            value = literal.text.encode()
        case Sort.LABEL:
            value = _label(node, kind, literal.text, term)
        case Sort.DATE | Sort.DATETIME | Sort.MOMENT:
            value = _literal_time(node, term.sort, literal.text)
        case _:
            raise refused(node, f"compares a text literal with what is {term.sort.value}")
    evaluate = constant(value, ARROW[term.sort])
    return (evaluate, right.evaluate) if literal is left else (left.evaluate, evaluate)


def _label(node: exp.Expr, kind: type[exp.Expr], text: str, term: Term) -> str:
    if kind in _ORDERED:
        raise refused(node, "puts an ENUM in an order, which depends on how it is compared")
    if text not in term.labels:
        raise refused(node, f"asks for {text!r}, which is none of ({', '.join(term.labels)})")
    return text


def _literal_time(node: exp.Expr, sort: Sort, text: str) -> date:
    """The date or time that a literal is."""
    form, like = (_DAY, "2024-02-29") if sort is Sort.DATE else (_MOMENT, "2024-02-29 or 2024-02-29 12:00:00")
    unlike = refused(node, f"compares {sort.value} with {text!r}; write it like {like}")
    if not form.fullmatch(text):
        raise unlike
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise unlike from None
    if sort is Sort.DATE:
        return moment.date()
    return moment if sort is Sort.DATETIME else moment.replace(tzinfo=UTC)
