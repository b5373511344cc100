"""Rows of keyless tables, in Arrow: which of them are equal, and how many copies were inserted or deleted.

Put here: what tells such rows apart, and the sum of their copies. Not here: the rows of changes (net_changes.py), or
the copies that a target has (engine/merge/keyless_merge.py).

Two rows are equal where all of their stored bytes are: 0 and -0 are two numbers here, and exact texts (``_raw``) count.
Sums of copies can be added in any grouping, so one function reduces in a task, in a bucket and over windows.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.silver.net_changes import exact_texts, position_order
from spark_jobs.silver.table import ABSENT, COPIES

_LAST = "\0last"
_WINDOW = "_window"


def comparable_columns(rows: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """Columns that are equal where rows are, NULL being a value, of types that can be grouped and hashed.

    rows: with columns of these names and ``_raw``.
    """
    columns = [part for name in names for part in _comparable_column(_array(rows.column(name)))]
    return [*columns, exact_texts(_array(rows.column("_raw")))]


def _array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _comparable_column(values: pa.Array) -> list[pa.Array]:
    """A column as one or more that compare by bytes."""
    kind = values.type
    if pa.types.is_floating(kind):
        return [values.view(pa.int32() if kind.bit_width == 32 else pa.int64())]
    if pa.types.is_struct(kind):
        return [part for field in values.flatten() for part in _comparable_column(field)]
    if pa.types.is_list(kind):
        return [_list_bytes(values)]
    return [values]


def _list_bytes(values: pa.ListArray) -> pa.Array:
    """Lists of numbers as the bytes of these."""
    items = values.values
    width = items.type.bit_width // 8
    # The bytes of the items are the buffer that they have; a slice does not begin at its first.
    offsets = (np.asarray(values.offsets, np.int64) + items.offset) * width
    valid = pc.is_valid(values)
    buffers = [pa.array(valid).buffers()[1] if values.null_count else None, pa.py_buffer(offsets), items.buffers()[1]]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def summed_copies(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """One row for each window and distinct row: the last by position, with the copies of all of them in sum.

    rows: with ``_position`` and ``_copies``, and ``_window``, ``_changes`` and ``_micros`` where they have them.
    """
    order = position_order(rows)
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows))
    sums = [name for name in (COPIES, "_changes") if name in rows.column_names]
    greatest = [name for name in ("_micros",) if name in rows.column_names]
    keys = _grouping(rows, names)
    values = {_LAST: pa.array(ranks)} | {name: rows.column(name) for name in (*sums, *greatest)}
    aggregates = [(_LAST, "max"), *((name, "sum") for name in sums), *((name, "max") for name in greatest)]
    groups = pa.table(keys | values).group_by([*keys], use_threads=False).aggregate(aggregates)
    last = rows.take(pa.array(order[groups.column(f"{_LAST}_max").to_numpy()]))
    for name, aggregate in aggregates[1:]:
        last = last.set_column(last.schema.get_field_index(name), name, groups.column(f"{name}_{aggregate}"))
    # What an INSERT leaves out is its default, so that every row is whole.
    if ABSENT in last.column_names:
        at = last.schema.get_field_index(ABSENT)
        last = last.set_column(at, ABSENT, pa.nulls(len(last), last.schema.field(at).type))
    return last


def distinct(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """One of each of equal rows."""
    keys = _grouping(rows, names)
    indexes = pa.table(keys | {_LAST: pa.array(np.arange(len(rows)))})
    return rows.take(indexes.group_by([*keys], use_threads=False).aggregate([(_LAST, "max")]).column(f"{_LAST}_max"))


def numbers_of_equal_rows(rows: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """A number of each row, equal where the rows are."""
    keys = _grouping(rows, names)
    indexes = pa.table(keys | {_LAST: pa.array(np.arange(len(rows)))})
    groups = indexes.group_by([*keys], use_threads=False).aggregate([(_LAST, "list")]).column(f"{_LAST}_list")
    lists = groups.combine_chunks()
    numbers = np.empty(len(rows), np.int64)
    numbers[np.asarray(lists.flatten())] = np.asarray(pc.list_parent_indices(lists))
    return numbers


def _grouping(rows: pa.Table, names: Sequence[str]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The columns that rows are grouped by; those that are NULL in all rows tell none apart."""
    columns = [column for column in comparable_columns(rows, names) if column.null_count < len(column)]
    keys: dict[str, pa.Array | pa.ChunkedArray] = {f"\0{at}": column for at, column in enumerate(columns)}
    if _WINDOW in rows.column_names:
        keys[_WINDOW] = rows.column(_WINDOW)
    return keys or {"\0": pa.repeat(True, len(rows))}


def sorted_by_bounded_column(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows in the order of a column whose bounds files keep, so that a reader of few needs few row groups."""
    name = bounded_column(rows, names)
    return rows if name is None else rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending")]))


def bounded_column(rows: pa.Table, names: Sequence[str]) -> str | None:
    """The first column of a type whose values compare as bounds of files do; None where there is none."""
    kinds = ((name, rows.schema.field(name).type) for name in names)
    return next((name for name, kind in kinds if _is_bounded(kind)), None)


def _is_bounded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind))
