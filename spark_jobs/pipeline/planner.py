"""Tables of a source that have something to compact, and their windows.

Put here: the plan over all tables of a source, from what bronze shows and what is published; the rows to publish after
it. Not here: the timeline of a table (silver/timeline/), or the order in which layers are run (run.py).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableName
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.bronze.scan import RangeScan, scan_effective, scan_metadata
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl import sequences
from spark_jobs.ddl.classify import Effect
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import (
    TableStopped,
)
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.step import CascadeLimit
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges, unlogged_changes_of
from spark_jobs.pipeline.table_planner import InsideSlices, TablePlanner
from spark_jobs.schema.history import ServerDefinitions
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import is_complete
from spark_jobs.silver.compaction_job import Compacted, CompactionJob
from spark_jobs.silver.planning_context import PlanningContext
from spark_jobs.silver.rename_lineage import RenameLineage, renamed_tables
from spark_jobs.silver.table_timeline import Ended
from spark_jobs.silver.timeline.inputs import position_of_rows
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run: windows to compact, tables that cannot continue, and the rows to publish after it."""

    entries: list[Entry]
    work: list[CompactionJob]
    stopped: dict[TableName, str]
    sequences: set[TableName] = field(default_factory=set)
    """MariaDB's sequences among the tables, which are left out."""
    index: SliceIndex | None = None
    """Index of the slices that the plan is made from."""
    stopped_positions: dict[TableName, Position] = field(default_factory=dict)
    """Positions where tables have stopped, as far as known: everything before is done."""

    def stop(self, name: TableName, label: str, ended: Ended) -> None:
        """Record that a table has stopped. label: what the reason begins with."""
        reason = ended.reason.removeprefix(f"{label}: ").removeprefix(f"{name}: ")
        self.stopped[name] = advised(f"{label}: {reason}", table=name)
        self.stopped_positions[name] = ended.at

    def note_position(self, name: TableName, error: TableStopped) -> None:
        if isinstance(error.at, Position):
            self.stopped_positions[name] = error.at


@dataclass(frozen=True, slots=True)
class Planner:
    """Decides which tables of a source have a window to compact, from what bronze shows and what is published."""

    pipeline: Pipeline
    lake: Lake
    snapshot: BronzeSnapshot
    tables: frozenset[TableName] | None = None
    surveyed: Position | None = None
    """Position up to which earlier runs have looked at bronze."""
    gaps: SourceUnloggedChanges | None = None
    """Unlogged changes of the source's log; the plan reads them where they are not given."""
    limits: Mapping[TableName, CascadeLimit] = field(default_factory=dict)
    """Child tables whose changes by foreign keys are derived up to a position before the log's end."""

    @property
    def source(self) -> str:
        return self.snapshot.source

    def plan(self, entries: list[Entry], cuts: frozenset[Position] = frozenset()) -> Plan:
        """Plan of the run. cuts: positions of tables inside slices, besides those that are published."""
        since = [*map(self._since, self._in_scope(entries))]
        start = min([self.surveyed or self.snapshot.begin, *since])
        cuts |= {*since} - {self.surveyed, self.snapshot.begin, self.snapshot.oldest, self.snapshot.end}
        try:
            return self._plan(entries, start, cuts)
        except InsideSlices as error:
            return self.plan(entries, cuts | error.positions)

    def _plan(self, entries: list[Entry], start: Position, cuts: frozenset[Position]) -> Plan:
        """The plan from a position on, split at the cuts.

        Raises InsideSlices for positions at which slices must be split too.
        """
        by_log = any(entry.is_reset for entry in self._in_scope(entries))  # such a table is rebuilt from bronze alone
        if start >= self.snapshot.end and not by_log:
            sequence_names = {TableName(*entry.name) for entry in entries if entry.reason == sequences.REASON}
            return Plan(entries, [], {}, sequence_names)
        # One scan of bronze serves all tables; what it lacks of their beginnings is added.
        slices, scan = scan_effective(
            self.snapshot.table, self.snapshot.version, Range(start, self.snapshot.end), self.snapshot.oldest, cuts
        )
        scan = self._with_beginnings(scan, entries, start)
        context = replace(PlanningContext.of(self.pipeline, self.lake, self.snapshot), by_log=by_log)
        inputs = replace(RenameLineage(context).inputs(slices), first_row_position=position_of_rows(slices))
        planned = Plan(self._with_new(entries, scan), [], {}, index=slices)
        gaps = unlogged_changes_of(self.pipeline, self.lake, self.source) if self.gaps is None else self.gaps
        tables = TablePlanner(self.pipeline, self.lake, self.snapshot, scan, inputs, cuts, gaps, slices, self.limits)
        # Each table is planned by itself: one that stops leaves the others as they are.
        inside: frozenset[Position] = frozenset()
        for entry in filter(self._is_due, self._in_scope(planned.entries)):
            name = TableName(*entry.name)
            try:
                if self._is_sequence(scan, entry):
                    planned.sequences.add(name)
                    continue
                job = tables.job(entry, self._since(entry))
            except InsideSlices as error:
                inside |= error.positions
            except TableStopped as error:
                planned.stopped[name] = advised(error, self.source, name)
                planned.note_position(name, error)
            else:
                planned.work.extend([job] if job else [])
                if job and job.ended:
                    planned.stop(name, f"{self.source}: {name}", job.ended)
        if inside:
            raise InsideSlices(inside)
        return planned

    def _with_beginnings(self, scan: RangeScan, entries: list[Entry], start: Position) -> RangeScan:
        """Scan with the statements about tables that are seen for the first time, from where nothing showed them yet.

        A table's CREATE may lie far ahead of its first row; it tells that nothing of the table is missing.
        """
        # Tables without an entry are new to this lake.
        entry_names = {entry.name for entry in entries}
        new = [name for name in self._changed_tables(scan) if (name.schema, name.table) not in entry_names]
        if not new or start <= self.snapshot.oldest:
            return scan
        # Statements alone are read of the log before: no rows.
        earlier = Range(self.snapshot.oldest, start)
        slices = read_index(self.snapshot.table, self.snapshot.version, earlier, "statement")
        statements = scan_metadata(slices.within(earlier)).statements
        about_new = [
            statement
            for statement in statements
            if any(statement.statement.names(name.schema, name.table) for name in new)
        ]
        changing = (
            statement for statement in about_new if statement.statement.effect in (Effect.CREATES, Effect.CHANGES)
        )
        return replace(scan, statements=(*changing, *scan.statements))

    def after(self, planned: Plan, jobs: Iterable[Compacted]) -> list[Entry]:
        """The rows to publish: what was done, what stopped, and that the rest has nothing new."""
        by_name = {job.name: job for job in jobs}
        return [self._after(entry, by_name.get(TableName(*entry.name)), planned) for entry in planned.entries]

    def _after(self, entry: Entry, job: Compacted | None, planned: Plan) -> Entry:
        is_new = entry.surveyed is None
        entry = replace(entry, surveyed=str(self.snapshot.end))
        name = TableName(*entry.name)
        if job:
            entry = replace(entry, resets=silver.reset_count(job.head) or entry.resets)
        elif is_new and self._is_due(entry):
            entry = self._as_in_silver(entry)
        if name in planned.stopped:
            return self._stopped(entry, job, planned.stopped[name], planned.stopped_positions.get(name))
        if not self.pipeline.scope.holds(*entry.name):
            return replace(entry, state="ignored", reason=self.pipeline.scope.why_helper(*entry.name))
        if not self._is_due(entry):
            return entry
        if name in planned.sequences:
            return replace(entry, state="ignored", reason=sequences.REASON, position=str(self.snapshot.end))
        # Up to the log's end, or where a child table waits.
        entry = _compacted(entry, job) if job else entry
        end = self.snapshot.end
        if name in self.limits:
            end = max([self.limits[name].end, *([entry.checkpoint] if entry.checkpoint else [])])
        return replace(entry, state="current", reason=None, position=str(end), bronze_version=None)

    def _stopped(self, entry: Entry, job: Compacted | None, reason: str, position: Position | None) -> Entry:
        """The row of a table that has stopped, which stands where it stopped if silver has it.

        A table without anything in silver is planned from where it was, with the statements before its first row. One
        that is being rebuilt stays so until it has passed the position.
        """
        entry = replace(entry, state="stopped", reason=reason)
        if entry.is_reset:
            return entry
        entry = _compacted(entry, job) if job and job.head.position else entry
        if position is None or entry.silver_version is None:
            return entry
        return replace(entry, position=str(max([position, *([entry.checkpoint] if entry.checkpoint else [])])))

    def _as_in_silver(self, entry: Entry) -> Entry:
        """The row of a new table as a run has left it that was killed before it published the table."""
        head = self.lake.silver(self.source, entry.schema, entry.table).head()
        return _with_silver(entry, head) if head and head.position else entry

    def _is_sequence(self, scan: RangeScan, entry: Entry) -> bool:
        """True if a table is a sequence of MariaDB's, by what the log or the server calls its columns.

        Raises TableStopped where nothing tells, and its rows would be counted (``on_unnamed: number``).
        """
        occurrence = scan.tables.get(TableName(*entry.name))
        if occurrence is None or not occurrence.definitions:
            return entry.reason == sequences.REASON
        logged = occurrence.definitions[-1][1]
        if logged.has_names() or not sequences.may_be_sequence(logged):
            return sequences.is_sequence(logged)
        try:
            return sequences.is_sequence(ServerDefinitions(self.lake, self.source).complete(logged, None))
        except TableStopped as error:
            if self.pipeline.on_unnamed == "number":
                raise TableStopped(f"{self.source}: {logged.name}: {sequences.OPEN}") from error
            return False  # where nothing names columns, its timeline stops the table

    def _is_due(self, entry: Entry) -> bool:
        return is_chosen(self.tables, entry)

    def _since(self, entry: Entry) -> Position:
        """Position from which on a table is to be compacted: it has nothing to compact before."""
        if entry.is_reset:
            return self.snapshot.oldest
        is_new = entry.surveyed is None  # bronze did not show it where earlier runs looked
        if is_new and self.surveyed and self.surveyed >= self.snapshot.oldest:
            return self.snapshot.oldest
        return entry.checkpoint or self.snapshot.begin

    def _in_scope(self, entries: list[Entry]) -> list[Entry]:
        scope = self.pipeline.scope
        return [entry for entry in entries if scope.holds(*entry.name)]

    def _changed_tables(self, scan: RangeScan) -> set[TableName]:
        """The tables that the log has rows of, and those in scope that have another one's by taking its place."""
        scope = self.pipeline.scope
        return {*scan.tables, *(table for table in renamed_tables(scan) if scope.holds(table.schema, table.table))}

    def _with_new(self, entries: list[Entry], scan: RangeScan) -> list[Entry]:
        entry_names = {entry.name for entry in entries}
        named = self._changed_tables(scan)
        # A table may have rows by statements alone: it has to stop, and so has to be known. Some servers store names in
        # small letters, and log statements as they were typed.
        alike = {str(TableName(*name)).casefold() for name in entry_names} | {str(name).casefold() for name in named}
        named |= {
            name
            for name in scan.written_tables()
            if self.pipeline.scope.holds(name.schema, name.table) and str(name).casefold() not in alike
        }
        new = [name for name in sorted(named) if (name.schema, name.table) not in entry_names]
        for name in new:
            reason = self.pipeline.scope.why_helper(name.schema, name.table)
            if reason:
                log.warning("%s: %s is left out, %s", self.source, name, reason)
        return [*entries, *(Entry(self.source, name.schema, name.table, "current") for name in new)]


def is_chosen(tables: frozenset[TableName] | None, entry: Entry) -> bool:
    return tables is None or TableName(*entry.name) in tables


def _compacted(entry: Entry, job: Compacted) -> Entry:
    return replace(_with_silver(entry, job.head), committed_at=job.committed_at or entry.committed_at)


def _with_silver(entry: Entry, head: Head) -> Entry:
    """The row of a table as the head of silver has it."""
    return replace(
        entry,
        position=str(head.position),
        silver_version=head.version,
        complete=is_complete(head),
        numbered=silver.is_numbered(head) or None,
    )
