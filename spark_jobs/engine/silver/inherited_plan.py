"""Plan of the rows that statements of a unit bring: files of silver, and slices of log after them.

Put here: the windows and files of a unit's statements. Not here: what a table held (silver/rename_lineage.py), or what
tasks do with it (engine/rows/inherited_rows.py).

What a table held may itself have come with a name. Such contents are flattened: rows count by their positions, however
many names they had. Only where a key changed are rows reduced first, by a job of its own, since those before are net
by the old key and those after by the new one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_jobs.bronze.index import OF_TABLE, SliceIndex
from spark_jobs.bronze.xa import read_effective
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.engine.rows.inherited_rows import InheritedFiles, InheritedRows
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.engine.silver.silver_task import SilverWindow
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.projection import projection_of
from spark_jobs.silver.statement_commits import definition_after
from spark_jobs.silver.table_timeline import (
    DataRange,
    SchemaChange,
    SilverSnapshot,
    TableContents,
    schema_changes_in,
)


@dataclass(slots=True)
class InheritancePlan:
    """The windows of a unit with those of parts after them, their slices, and the files that are read.

    windows: at first those of the unit's stages.
    """

    work: CompactionJob
    windows: list[SilverWindow]
    slices: list[pa.Table]
    files: list[InheritedFiles] = field(default_factory=list)

    def add(self, change: SchemaChange, window: int) -> None:
        """Plan the rows that a statement brings. window: the statement's. Raises LakeError, DecodeError."""
        content = change.inherited
        assert content is not None
        assert content.state.definition is not None
        has_partial = self.work.has_partial or any(map(_has_partial, _bases(content)))
        columns = silver.columns(content.state.definition, has_partial=has_partial)
        is_rekeyed, state = change.origins is not None, content.state
        into = InheritedRows(
            columns,
            change.range.start,
            RowProjection.of(projection_of(columns.types, [change])) if is_rekeyed else None,
            lacks_older=state.is_numbered and not state.is_complete,
        )
        self.windows[window] = replace(self.windows[window], inherited=into)
        self._add_parts(content, window, ())

    def _add_parts(self, content: TableContents, window: int, later: Sequence[SchemaChange]) -> None:
        """later: the statements between what the contents are and what the window has of them."""
        alive, index = content.alive, None
        if alive.base:
            projection = self._projection(alive.base.columns, [*schema_changes_in(alive.steps), *later], window)
            self.files.append(_stored(alive.base, window, projection))
        for at, step in enumerate(alive.steps):
            remaining = [*schema_changes_in(alive.steps[at + 1 :]), *later]
            if isinstance(step, DataRange):
                index = index or self._index(alive)
                projection = self._projection(step.state.columns, remaining, window)
                slices = index.slices_of_table(content.name, (step.range,), content.skips)
                self.add_window(self._window_of_range(step, window, projection, content.skips), slices)
            elif step.inherited and step.origins is None:
                self._add_parts(step.inherited, window, remaining)
            elif step.inherited:
                self._add_rekeyed(step, window, remaining)

    def _window_of_range(
        self, step: DataRange, window: int, projection: RowProjection, skips: frozenset[Position]
    ) -> SilverWindow:
        """A range of log as a part of what a window brings."""
        into = self.windows[window]
        assert into.inherited is not None
        columns = silver.columns(step.definition, has_partial=into.inherited.columns.has_partial)
        return SilverWindow(
            step.definition,
            columns,
            (step.range,),
            into.schema,
            into.configuration,
            into=window,
            projection=projection,
            skips=skips,
        )

    def _projection(self, columns: silver.Columns, changes: Sequence[SchemaChange], window: int) -> RowProjection:
        """Projection of a part's columns to those of all parts of a window. Raises TableStopped where they differ."""
        into = self.windows[window].inherited
        assert into is not None
        projection = projection_of(columns.types, changes)
        types = {name: column.type for name, column in projection.columns.items() if name in into.columns.types}
        silver.require_equal_columns(self.work.table.path, types, into.columns.types, str(self.work.name))
        return RowProjection.of(projection)

    def add_window(self, window: SilverWindow, slices: pa.Table | None = None) -> int:
        """Add a window after the others; its number. slices: what it is decoded from, where it is."""
        self.windows.append(window)
        self.slices.append(OF_TABLE.empty_table() if slices is None else slices)
        return len(self.windows) - 1

    def _add_rekeyed(self, change: SchemaChange, window: int, later: Sequence[SchemaChange]) -> None:
        """A table's rows as a change of its key left them: files of a job before the one that reads them."""
        definition = definition_after(change)
        columns = silver.columns(definition)
        design = new_table(self.work.table.path, columns.stored, silver.properties(self.work.table))
        rekeyed_window = self.add_window(
            SilverWindow(definition, columns, (change.range,), design.schema, design.configuration, into=window)
        )
        self.add(change, rekeyed_window)
        projection = self._projection(columns, later, window)
        self.files.append(InheritedFiles(window, design.path, design.schema, projection, result_of=rekeyed_window))

    def _index(self, content: TableContents) -> SliceIndex:
        """The slices of a table's log, by where they take effect."""
        ranges = [step.range for step in content.steps if isinstance(step, DataRange)]
        within, bronze = Range(ranges[0].start, ranges[-1].stop), self.work.window
        oldest = bronze.oldest or within.start
        return read_effective(bronze.table, bronze.version, within, oldest, {log_range.start for log_range in ranges})


def _stored(base: SilverSnapshot, window: int, projection: RowProjection) -> InheritedFiles:
    snapshot = snapshot_of(base.table.path, base.version)
    assert snapshot is not None, "silver had rows at this version"
    return InheritedFiles(window, snapshot.path, snapshot.schema, projection, snapshot.files, base.emptied)


def _bases(content: TableContents) -> Iterator[SilverSnapshot]:
    """State of a table in silver, and of those that its rows came with."""
    alive = content.alive
    if alive.base:
        yield alive.base
    for step in alive.steps:
        if isinstance(step, SchemaChange) and step.inherited:
            yield from _bases(step.inherited)


def _has_partial(base: SilverSnapshot) -> bool:
    return silver.ABSENT in base.table.columns_at(base.version)
