"""What rules leave of changes: those that are kept, with the columns that are seen.

Put here: both images of changes as a downstream table has rows. Not here: the rules (config/filters.py), or what their
SQL is (silver/row_filters.py, silver/masking.py).

Kinds of changes are left out, and columns, without Spark. Conditions about rows and masks are Spark's expressions, the
same as for silver; a delivery with such tables starts Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import Changes
from spark_jobs.config.filters import ROW_EVENTS
from spark_jobs.delivery.encode import RAW
from spark_jobs.errors import TableStopped
from spark_jobs.silver import masking, row_filters
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.net_changes import SliceOrigin
from spark_jobs.silver.table_timeline import TableState
from spark_jobs.text.sql import identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RAW = pa.map_(pa.string(), pa.string())
_AT = "_at"
"""A row's number, on the way through Spark."""
_HERE = SliceOrigin("", 0, 0, 0)


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

    marks: the columns that say whose rows they are, in a table of several sources. spark: gives a session.
    """

    job: CompactionJob
    marks: Mapping[str, str]
    spark: "Callable[[], SparkSession]"

    @property
    def leaves_out(self) -> bool:
        """Whether changes may be left out: a later one may be of a row that was never written, or that is there."""
        return self.job.filters.judges_rows or bool(self.job.filters.skips)

    def shape(self, state: TableState) -> masking.Shape:
        """The columns that are seen. Raises TableStopped."""
        assert state.definition
        if state.retired:
            raise TableStopped(
                "on_incompatible: new_column started a new column, and the log does not have the kept one; set "
                "apply: net for the delivery"
            )
        return self.job.shape(state.definition)

    def judged(self, state: TableState, all_changes: Sequence[Changes]) -> SeenChanges:
        """What is left of changes of one definition. Raises TableStopped."""
        shape, filters = self.shape(state), self.job.filters
        op = np.concatenate([changes.op.to_numpy() for changes in all_changes])
        is_kept = np.ones(len(op), np.bool_)
        if filters.rows:
            is_kept = self._judged(state, all_changes, len(op))
        elif filters.judges_rows:
            for kind, event in enumerate(ROW_EVENTS, 1):
                is_kept &= (op != kind) | (filters.left_out(event) is None)
        rows = np.flatnonzero(is_kept)
        after, before = (
            self._image(shape, [_image(changes, image) for changes in all_changes], rows)
            for image in ("after", "before")
        )
        return SeenChanges(rows, op[rows], after, before)

    def _image(self, shape: masking.Shape, batches: Sequence[pa.Table], rows: NDArray[np.int64]) -> pa.Table:
        table = pa.concat_tables(batches)
        table = table if len(rows) == len(table) else table.take(pa.array(rows))
        names = [*shape.columns.types]
        # Exact texts are looked up by column: those of hidden ones are never asked for.
        if any(cell != identifier(name) for name, cell in shape.cells.items() if name != RAW):
            table = self._masked(shape, table)
        table = table.select([*names, RAW])
        for name, value in self.marks.items():
            table = table.append_column(name, pa.repeat(pa.scalar(value), len(table)))
        return table

    def _masked(self, shape: masking.Shape, rows: pa.Table) -> pa.Table:
        """The rows behind their masks. The salt is a column, and so in no query's text."""
        columns = {_AT: pa.array(np.arange(len(rows))), masking.SALT: pa.repeat(pa.scalar(shape.salt or ""), len(rows))}
        for name, values in columns.items():
            rows = rows.append_column(name, values)
        cells = [f"{cell} AS {identifier(name)}" for name, cell in shape.cells.items()]
        frame = self.spark().createDataFrame(rows).selectExpr(_AT, *cells)
        return _in_order(frame.toArrow())

    def _judged(self, state: TableState, all_changes: Sequence[Changes], count: int) -> NDArray[np.bool_]:
        """Which changes no rule leaves out."""
        definition = state.definition
        assert definition
        batches = [row_filters.as_rows(changes, _HERE) for changes in all_changes]
        rows = pa.Table.from_batches(batches).append_column(_AT, pa.array(np.arange(count)))
        verdict = row_filters.left_out_by(self.job.filters, definition, self.job.known_columns)
        frame = self.spark().createDataFrame(rows).selectExpr(_AT, f"({verdict}) IS NULL AS kept")
        is_kept: NDArray[np.bool_] = _in_order(frame.toArrow()).column("kept").to_numpy()
        return is_kept


def _in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by(_AT).drop_columns([_AT])


def _image(changes: Changes, name: str) -> pa.Table:
    image, raw = (changes.after, changes.raw) if name == "after" else (changes.before, changes.before_raw)
    raw = pa.nulls(len(changes), _RAW) if raw is None else raw
    return pa.Table.from_batches([image]).append_column(RAW, raw)
