"""Changes of a column's type that keep every value, as the server has it and as the lake shows it.

Put here: comparing a column before and after a statement. Not here: how a statement is read (alter.py).
"""

from collections.abc import Callable, Collection

from spark_jobs.binlog import Column
from spark_jobs.binlog.types.charsets import BINARY, charset_of, width_of

_INTEGERS = {1: 8, 2: 16, 9: 24, 3: 32, 8: 64}
"""Bits by type code."""
_DECIMAL, _FLOAT, _DOUBLE, _BIT = 246, 4, 5, 16
_ENUM, _SET = 247, 248
_CHAR, _VARCHAR, _BLOB = 254, 15, 252
_FRACTIONAL = (17, 18)
_VECTOR = 242
_MOST_DIGITS = 38
_LONG = (242, 245, 255)
"""VECTOR, JSON and geometry have a character set of their own, which logs of some servers leave out."""
_UNICODE = {"utf8mb4", "utf16", "utf16le", "utf32"}
"""Character sets that hold the characters of any other."""


def keeps_values(old: Column, new: Column) -> bool:
    """True if each value of the old column is the same in the new one, and the lake can widen its column so."""
    pair = old.type_code, new.type_code
    for codes, targets, holds in _RULES:
        if pair[0] in codes and pair[1] in targets and holds(old, new):
            return True
    return _same_type(old, new)


def _same_type(old: Column, new: Column) -> bool:
    def facets(column: Column) -> tuple[object, ...]:
        charset = None if column.type_code in _LONG else _charset(column)
        return column.type_code, column.meta, column.unsigned, column.labels, charset

    # A log does not tell a VECTOR's length, and values of another one are not changed.
    is_same_declared = old.declared == new.declared or old.type_code == _VECTOR
    return is_same_declared and facets(old) == facets(new)


def _charset(column: Column) -> str | None:
    return None if column.charset is None else charset_of(column.charset)


def _holds_integers(old: Column, new: Column) -> bool:
    if old.unsigned is None or new.unsigned is None:
        return False
    bits = _INTEGERS[new.type_code] - _INTEGERS[old.type_code]
    return bits >= 0 if old.unsigned == new.unsigned else bool(old.unsigned) and bits > 0


def _digits(column: Column) -> int:
    """Decimal digits that the lake's type of an integer column is widened from."""
    if column.type_code == 8:
        return 20
    return 20 if column.type_code == 3 and column.unsigned else 10


def _holds_decimals(old: Column, new: Column) -> bool:
    (digits, scale), (digits_after, finer) = (divmod(column.meta, 256) for column in (old, new))
    fits = finer >= scale and digits_after - finer >= digits - scale
    fits = fits and _stays_signed(old, new)
    return (
        fits and (digits > _MOST_DIGITS) == (digits_after > _MOST_DIGITS) and (scale == finer or digits <= _MOST_DIGITS)
    )


def _holds_labels(old: Column, new: Column) -> bool:
    """Labels are text in the lake: those that were there must be there as they were, a SET's in their order."""
    if old.labels is None or new.labels is None:
        return False
    shared = [label for label in new.labels if label in old.labels]
    return shared == list(old.labels) if old.type_code == _SET else set(shared) == set(old.labels)


def _holds_texts(old: Column, new: Column) -> bool:
    """A character set that is not known is taken for the other column's."""
    before, after = _charset(old), _charset(new)
    if (before == BINARY) != (after == BINARY):
        return False
    is_same = before is None or after is None or before == after
    if not is_same and after not in _UNICODE:
        return False
    if new.type_code == _CHAR and (old.type_code != _CHAR or before == BINARY):
        return False  # trailing spaces go, or zero bytes come
    if new.type_code != _BLOB:
        return old.type_code != _BLOB and old.meta // _width(before) <= new.meta // _width(after)
    factor = 1 if is_same else _width(after)
    limit = (
        _most_bytes(old) * factor if old.type_code == _BLOB else old.meta // _width(before) * _width(after or before)
    )
    return limit <= _most_bytes(new)


def _width(charset: str | None) -> int:
    return 1 if charset is None else width_of(charset)


def _most_bytes(column: Column) -> int:
    return int((1 << 8 * column.meta) - 1)


def _holds_digits(old: Column, new: Column) -> bool:
    digits, scale = divmod(new.meta, 256)
    return digits <= _MOST_DIGITS and digits - scale >= _digits(old) and _stays_signed(old, new)


def _stays_signed(old: Column, new: Column) -> bool:
    return not new.unsigned or bool(old.unsigned)


def _has_room(old: Column, new: Column) -> bool:
    return old.type_code == new.type_code and new.meta >= old.meta


_TEXTS = {_CHAR, _VARCHAR, _BLOB}
_RULES: tuple[tuple[Collection[int], Collection[int], Callable[[Column, Column], bool]], ...] = (
    (_INTEGERS, _INTEGERS, _holds_integers),
    (_INTEGERS, {_DECIMAL}, _holds_digits),
    ({_DECIMAL}, {_DECIMAL}, _holds_decimals),
    ({_FLOAT, _DOUBLE}, {_DOUBLE}, _stays_signed),
    ({_FLOAT}, {_FLOAT}, _stays_signed),
    ({_BIT, *_FRACTIONAL}, {_BIT, *_FRACTIONAL}, _has_room),
    ({_ENUM}, {_ENUM}, _holds_labels),
    ({_SET}, {_SET}, _holds_labels),
    (_TEXTS, _TEXTS, _holds_texts),
)
"""Types before, types behind, and what the columns must satisfy."""
