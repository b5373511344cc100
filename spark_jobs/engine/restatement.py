"""Keys whose rows in silver were replaced, removed or loaded: their state by all of silver.

Put here: which keys these are, and the newest row of each wherever in silver it stands. Not here: which windows were
done again (pipeline/backfill.py), or what the target does with the states (downstream_task.py).

A live merge looks at new windows alone, since these are newer than all before. A window that was done again may be
older than what the target has of a key, and a row that it had may be gone. So the keys of rows that came and of rows
that went are located in all of silver's files, which costs what it costs in the target: it follows the keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.locate import Keys, Numbers, hits
from spark_jobs.engine.positions import at_or_after, bounds_of, newest
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import identity

_AT = "\0at"


@dataclass(frozen=True, slots=True)
class Restatement:
    """What of silver changed other than by windows appended, since the version that the target has.

    removed: data files, or earlier deletion vectors of them, that silver has not got any more. windows: what was done
    again. is_loaded: whether rows were loaded. files: all of silver's data files.
    """

    removed: tuple[DataFile, ...]
    windows: tuple[Range, ...]
    is_loaded: bool
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """A silver table as a task reads it. key: the columns that its rows are told apart by."""

    path: str
    schema: TableSchema
    key: tuple[str, ...]


def overlapping(files: Sequence[DataFile], schema: TableSchema, windows: Sequence[Range]) -> list[DataFile]:
    """The silver files that may have rows of some windows."""
    return [file for file in files if any(_may_overlap(file, schema, window) for window in windows)]


def _may_overlap(file: DataFile, schema: TableSchema, window: Range) -> bool:
    least, most = bounds_of(file, schema, "_window_start")
    return (most is None or most >= window.start.order) and (least is None or least < window.stop.order)


def states(
    origin: Origin,
    restatement: Restatement,
    added: Sequence[DataFile],
    names: Sequence[str],
    *,
    after: Position | None,
    floor: Position | None,
) -> pa.Table:
    """One row of each key that a row came of or went of: the newest that silver has, or a delete where it has none.

    Args:
        origin: the silver table.
        restatement: what of it changed.
        added: its files that the target has not got.
        names: the columns of the result; ``_op`` and ``_position`` are among them.
        after: the target's position; windows behind it are new.
        floor: where the last statement stands that emptied the table; rows before it do not count.

    Raises LakeError.
    """
    keys_of = [*origin.key, "_raw"]
    parts = [
        *_touched(origin, restatement.removed, keys_of, restatement, after=None),
        *_touched(origin, added, keys_of, restatement, after=after),
    ]
    nothing = pa.schema([origin.schema.column(name).arrow(physical=False) for name in names]).empty_table()
    touched = _distinct(pa.concat_tables([nothing.select(keys_of), *parts]), origin.key)
    if not len(touched):
        return nothing
    keys, alive = Keys(touched, origin.key), [nothing]
    for hit in hits(origin.path, restatement.files, origin.schema, keys):
        rows = _rows(origin, hit.file, hit.rows, names)
        kept = pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)
        if floor:
            kept = pc.and_(kept, at_or_after(rows.column("_position"), floor))
        alive.append(rows.filter(kept))
    newest_rows = newest(pa.concat_tables(alive), origin.key)
    return pa.concat_tables([newest_rows, _deletes(touched, newest_rows, keys, nothing.schema)])


def _touched(
    origin: Origin, files: Sequence[DataFile], names: Sequence[str], restatement: Restatement, *, after: Position | None
) -> Iterator[pa.Table]:
    """The keys of rows in windows that were done again, of loaded rows, and of rows behind a position."""
    for file in files:
        rows = data_files.read_columns(origin.path, file, [*names, "_op", "_window_start"], origin.schema)
        op, start = rows.column("_op"), rows.column("_window_start")
        is_loaded = pc.equal(op, silver.Op.LOAD)
        wanted = pa.array(np.zeros(len(rows), np.bool_))
        for window in restatement.windows:
            wanted = pc.or_(wanted, pc.and_not(at_or_after(start, window.start), at_or_after(start, window.stop)))
        if after:
            wanted = pc.or_(wanted, at_or_after(start, after))
        wanted = pc.fill_null(pc.and_not(wanted, is_loaded), False)  # loaded rows are in no window
        if restatement.is_loaded:
            wanted = pc.or_(wanted, is_loaded)
        wanted = pc.and_(wanted, pc.not_equal(op, silver.Op.TRUNCATE))
        if file.deletion_vector is not None:
            living = deletion_vectors.living(origin.path, file.deletion_vector, len(rows))
            wanted = pc.and_(wanted, pa.array(living))
        yield rows.select(list(names)).filter(wanted)


def _distinct(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """A row of each key."""
    if not len(rows):
        return rows
    columns = identity(rows, key)
    names = [f"\0{at}" for at in range(len(columns))]
    places = pa.table([*columns, pa.array(np.arange(len(rows)))], names=[*names, _AT])
    first = places.group_by(names, use_threads=False).aggregate([(_AT, "min")])
    return rows.take(first.column(f"{_AT}_min"))


def _rows(origin: Origin, file: DataFile, numbers: Numbers, names: Sequence[str]) -> pa.Table:
    """Rows of a file by number, of which only the row groups that have some are read."""
    ordered = np.sort(numbers)
    begin, parts = 0, list[pa.Table]()
    with data_files.reading(origin.path, file):
        opened = data_files.open_file(origin.path, file)
        for group in range(opened.num_row_groups):
            end = begin + opened.metadata.row_group(group).num_rows
            own = ordered[np.searchsorted(ordered, begin) : np.searchsorted(ordered, end)]
            if len(own):
                rows = data_files.read_row_group(opened, group, names, origin.schema)
                parts.append(rows.take(pa.array(own - begin)))
            begin = end
    return pa.concat_tables(parts)


def _deletes(touched: pa.Table, present: pa.Table, keys: Keys, schema: pa.Schema) -> pa.Table:
    """A delete of each touched key that has no row; of other columns it says nothing."""
    lacking = np.ones(len(touched), np.bool_)
    if len(present):
        lacking[keys.found(present)[1]] = False
    rows = touched.filter(pa.array(lacking))
    cells: dict[str, Any] = {name: rows.column(name) for name in rows.column_names}
    cells["_op"] = pa.repeat(pa.scalar(str(silver.Op.DELETE)), len(rows))
    columns = [cells[item.name] if item.name in cells else pa.nulls(len(rows), item.type) for item in schema]
    return pa.table(columns, schema=schema)


def unchanged(states_of: pa.Table, held: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Row by row, whether two tables with the same columns have the same values; NULL is a value."""
    same = np.ones(len(held), np.bool_)
    for name in held.column_names:
        same &= _same(states_of.column(name).combine_chunks(), held.column(name).combine_chunks())
    return same


def _same(one: pa.Array, other: pa.Array) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    if pa.types.is_struct(one.type):
        same = pc.equal(pc.is_null(one), pc.is_null(other)).to_numpy(zero_copy_only=False)
        for item in one.type:
            same = same & _same(pc.struct_field(one, item.name), pc.struct_field(other, item.name))
        return np.asarray(same, np.bool_)
    if pa.types.is_nested(one.type):
        same = both_null.to_numpy(zero_copy_only=False).copy()
        for at in np.flatnonzero(~same):
            same[at] = one[at].as_py() == other[at].as_py()
        return np.asarray(same, np.bool_)
    equal = pc.fill_null(pc.equal(one, other), False)
    return np.asarray(pc.or_(equal, both_null).to_numpy(zero_copy_only=False), np.bool_)
