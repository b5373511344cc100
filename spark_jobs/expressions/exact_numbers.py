"""Whole numbers and DECIMAL, exact up to 38 digits, as Arrow's decimals.

Put here: constants, arithmetic that Arrow does not have, numbers as DOUBLE as servers read them. Not here: which
digits a result has (compiler.py).
"""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.expressions.terms import Evaluate, Sort, Term, Values, constant, mapped

MOST_DIGITS = 38
MOST_SCALE = 30
"""Digits after the point that MySQL keeps; it rounds beyond."""
_IN_INT64 = 18
"""Digits every number of which an int64 holds."""
_IN_DOUBLE = 15
"""Digits every number of which, and every power of ten, a DOUBLE holds."""


def number(evaluate: Evaluate, digits: int, scale: int = 0) -> Term:
    """A number as a term. evaluate: gives DECIMAL(digits, scale)."""
    return Term(Sort.NUMBER, evaluate, digits, scale)


def literal(text: str) -> Term:
    """A number as it is written, without sign and exponent."""
    before, _, after = text.partition(".")
    before = before.lstrip("0")
    digits = max(len(before) + len(after), 1)
    if digits > MOST_DIGITS:
        return Term(Sort.NUMBER, digits=digits, scale=len(after))
    kind = pa.decimal128(digits, len(after))
    value = Decimal(f"{before or 0}.{after or 0}")
    return Term(Sort.NUMBER, constant(value, kind), digits, len(after), text=text)


def widened(term: Term, digits: int, scale: int) -> Evaluate:
    """A number's values as DECIMAL(digits, scale), which holds all of them."""
    if (term.digits, term.scale) == (digits, scale):
        return term.evaluate
    return mapped(term.evaluate, lambda values: values.cast(pa.decimal128(digits, scale)))


def with_whole(evaluate: Evaluate, digits: int) -> Term:
    """Whole numbers of any Arrow type, none of more digits, as a term."""
    return number(mapped(evaluate, lambda values: _as_decimal(values, digits)), digits)


def _as_decimal(values: Values, digits: int) -> Values:
    return values.cast(pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(digits, 0))


def as_real(term: Term) -> Evaluate:
    """A number's values as DOUBLE, rounded once."""
    if term.sort is not Sort.NUMBER:
        return term.evaluate
    return mapped(term.evaluate, lambda values: _doubles(values, term.digits, term.scale))


def _doubles(values: Values, digits: int, scale: int) -> Values:
    if isinstance(values, pa.Scalar):
        return pa.scalar(None if values.as_py() is None else float(values.as_py()), pa.float64())
    # Both operands of the division are exact, or there is none: so it rounds once.
    if digits <= _IN_DOUBLE or not scale:
        doubles = unscaled(values, digits).astype(np.float64) / 10.0**scale
        return pa.array(doubles, pa.float64(), mask=_nulls(values))
    return pa.array([None if value is None else float(value) for value in values.to_pylist()], pa.float64())


def remainder(left: Values, right: Values) -> Values:
    """The remainder of decimals of one type, with the dividend's sign; NULL if the divisor is 0."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return remainder(pa.array([left.as_py()], left.type), right)[0]
    kind, (left, right) = left.type, _arrays(left, right)
    dividend, divisor = (unscaled(values, kind.precision) for values in (left, right))
    is_null = _nulls(left) | _nulls(right) | np.equal(divisor, 0).astype(bool)
    divisor = np.where(is_null, 1, divisor)
    size = np.abs(dividend) % np.abs(divisor)
    rest = np.where(np.less(dividend, 0), -size, size)
    return decimals(rest, kind, is_null)


def _arrays(*all_values: Values) -> list[pa.Array]:
    """Values as arrays of one length."""
    rows = max((len(values) for values in all_values if isinstance(values, pa.Array)), default=1)
    return [values if isinstance(values, pa.Array) else pa.repeat(values, rows) for values in all_values]


def _nulls(values: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def unscaled(values: pa.Array, digits: int) -> NDArray[Any]:
    """Decimals without their point: int64 where that holds them, else whole numbers of Python; 0 for null."""
    filled = pc.fill_null(values, pa.scalar(Decimal(0), values.type))
    words = np.frombuffer(filled.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[filled.offset : filled.offset + len(filled)].T
    numbers: NDArray[Any] = low
    if digits > _IN_INT64:
        numbers = high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object)
    return numbers


def decimals(numbers: NDArray[Any], kind: pa.DataType, is_null: NDArray[np.bool_]) -> pa.Array:
    """The decimals that ``unscaled`` gives numbers of."""
    pairs = np.empty((len(numbers), 2), np.int64)
    if numbers.dtype == object:
        pairs[:, 0] = (numbers & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)
        pairs[:, 1] = (numbers >> 64).astype(np.int64)
    else:
        pairs[:, 0], pairs[:, 1] = numbers, numbers >> 63
    validity = pa.array(~is_null).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(pairs)])
