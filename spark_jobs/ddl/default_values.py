"""Default values: what rows have in a column that no statement gave a value for.

As the server has it, or refused.

A column that ALTER TABLE adds has it in the rows that are there; so has a row whose INSERT leaves the column out.
A default that the server converts in a way that is not followed here (rounding, numbers as text, dates in short forms)
raises Unsupported: no value is guessed. tests/spark_jobs/ddl/test_default_values.py holds them against servers.

Source: MySQL manual, "Data Type Default Values", "Literal Values"; MariaDB Knowledge Base, "Literals".

Put here: values of defaults, as SQL of the lake. Not here: reading a column's definition (columns.py), or what a
statement does with the column (alter.py).
"""

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

import numpy as np

from spark_jobs.binlog import Column, Moment
from spark_jobs.ddl import session_time
from spark_jobs.ddl.columns import DeclaredColumn, Word, words_of
from spark_jobs.errors import Unsupported
from spark_jobs.text.disclosure import LITERAL
from spark_jobs.text.sql import literal


@dataclass(frozen=True, slots=True)
class _Constant:
    """A constant: its text, and its kind as in Word."""

    text: str
    kind: str

    @property
    def number(self) -> Decimal:
        """The constant as a number. Raises Unsupported if it is none."""
        try:
            if self.kind in ("bits", "hex"):
                return Decimal(int(self.text, 2 if self.kind == "bits" else 16))
        except ValueError:
            raise Unsupported("it is no number") from None
        text = {"TRUE": "1", "FALSE": "0"}.get(self.text.upper(), self.text) if self.kind == "word" else self.text
        if not _NUMBER.fullmatch(text):
            raise Unsupported("it is no number")
        return Decimal(text)


_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
"""A number as servers read it; Python's Decimal takes more."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Value of existing rows in a new column: an SQL literal of its type in the lake.

    exact: of what the type does not hold, which is NULL there, the text that ``_raw`` has of it.
    """

    sql: str
    exact: str | None = None


def fill_of(declared: DeclaredColumn, moment: Moment | None = None) -> Fill | None:
    """Value of the rows that were there before the column; None for NULL.

    moment: when the statement that adds it started, where that is known. Raises Unsupported where only the server
    knows it.
    """
    if declared.why_unknown:
        raise Unsupported(
            f"what rows written before column {declared.column.name} have in it is not in the log: "
            f"{declared.why_unknown}"
        )
    # DEFAULT NULL is no default; without one, a column that may be NULL is NULL.
    words = declared.default or ()
    if len(words) == 1 and words[0].among("NULL"):
        words = ()
    if not words and declared.column.nullable:
        return None
    # A time of the statement, then a constant, then the implicit default of the type.
    try:
        if moment and (times := _timed(declared.column, words, moment)):
            return Fill(times)
        constant = _constant(words) if words else None
        zero = _zero_date(declared.column, constant)
        return Fill("NULL", zero) if zero else Fill(_literal(declared, constant))
    except Unsupported as error:
        default = " ".join(LITERAL if word.kind in _CONSTANTS else word.text for word in words) or "none"
        raise Unsupported(
            f"what rows written before column {declared.column.name} have in it is not in the log "
            f"(its default: {default}): {error}"
        ) from None


def with_default(declared: DeclaredColumn) -> Column:
    """The column, with what a row has in it whose INSERT gives no value, as far as the definition tells."""
    if declared.is_open or declared.why_unknown:
        return replace(declared.column, default=None, computed=declared.is_computed)
    try:
        fill = fill_of(declared)
    except Unsupported:  # whoever meets a row without a value says that its default is not known
        return replace(declared.column, default=None, computed=False)
    if fill is not None and fill.exact is not None:
        return replace(declared.column, default=None, computed=False)
    return replace(declared.column, default="NULL" if fill is None else fill.sql, computed=False)


def on_server_default(column: Column, row: dict[str, Any], is_mariadb: bool) -> Column:
    """The column with its default, by its row of information_schema.COLUMNS: fallback (COLUMN_DEFAULT) and extra.

    MariaDB writes COLUMN_DEFAULT as SQL ("Information Schema COLUMNS Table"), MySQL the bare text of a constant; of an
    expression EXTRA says DEFAULT_GENERATED, and before MySQL 8.0 there is only CURRENT_TIMESTAMP.
    """
    extra, text = (row["extra"] or "").upper(), row["fallback"]
    if any(word in extra for word in ("VIRTUAL", "STORED", "PERSISTENT")):
        return replace(column, default=None, computed=True)
    is_moment = column.type_code in (17, 18) and (text or "").upper().startswith("CURRENT_TIMESTAMP")
    is_bytes = text is not None and column.charset == 63  # MySQL prints them in a way of each version
    is_short = text is not None and column.type_code == _FLOAT and len(_significant_digits(text)) >= _FLOAT_DIGITS
    if "AUTO_INCREMENT" in extra or "DEFAULT_GENERATED" in extra or is_moment or is_bytes or is_short:
        return replace(column, default=None, computed=False)
    if text is None:
        words: tuple[Word, ...] = ()
    elif is_mariadb or column.type_code == _BIT:
        words = tuple(words_of(text))
    else:
        words = (Word(text, "string"),)
    if text is not None and column.type_code == _BLOB and not text.strip("'"):
        return replace(column, default="''", computed=False)  # a server that has it, as a statement does not tell
    measured = column.type_code in _REALS and row.get("scale") is not None
    return with_default(
        DeclaredColumn(column, words or None, measure=(row["digits"], row["scale"]) if measured else None)
    )


def _significant_digits(text: str) -> str:
    """The digits of a number that count."""
    return re.sub(r"[eE].*|[^0-9]", "", text).strip("0")


_BIT = 16
_FLOAT_DIGITS = 6
"""Number of digits that a server prints of a FLOAT: a default that shows them all may have more."""


def _timed(column: Column, words: tuple[Word, ...], moment: Moment) -> str | None:
    """A time that depends on when the statement started, or on its time zone; None for any other value."""
    if words and words[0].among(*_NOW) and column.type_code in (_TIMESTAMP, _DATETIME):
        # MariaDB takes NOW() for that of the column's digits; MySQL refuses it.
        at = session_time.now(moment, column.meta)
        if column.type_code == _DATETIME:
            return f"'{session_time.local(at, moment.zone).isoformat(' ')}'"
    elif words and column.type_code == _TIMESTAMP and not _ZERO_DATE.fullmatch(words[-1].text):
        text = _moment(column, _constant(words)).strip("'")
        at = session_time.instant(dt.datetime.fromisoformat(text), moment.zone)
    else:
        return None
    return f"TIMESTAMP'{at.replace(tzinfo=None).isoformat(' ')}Z'"


_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


_CONSTANTS = ("string", "number", "bits", "hex")


def _constant(words: tuple[Word, ...]) -> _Constant:
    sign = "".join(word.text for word in words[:-1])
    last = words[-1]
    is_constant = last.kind in _CONSTANTS or last.among("TRUE", "FALSE")
    if not is_constant or sign not in ("", "-", "+") or (sign and last.kind != "number"):
        raise Unsupported("it is no constant")
    return _Constant(sign + last.text, last.kind)


def _literal(declared: DeclaredColumn, constant: _Constant | None) -> str:
    """``constant``: None for the value that the server takes where a column has none and may not be NULL."""
    column = declared.column
    if column.type_code in _REALS:
        return _real(column, constant, declared.measure)
    kind = next((fill for codes, fill in _FILLS if column.type_code in codes), None)
    if kind is None:
        raise Unsupported(f"no constant of type {column.sql_type} is known here")
    return kind(column, constant)


def _zero_date(column: Column, constant: _Constant | None) -> str | None:
    """The text of a date of zeros, where that is the constant; None for another one.

    It is what DATE and DATETIME have without a default (MySQL manual, "Data Type Default Values"); what TIMESTAMP has
    then depends on explicit_defaults_for_timestamp.
    """
    if column.type_code not in _DATES or (constant is None and column.type_code == _TIMESTAMP):
        return None
    if constant is not None and not _ZERO_DATE.fullmatch(constant.text):
        return None
    if column.type_code == _DATE:
        return "0000-00-00"
    return "0000-00-00 00:00:00" + (f".{'0' * column.meta}" if column.meta else "")


_FLOAT, _BLOB = 4, 252
_REALS = (_FLOAT, 5)
_DATE, _TIMESTAMP, _DATETIME = 10, 17, 18
_DATES = (_DATE, _TIMESTAMP, _DATETIME)
_ZERO_DATE = re.compile(r"0+|0000-00-00( 00:00:00(\.0+)?)?")


def _integer(column: Column, constant: _Constant | None) -> str:
    if constant and column.type_code == _BIT and constant.kind == "string":
        return str(int.from_bytes(_ascii(constant.text)))
    value = constant.number if constant else Decimal(0)
    if column.type_code == _BIT and not 0 <= value < 1 << 64:
        raise Unsupported("its bits are those of another number")
    if value != value.to_integral_value(context=_EXACT):
        raise Unsupported("it is rounded")
    return str(int(value))


def _decimal_text(column: Column, constant: _Constant | None) -> str:
    value = constant.number if constant else Decimal(0)
    scale = column.meta & 255
    try:
        exact = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except ArithmeticError:
        raise Unsupported("it has more digits than a DECIMAL") from None
    if value != exact:
        raise Unsupported("it is rounded")
    return f"'{exact or abs(exact):.{scale}f}'"


_EXACT = Context(prec=200)
"""Digits enough for any DECIMAL; Python's default context has 28."""


def _real(column: Column, constant: _Constant | None, measure: tuple[int, int] | None = None) -> str:
    """``measure``: digits and scale of a FLOAT(digits, scale) or DOUBLE(digits, scale)."""
    if constant is None:
        return "'0'"
    value = constant.number
    if not value:
        if constant.text.strip().startswith("-") and (constant.kind == "string" or "e" in constant.text.lower()):
            raise Unsupported("it is a negative zero")
        return "'0'"
    if column.type_code != _FLOAT and measure is None:
        return f"'{value}'"
    double = float(value) if measure is None else _rounded(float(value), *measure)
    if column.type_code != _FLOAT:
        return f"'{double!r}'"
    with np.errstate(over="ignore"):  # the server takes a FLOAT for a DOUBLE first
        return f"'{np.float32(double)!s}'"


def _rounded(value: float, digits: int, scale: int) -> float:
    """Number rounded as servers do: DOUBLE(10,3) has 1.2389999999999999 for 1.239.

    Source: MySQL sql/field.cc (``Field_real::truncate``).
    """
    integral, power = math.floor(value), 10.0**scale
    rounded = integral + round((value - integral) * power) / power
    if abs(rounded) > 10.0 ** (digits - scale) - 1 / power:
        raise Unsupported("it is beyond the numbers that the column holds")
    return rounded


def _year(_: Column, constant: _Constant | None) -> str:
    if constant is None:
        return "0"
    is_long = constant.kind == "number" or re.fullmatch(r"[0-9]{4}", constant.text, re.ASCII)
    value = constant.number
    if not is_long or value != int(value) or (value and not 1901 <= value <= 2155):
        raise Unsupported("it is no year of four digits")
    return str(int(value))


def _constant_text(column: Column, constant: _Constant | None) -> str:
    if column.charset == 63:
        return _bytes(column, constant)
    text = _plain_text(constant)
    if constant and not text and column.type_code == _BLOB and column.nullable:
        raise Unsupported("MySQL drops an empty default of a TEXT, with a warning, and MariaDB does not")
    return literal(text.rstrip(" ") if column.type_code == 254 else text)


def _plain_text(constant: _Constant | None) -> str:
    """The text of a constant; a whole number is text without its leading zeros."""
    if constant and constant.kind not in ("string", "number"):
        raise Unsupported("its bytes are text only by a character set")
    if constant and constant.kind == "number":
        if not re.fullmatch(r"[0-9]{1,18}", constant.text):
            raise Unsupported("it is a number for a text")
        return str(int(constant.text))
    return constant.text if constant else ""


def _ascii(text: str) -> bytes:
    if not text.isascii():
        raise Unsupported("its bytes depend on the session's character set")
    return text.encode()


def _bytes(column: Column, constant: _Constant | None) -> str:
    if constant and constant.kind == "hex":
        wire = bytes.fromhex(constant.text.zfill((len(constant.text) + 1) // 2 * 2))
    else:
        wire = _ascii(_plain_text(constant))
    if constant and not wire and column.type_code == _BLOB and column.nullable:
        raise Unsupported("MySQL drops an empty default of a BLOB, with a warning, and MariaDB does not")
    if column.type_code == 254:
        wire = wire.ljust(column.meta, b"\0")
    return f"X'{wire.hex()}'"


def _enum(column: Column, constant: _Constant | None) -> str:
    labels = column.labels or ()
    if constant is None:
        return literal(labels[0])
    matching = [label for label in labels if label == _plain_text(constant)]
    if constant.kind != "string" or not matching:
        raise Unsupported("it is none of the labels as they are written")
    return literal(matching[0])


def _set(column: Column, constant: _Constant | None) -> str:
    members = set(_plain_text(constant).split(",")) - {""}
    if constant and (constant.kind != "string" or not members <= set(column.labels or ())):
        raise Unsupported("it is none of the labels as they are written")
    return literal(",".join(label for label in column.labels or () if label in members))


def _moment(column: Column, constant: _Constant | None) -> str:
    """DATE and DATETIME, and what stands there for a TIMESTAMP, in the session's time zone."""
    pattern = r"\d{4}-\d\d-\d\d" + ("" if column.type_code == _DATE else r"( \d\d:\d\d:\d\d(?P<digits>\.\d{1,6})?)?")
    match = re.fullmatch(pattern, constant.text) if constant and constant.kind == "string" else None
    digits = match and match.groupdict().get("digits")
    if not match or constant is None or (digits and len(digits) - 1 > column.meta):
        raise Unsupported("it is no date and time as they are written in full")
    try:
        moment = dt.datetime.fromisoformat(constant.text)
    except ValueError:
        raise Unsupported("it is no date of the calendar") from None
    return f"'{moment.isoformat(' ')}'" if column.type_code != _DATE else f"'{moment.date()}'"


def _time(column: Column, constant: _Constant | None) -> str:
    text = constant.text if constant else "00:00:00"
    match = re.fullmatch(r"(-?)([0-9]{2,3}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?", text)
    if not match or (constant and constant.kind != "string") or len(match[5] or "") > column.meta:
        raise Unsupported("it is no time as it is written in full")
    sign, hours, minutes, seconds = match[1], int(match[2]), match[3], match[4]
    fraction = (match[5] or "").ljust(column.meta, "0")
    if (hours, minutes, seconds, int(fraction or 0)) > (838, "59", "59", 0):
        raise Unsupported("it is beyond the times that a column holds")
    is_zero = not hours and not int(minutes + seconds + fraction)
    order_time = f"{'' if is_zero else sign}{hours:02}:{minutes}:{seconds}"
    return literal(f"{order_time}.{fraction}" if fraction else order_time)


_FILLS: tuple[tuple[set[int], Callable[[Column, _Constant | None], str]], ...] = (
    ({1, 2, 3, 8, 9, 16}, _integer),
    ({246}, _decimal_text),
    ({13}, _year),
    ({15, 252, 254}, _constant_text),
    ({247}, _enum),
    ({248}, _set),
    ({10, 18}, _moment),
    ({19}, _time),
)
