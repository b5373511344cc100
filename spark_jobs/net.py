"""Decoded changes -> at most two rows a key, in Arrow: what a compacting task does with what it decoded.

Put here: the net effect of changes and the reduction inside a task. Not here: Spark (compact.py), decoding (binlog/).

A row says whether its key existed before its first change (``_existed``) and after its last (``_exists``). That pair
composes: (a, b) then (c, d) is (a, d), in any grouping, which the four operations' names alone would not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes
from spark_jobs.errors import Unsupported

INSERT, UPDATE, DELETE = 1, 2, 3
_RAW = pa.map_(pa.string(), pa.string())
_ORDER = ("row", "offset", "number", "stretch")
"""Fields of ``_position``, the least significant first."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slice stands: its file, what its rows' positions begin with, and the ordinal of its window."""

    file: str
    stretch: int
    number: int
    window: int


@dataclass(frozen=True, slots=True)
class _Effects:
    """What is added to an image: one value a row, and how many changes each row stands for."""

    existed: pa.Array
    exists: pa.Array
    counted: int


def net_rows(changes: Changes, place: Place, names: Sequence[str], key: Sequence[str]) -> Iterator[pa.Table]:
    """One row a change; where an update changed the key, a delete of the old one besides, and the new one is new.

    Raises Unsupported where a key's value cannot be held by its column.
    """
    _require_keys(changes, place, key)
    moved = _moved(changes, key)
    existed = pc.and_not(pc.not_equal(changes.op, INSERT), moved)
    image = {name: changes.after.column(name) for name in names}
    yield _table(image, changes, place, _Effects(existed, pc.not_equal(changes.op, DELETE), 1))
    where = pc.indices_nonzero(moved)
    if len(where):
        yield _old_keys(changes, place, names, key, where)


def reduce(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The first and the last row of each window and key by position; the last one counts the changes of all.

    Both stay, since a task's slices need not lie next to each other in the log: what another task holds may be first
    of all, last of all, or between. One row a key is left when all are reduced together (``settle``, compact.py).
    """
    first, last = _ends(rows, key)
    return pa.concat_tables([first, last])


def settle(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """One row for each window and key, where these rows are all there are: the last, as existing as the first was."""
    first, last = _ends(rows, key, always=True)
    return _with(last, {"_existed": first.column("_existed")})


def _ends(rows: pa.Table, key: Sequence[str], *, always: bool = False) -> tuple[pa.Table, pa.Table]:
    """First and last rows of each window and key; ``always``: row by row, also where one is both."""
    place = rows.column("_position").combine_chunks()
    order = np.lexsort([place.field(name).to_numpy(zero_copy_only=False) for name in _ORDER])
    rows = rows.take(pa.array(order)).append_column("_at", pa.array(np.arange(len(order))))
    grouped = rows.group_by(["_window", *key], use_threads=False)
    found = grouped.aggregate([("_at", "min"), ("_at", "max"), ("_changes", "sum"), ("_micros", "max")])
    last = rows.take(found.column("_at_max"))
    last = _with(last, {"_changes": found.column("_changes_sum"), "_micros": found.column("_micros_max")})
    before = found if always else found.filter(pc.less(found.column("_at_min"), found.column("_at_max")))
    first = _with(rows.take(before.column("_at_min")), {"_changes": pa.repeat(pa.scalar(0, pa.int64()), len(before))})
    return first.drop_columns(["_at"]), last.drop_columns(["_at"])


def _with(rows: pa.Table, columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows


def _moved(changes: Changes, key: Sequence[str]) -> pa.Array:
    """Which updates changed the key, by the bytes stored."""
    differs = pa.repeat(pa.scalar(False), len(changes))
    for name in key:
        here = pc.not_equal(changes.after.column(name), changes.before.column(name))
        differs = pc.or_(differs, pc.fill_null(here, False))  # only updates have a row before
    return pc.and_(pc.equal(changes.op, UPDATE), differs)


def _old_keys(changes: Changes, place: Place, names: Sequence[str], key: Sequence[str], where: pa.Array) -> pa.Table:
    """Deletes of the keys that updates left; a deleted row's other columns say nothing."""
    image = {
        name: changes.before.column(name).take(where)
        if name in key
        else pa.nulls(len(where), changes.after.schema.field(name).type)
        for name in names
    }
    taken = Changes(
        op=changes.op.take(where),
        offset=changes.offset.take(where),
        row=changes.row.take(where),
        committed_at=changes.committed_at.take(where),
        gtid=None,
        after=changes.after,
        before=changes.before,
        raw=None,
        before_raw=None,
    )
    yes, no = (pa.repeat(pa.scalar(value), len(where)) for value in (True, False))
    return _table(image, taken, place, _Effects(yes, no, 0))


def _table(image: dict[str, pa.Array], changes: Changes, place: Place, effects: _Effects) -> pa.Table:
    length = len(changes)
    constants = [
        pa.repeat(pa.scalar(place.stretch, pa.int32()), length),
        pa.repeat(pa.scalar(place.number, pa.int64()), length),
    ]
    position = pa.StructArray.from_arrays(
        [*constants, changes.offset, changes.row], ["stretch", "number", "offset", "row"]
    )
    added = {
        "_window": pa.repeat(pa.scalar(place.window, pa.int32()), length),
        "_existed": effects.existed,
        "_exists": effects.exists,
        "_position": position,
        "_committed_at": changes.committed_at,
        "_raw": pa.nulls(length, _RAW) if changes.raw is None else changes.raw,
        "_changes": pa.repeat(pa.scalar(effects.counted, pa.int64()), length),
        "_micros": changes.committed_at.cast(pa.int64()),
    }
    return pa.table(image | added)


def _require_keys(changes: Changes, place: Place, key: Sequence[str]) -> None:
    updates = pc.equal(changes.op, UPDATE)
    without_before = len(changes) - (pc.sum(updates).as_py() or 0)
    for name in key:
        after, before = changes.after.column(name), changes.before.column(name)
        if after.null_count or before.null_count > without_before:
            missing = pc.or_(pc.is_null(after), pc.and_(updates, pc.is_null(before)))
            at = changes.offset[pc.index(missing, True).as_py()]
            raise Unsupported(
                f"{place.file}:{at}: column {name}: a value of the primary key is none that the column's type can hold "
                "(a zero date, or bytes that are not text); such keys are not merged"
            )
