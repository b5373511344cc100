"""Numbers, strings and documents as programs in Java write them, such as canal, Debezium and Maxwell.

Sources: the Java API's Double.toString and BigDecimal.toString; Jackson's and fastjson2's string escapes.

Put here: text of single values. Not here: which value of a row is written how (debezium.py, canal.py, maxwell.py).
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal

import numpy as np

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_ESCAPED_BY_JACKSON = re.compile(r'[\x00-\x1f"\\\U00010000-\U0010ffff]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_MOST_PLAIN, _LEAST_PLAIN = 7, -3
"""Powers of ten between which Java writes a floating-point number without an exponent."""


def quoted(text: str) -> str:
    """A string as fastjson2 writes it: only what JSON forbids is escaped, in capital hex."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def quoted_by_jackson(text: str) -> str:
    """A string as Jackson writes it: characters of two UTF-16 units are escaped too."""
    return f'"{_ESCAPED_BY_JACKSON.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if short := _SHORT.get(character):
        return short
    units = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def double_text(value: float) -> str:
    """Text of a DOUBLE as ``Double.toString`` has it."""
    return _layout(repr(value), value)


def float_text(value: float) -> str:
    """Text of the value as a FLOAT, as ``Float.toString`` has it."""
    return _layout(str(np.float32(value)), value)


def _layout(text: str, value: float) -> str:
    """The digits of a number in Java's layout: ``0.001`` to ``9999999.0`` plain, all else as ``1.0E10``."""
    number = Decimal(text)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not number:
        return "-0.0" if sign else "0.0"
    figures = "".join(map(str, digits)).rstrip("0")
    power = len(digits) + exponent - 1  # of the first digit
    if len(figures) == 1 and float(f"{value:.1e}") == value:
        # 4.9E-324: two digits where one is coarse.
        figures = f"{abs(value):.1e}".partition("e")[0].replace(".", "").rstrip("0")
    if _LEAST_PLAIN <= power < _MOST_PLAIN:
        integer = figures[: power + 1].ljust(power + 1, "0") if power >= 0 else "0"
        rest = figures[power + 1 :] if power >= 0 else "0" * (-power - 1) + figures
        return f"{'-' * sign}{integer}.{rest or '0'}"
    return f"{'-' * sign}{figures[0]}.{figures[1:] or '0'}E{power}"


def decimal_text(value: Decimal) -> str:
    """Text of a number as ``BigDecimal.toString`` has it: with an exponent where it is below a millionth."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) + exponent - 1
    if power >= -6:
        return f"{value:f}"
    figures = "".join(map(str, digits))
    return f"{'-' * sign}{figures[0]}{'.' * (len(figures) > 1)}{figures[1:]}E{power}"


_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|([:,]) |-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')


def document(text: str) -> str:
    """A JSON document as MySQL prints it, with numbers as Java writes them, as canal has it."""
    return _TOKENS.sub(lambda match: _token(match, match[0], double_text), text)


def compact_document(text: str) -> str:
    """The same without spaces and exponents, as mysql-binlog-connector-java has it."""
    return _TOKENS.sub(lambda match: _token(match, match[1], _plain_double), text)


def _token(match: re.Match[str], separator: str, double: Callable[[float], str]) -> str:
    if match[1]:
        return separator
    spelling = match[0]
    if spelling[0] == '"':
        return quoted(json.loads(spelling, strict=False))
    mantissa, _, exponent = spelling.lower().partition("e")
    # A number that ends in zeros is a DECIMAL, whose digits stay.
    is_double = exponent or ("." in mantissa and (not mantissa.endswith("0") or mantissa.endswith(".0")))
    return double(float(spelling)) if is_double else spelling


def _plain_double(value: float) -> str:
    """Text by ``Double.toString``; where that has an exponent, all digits of the number instead."""
    text = double_text(value)
    return f"{Decimal(value):f}" if "E" in text else text
