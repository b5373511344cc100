"""Completion of changes that lack columns, by the earlier rows of their keys, where every change is a row.

Put here: which rows these are, and how many keys no row ever held whole. Not here: laying rows over each other
(silver/row_overlay.py), or what becomes of the changes (change_task.py, version_merge.py).

A change has what its image omits from the change of its key before it: of the same merge, or of silver, whose rows have
the newest value of each column in a window. A delete has the values that its row had last. What stands before a delete,
or before a statement that emptied the table, is of another row. A change of which a column is in no row before it has
no row in the target, as a key has none in a mirror: it waits in silver, and the target's commit counts such keys. It
ends the version of its key all the same.
Of a change that gave its row another key, the change before it is that of the key until then.

What silver has in the place of older windows, and rows from the server, decide about changes behind them too: these are
decoded again, up to where the target is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.changes.change_extent import Extent
from spark_jobs.engine.changes.version_intervals import ranks_of
from spark_jobs.engine.rows.exact_texts import with_text_changes
from spark_jobs.engine.rows.locate import Keys
from spark_jobs.engine.rows.moved_lookup import old_keys
from spark_jobs.engine.rows.restatement import Restatement, living_rows, touched_rows
from spark_jobs.engine.target.partial_merge import SilverLookup, is_never_whole
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.moved_rows import RowWalk, first_in, points_of
from spark_jobs.silver.positions import FIELDS, STATEMENT_ROW, last_rows_by_key, newest_by_key, since_emptied
from spark_jobs.silver.row_overlay import ABSENT, KeyRuns
from spark_jobs.silver.row_overlay import completed_rows_and_whole_flags as completed_by_key

KEY_NUMBER = "\0key"
"""Column of rows: number of the key of a merge that identifies the row; NULL where the row came from silver."""
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EarlierRows:
    """Source that completes changes without all columns.

    lookup: silver's rows, and how many keys the target lacks since none of theirs was whole. restatement: what silver
    has done since to windows that the target has, where that decides about the number of such keys.
    """

    lookup: SilverLookup
    restatement: Restatement | None = None


@dataclass(frozen=True, slots=True)
class MergedChanges:
    """All changes that a merge takes of some rows.

    rows: with ABSENT and KEY_NUMBER. statements: rows of those that emptied the table. extent: the part of the log.
    keys: what rows are identified by, the present key first.
    """

    rows: pa.Table
    statements: pa.Table
    extent: Extent
    keys: Sequence[tuple[str, ...] | None]

    def of_key(self, number: int) -> "MergedChanges":
        """The changes that are identified by one of the keys, and rows of silver."""
        numbers = self.rows.column(KEY_NUMBER)
        is_wanted = pc.fill_null(pc.equal(numbers, number), True)
        return replace(self, rows=self.rows.filter(is_wanted), keys=self.keys[number : number + 1])


@dataclass(frozen=True, slots=True)
class CompletedChanges:
    """Changes after completion.

    complete: those with all columns. incomplete: those of which a column is in no row before them. never_whole: by how
    many more the keys are that were never whole.
    """

    complete: pa.Table
    incomplete: pa.Table
    never_whole: int = 0


def without_lacks(rows: pa.Table) -> CompletedChanges:
    """Changes that have all columns from the beginning."""
    return CompletedChanges(rows, rows.slice(0, 0))


def completed_changes(
    changes: MergedChanges, earlier: EarlierRows, columns: silver.Columns, within: Callable[[pa.Table], pa.Table]
) -> CompletedChanges:
    """The changes, each with what it lacks from the rows of its key before it.

    within: the rows that are of the task's own keys, of some. Raises TableStopped, LakeError.
    """
    completed = _changes_completed_by_one_key(
        changes if len(changes.keys) == 1 else changes.of_key(0), earlier, columns, within
    )
    # A statement gave the table another key, and stands between rows that are identified by one and by the other.
    parts = [completed]
    for number in range(1, len(changes.keys)):
        by_key = _changes_completed_by_one_key(changes.of_key(number), _uncounted(earlier), columns, within)
        tables = (by_key.complete, by_key.incomplete)
        parts.append(CompletedChanges(*(rows.filter(pc.is_valid(rows.column(KEY_NUMBER))) for rows in tables)))
    complete, incomplete = [part.complete for part in parts], [part.incomplete for part in parts]
    return CompletedChanges(pa.concat_tables(complete), pa.concat_tables(incomplete), completed.never_whole)


def _uncounted(earlier: EarlierRows) -> EarlierRows:
    return EarlierRows(replace(earlier.lookup, never_whole=0))


def _changes_completed_by_one_key(
    changes: MergedChanges, earlier: EarlierRows, columns: silver.Columns, within: Callable[[pa.Table], pa.Table]
) -> CompletedChanges:
    """The changes that one key identifies."""
    lookup, (key,) = earlier.lookup, changes.keys
    if not key:
        _require_whole(changes.rows)
        return without_lacks(changes.rows)
    # What the changes do not say of each other, silver says, which has rows from the server between them too.
    rows, is_whole = changes.rows, pc.is_null(changes.rows.column(ABSENT)).to_numpy()
    if changes.extent.is_all:  # all that silver has is at hand
        rows, is_whole = _laid_over(changes.rows, changes.statements, lookup.floor, columns, key)
    # Any key may be one of those that were never whole.
    lacking = changes.rows if lookup.never_whole else changes.rows.filter(pa.array(~is_whole))
    keys = _distinct(lacking, key, earlier, within)
    never_whole = 0
    if len(keys):
        names = [*columns.types, *ADDED, "_op", ABSENT, "_window_start"]
        silver_rows = living_rows(lookup.origin, lookup.files, Keys(keys, key), names, floor=None)
        older = _as_changes(silver_rows.filter(_is_outside(changes.extent, silver_rows)), changes.rows.schema)
        all_rows = pa.concat_tables([older, changes.rows])
        rows, is_whole = _laid_over(all_rows, changes.statements, lookup.floor, columns, key)
        rows, is_whole = rows.slice(len(older)), is_whole[len(older) :]
        never_whole = _new_never_whole_count(silver_rows, keys, earlier, columns) if key == columns.key else 0
    return CompletedChanges(rows.filter(pa.array(is_whole)), rows.filter(pa.array(~is_whole)), never_whole)


def _require_whole(rows: pa.Table) -> None:
    """Check that rows have all columns after completion. Raises TableStopped."""
    lacking = rows.filter(pc.is_valid(rows.column(ABSENT)))
    if len(lacking):
        position = lacking.column("_position")[0].as_py()
        raise TableStopped(
            f"binlog file {position['number']}, offset {position['offset']}: a row image omits columns, and a "
            "later statement removed the key by which they would be looked up; set mode: mirror for the table"
        )


def _laid_over(
    rows: pa.Table, statements: pa.Table, floor: Position | None, columns: silver.Columns, key: Sequence[str]
) -> tuple[pa.Table, Flags]:
    """Each row with what it lacks from the rows of its key before it, and which are whole then."""
    if not rows.column(ABSENT).null_count < len(rows):
        return rows, np.ones(len(rows), np.bool_)
    rows = _with_old_rows(rows, floor, columns, key)
    runs = KeyRuns.of(rows, key, silver.is_delete(rows.column("_op")), _periods(rows, statements, floor))
    return completed_by_key(rows, runs, [*columns.types])


def _with_old_rows(rows: pa.Table, floor: Position | None, columns: silver.Columns, key: Sequence[str]) -> pa.Table:
    """Each row, those of changes that gave them another key with what the rows of these keys tell."""
    is_change = pc.is_valid(rows.column(KEY_NUMBER))
    is_moved = np.asarray(pc.and_(pc.is_valid(rows.column(silver.MOVED_FROM)), is_change), np.bool_)
    if not is_moved.any():
        return rows
    # The order of the log; a change of a key is two rows at one position.
    op, position = rows.column("_op"), rows.column("_position").combine_chunks()
    fields = [np.asarray(position.field(name), np.int64) for name in FIELDS]
    order, starts = points_of(fields)
    emptied = list[int]()
    if floor is not None:
        emptied.append(first_in(order, np.asarray(since_emptied(rows.column("_position"), floor), np.bool_)))
    is_gone = np.asarray(silver.is_delete(op), np.bool_)
    is_from_server = np.asarray(silver.is_from_server(op), np.bool_) & ~is_gone
    is_new = np.ones(len(rows), np.bool_)
    walk = RowWalk(rows, key, [*columns.types], order, starts, is_gone, is_moved, is_from_server, is_new, emptied)
    return walk.completed_rows()


def _periods(rows: pa.Table, statements: pa.Table, floor: Position | None) -> NDArray[np.int64]:
    """Number of statements before each row that emptied the table; the last one is at the floor."""
    positions = [rows.column("_position"), statements.column("_position")]
    if floor is not None:
        cells = dict(zip(FIELDS, (*floor.order, STATEMENT_ROW), strict=True))
        positions.append(pa.chunked_array([pa.array([cells], positions[0].type)]))
    chunks = [chunk for column in positions for chunk in column.chunks]
    ranks = ranks_of(pa.chunked_array(chunks, positions[0].type).combine_chunks())
    return np.searchsorted(np.sort(ranks[len(rows) :]), ranks[: len(rows)], side="right").astype(np.int64)


def _distinct(
    rows: pa.Table, key: Sequence[str], earlier: EarlierRows, within: Callable[[pa.Table], pa.Table]
) -> pa.Table:
    """The keys of rows, and those that they had before, each once.

    And those of rows that silver has no more, where keys never whole are counted.
    """
    restatement = earlier.restatement
    names = [*key, "_raw"]
    parts = [rows.select(names)]
    parts.append(old_keys(rows, key).cast(parts[0].schema))
    if restatement:
        removed_rows = touched_rows(earlier.lookup.origin, restatement.removed, names, restatement, after=None)
        parts += [
            within(with_text_changes(removed, restatement.exact_texts)).cast(parts[0].schema)
            for removed in removed_rows
        ]
    return last_rows_by_key(pa.concat_tables(parts), key)


def _is_outside(extent: Extent, silver_rows: pa.Table) -> pa.Array:
    """Rows of silver that are not of windows whose changes are at hand."""
    op = silver_rows.column("_op")
    is_of_window = pc.invert(pc.or_(silver.is_from_server(op), pc.equal(op, silver.Op.RENAME)))
    return pc.invert(pc.and_(is_of_window, extent.holds(silver_rows.column("_window_start"))))


def _as_changes(silver_rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of silver with the columns of changes."""
    columns = [
        silver_rows.column(field.name).cast(field.type)
        if field.name in silver_rows.column_names
        else pa.nulls(len(silver_rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema)


def _new_never_whole_count(silver_rows: pa.Table, keys: pa.Table, earlier: EarlierRows, columns: silver.Columns) -> int:
    """Growth of the number of keys of which a column is in no row, by all of silver; of others the target knows."""
    lookup, restatement = earlier.lookup, earlier.restatement
    counted = lookup.counted(silver_rows)
    count = int(is_never_whole(newest_by_key(counted, columns.key)).sum())
    if not lookup.never_whole:
        return count
    if restatement is None:
        return count - lookup.count_before(counted)
    before = lookup.rows(keys, [*columns.types], restatement.before, restatement.exact)
    return count - int(is_never_whole(newest_by_key(before, columns.key)).sum())
