"""Planner of one table's compaction: where its window begins, the timeline in it, and where the table stops.

Put here: what follows for a table from one scan of bronze. Not here: which tables are planned, and what is published of
them (planner.py), or building a timeline (silver/timeline/).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.scan import RangeScan
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.parent_changes import ParentChange, first_cascade
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.labels import without_labels
from spark_jobs.delta.snapshot import commit_info_of
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import (
    LakeError,
    LostRace,
    TableStopped,
    about,
)
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.step import CascadeLimit
from spark_jobs.pipeline.cascades.unlogged_changes import (
    CASCADES,
    NO_UNLOGGED_CHANGES,
    SourceUnloggedChanges,
    StopAtUnlogged,
    names_by_history,
)
from spark_jobs.pipeline.destinations import why_not_anew
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.rename_lineage import own_base
from spark_jobs.silver.table_timeline import Ended, TableContents, TableState
from spark_jobs.silver.timeline.build import build_until_stopped
from spark_jobs.silver.timeline.inputs import TimelineInputs

log = logging.getLogger(__name__)


class InsideSlices(Exception):
    """Tables stand inside slices, and the slices that the plan is made from were not cut there."""

    def __init__(self, positions: frozenset[Position]) -> None:
        super().__init__(", ".join(map(str, sorted(positions))))
        self.positions = positions


@dataclass(frozen=True, slots=True)
class TablePlanner:
    """Plans the tables of a source, one after the other, by one scan of bronze."""

    pipeline: Pipeline
    lake: Lake
    snapshot: BronzeSnapshot
    scan: RangeScan
    inputs: TimelineInputs
    cuts: frozenset[Position] = frozenset()
    """Positions where slices are cut."""
    gaps: SourceUnloggedChanges = NO_UNLOGGED_CHANGES
    slices: SliceIndex | None = None
    """Slices of the part of the log that the scan is of."""
    limits: Mapping[TableName, CascadeLimit] = field(default_factory=dict)
    """Child tables whose changes by foreign keys are derived up to a position before the log's end."""

    @property
    def source(self) -> str:
        return self.snapshot.source

    def job(self, entry: Entry, since: Position) -> CompactionJob | None:
        """Job of a table; None where there is nothing to do.

        Args:
            entry: what is published of the table.
            since: from where on the table is compacted, as far as that is published.

        Raises:
            TableStopped: the table stops at once.
            InsideSlices: silver ends inside a slice.
        """
        name = TableName(*entry.name)
        if not self._has_news(entry, name, since):
            return None

        # Where silver stands, and the window that begins there.
        table = self.lake.silver(self.source, name.schema, name.table)
        head, resets = table.head(), entry.resets or 0
        resets_done = silver.reset_count(head)
        is_rebuilt = head is not None and entry.is_reset and resets > resets_done
        if is_rebuilt:
            self._require_as_planned(entry, name)
        position = head.position if head and not is_rebuilt else None
        start = self._window_start(entry, since, position, resets_done)

        # The timeline, up to where the table stops.
        state = None if is_rebuilt else _state_of(head)
        end = max(start, self._limit(name).end)
        if end == start < self.snapshot.end and self._limit(name).reason is None:
            return None
        contents, ended = self._timeline(name, table, Range(start, end), state)
        if ended and not contents.steps:
            with about(f"{self.source}: {name}"):
                raise TableStopped(ended.reason.removeprefix(f"{name}: "), ended.at)
        if not contents.steps and not is_rebuilt:
            return None

        return CompactionJob(
            self.source,
            name,
            self._window(start, ended, end),
            contents.steps,
            table,
            head,
            contents.size,
            filters_of(self.inputs.filters, self.source, name),
            reset=resets if is_rebuilt else 0,
            state=contents.state,
            ended=ended,
        )

    def _has_news(self, entry: Entry, name: TableName, since: Position) -> bool:
        """True if the scan has something about a table, or the table needs log that bronze lacks."""
        if name in self.scan.tables or entry.is_reset or since < self.snapshot.complete_from or name in self.limits:
            return True
        if any(gap.key and gap.key.parent in self.scan.tables for gap in self.gaps.stopping_keys(name)):
            return True
        return bool(self.scan.about(name, since) or self.scan.indexes(name, since) or self.scan.xa.unknown)

    def _require_as_planned(self, entry: Entry, name: TableName) -> None:
        """Check that gc removed no log of a table between the plan of its reset and the reset. Raises TableStopped."""
        # Where that commit is not in bronze's log any more, gc has waited for the table since.
        info = None if entry.bronze_version is None else commit_info_of(self.snapshot.table.path, entry.bronze_version)
        planned = BronzeCommit.from_json(info.get("userMetadata")) if info else None
        if planned and bronze.oldest(planned) < self.snapshot.oldest:
            raise TableStopped(
                f"{self.source}: {name}: gc has removed log up to {self.snapshot.oldest} since the table was reset, so "
                "that rebuilt it would lack rows; take the reset back (stratalog reset --undo --yes), which keeps its "
                "rows, and reset it again, which says what would be lost"
            )

    def _window_start(self, entry: Entry, since: Position, position: Position | None, resets_done: int) -> Position:
        """Position where a table's window begins.

        Args:
            entry: what is published of the table.
            since: as of ``job``.
            position: up to where silver has the table.
            resets_done: how many resets silver has carried out.
        """
        name = TableName(*entry.name)
        if position and resets_done > (entry.resets or 0) and since > position:
            raise LostRace(f"{self.source}: {name} was reset since this run began; run again")
        start = max([since, *([position] if position else [])])
        if position and entry.is_reset:
            start = position
        slices = self.slices if position not in self.cuts else None
        if slices and start == position and slices.is_inside(position):
            raise InsideSlices(frozenset([position]))  # a run ended before it published that the table stopped here
        if start > self.snapshot.end:
            raise self._overtaken(f"{name} is compacted up to {start}")
        if start < self.snapshot.complete_from:
            removed = Range(start, self.snapshot.oldest)
            raise TableStopped(f"{self.source}: {name}: {bronze.removal_message(self.source, removed)}")
        return start

    def _timeline(
        self, name: TableName, table: Table, window: Range, state: TableState | None
    ) -> tuple[TableContents, Ended | None]:
        """The timeline of a table in its window, and where the table stops in it: at a gap of the log at the latest."""
        scan, inputs = self.scan, self.inputs
        if window.stop < self.snapshot.end:
            scan, inputs = _up_to_limit(window, scan, inputs, name)
        with about(f"{self.source}: {name}"):
            stop = self._gap_stop(name, window, state)
        if stop:
            window, scan, inputs = _up_to_gap(replace(window, stop=stop.at), scan, inputs, stop.refusal)
        with about(f"{self.source}: {name}"):
            why_not = why_not_anew(self.pipeline, self.source, name)
            inputs = replace(inputs, base=partial(own_base, table, state), why_not=why_not)
            contents, ended = build_until_stopped(scan, name, window, state, inputs)
        self._warn_of_numbers(name, state, contents.state)
        if stop and not ended:
            ended = Ended(window.stop, TableStopped(stop.refusal, window.stop))
        return contents, ended

    def _gap_stop(self, name: TableName, window: Range, state: TableState | None) -> StopAtUnlogged | None:
        """Position where a gap of the log stops a table in its window. state: None where silver has no row of it."""
        skips = self.inputs.filters.skipped(name.schema, name.table)
        named = names_by_history(self.lake, self.source)
        # What cascades where the lake has no row of the table changes none.
        occurrence = self.scan.tables.get(name)
        first_row = window.start if state else occurrence.first if occurrence else window.stop

        def find(key: ForeignKey, part: Range) -> ParentChange | None:
            since = Range(max(part.start, first_row), part.stop)
            return first_cascade(self.slices, key, since, named, skips) if self.slices is not None and since else None

        stop = self.gaps.first(name, window, find, skips)
        limit = self._limit(name)
        if limit.reason is None or (stop and stop.at < limit.end):
            return stop
        refusal = (
            f"on_cascade: apply cannot derive at {limit.end} what foreign keys do to its rows: {limit.reason}; set "
            f"on_cascade: warn for it, which continues with a warning, and mend its rows ({CASCADES})"
        )
        return StopAtUnlogged(max(limit.end, window.start), refusal)

    def _limit(self, name: TableName) -> CascadeLimit:
        """Limit up to which a table can be compacted."""
        return self.limits.get(name) or CascadeLimit(self.snapshot.end)

    def _window(self, start: Position, ended: Ended | None, end: Position) -> Window:
        """The part of bronze from a position on, up to where the table stops. end: up to where it can be compacted."""
        stop = max(start, ended.at) if ended else end
        bounds = (self.cuts & {start}) | ({stop} if ended or end < self.snapshot.end else set())
        snapshot, xa = self.snapshot, self.scan.xa
        return Window(snapshot.table, snapshot.version, (Range(start, stop),), snapshot.oldest, xa, bounds)

    def _warn_of_numbers(self, name: TableName, before: TableState | None, after: TableState) -> None:
        """Warn of columns that have numbers in the lake: earlier versions took labels in the log alone."""
        if before is None or before.definition is None or after.definition is None or after.is_numbered:
            return
        for column in set(without_labels(before.definition)) - set(without_labels(after.definition)):
            log.warning(
                "%s: %s: column %s has labels from here on, and their numbers in rows that are in the lake already; "
                "replay these (stratalog backfill --source %s --table %s) or rebuild the table (stratalog reset)",
                *(self.source, name, column, self.source, name),
            )

    def _overtaken(self, reason: str) -> LakeError:
        """The error of a run that finds tables ahead of the log that it took for bronze's end."""
        head = self.snapshot.table.head()
        if head and head.position and head.position > self.snapshot.end:
            return LostRace(
                f"{self.source}: {reason}, and this run began at {self.snapshot.end}: another writer has gone on"
            )
        return LakeError(
            f"{self.source}: {reason}, and bronze ends at {self.snapshot.end}: it is not the bronze that the tables "
            "came from; put that one back, or move silver, downstream and published away"
        )


def _state_of(head: Head | None) -> TableState | None:
    """State of a table in silver; None where silver has nothing of it."""
    commit = SilverCommit.of_head(head)
    return TableState.of(commit) if commit else None


def _up_to_limit(
    log_range: Range, scan: RangeScan, inputs: TimelineInputs, name: TableName
) -> tuple[RangeScan, TimelineInputs]:
    """Inputs of a table's timeline in a range that ends before the scan does, and continues there in a later run."""
    statements = tuple(statement for statement in scan.statements if statement.position < log_range.stop)
    last_change = scan.last_change(name)

    def complete(logged: TableDefinition, _last_change: Position | None) -> TableDefinition:
        return inputs.complete(logged, last_change)

    return replace(scan, statements=statements), replace(inputs, complete=complete)


def _up_to_gap(
    log_range: Range, scan: RangeScan, inputs: TimelineInputs, refusal: str
) -> tuple[Range, RangeScan, TimelineInputs]:
    """Inputs of a table's timeline in a range that ends where a gap of its log begins.

    A server's definition is of the log's end: it names no columns before the statements in between.
    """
    statements = tuple(statement for statement in scan.statements if statement.position < log_range.stop)

    def complete(logged: TableDefinition, last_change: Position | None) -> TableDefinition:
        if not logged.has_names():
            raise TableStopped(refusal)
        return inputs.complete(logged, last_change)

    return log_range, replace(scan, statements=statements), replace(inputs, complete=complete)
