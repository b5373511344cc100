"""Completion of a merge's rows that lack columns, by the target's rows or by all of silver.

Put here: that, and how many keys no row ever held whole. Not here: laying rows over each other (silver/row_overlay.py),
or what the target does with the rows (engine/merge/downstream_task.py).

A row of the target is whole. So what a new row of its key lacks is what that row has. A key that is not in the target
is looked for in all of silver: its older rows may hold the rest, where none was whole by itself. If they do not, it has
no row downstream, and waits in silver. The commits of a target count such keys: a merge says by how many more, or
fewer, they are. While there are any, each new key that the target does not have may be one of them.

Where deleted rows stay, deletes are completed as other rows are: their images have the key and little else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.rows import moved_lookup
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.locate import Hit, Keys
from spark_jobs.engine.rows.restatement import Restatement, SilverSource, StatementEffects, living_rows
from spark_jobs.engine.target.target_files import RowChanges
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.positions import GONE, PositionKey, at_or_after, newest_by_key, since_emptied
from spark_jobs.silver.row_overlay import ABSENT, ENDED

_ORDINAL = "\0ordinal"
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SilverLookup:
    """Reads of a merge in silver for keys that the target does not have.

    files: all of silver's files, none where all of them are new. after: the target's position, whose windows are older.
    floor: where the last statement stands that emptied the table, unless the merge marks its rows as deleted.
    never_whole: keys that the target lacks because no row of theirs was whole. marked: where the statements stand whose
    rows the merge marks as deleted.
    """

    origin: SilverSource
    files: tuple[DataFile, ...]
    after: Position | None
    floor: Position | None
    never_whole: int = 0
    marked: Sequence[PositionKey] = ()

    @property
    def emptied(self) -> list[PositionKey]:
        """The positions of statements that emptied the table."""
        return [*self.marked, *([self.floor.order] if self.floor else [])]

    def rows(
        self,
        keys: pa.Table,
        types: Sequence[str],
        files: Sequence[DataFile],
        exact: Sequence[ExactTextChange] = (),
    ) -> pa.Table:
        """Silver's rows of some keys, with these columns of the source's; those before the floor as deletes.

        exact: changes since the files were there.
        """
        names = [*types, *ADDED, "_op", ABSENT, "_window_start"]
        wanted = Keys(keys, self.origin.key, exact=exact)
        effects = StatementEffects(self.emptied, exact)
        return self.counted(living_rows(self.origin, files, wanted, names, None, statements=effects))

    def with_moved(self, rows: pa.Table, types: Sequence[str]) -> pa.Table:
        """New rows of silver, those that came from other keys with what silver knows of the rows of these.

        rows: with the source's columns, whose names ``types`` has, and ``moved_lookup.NEEDED``. Raises LakeError.
        """

        def read(keys: pa.Table) -> pa.Table:
            wanted, effects = Keys(keys, self.origin.key), StatementEffects(self.emptied)
            return living_rows(self.origin, self.files, wanted, rows.column_names, None, statements=effects)

        return moved_lookup.complete_moved_rows(rows, self.origin.key, types, read, emptied=self.emptied)

    def counted(self, rows: pa.Table) -> pa.Table:
        """Rows of silver, those before the floor as deletes."""
        if not self.floor:
            return rows
        is_counted = since_emptied(rows.column("_position"), self.floor)
        operations = pc.if_else(is_counted, rows.column("_op"), str(silver.Op.DELETE))
        return rows.set_column(rows.schema.get_field_index("_op"), "_op", operations)

    def count_before(self, rows: pa.Table) -> int:
        """Number of keys of rows of silver that were never whole by those that the target has."""
        if self.after is None:
            return 0
        is_window = at_or_after(rows.column("_window_start"), self.after)
        is_new = pc.and_not(is_window, silver.is_from_server(rows.column("_op")))  # these are in no window
        is_older = pc.invert(pc.fill_null(is_new, False))
        return int(is_never_whole(newest_by_key(rows.filter(is_older), self.origin.key)).sum())


@dataclass(frozen=True, slots=True)
class TargetReader:
    """Reader of a merge for the rows of its target.

    row_changes: what statements of the merge do to them. keeps_deleted: whether rows that were deleted stay.
    """

    path: str
    schema: TableSchema
    row_changes: RowChanges
    keeps_deleted: bool

    def rows(self, hit: Hit, names: Sequence[str]) -> pa.Table:
        """The rows as silver has them: columns of these names, and ``_op``."""
        stored = [*names, *(["_deleted"] if self.keeps_deleted else [])]
        rows = data_files.read_rows(self.path, hit.file, hit.rows, stored, self.schema)
        rows = self.row_changes.columns_changed(rows)
        insert, delete = (pa.scalar(str(op)) for op in (silver.Op.INSERT, silver.Op.DELETE))
        op = pc.if_else(rows.column("_deleted"), delete, insert) if self.keeps_deleted else pa.repeat(insert, len(rows))
        return self.row_changes.truncations.ended(rows.select(names).append_column("_op", op))


def is_never_whole(rows: pa.Table) -> Flags:
    """Mask of the rows, one a key, of keys that exist and of which a column is in no row."""
    is_gone = pc.is_in(rows.column("_op"), GONE)
    return np.asarray(pc.and_not(pc.is_valid(rows.column(ABSENT)), is_gone).to_numpy(), np.bool_)


def _without_lacking(rows: pa.Table) -> pa.Table:
    """The rows with deletes, at no position, of keys of which a column is in no row: they have none in the target."""
    lacks = pc.is_valid(rows.column(ABSENT))
    operations = pc.if_else(lacks, pa.scalar(str(silver.Op.DELETE)), rows.column("_op"))
    indexes = rows.column("_position")
    rows = rows.set_column(rows.schema.get_field_index("_op"), "_op", operations)
    indexes = pc.if_else(lacks, pa.scalar(None, indexes.type), indexes)
    return rows.set_column(rows.schema.get_field_index("_position"), "_position", indexes)


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """New rows of a merge, one a key, and what of them is in the target.

    rows: with the target's columns, ABSENT and ENDED. silver_rows: the same as silver has them. replaced: rows of the
    target that they replace. is_present: which keys are there. is_older: which rows nothing is written of, since the
    target has a newer one.
    """

    rows: pa.Table
    silver_rows: pa.Table
    replaced: Sequence[Hit]
    is_present: Flags
    is_older: Flags

    def rows_with_target_values(self, target: TargetReader, names: Sequence[str]) -> pa.Table:
        """The rows with what they lack from those that they replace. names: the source's columns."""
        lacks = _lacks(self.rows, target.keeps_deleted) & ~_flags(self.rows.column(ENDED))
        numbered = self.rows.append_column(_ORDINAL, pa.array(np.arange(len(self.rows)))).drop_columns([ENDED])
        older_rows = []
        for hit in self.replaced:
            is_lacking = lacks[hit.keys]
            if is_lacking.any():
                lacking_hit = Hit(hit.file, hit.rows[is_lacking], hit.keys[is_lacking])
                older_rows.append(_as_silver(target.rows(lacking_hit, [*names, *ADDED]), numbered, lacking_hit.keys))
        if not older_rows:
            return self.rows
        # A row of the target and one of silver each.
        older = pa.concat_tables(older_rows)
        rows_of_both = pa.concat_tables([older, numbered.take(older.column(_ORDINAL).combine_chunks())])
        completed_rows = newest_by_key(rows_of_both, [_ORDINAL])
        return replaced_rows(self.rows, completed_rows.column(_ORDINAL).to_numpy(), completed_rows)


def rows_and_never_whole_count(
    located: LocatedRows,
    lookup: SilverLookup,
    target: TargetReader,
    columns: silver.Columns,
    as_stored: Callable[[pa.Table], pa.Table],
) -> tuple[pa.Table, int]:
    """The new rows, whole or as deletes, and by how many more the keys are that were never whole.

    as_stored: gives rows of silver the target's columns. Raises LakeError.
    """
    # What is in the target is completed there, the rest by all of silver.
    rows = located.rows_with_target_values(target, [*columns.types])
    is_open = _lacks(rows, target.keeps_deleted) & ~_flags(rows.column(ENDED)) | (lookup.never_whole > 0)
    open_keys = np.flatnonzero(is_open & ~located.is_present)
    count_before = 0
    if lookup.after is not None and len(open_keys):
        keys = located.silver_rows.take(pa.array(open_keys))
        stored_rows = lookup.rows(keys, [*columns.types], lookup.files)
        states = newest_by_key(target.row_changes.truncations.ended(stored_rows), columns.key)
        numbers, ordinals = Keys(keys, columns.key).ordinals_of(states)
        rows = replaced_rows(rows, open_keys[ordinals], as_stored(states.take(pa.array(numbers))))
        count_before = lookup.count_before(stored_rows) if lookup.never_whole else 0
    # What is still not whole has no row.
    never_whole = int((is_never_whole(rows) & ~located.is_older).sum())
    return _without_lacking(rows), never_whole - count_before


def restated_rows_and_never_whole_count(
    states: pa.Table, restatement: Restatement, lookup: SilverLookup, types: Sequence[str]
) -> tuple[pa.Table, int]:
    """States of keys by all of silver, whole or as deletes, and by how many more the keys are that were never whole.

    Raises LakeError.
    """
    never_whole, count_before = int(is_never_whole(states).sum()), 0
    if lookup.never_whole and len(states):
        rows_before = lookup.rows(states, types, restatement.before, restatement.exact)
        count_before = int(is_never_whole(newest_by_key(rows_before, lookup.origin.key)).sum())
    return _without_lacking(states), never_whole - count_before


def _lacks(rows: pa.Table, keeps_deleted: bool) -> Flags:
    """Mask of the rows, one a key, that are to be completed."""
    if keeps_deleted:
        return np.asarray(pc.is_valid(rows.column(ABSENT)).to_numpy(), np.bool_)
    return is_never_whole(rows)


def _as_silver(target_rows: pa.Table, like: pa.Table, ordinals: NDArray[np.int64]) -> pa.Table:
    """Rows of a target with all columns of rows of silver, and their ordinals; they are whole."""
    cells = {name: target_rows.column(name) for name in target_rows.column_names}
    cells |= {_ORDINAL: pa.array(ordinals)}
    columns = [
        cells[field.name].cast(field.type) if field.name in cells else pa.nulls(len(target_rows), field.type)
        for field in like.schema
    ]
    return pa.table(columns, like.schema)


def replaced_rows(rows: pa.Table, ordinals: NDArray[np.int64], new_rows: pa.Table) -> pa.Table:
    """Rows with new ones in the place of some. ordinals: of which rows."""
    numbers = np.arange(len(rows))
    numbers[ordinals] = len(rows) + np.arange(len(ordinals))
    return pa.concat_tables([rows, new_rows.select(rows.column_names).cast(rows.schema)]).take(pa.array(numbers))


def _flags(values: pa.ChunkedArray) -> Flags:
    return np.asarray(pc.fill_null(values, False).to_numpy(), np.bool_)
