"""Values as JSON text, a column at a time.

Put here: how each type is written, and objects of names and values. Not here: which changes there are (feed.py).

Text of most types is made by Arrow, a column at once. What it writes otherwise than the contract has it becomes Python
objects: floating point, bytes, geometries, decimals of many digits. A long value is left where it is, to be written
piece by piece.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Column, Presence, TableDefinition
from spark_jobs.binlog.types.numeric import Integer

_DECIMAL = 246
_GEOMETRY = 255
_LONG = 1 << 16
"""Bytes of a value from which on it is written piece by piece."""
_MOST_PLAIN = 6
"""Digits after the point up to which Arrow writes a decimal without an exponent."""
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class _Long:
    """A long value of a text or binary column, still in Arrow's memory."""

    content: pa.Buffer
    is_text: bool

    def pieces(self) -> Iterator[str]:
        """The value's JSON text in pieces. Characters of text and groups of base64 stay whole."""
        content, is_text = memoryview(self.content), self.is_text
        yield '"' if is_text else '{"base64": "'
        at = 0
        while at < len(content):
            end = min(at + _LONG * 3, len(content))
            while is_text and end < len(content) and content[end] & 0xC0 == 0x80:
                end -= 1
            piece = bytes(content[at:end])
            yield encode_basestring(piece.decode())[1:-1] if is_text else base64.b64encode(piece).decode()
            at = end
        yield '"' if is_text else '"}'


Cell = str | _Long
"""A value as JSON text, or one that is turned into text piece by piece."""
Image = Sequence[Cell]
"""An object as JSON text: what stands between its values, and these."""
NULL = ("null",)


def pieces_of(cells: Iterable[Cell]) -> Iterator[str]:
    for cell in cells:
        if isinstance(cell, str):
            yield cell
        else:
            yield from cell.pieces()


def images(
    definition: TableDefinition, image: pa.RecordBatch, raw: pa.Array | None, presence: Presence | None
) -> list[Image]:
    """One object a row: column name to value; ``@1``, ``@2`` … where names are unknown. Absent columns have no key."""
    names = definition.column_names()
    exact = _exact_texts(definition, raw)
    columns = list(zip(definition.columns, image.columns, [exact.get(name, {}) for name in names], strict=True))
    keys = [f"{text_of(name)}: " for name in names]
    if presence is None and not any(_has_long(values) for values in image.columns):
        return _joined_images(keys, [_column_text(*column) for column in columns])
    cells = zip(*(_json_cells(*column) for column in columns), strict=True)
    presences = [[True] * len(names)] * image.num_rows if presence is None else presence.sets[presence.index].tolist()
    return [
        _object([(key, cell) for key, cell, is_present in zip(keys, row, present, strict=True) if is_present])
        for row, present in zip(cells, presences, strict=True)
    ]


def texts_of_columns(
    definition: TableDefinition, image: pa.RecordBatch, raw: pa.Array | None, ordinals: Iterable[int]
) -> list[pa.Array]:
    """The values of some columns as JSON text, one array a column; columns of keys, whose values are short."""
    exact, names = _exact_texts(definition, raw), definition.column_names()
    return [_column_text(definition.columns[at], image.column(at), exact.get(names[at], {})) for at in ordinals]


def cells_of_columns(
    columns: Mapping[str, Column], rows: pa.Table | pa.RecordBatch, raw: pa.Array | None
) -> dict[str, list[Cell]]:
    """Values of columns by name, one a row. columns: what each is, by the names that ``rows`` has them under."""
    exact = _texts_by_column(columns, raw)
    return {
        name: _json_cells(column, _flat(rows.column(name)), exact.get(name, {})) for name, column in columns.items()
    }


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def unsigned_json_by_row(definition: TableDefinition, ordinals: Iterable[int], image: pa.RecordBatch) -> dict[int, str]:
    """A JSON object by row: its negative values of these integer columns, reinterpreted as UNSIGNED.

    ordinals: of columns that are read as signed. Rows without a negative value have no object.
    """
    names = definition.column_names()
    members: dict[int, list[str]] = {}
    for ordinal in ordinals:
        values, kind = image.column(ordinal), definition.columns[ordinal].type
        assert isinstance(kind, Integer)
        rows = np.flatnonzero(pc.fill_null(pc.less(values, 0), False).to_numpy(zero_copy_only=False))
        for row, value in zip(rows.tolist(), values.take(pa.array(rows)).to_pylist(), strict=True):
            members.setdefault(row, []).append(f"{text_of(names[ordinal])}: {value + (1 << 8 * kind.size)}")
    return {row: f"{{{', '.join(texts)}}}" for row, texts in members.items()}


def _exact_texts(definition: TableDefinition, raw: pa.Array | None) -> dict[str, dict[int, str]]:
    """JSON texts by column and row of what typed columns cannot hold."""
    return _texts_by_column(dict(zip(definition.column_names(), definition.columns, strict=True)), raw)


def _texts_by_column(types: Mapping[str, Column], raw: pa.Array | None) -> dict[str, dict[int, str]]:
    """Texts of ``_exact_texts``, of columns by name."""
    texts: dict[str, dict[int, str]] = {}
    if raw is None:
        return texts
    for at, exact in enumerate(raw.to_pylist()):
        for name, text in exact or ():
            value = _base64(bytes.fromhex(text)) if _is_hex(types[name]) else text
            texts.setdefault(name, {})[at] = text_of(value)
    return texts


def _joined_images(keys: list[str], columns: list[pa.Array]) -> list[Image]:
    between = [f"{{{keys[0]}", *(f", {key}" for key in keys[1:])]
    parts = [part for pair in zip(map(pa.scalar, between), columns, strict=True) for part in pair]
    return [(text,) for text in pc.binary_join_element_wise(*parts, "}", "").to_pylist()]


def _column_text(column: Column, values: pa.Array, exact: dict[int, str]) -> pa.Array:
    """A column's values as JSON."""
    text = None if exact else _by_arrow(column, values)
    return pa.array(_json_cells(column, values, exact), pa.string()) if text is None else pc.fill_null(text, "null")


def _by_arrow(column: Column, values: pa.Array) -> pa.Array | None:  # noqa: PLR0911 - one a kind of type
    """The same with nulls, for types that Arrow writes as they should be; None for others."""
    kind = values.type
    # Labels that are unknown are numbers; the general writer has them.
    if column.type.has_labels and column.labels is None:
        return None
    if pa.types.is_integer(kind):
        return values.cast(pa.string())
    if pa.types.is_decimal(kind):
        # Arrow prints a large scale in scientific notation.
        text = values.cast(pa.string()) if kind.scale <= _MOST_PLAIN else None
        return _quoted_texts(text) if text is not None and column.type_code == _DECIMAL else text
    if pa.types.is_date(kind):
        return _quoted_texts(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        digits = column.type.digits(column)
        return _quoted_texts(instants(values, digits) if kind.tz else _moments(values, digits))
    if pa.types.is_string(kind):
        return _escaped(values)
    return None


def _moments(values: pa.Array, digits: int) -> pa.Array:
    """Timestamps as text, with so many digits of the second."""
    text = values.cast(pa.timestamp("us")).cast(pa.string())
    return pc.utf8_slice_codeunits(text, 0, 20 + digits if digits else 19)


def instants(values: pa.Array, digits: int) -> pa.Array:
    """The same of timestamps in UTC, as RFC 3339 has them."""
    text = _moments(values, digits)
    return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", "")


def _quoted_texts(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(values: pa.Array) -> pa.Array | None:
    """Strings of which none has a control character."""
    if pc.any(pc.match_substring_regex(values, r"[\x00-\x1f]")).as_py():
        return None
    for mark in ("\\", '"'):
        if pc.any(pc.match_substring(values, mark)).as_py():
            values = pc.replace_substring(values, mark, f"\\{mark}")
    return _quoted_texts(values)


def _object(members: list[tuple[str, Cell]]) -> Image:
    parts: list[Cell] = ["{"]
    for at, (key, cell) in enumerate(members):
        parts += [f", {key}" if at else key, cell]
    return [*parts, "}"]


def _json_cells(column: Column, values: pa.Array, exact: dict[int, str]) -> list[Cell]:
    """The values of a column as JSON; long ones are left where they are until they are written."""
    write = _writer(column, values.type)
    cells: list[Cell] = []
    if not _has_long(values):
        cells += ["null" if value is None else text_of(write(value)) for value in values.to_pylist()]
    else:
        is_text = pa.types.is_string(values.type)
        for at, size in enumerate(pc.binary_length(values).to_pylist()):
            is_long = size is not None and size > _LONG
            value = None if is_long else values[at].as_py()
            short = "null" if value is None else text_of(write(value))
            cells.append(_Long(bytes_at(values, at), is_text) if is_long else short)
    for at, text in exact.items():
        cells[at] = text
    return cells


def bytes_at(values: pa.Array, at: int) -> pa.Buffer:
    """One value of a text or binary array, without the copy that a scalar is."""
    _, offsets, content = values.buffers()
    first, after = np.frombuffer(offsets, np.int32)[values.offset + at :][:2].tolist()
    return content.slice(first, after - first)


def _has_long(values: pa.Array) -> bool:
    """True if a text or binary column has a value that is written piece by piece."""
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)) or values.nbytes <= _LONG:
        return False
    return bool((pc.max(pc.binary_length(values)).as_py() or 0) > _LONG)


def text_of(value: Any) -> str:
    """A value as JSON text."""
    if type(value) is str:
        return encode_basestring(value)
    return str(value) if type(value) is int else _ENCODE(value)


def _is_hex(column: Column) -> bool:
    """True if an exact text of the column is the hex of its bytes."""
    return column.type.is_character or column.type_code == _GEOMETRY


def _base64(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _writer(column: Column, arrow: pa.DataType) -> Callable[[Any], Any]:  # noqa: PLR0911 - one line a kind of type
    """Function that turns a value of the column into what json.dumps takes.

    The twin of ``_by_arrow``, a value at a time.
    """
    # Types that JSON has no form for are text or arrays.
    if pa.types.is_decimal(arrow):
        return "{:f}".format if column.type_code == _DECIMAL else int
    if column.type.has_labels and column.labels is None:
        return int
    if pa.types.is_float32(arrow):
        return _shortest
    if pa.types.is_binary(arrow):
        return _base64
    if pa.types.is_timestamp(arrow):
        digits = column.type.digits(column)
        return (lambda value: instant(value, digits)) if arrow.tz else (lambda value: local(value, digits))
    if pa.types.is_date(arrow):
        return date.isoformat
    if pa.types.is_struct(arrow):
        return lambda value: {"srid": value["srid"], "wkb": base64.b64encode(value["wkb"]).decode()}
    if pa.types.is_list(arrow):
        return lambda value: [_shortest(number) for number in value]
    return lambda value: value


def _shortest(value: float) -> float:
    """The number with the fewest digits that reads back as the same FLOAT."""
    return float(str(np.float32(value)))


def instant(value: datetime | None, digits: int) -> str | None:
    return None if value is None else f"{local(value.astimezone(UTC), digits).replace(' ', 'T')}Z"


def local(value: datetime, digits: int) -> str:
    """A time without its zone, with so many digits of the second."""
    text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return f"{text}.{value.microsecond:06d}"[: 20 + digits] if digits else text
