"""Files of a merge's target: new ones, and those that are written again without some rows or with filled columns.

Put here: which files go and come for rows that die or get values. Not here: which rows these are
(engine/merge/downstream_task.py, engine/merge/keyless_merge.py, engine/changes/change_task.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.rows.exact_texts import ExactTextChange, with_text_changes
from spark_jobs.engine.rows.fills import ColumnFill, with_fills
from spark_jobs.engine.rows.locate import Numbers
from spark_jobs.engine.rows.restatement import equal_rows_mask
from spark_jobs.engine.target import feed
from spark_jobs.engine.target.deleted_rows import Truncations
from spark_jobs.engine.target.target_unit import TargetUnit

_NO_ROWS: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Effects of statements on rows of the target that stay: values of columns, exact texts, soft deletes."""

    fills: tuple[ColumnFill, ...] = ()
    exact: tuple[ExactTextChange, ...] = ()
    truncations: Truncations = field(default=Truncations())

    def may_change(self, file: DataFile, schema: TableSchema) -> bool:
        """True if they are about rows of a file, by its statistics."""
        has_exact = bool(self.exact) and file.may_have_values(schema, "_raw")
        is_filled = bool(self.fills) or any(change.is_of_all_rows for change in self.exact)
        return is_filled or has_exact or self.truncations.may_delete(file, schema)

    def columns_changed(self, rows: pa.Table) -> pa.Table:
        """Rows with filled columns and changed exact texts."""
        return with_text_changes(with_fills(rows, self.fills), self.exact)

    def applied(self, rows: pa.Table) -> pa.Table:
        """Rows of the target as they are after the statements."""
        rows = self.columns_changed(rows)
        return self.truncations.with_deletions(rows) if self.truncations.rows else rows


def as_bytes(dead: Mapping[str, Numbers]) -> dict[str, bytes]:
    """Row numbers by file as ``MergedFiles`` has them; without files that have none."""
    return {path: numbers.astype(np.int64).tobytes() for path, numbers in dead.items() if len(numbers)}


@dataclass(frozen=True, slots=True)
class WrittenAgain:
    """Files of a target that go, those in their place, and files of changes for its feed.

    deleted: how many rows statements marked as deleted.
    """

    removed: tuple[str, ...] = ()
    added: tuple[DataFile, ...] = ()
    changes: tuple[DataFile, ...] = ()
    deleted: int = 0


def written_again(
    unit: TargetUnit, dead: dict[str, Numbers], row_changes: RowChanges, files: Sequence[DataFile] | None = None
) -> WrittenAgain:
    """The files that go where a unit rewrites files, and those in their place, without dead rows.

    dead: row numbers by file; loses those of files that are written again. files: of the target's, all without it.
    """
    removed, added, feed_files, deleted = list[str](), list[DataFile](), list[DataFile](), 0
    for file in unit.files if files is None else files:
        may_change = row_changes.may_change(file, unit.schema)
        if not may_change and not (unit.rewrites and len(dead.get(file.path, ()))):
            continue
        # The rows that stay, as they were and as they are.
        before = _living(unit, file, dead.pop(file.path, _NO_ROWS))
        after = row_changes.applied(before)
        removed.append(file.path)
        added += write_rows(unit, after)
        if row_changes.truncations.rows:
            was_deleted, is_deleted = (pc.sum(rows.column("_deleted")).as_py() or 0 for rows in (before, after))
            deleted += is_deleted - was_deleted
        if may_change and unit.has_feed:
            is_changed = pa.array(~equal_rows_mask(after, before))
            feed_files += feed.change_files(unit, feed.updates(before.filter(is_changed), after.filter(is_changed)))
    return WrittenAgain(tuple(removed), tuple(added), tuple(feed_files), deleted)


def _living(unit: TargetUnit, file: DataFile, dead: Numbers) -> pa.Table:
    """The rows of a file of the target without dead ones."""
    names = unit.schema.names if unit.provenance else unit.stored  # other parts' columns stay
    rows = data_files.read_columns(unit.target, file, names, unit.schema)
    is_alive = deletion_vectors.living_rows_mask(unit.target, file.deletion_vector, len(rows))
    is_alive[dead] = False
    return rows.filter(pa.array(is_alive))


def write_rows(unit: TargetUnit, rows: pa.Table) -> list[DataFile]:
    """Rows of the target as a data file; none where there are none. Columns of other parts are null."""
    if not len(rows):
        return []
    for item in unit.schema.arrow(physical=False) if unit.provenance else ():
        if item.name not in rows.column_names:
            rows = rows.append_column(item, pa.nulls(len(rows), item.type))
    return [data_files.write(unit.target, rows, unit.schema, unit.configuration)]
