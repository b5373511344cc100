"""Changes after the rules of a delivery: those that are kept, and their columns that are delivered.

Put here: both images of changes as a downstream table has rows. Not here: the rules (config/filters.py), or what they
make of changes and rows (silver/row_filters.py, silver/column_masks.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import Changes
from spark_jobs.delivery.encode import RAW
from spark_jobs.delivery.ordered.log_changes import TableChanges
from spark_jobs.errors import TableStopped
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks, masks_of
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.row_filters import ChangeJudge
from spark_jobs.silver.table_timeline import TableState

_RAW = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True, slots=True)
class SeenChanges:
    """Changes that are kept. rows: their numbers among all. after: of a delete the row before; before: of an update."""

    rows: NDArray[np.int64]
    op: NDArray[np.uint8]
    after: pa.Table
    before: pa.Table


@dataclass(frozen=True, slots=True)
class Judge:
    """Applies the rules about one table.

    provenance: the columns that say whose rows they are, in a table of several sources.
    """

    job: CompactionJob
    provenance: Mapping[str, str]

    @property
    def may_drop_changes(self) -> bool:
        """True if rules or quarantined events may drop changes.

        An update may find no row then, and an insert a row that exists.
        """
        return self.job.filters.judges_rows or bool(self.job.filters.skips)

    def columns(self, state: TableState) -> silver.Columns:
        """The columns that are seen. Raises TableStopped."""
        assert state.definition
        if state.retired:
            raise TableStopped(
                "on_incompatible: new_column started a new column, and the log does not have the kept one; set "
                "apply: net for the delivery"
            )
        return self.job.columns_seen(state.definition)

    def judged(self, table: TableChanges) -> SeenChanges:
        """Changes of one definition after rules. Raises TableStopped."""
        state, all_changes = table.state, table.changes
        columns, definition = self.columns(state), state.definition
        assert definition
        op = np.concatenate([changes.op.to_numpy() for changes in all_changes])
        is_kept = np.ones(len(op), np.bool_)
        if rules := self.job.change_filters(definition):
            is_kept = _kept_mask(ChangeJudge(rules), table)
        rows = np.flatnonzero(is_kept)
        masks = masks_of(definition, self.job.filters.columns)
        after, before = (
            self._image(columns, masks, [_image(changes, image) for changes in all_changes], rows)
            for image in ("after", "before")
        )
        return SeenChanges(rows, op[rows], after, before)

    def _image(
        self, columns: silver.Columns, masks: ColumnMasks, batches: Sequence[pa.Table], rows: NDArray[np.int64]
    ) -> pa.Table:
        image = pa.concat_tables(batches)
        image = image if len(rows) == len(image) else image.take(pa.array(rows))
        image = masks.apply(image) if masks else image
        image = image.select([*columns.types, RAW])
        for name, value in self.provenance.items():
            image = image.append_column(name, pa.repeat(pa.scalar(value), len(image)))
        return image


def _kept_mask(judge: ChangeJudge, table: TableChanges) -> NDArray[np.bool_]:
    """Mask of the changes that no rule filters."""
    masks = []
    for changes, file in zip(table.changes, table.file_names, strict=True):
        rows = judge.remaining(changes, file)
        mask = np.ones(len(changes), np.bool_)
        if rows is not None:
            mask[:] = False
            mask[rows.to_numpy()] = True
        masks.append(mask)
    return np.concatenate(masks)


def _image(changes: Changes, name: str) -> pa.Table:
    image, raw = (changes.after, changes.raw) if name == "after" else (changes.before, changes.before_raw)
    raw = pa.nulls(len(changes), _RAW) if raw is None else raw
    return pa.Table.from_batches([image]).append_column(RAW, raw)
