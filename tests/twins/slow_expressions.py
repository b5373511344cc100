"""Expressions evaluated row by row, in plain Python: the twin of spark_jobs/expressions.

Put here: values of a tree for one row. Not here: what is refused, which is not asked here.

A row has numbers as int and Decimal, FLOAT and DOUBLE as float, conditions as bool; FAULT where the lake has no value.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from sqlglot import exp

REAL_COLUMNS = ("f", "r")
FAULT = object()
_EXACT = Context(prec=200)


class FaultError(Exception):
    """An expression depends on a value that the lake does not hold."""


def value_of(node: exp.Expr, row: Mapping[str, Any]) -> Any:
    """The value of a tree for a row. Raises FaultError."""
    return _OF[type(node)](node, lambda part: value_of(part, row), row)


def truth_of(node: exp.Expr, row: Mapping[str, Any]) -> bool | None:
    """The truth of a tree for a row. Raises FaultError."""
    value = value_of(node, row)
    return value if value is None or isinstance(value, bool) else value != 0


Value = Callable[[exp.Expr], Any]


def _column(node: exp.Expr, _: Value, row: Mapping[str, Any]) -> Any:
    value = row[str(node.name).casefold()]
    if value is FAULT:
        raise FaultError
    return value


def _literal(node: exp.Expr, _: Value, __: Mapping[str, Any]) -> Any:
    text = str(node.this)
    if node.args["is_string"]:
        return text
    return float(text) if "e" in text.lower() else Decimal(text)


def _connected(node: exp.Binary, _: Value, row: Mapping[str, Any]) -> bool | None:
    decisive, results, faults = isinstance(node, exp.Or), [], 0
    for side in (node.this, node.expression):
        try:
            results.append(truth_of(side, row))
        except FaultError:
            faults += 1
    if decisive in results:
        return decisive
    if faults:
        raise FaultError
    return None if None in results else not decisive


def _alike(*operands: Any) -> list[Any]:
    """Operands as they are compared: all as float where one is, literals as what stands beside them."""
    kinds = {type(operand) for operand in operands if operand is not None}
    if float in kinds:
        return [None if operand is None else float(operand) for operand in operands]
    zone = next((operand.tzinfo for operand in operands if isinstance(operand, datetime)), None)
    convert: Callable[[str], Any] = str
    if bytes in kinds:
        convert = str.encode
    elif datetime in kinds:
        convert = lambda text: datetime.fromisoformat(text).replace(tzinfo=zone)  # noqa: E731 - one of four
    elif date in kinds:
        convert = date.fromisoformat
    return [convert(operand) if isinstance(operand, str) else operand for operand in operands]


_COMPARED: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda left, right: left == right,
    exp.NEQ: lambda left, right: left != right,
    exp.LT: lambda left, right: left < right,
    exp.LTE: lambda left, right: left <= right,
    exp.GT: lambda left, right: left > right,
    exp.GTE: lambda left, right: left >= right,
}


def _comparison(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> bool | None:
    if _has_null(node.this, node.expression) and not isinstance(node, exp.NullSafeEQ):
        return None
    left, right = _alike(value(node.this), value(node.expression))
    if isinstance(node, exp.NullSafeEQ):
        return bool(left == right)
    return None if left is None or right is None else _COMPARED[type(node)](left, right)


def _has_null(*nodes: exp.Expr) -> bool:
    """True if NULL itself is compared: the other side may be what it likes."""
    return any(isinstance(node.unnest(), exp.Null) for node in nodes)


def _between(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> bool | None:
    parts = [node.args[name] for name in ("this", "low", "high")]
    is_real, results, faults = any(map(_is_real, parts)), list[bool | None](), 0
    for bound, is_right in ((parts[1], _COMPARED[exp.GTE]), (parts[2], _COMPARED[exp.LTE])):
        if _has_null(parts[0], bound):
            results.append(None)
            continue
        try:
            left, right = _alike(value(parts[0]), value(bound))
        except FaultError:
            faults += 1
            continue
        if left is None or right is None:
            results.append(None)
        else:
            results.append(is_right(float(left), float(right)) if is_real else is_right(left, right))
    if False in results:
        return False
    if faults:
        raise FaultError
    return None if None in results else True


def _is_real(node: exp.Expr) -> bool:
    """True if an operand is a FLOAT or a DOUBLE, whatever its value."""
    inner = node.unnest()
    is_literal = isinstance(inner, exp.Literal) and not inner.args["is_string"]
    return inner.name in REAL_COLUMNS or (is_literal and "e" in inner.name.lower())


def _in(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> bool | None:
    results: list[bool | None] = []
    faults, middle = 0, None
    for item in node.args["expressions"]:
        if _has_null(node.this, item):
            results.append(None)
            continue
        try:
            middle, candidate = _alike(value(node.this), value(item))
            results.append(None if middle is None or candidate is None else middle == candidate)
        except FaultError:
            faults += 1
    if True in results:
        return True
    if faults:
        raise FaultError
    return None if None in results else False


def _is(node: exp.Expr, value: Value, row: Mapping[str, Any]) -> bool:
    if isinstance(node.expression, exp.Null):
        return value(node.this) is None
    return truth_of(node.this, row) is bool(node.expression.this)


def _like(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> bool | None:
    text, pattern = value(node.this), str(node.expression.this)
    if text is None:
        return None
    return _matches(text, pattern) is not bool(node.args.get("negate"))


def _matches(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return _matches(text, pattern[1:]) or bool(text and _matches(text[1:], pattern))
    return bool(text) and pattern[0] in ("_", text[0]) and _matches(text[1:], pattern[1:])


def _numeric_value(value: Any) -> Any:
    return Decimal(value) if isinstance(value, int) else value


def _arithmetic(operation: Callable[[Decimal, Decimal], Decimal | None]) -> Any:
    def of(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> Decimal | None:
        left, right = _numeric_value(value(node.this)), _numeric_value(value(node.expression))
        return None if left is None or right is None else operation(left, right)

    return of


def _coalesce(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> Any:
    parts = (node.this, *node.expressions)
    return next((cell for part in parts if (cell := value(part)) is not None), None)


def _case(node: exp.Expr, value: Value, row: Mapping[str, Any]) -> Any:
    for branch in node.args["ifs"]:
        if truth_of(branch.this, row):
            return value(branch.args["true"])
    default = node.args.get("default")
    return None if default is None else value(default)


def _if(node: exp.Expr, value: Value, row: Mapping[str, Any]) -> Any:
    return value(node.args["true"] if truth_of(node.this, row) else node.args["false"])


def _concat(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> str | None:
    parts = [value(part) for part in node.expressions]
    return None if None in parts else "".join(parts)


def _cut(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> str | None:
    text = value(node.this)
    if text is None:
        return None
    if isinstance(node, exp.Substring):
        start, length = int(node.args["start"].this) - 1, node.args.get("length")
        return str(text[start:] if length is None else text[start : start + int(length.this)])
    count = int(node.expression.this)
    return str(text[:count] if isinstance(node, exp.Left) else text[len(text) - count :] if count < len(text) else text)


def _mapped(change: Callable[[Any], Any]) -> Any:
    def of(node: exp.Expr, value: Value, _: Mapping[str, Any]) -> Any:
        operand = value(node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this)
        return None if operand is None else change(operand)

    return of


def _not(node: exp.Expr, _: Value, row: Mapping[str, Any]) -> bool | None:
    truth = truth_of(node.this, row)
    return None if truth is None else not truth


_OF: dict[type[exp.Expr], Any] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, _, __: bool(node.this),
    exp.Null: lambda _, __, ___: None,
    exp.Paren: lambda node, value, _: value(node.this),
    exp.And: _connected,
    exp.Or: _connected,
    exp.Not: _not,
    **dict.fromkeys((*_COMPARED, exp.NullSafeEQ), _comparison),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.Collate: lambda node, value, _: value(node.this),
    exp.Add: _arithmetic(_EXACT.add),
    exp.Sub: _arithmetic(_EXACT.subtract),
    exp.Mul: _arithmetic(_EXACT.multiply),
    exp.Mod: _arithmetic(lambda left, right: _EXACT.remainder(left, right) if right else None),
    exp.Neg: _mapped(lambda operand: _EXACT.minus(_numeric_value(operand))),
    exp.Abs: _mapped(lambda operand: _numeric_value(operand).copy_abs()),
    exp.Coalesce: _coalesce,
    exp.Length: _mapped(len),
    exp.Year: _mapped(lambda operand: operand.year),
    exp.Month: _mapped(lambda operand: operand.month),
    exp.Day: _mapped(lambda operand: operand.day),
    exp.Case: _case,
    exp.If: _if,
    exp.Concat: _concat,
    exp.Left: _cut,
    exp.Right: _cut,
    exp.Substring: _cut,
    exp.TsOrDsToDate: _mapped(lambda operand: operand.date() if isinstance(operand, datetime) else operand),
}


def as_utc(value: Any) -> Any:
    """A value of Arrow's as rows have it."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
