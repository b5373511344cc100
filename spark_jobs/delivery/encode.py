"""Arrow columns as SQL literals of MySQL's protocol, whole columns at a time.

Put here: how a value of the lake is written so that a column of the target holds what the source's held. Not here:
statements of literals (statements.py).

Literals are meant for a session with NO_BACKSLASH_ESCAPES, utf8mb4 and time zone +00:00 (target.py). Integers stand
without quotes, since a YEAR takes '0' for 2000 and a BIT '5' for a letter; bytes, geometries and vectors in hex.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RAW = "_raw"
"""The lake's column of exact texts: values that a typed column does not hold, by column name."""
NULL = "NULL"
_HEX = np.frombuffer(bytes(range(256)).hex().encode(), "<u2")
"""Two hex digits of each byte."""
_LARGEST = float(np.finfo(np.float32).max)
"""Largest value of a FLOAT."""
_SEPARATOR = 6
"""Bytes between two texts of a statement at most."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the lake, and the type of the target's column that it is written to (DATA_TYPE)."""

    name: str
    kind: str


def literals(rows: pa.Table, columns: Sequence[OutputColumn]) -> list[pa.Array]:
    """Literals of each column's values, by column; NULL is a literal. rows: with the columns, and ``_raw``."""
    arrays = [_literals(rows.column(column.name).combine_chunks()) for column in columns]
    exact = rows.column(RAW).combine_chunks() if RAW in rows.column_names else None
    if exact is not None and exact.null_count < len(exact):
        arrays = [_with_exact(array, exact, column) for array, column in zip(arrays, columns, strict=True)]
    return [pc.fill_null(array, NULL) for array in arrays]


def key_literals(rows: pa.Table, columns: Sequence[OutputColumn]) -> list[pa.Array]:
    """Literals to compare with columns, by column: a FLOAT as the DOUBLE that it is, a DECIMAL as a number."""
    return literals(_comparable_rows(rows, columns), columns)


def _comparable_rows(rows: pa.Table, columns: Sequence[OutputColumn]) -> pa.Table:
    for column in columns:
        values = rows.column(column.name)
        if pa.types.is_float32(values.type):
            at = rows.schema.get_field_index(column.name)
            rows = rows.set_column(at, column.name, values.cast(pa.float64()))
    return rows


def tuples(arrays: Sequence[pa.Array]) -> pa.Array:
    """Literals of columns as one text a row, separated by commas."""
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, ",")


def joined(texts: pa.Array, separator: str) -> bytes:
    """Texts as one, with a separator between them."""
    flat = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    rows = pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), flat.cast(pa.large_string()))
    return bytes(pc.binary_join(rows, pa.scalar(separator, pa.large_string()))[0].as_buffer())


def cuts(texts: pa.Array, rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of texts of so many, and so many bytes in all, at most; a text that is longer stands alone."""
    ends = np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64) + _SEPARATOR)
    begin = 0
    while begin < len(texts):
        before = int(ends[begin - 1]) if begin else 0
        end = min(begin + rows, int(np.searchsorted(ends, before + size, side="right")))
        end = max(end, begin + 1)
        yield begin, end
        begin = end


def _literals(values: pa.Array) -> pa.Array:
    """The literals of values; NULL where the value is."""
    for is_kind, encode in _ENCODERS:
        if is_kind(values.type):
            return encode(values)
    return values.cast(pa.string())


def _quoted_literals(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring(texts, "'")).as_py():
        texts = pc.replace_substring(texts, "'", "''")
    return _enclosed(texts)


def _enclosed(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("'", texts, "'", "")


def _decimals(values: pa.Array) -> pa.Array:
    """Decimals as numbers; those that Arrow prints with an exponent as texts, which servers read digit by digit."""
    texts = values.cast(pa.string())
    has_exponent = pc.match_substring(texts, "E")
    if not pc.any(has_exponent).as_py():
        return texts
    precision, scale = values.type.precision, values.type.scale
    exact = pc.binary_join_element_wise("CAST('", texts, f"' AS DECIMAL({precision},{scale}))", "")
    return pc.if_else(has_exponent, exact, texts)


def _hex(values: pa.Array) -> pa.Array:
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    digits = _HEX[data].tobytes()
    new_offsets = ((offsets - offsets[0]) * 2).astype(np.int64)
    buffers = [None, pa.py_buffer(new_offsets), pa.py_buffer(digits)]
    texts = pa.Array.from_buffers(pa.large_string(), len(values), buffers).cast(pa.string())
    if values.null_count:
        texts = pc.if_else(pc.is_valid(values), texts, None)
    return pc.binary_join_element_wise("x'", texts, "'", "")


def _geometries(values: pa.Array) -> pa.Array:
    """Geometries as servers store them: four bytes of SRID, then WKB."""
    srid, wkb = (pc.struct_field(values, name) for name in ("srid", "wkb"))
    numbers = np.asarray(srid.fill_null(0), "<u4")
    buffers = [None, pa.py_buffer(numbers.tobytes())]
    heads = pa.Array.from_buffers(pa.binary(4), len(numbers), buffers).cast(pa.binary())
    return pc.binary_join_element_wise(heads, wkb, b"")


def _vectors(values: pa.Array) -> pa.Array:
    """Vectors as servers store them: four bytes a number."""
    cells = [None if cell is None else np.asarray(cell, "<f4").tobytes() for cell in values.to_pylist()]
    return pa.array(cells, pa.binary())


def _printed(values: pa.Array) -> pa.Array:
    """Texts as Arrow prints them, FLOAT and DOUBLE by the fewest digits that are read back as the same number.

    Those of the largest FLOAT are a larger DOUBLE, which a strict session refuses: it is printed as a DOUBLE.
    """
    texts = values.cast(pa.string())
    if pa.types.is_float32(values.type):
        is_largest = pc.equal(pc.abs(values), pa.scalar(_LARGEST, pa.float32()))
        texts = pc.if_else(is_largest, values.cast(pa.float64()).cast(pa.string()), texts)
    return _enclosed(texts)


def _utc_times(values: pa.Array) -> pa.Array:
    """Times in UTC, the session's time zone."""
    return _enclosed(values.cast(pa.timestamp("us")).cast(pa.string()))


_ENCODERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, _quoted_literals),
    (pa.types.is_binary, _hex),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_floating, _printed),
    (pa.types.is_date, _printed),
    (pa.types.is_timestamp, _utc_times),
    (pa.types.is_struct, lambda values: _hex(_geometries(values))),
    (pa.types.is_list, lambda values: _hex(_vectors(values))),
)
"""Texts of values of an Arrow type; all others are integers."""


def _with_exact(array: pa.Array, exact: pa.MapArray, column: OutputColumn) -> pa.Array:
    """The literals with exact texts in the place of what the typed column does not hold."""
    keys, items = (pa.ListArray.from_arrays(exact.offsets, values) for values in (exact.keys, exact.items))
    is_own = pc.equal(pc.list_flatten(keys), column.name)
    indexes = pc.list_parent_indices(keys).filter(is_own).to_numpy()
    if not len(indexes):
        return array
    texts = pc.list_flatten(items).filter(is_own)
    is_text = column.kind in ("date", "datetime", "timestamp", "time", "year")
    new = _enclosed(texts) if is_text else pc.binary_join_element_wise("x'", texts, "'", "")
    is_exact = np.zeros(len(array), np.bool_)
    is_exact[indexes] = True
    return pc.replace_with_mask(array, pa.array(is_exact), new)
