"""SQL of a value's text, which a server and Spark both make of it, byte for byte.

Put here: a line a type: the two expressions, and what its text means. Not here: hashing rows of them (row_digest.py).

Hashes are made where the rows are, so what is hashed must be the same on both sides, and two values must never have one
text. Known traps of tools that compare by checksums, and what stands against them here:

- a separator that may stand in a value, NULLs that vanish in CONCAT_WS: texts end with a comma where they hold none,
  and are counted (``3:a,b``) where they may hold anything; NULL is an empty text, or ``-`` in place of a count;
- FLOAT and DOUBLE printed with some digits: their 64 bits are taken, which MySQL has in a POINT's bytes;
- ZEROFILL, trailing zeros of fractions, Java's exponents: expressions below;
- character sets: text is compared as UTF-8; where bytes do not survive the way to UTF-8 and back, as bytes.

Values that the typed column cannot hold stand in ``_raw`` on the lake's side, as text or hex.
"""

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_jobs.binlog.types.charset_tables import SINGLE_BYTE
from spark_jobs.errors import Unsupported

IsEqual = Callable[[bytes, bytes, bytes | None], bool]

_NO_TEXT = b"\xff"
"""Prefix of bytes that are no text of their character set; UTF-8 has no such byte."""
_REPLACEMENT = "\ufffd".encode()
"""Text in place of a byte without a character, which is no text in the lake."""
_AS_THEY_ARE = ("utf8mb4", "utf8mb3", "utf8", "ascii")
"""Character sets whose bytes are the UTF-8 of their text."""
_NO_LOSS = ("latin1",)
"""Character sets all of whose bytes are some character."""


@dataclass(frozen=True, slots=True)
class Form:
    """Conversion of a value to text."""

    server: str
    lake: str
    """SQL over ``{c}``, on the lake's side over ``{raw}`` too; NULL where the value is."""
    types: str
    """Column types of the lake that it may be, as a regular expression."""
    counted: bool = False
    """True if the text may hold any bytes."""
    long: bool = False
    """True if it may be large, so that rows are hashed over its SHA-256."""
    literal: Callable[[bytes], str] = lambda text: f"'{text.decode()}'"
    """The SQL of a value, of its text."""
    display: Callable[[bytes], str] = lambda text: text.decode(errors="replace")
    """The value for people, of its text."""
    extra_value: str | None = None
    """A further expression of the server, for ``is_equal``: whether two texts that differ are one value."""
    is_equal: IsEqual = lambda _first, _second, _extra_value: False


def form_of(column: Mapping[str, Any]) -> Form:
    """The form of a column of information_schema.COLUMNS. Raises Unsupported for a type that is not known.

    Used of the row: ``kind`` (DATA_TYPE), ``declared`` (COLUMN_TYPE), ``charset``, ``fraction`` (digits of a second).
    """
    kind, charset = column["kind"], column["charset"]
    if kind in _FIXED:
        plain = _FIXED[kind]
        return replace(plain, server="{c} + 0") if "zerofill" in column["declared"] else plain
    if kind in _TEXTS:
        return replace(_text_form(charset), long=kind.endswith("text"))
    if kind in ("enum", "set"):
        return replace(_text_form("latin1"), literal=_text_form(charset).literal)
    if kind in ("datetime", "timestamp"):
        return _moment(int(column["fraction"] or 0), "TIMESTAMP_NTZ" if kind == "datetime" else "TIMESTAMP")
    raise Unsupported(f"values of type {column['declared']} are not compared")


def _number_form(types: str, server: str = "{c}") -> Form:
    return Form(server, "cast({c} AS STRING)", types, literal=bytes.decode)


def _moment(digits: int, kind: str) -> Form:
    """Spark leaves zeros at a fraction's end out, and an exact text has those of its time.

    A value with more digits than declared keeps them, and so differs.
    """
    printed = "coalesce({raw}, cast({c} AS STRING))"
    dotted = f"if(length({printed}) = 19, concat({printed}, '.'), {printed})"
    text = f"rpad({dotted}, greatest({20 + digits}, length({dotted})), '0')" if digits else printed
    return Form("CAST({c} AS CHAR)", text, kind)


def _hex(text: bytes) -> str:
    return f"x'{text.hex()}'"


def _text_form(charset: str) -> Form:
    as_utf8 = "CAST(CONVERT({c} USING utf8mb4) AS BINARY)"

    def literal(text: bytes) -> str:
        if text[:1] == _NO_TEXT and charset not in _AS_THEY_ARE:
            return f"_{charset} {_hex(text[1:])}"
        return (
            f"_{charset} {_hex(text)}" if charset in _AS_THEY_ARE else f"CONVERT(_utf8mb4 {_hex(text)} USING {charset})"
        )

    plain = Form(as_utf8, "coalesce(cast({c} AS BINARY), unhex({raw}))", "STRING", counted=True, literal=literal)
    if charset in _AS_THEY_ARE:
        return replace(plain, server="CAST({c} AS BINARY)")
    if charset in _NO_LOSS:
        return plain
    back = f"CAST(CONVERT(CONVERT({{c}} USING utf8mb4) USING {charset}) AS BINARY)"
    content = "CAST({c} AS BINARY)"
    is_text = f"{back} = {content}"
    if charset in SINGLE_BYTE:  # tis620 takes its byte FF for U+FFFD, and back
        is_text += f" AND LOCATE({_hex(_REPLACEMENT)}, {as_utf8}) = 0"
    return replace(
        plain,
        server=f"IF({is_text}, {as_utf8}, CONCAT({_hex(_NO_TEXT)}, {content}))",
        lake="coalesce(cast({c} AS BINARY), concat(X'ff', unhex({raw})))",
        extra_value=as_utf8,
        is_equal=_same_text,
        display=_shown_text,
    )


def _same_text(first: bytes, second: bytes, extra_value: bytes | None) -> bool:
    """True if text that does not come back as the same bytes is the lake's: some sets have a character twice.

    A server puts ? for bytes that are no text, and 0x3F is ? wherever it occurs in such a set.
    """
    is_text = first[:1] == _NO_TEXT and extra_value is not None and extra_value.count(b"?") == first.count(b"?")
    return is_text and extra_value == second


def _shown_text(text: bytes) -> str:
    return f"bytes {text[1:].hex()}" if text[:1] == _NO_TEXT else text.decode(errors="replace")


def _same_json(first: bytes, second: bytes, _: bytes | None) -> bool:
    """True if two documents are equal as values: servers before MySQL 9 print some numbers and base64 otherwise.

    Before 8.0.24 the line ends of base64 are no escapes, which JSON has not: ``strict`` would refuse them.
    """
    try:
        documents = [_comparable_document(json.loads(text, strict=False)) for text in (first, second)]
        return bool(documents[0] == documents[1])
    except ValueError:
        return False


def _comparable_document(value: Any) -> Any:
    """A document in which true is not 1, and base64 has no line ends."""
    match value:
        case bool():
            return ("bool", value)
        case dict():
            return {key: _comparable_document(member) for key, member in value.items()}
        case list():
            return [_comparable_document(member) for member in value]
        case str() if value.startswith("base64:"):
            return re.sub(r"\s", "", value)
        case _:
            return value


def _double(text: bytes) -> float:
    return float(struct.unpack(">d", bytes.fromhex(text.decode()))[0])


def _shown_float(text: bytes) -> str:
    """The shortest digits: of a single where the value is one."""
    value = _double(text)
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return str(single) if float(single) == value else repr(value)


def _shown_bytes(text: bytes) -> str:
    return f"0x{text.hex()}"


_FLOAT = Form(
    "HEX(REVERSE(SUBSTR(POINT({c}, 0), 10, 8)))",
    "if({c} IS NULL, NULL, lpad(hex(cast(reflect('java.lang.Double', 'doubleToLongBits', cast({c} AS DOUBLE)) "
    "AS BIGINT)), 16, '0'))",
    "FLOAT|DOUBLE",
    literal=lambda text: repr(_double(text)),
    display=_shown_float,
    is_equal=lambda first, second, _: _double(first) == _double(second),
)
"""MySQL lays a POINT out as SRID (4 bytes), byte order (1), type (4), x (8, little-endian) (sql/spatial.h)."""
_BYTES = Form("{c}", "{c}", "BINARY", counted=True, literal=_hex, display=_shown_bytes)
_BLOB = replace(_BYTES, long=True)
_GEOMETRY = Form(
    "CONCAT(REVERSE(SUBSTR({c}, 1, 4)), SUBSTR({c}, 5))",
    "concat(unhex(lpad(hex(cast({c}.srid AS BIGINT) & 4294967295), 8, '0')), {c}.wkb)",
    r"STRUCT<srid: INT, wkb: BINARY>",
    counted=True,
    long=True,
    display=lambda text: f"srid {int.from_bytes(text[:4])} wkb 0x{text[4:].hex()}",
)
_VECTOR = Form(
    "REVERSE(CAST({c} AS BINARY))",
    "unhex(array_join(reverse(transform({c}, x -> lpad(right(hex(cast("
    "reflect('java.lang.Float', 'floatToIntBits', x) AS BIGINT)), 8), 8, '0'))), ''))",
    "ARRAY<FLOAT>",
    counted=True,
    long=True,
    display=lambda text: str(np.frombuffer(text, ">f4")[::-1].tolist()),
)
_JSON = Form(
    "CAST(CAST({c} AS CHAR) AS BINARY)",
    "cast({c} AS BINARY)",
    "STRING",
    counted=True,
    long=True,
    is_equal=_same_json,
)
_PLAIN = Form("CAST({c} AS CHAR)", "{c}", "STRING")
_DATE = Form("CAST({c} AS CHAR)", "coalesce({raw}, cast({c} AS STRING))", "DATE")
_WHOLE = r"TINYINT|SMALLINT|INT|BIGINT|DECIMAL\(20,0\)"
_FIXED = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _number_form(_WHOLE)),
    **dict.fromkeys(("bit", "year"), _number_form(_WHOLE, "{c} + 0")),
    "decimal": _number_form(r"DECIMAL\(\d+,\d+\)|STRING"),
    **dict.fromkeys(("float", "double"), _FLOAT),
    "date": _DATE,
    "time": _PLAIN,
    **dict.fromkeys(("binary", "varbinary"), _BYTES),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _BLOB),
    "json": _JSON,
    "vector": _VECTOR,
    **dict.fromkeys(("uuid", "inet4", "inet6"), _PLAIN),
    **dict.fromkeys(
        (
            *("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"),
            *("multipoint", "multilinestring", "multipolygon"),
        ),
        _GEOMETRY,
    ),
}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
