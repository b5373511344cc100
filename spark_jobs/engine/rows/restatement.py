"""Restatement of keys whose rows in silver were replaced, removed or read from the server, by all of silver.

Put here: which keys these are, and the newest row of each wherever in silver it stands. Not here: which windows were
replayed (pipeline/backfill/), or what the target does with the states (engine/merge/downstream_task.py).

A live merge looks at new windows alone, since these are newer than all before. A window that was replayed may be
older than what the target has of a key, and a row that it had may be gone. So the keys of rows that came and of rows
that went are located in all of silver's files, which costs what it costs in the target: it follows the keys.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.rows import moved_lookup
from spark_jobs.engine.rows.exact_texts import ExactTextChange, with_text_changes
from spark_jobs.engine.rows.locate import Keys, hits
from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import moved_from_codec
from spark_jobs.silver import table as silver
from spark_jobs.silver.positions import (
    PositionKey,
    at_or_after,
    last_rows_by_key,
    may_overlap,
    newest_by_key,
    since_emptied,
    within,
)


@dataclass(frozen=True, slots=True)
class Restatement:
    """Changes of silver other than by windows appended, since the version that the target has.

    removed: data files, or earlier deletion vectors of them, that silver has not got any more. windows: what was done
    again, in order and joined. is_from_server: whether rows were loaded or mended. files: all of silver's data files.
    before: those that it had then. exact: what statements have done since to exact texts, and to names of columns that
    rows lack.
    """

    removed: tuple[DataFile, ...]
    windows: tuple[Range, ...]
    is_from_server: bool
    files: tuple[DataFile, ...]
    before: tuple[DataFile, ...] = ()
    exact: tuple[ExactTextChange, ...] = ()

    @property
    def exact_texts(self) -> list[ExactTextChange]:
        """The changes of ``exact`` that are about exact texts alone."""
        return [replace(change, absent={}) for change in self.exact]


@dataclass(frozen=True, slots=True)
class StatementEffects:
    """Effects of statements on rows of silver that are read all the same.

    emptied: where those stand that emptied the table. exact: changes of exact texts, and of names of columns
    that rows lack, since the files were there.
    """

    emptied: Sequence[PositionKey] = ()
    exact: Sequence[ExactTextChange] = ()


@dataclass(frozen=True, slots=True)
class EmptyingStatements:
    """Statements that emptied a table, for whoever asks for the state of keys.

    floor: where the last one stands; rows before it do not count. orders: where those stand before which rows count and
    are ended, which ``ended`` says of rows.
    """

    floor: Position | None
    orders: Sequence[PositionKey]
    ended: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class SilverSource:
    """A silver table as a task reads it. key: the columns that its rows are identified by."""

    path: str
    schema: TableSchema
    key: tuple[str, ...]


def files_overlapping(files: Sequence[DataFile], schema: TableSchema, windows: Sequence[Range]) -> list[DataFile]:
    """The silver files that may have rows of some windows."""
    ranges = joined(windows)
    return [file for file in files if may_overlap(file, schema, "_window_start", ranges)]


def touched_keys(
    origin: SilverSource,
    restatement: Restatement,
    added: Sequence[DataFile],
    *,
    after: Position | None,
    within: Callable[[pa.Table], pa.Table],
) -> pa.Table:
    """Each key once that a row came of or went of.

    Args:
        origin: the silver table.
        restatement: what of it changed.
        added: its files that the target has not got.
        after: the target's position; windows after it are new.
        within: the keys of the task's own range, of some.

    Raises LakeError.
    """
    names = [*origin.key, "_raw"]
    no_rows = pa.schema([origin.schema.column(name).arrow(physical=False) for name in names]).empty_table()
    removed = touched_rows(origin, restatement.removed, names, restatement, after=None)
    added_keys = touched_rows(origin, added, names, restatement, after=after)
    # Removed files have exact texts under the names that columns had then.
    parts = chain((with_text_changes(rows, restatement.exact_texts) for rows in removed), added_keys)
    if silver.MOVED_FROM not in origin.schema.names:
        return last_rows_by_key(pa.concat_tables([no_rows, *map(within, parts)]), origin.key)
    # A key of any range may be that which a row of another one had before.
    all_keys = last_rows_by_key(pa.concat_tables([no_rows, *parts]), origin.key)
    return within(with_moved(origin, restatement, all_keys))


def newest_states(
    origin: SilverSource,
    restatement: Restatement,
    touched: pa.Table,
    names: Sequence[str],
    *,
    emptying: EmptyingStatements,
) -> pa.Table:
    """One row of each touched key: the newest that silver has, or a delete where it has none.

    Args:
        origin: the silver table.
        restatement: what of it changed.
        touched: as ``touched_keys`` gives them.
        names: the columns of the result; ``_op`` and ``_position`` are among them.
        emptying: the statements that emptied the table.

    Raises LakeError.
    """
    if not len(touched):
        no_rows = pa.schema([origin.schema.column(name).arrow(physical=False) for name in names]).empty_table()
        return newest_by_key(no_rows, origin.key)
    # A key without a row is deleted downstream.
    keys = Keys(touched, origin.key)
    effects = StatementEffects(emptying.orders)
    rows = living_rows(origin, restatement.files, keys, names, emptying.floor, statements=effects)
    newest_rows = newest_by_key(emptying.ended(rows), origin.key)
    return pa.concat_tables([newest_rows, _deletes(touched, newest_rows, keys, newest_rows.schema)])


def living_rows(
    origin: SilverSource,
    files: Sequence[DataFile],
    keys: Keys,
    names: Sequence[str],
    floor: Position | None,
    *,
    statements: StatementEffects = StatementEffects(),
) -> pa.Table:
    """Every row that files of silver have of some keys, but markers of TRUNCATE and rows before the floor.

    Where rows may lack columns (ABSENT among the names), those that came from other keys have what is known of the rows
    of these; what such a row still lacks its ``_moved_from`` tells, which is one more column.

    Args:
        origin: the silver table.
        files: of it.
        keys: the wanted keys.
        names: the columns of the result.
        floor: rows before it are left out.
        statements: what they have done to the rows.

    Raises LakeError.
    """
    if silver.ABSENT not in names or silver.MOVED_FROM not in origin.schema.names:
        return with_text_changes(_living_rows(origin, files, keys, names, floor), statements.exact)
    reading = [*dict.fromkeys([*names, *moved_lookup.NEEDED])]
    of_source = [name for name in names if name not in silver.ADDED and name not in silver.LACKING]

    def read(wanted: pa.Table) -> pa.Table:
        own_keys = Keys(wanted, origin.key, exact=statements.exact)
        return with_text_changes(_living_rows(origin, files, own_keys, reading, None), statements.exact)

    rows = with_text_changes(_living_rows(origin, files, keys, reading, floor), statements.exact)
    emptied = [*statements.emptied, *([floor.order] if floor else [])]
    rows = moved_lookup.complete_moved_rows(rows, origin.key, of_source, read, emptied=emptied)
    return rows.select([*dict.fromkeys([*names, silver.MOVED_FROM])])


def _living_rows(
    origin: SilverSource, files: Sequence[DataFile], keys: Keys, names: Sequence[str], floor: Position | None
) -> pa.Table:
    alive = [pa.schema([origin.schema.column(name).arrow(physical=False) for name in names]).empty_table()]
    for hit in hits(origin.path, files, origin.schema, keys):
        rows = data_files.read_rows(origin.path, hit.file, hit.rows, names, origin.schema)
        is_kept = pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)
        if floor:
            is_kept = pc.and_(is_kept, since_emptied(rows.column("_position"), floor))
        alive.append(rows.filter(is_kept))
    return pa.concat_tables(alive)


def with_moved(origin: SilverSource, restatement: Restatement, touched: pa.Table) -> pa.Table:
    """Touched keys, and those of rows that are completed by rows of such keys. Raises LakeError."""
    if silver.MOVED_FROM not in origin.schema.names or not len(touched):
        return touched
    moved_rows = [moved for file in restatement.files if (moved := _moved_rows(origin, file)) is not None]
    if not moved_rows:
        return touched
    # Keys whose rows came from touched ones are touched, and so on, until none is added.
    rows = pa.concat_tables(moved_rows)
    old_keys, numbers = moved_from_codec.keys_from_texts(rows.column(silver.MOVED_FROM), origin.key, rows.schema)
    rows = rows.take(numbers).select(touched.column_names).cast(touched.schema)
    is_left = np.ones(len(rows), np.bool_)
    while True:
        is_next = np.zeros(len(rows), np.bool_)
        is_next[Keys(touched, origin.key).ordinals_of(old_keys)[0]] = True
        is_next &= is_left
        if not is_next.any():
            return touched
        is_left &= ~is_next
        touched = last_rows_by_key(pa.concat_tables([touched, rows.filter(pa.array(is_next))]), origin.key)


def _moved_rows(origin: SilverSource, file: DataFile) -> pa.Table | None:
    """A file's rows that came from other keys without all columns: their keys, and those that they had."""
    if not file.may_have_values(origin.schema, silver.MOVED_FROM):
        return None
    rows = data_files.read_living(origin.path, file, [*origin.key, "_raw", silver.MOVED_FROM], origin.schema)
    return rows.filter(rows.column(silver.MOVED_FROM).is_valid())


def touched_rows(
    origin: SilverSource,
    files: Sequence[DataFile],
    names: Sequence[str],
    restatement: Restatement,
    *,
    after: Position | None,
) -> Iterator[pa.Table]:
    """The keys of rows in windows that were replayed, of rows from the server, and of rows behind a position."""
    for file in files:
        rows = data_files.read_columns(origin.path, file, [*names, "_op", "_window_start"], origin.schema)
        op, start = rows.column("_op"), rows.column("_window_start")
        is_from_server = silver.is_from_server(op)
        is_touched = within(start, restatement.windows)
        if after:
            is_touched = pc.or_(is_touched, at_or_after(start, after))
        is_touched = pc.fill_null(pc.and_not(is_touched, is_from_server), False)  # these are in no window
        if restatement.is_from_server:
            is_touched = pc.or_(is_touched, is_from_server)
        is_touched = pc.and_(is_touched, pc.not_equal(op, silver.Op.TRUNCATE))
        if file.deletion_vector is not None:
            living = deletion_vectors.living_rows_mask(origin.path, file.deletion_vector, len(rows))
            is_touched = pc.and_(is_touched, pa.array(living))
        yield rows.select(list(names)).filter(is_touched)


def _deletes(touched: pa.Table, present: pa.Table, keys: Keys, schema: pa.Schema) -> pa.Table:
    """A delete of each touched key that has no row; of other columns it says nothing."""
    lacking = np.ones(len(touched), np.bool_)
    if len(present):
        lacking[keys.ordinals_of(present)[1]] = False
    rows = touched.filter(pa.array(lacking))
    cells: dict[str, Any] = {name: rows.column(name) for name in rows.column_names}
    cells["_op"] = pa.repeat(pa.scalar(str(silver.Op.DELETE)), len(rows))
    columns = [cells[item.name] if item.name in cells else pa.nulls(len(rows), item.type) for item in schema]
    return pa.table(columns, schema=schema)


def equal_rows_mask(states_of: pa.Table, target_rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Row by row, whether two tables with the same columns have the same values; NULL is a value."""
    is_same = np.ones(len(target_rows), np.bool_)
    for name in target_rows.column_names:
        is_same &= _is_same(states_of.column(name).combine_chunks(), target_rows.column(name).combine_chunks())
    return is_same


def _is_same(left_values: pa.Array, right_values: pa.Array) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    both_null = pc.and_(pc.is_null(left_values), pc.is_null(right_values))
    if pa.types.is_struct(left_values.type):
        is_same = pc.equal(pc.is_null(left_values), pc.is_null(right_values)).to_numpy(zero_copy_only=False)
        for item in left_values.type:
            is_same = is_same & _is_same(
                pc.struct_field(left_values, item.name), pc.struct_field(right_values, item.name)
            )
        return np.asarray(is_same, np.bool_)
    if pa.types.is_nested(left_values.type):
        is_same = both_null.to_numpy(zero_copy_only=False).copy()
        for at in np.flatnonzero(~is_same):
            is_same[at] = left_values[at].as_py() == right_values[at].as_py()
        return np.asarray(is_same, np.bool_)
    equal = pc.fill_null(pc.equal(left_values, right_values), False)
    return np.asarray(pc.or_(equal, both_null).to_numpy(zero_copy_only=False), np.bool_)
