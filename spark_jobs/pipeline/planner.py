"""Which tables of a source have something to compact, and which windows of theirs.

Put here: the plan over all tables of a source, from what bronze shows and what is published; the rows to publish after
it. Not here: the timeline of a table (silver/timeline/), or the order in which layers are run (run.py).
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.bronze.scan import RangeScan, scan_effective, scan_metadata
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl import sequences
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.labels import without_labels
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import (
    LakeError,
    LostRace,
    TableStopped,
    about,
)
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.destinations import why_not_anew
from spark_jobs.pipeline.log_gaps import NO_GAPS, Gaps, before_gap, gaps_of
from spark_jobs.schema.history import complete_names
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit, is_complete
from spark_jobs.silver.compaction_job import Compacted, CompactionJob, Window
from spark_jobs.silver.planning_context import PlanningContext, filters_of
from spark_jobs.silver.rename_lineage import RenameLineage, own_base, renamed_tables
from spark_jobs.silver.table_timeline import Ended, SchemaChange, TableState
from spark_jobs.silver.timeline.build import build_until_stopped
from spark_jobs.silver.timeline.inputs import Rules, place_of_rows
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do: windows to compact, tables that cannot go on, and the rows to publish after it."""

    entries: list[Entry]
    work: list[CompactionJob]
    stopped: dict[TableName, str]
    sequences: set[TableName] = field(default_factory=set)
    """MariaDB's sequences among the tables, which are left out."""
    index: SliceIndex | None = None
    """Where the slices lie that the plan is made from."""
    by_sql: dict[TableName, str] = field(default_factory=dict)
    """Why Spark SQL compacts tables, and not the engine."""
    places: dict[TableName, Position] = field(default_factory=dict)
    """Where tables have stopped, as far as that has a position: everything before it is done."""

    def stop(self, name: TableName, where: str, ended: Ended) -> None:
        """Notes that a table has stopped. where: what the reason begins with."""
        why = ended.reason.removeprefix(f"{where}: ").removeprefix(f"{name}: ")
        self.stopped[name] = advised(f"{where}: {why}", table=name)
        self.places[name] = ended.at

    def note_place(self, name: TableName, error: TableStopped) -> None:
        if isinstance(error.at, Position):
            self.places[name] = error.at


class _Inside(Exception):
    """Tables stand inside slices, and the slices that the plan is made from were not cut there."""

    def __init__(self, positions: frozenset[Position]) -> None:
        super().__init__(", ".join(map(str, sorted(positions))))
        self.positions = positions


@dataclass(frozen=True, slots=True)
class Planner:
    """Decides which tables of a source have a window to compact, from what bronze shows and what is published."""

    pipeline: Pipeline
    lake: Lake
    held: BronzeSnapshot
    tables: frozenset[TableName] | None = None
    surveyed: Position | None = None
    """Up to where earlier runs have looked at bronze."""

    @property
    def source(self) -> str:
        return self.held.source

    @property
    def end(self) -> Position:
        return self.held.checkpoint.position

    @property
    def begin(self) -> Position:
        return bronze.begin(self.held.checkpoint)

    @property
    def oldest(self) -> Position:
        return bronze.oldest(self.held.checkpoint)

    @property
    def complete_from(self) -> Position:
        return bronze.complete_from(self.held.checkpoint)

    def plan(self, entries: list[Entry], cuts: frozenset[Position] = frozenset()) -> Plan:
        """What is to do. cuts: positions of tables inside slices, besides those that are published."""
        since = [*map(self._since, self._in_scope(entries))]
        start = min([self.surveyed or self.begin, *since])
        cuts |= {*since} - {self.surveyed, self.begin, self.oldest, self.end}
        try:
            return self._plan(entries, start, cuts)
        except _Inside as error:
            return self.plan(entries, cuts | error.positions)

    def _plan(self, entries: list[Entry], start: Position, cuts: frozenset[Position]) -> Plan:
        """Raises _Inside for the positions of all tables that are not among the cuts, and have to be."""
        by_log = any(entry.is_reset for entry in self._in_scope(entries))  # such a table is done over from bronze alone
        if start >= self.end and not by_log:
            known = {TableName(*one.name) for one in entries if one.reason == sequences.REASON}
            return Plan(entries, [], {}, known)
        slices, found = scan_effective(self.held.table, self.held.version, Range(start, self.end), self.oldest, cuts)
        found = self._with_beginnings(found, entries, start)
        context = replace(PlanningContext.of(self.pipeline, self.lake, self.held), by_log=by_log)
        rules = replace(RenameLineage(context).rules(slices), place=place_of_rows(slices))
        planned = Plan(self._with_new(entries, found), [], {}, index=slices)
        gaps = gaps_of(self.pipeline, self.lake, self.source)
        inside: frozenset[Position] = frozenset()
        for entry in filter(self._wanted, self._in_scope(planned.entries)):
            name = TableName(*entry.name)
            try:
                if self._is_sequence(found, entry):
                    planned.sequences.add(name)
                    continue
                one = self._work(found, entry, rules, cuts=cuts, gaps=gaps, slices=slices)
            except _Inside as error:
                inside |= error.positions
            except TableStopped as error:
                planned.stopped[name] = advised(error, self.source, name)
                planned.note_place(name, error)
            else:
                planned.work.extend([one] if one else [])
                if one and one.ended:
                    planned.stop(name, f"{self.source}: {name}", one.ended)
        if inside:
            raise _Inside(inside)
        return planned

    def _with_beginnings(self, found: RangeScan, entries: list[Entry], start: Position) -> RangeScan:
        """With the statements about tables that are seen now for the first time, from where nothing showed them yet.

        A table's CREATE may lie far ahead of its first row; it tells that nothing of the table is missing.
        """
        known = {entry.name for entry in entries}
        new = [name for name in self._names(found) if (name.schema, name.table) not in known]
        if not new or start <= self.oldest:
            return found
        earlier = Range(self.oldest, start)
        slices = read_index(self.held.table, self.held.version, earlier, "statement")
        said = scan_metadata(slices.within(earlier)).statements
        about_new = [one for one in said if any(one.statement.names(name.schema, name.table) for name in new)]
        changing = (one for one in about_new if one.statement.effect in (Effect.CREATES, Effect.CHANGES))
        return replace(found, statements=(*changing, *found.statements))

    def after(self, planned: Plan, done: Iterable[Compacted]) -> list[Entry]:
        """The rows to publish: what was done, what stopped, and that the rest has nothing new."""
        by_name = {one.name: one for one in done}
        return [self._after(entry, by_name.get(TableName(*entry.name)), planned) for entry in planned.entries]

    def _after(self, entry: Entry, one: Compacted | None, planned: Plan) -> Entry:
        entry = replace(entry, surveyed=str(self.end))
        if one:
            entry = replace(entry, resets=silver.resets(one.head) or entry.resets)
        name = TableName(*entry.name)
        if name in planned.stopped:
            return self._stopped(entry, one, planned.stopped[name], planned.places.get(name))
        if not self.pipeline.scope.holds(*entry.name):
            return replace(entry, state="ignored", reason=self.pipeline.scope.why_helper(*entry.name))
        if not self._wanted(entry):
            return entry
        if name in planned.sequences:
            return replace(entry, state="ignored", reason=sequences.REASON, position=str(self.end))
        entry = self._compacted(entry, one) if one else entry
        return replace(entry, state="current", reason=None, position=str(self.end))

    def _stopped(self, entry: Entry, one: Compacted | None, why: str, place: Position | None) -> Entry:
        """The row of a table that has stopped, which stands where it stopped if silver has it.

        A table without anything in silver is planned from where it was, with the statements before its first row. One
        that is being done over stays so until it has passed the place.
        """
        entry = replace(entry, state="stopped", reason=why)
        if entry.is_reset:
            return entry
        entry = self._compacted(entry, one) if one and one.head.position else entry
        if place is None or entry.silver_version is None:
            return entry
        return replace(entry, position=str(max([place, *([entry.checkpoint] if entry.checkpoint else [])])))

    @staticmethod
    def _compacted(entry: Entry, one: Compacted) -> Entry:
        return replace(
            entry,
            position=str(one.head.position),
            silver_version=one.head.version,
            committed_at=one.committed_at or entry.committed_at,
            complete=is_complete(one.head),
            numbered=silver.is_numbered(one.head) or None,
        )

    def _is_sequence(self, found: RangeScan, entry: Entry) -> bool:
        """Whether a table is a sequence of MariaDB's, by what the log or the server calls its columns.

        Raises TableStopped where nothing tells, and its rows would be counted (``on_unnamed: number``).
        """
        seen = found.tables.get(TableName(*entry.name))
        if seen is None or not seen.definitions:
            return entry.reason == sequences.REASON
        logged = seen.definitions[-1][1]
        if logged.has_names() or not sequences.may_be_sequence(logged):
            return sequences.is_sequence(logged)
        try:
            return sequences.is_sequence(complete_names(self.lake, self.source, logged, None))
        except TableStopped as error:
            if self.pipeline.on_unnamed == "number":
                raise TableStopped(f"{self.source}: {logged.name}: {sequences.OPEN}") from error
            return False  # where nothing names columns, its course stops the table

    def _work(
        self,
        found: RangeScan,
        entry: Entry,
        rules: Rules,
        *,
        cuts: frozenset[Position] = frozenset(),
        gaps: Gaps = NO_GAPS,
        slices: SliceIndex | None = None,
    ) -> CompactionJob | None:
        """What is to do for a table; None where there is nothing. Raises TableStopped where it stops at once."""
        name = TableName(*entry.name)
        seen_here = found.tables.get(name)
        behind = self._since(entry) < self.complete_from
        since = self._since(entry)
        said = found.about(name, since) or found.indexes(name, since) or found.xa.unknown
        if seen_here is None and not behind and not said and not entry.is_reset:
            return None
        table = self.lake.silver(self.source, name.schema, name.table)
        head = table.head()
        resets, begun = entry.resets or 0, silver.resets(head)
        is_anew = head is not None and entry.is_reset and resets > begun
        own = head.position if head and not is_anew else None
        since = self._begin(entry, name, own, begun, slices if own not in cuts else None)
        whole = Range(since, self.end)
        filters = filters_of(rules.filters, self.source, name)
        gap = gaps.first(name, whole, rules.filters.skipped(name.schema, name.table))
        refusal = gaps.refusal(gap, name) if gap else ""
        if gap:
            whole, found, rules = self._before(before_gap(whole, gap), found, rules, refusal)
        commit = None if is_anew else SilverCommit.of_head(head)
        standing = TableState.of(commit) if commit else None
        with about(f"{self.source}: {name}"):
            why_not = why_not_anew(self.pipeline, self.source, name)
            rules = replace(rules, base=partial(own_base, table, standing), why_not=why_not)
            content, ended = build_until_stopped(found, name, whole, standing, rules)
        self._warn_of_numbers(name, standing, content.standing)
        if gap and not ended:
            ended = Ended(whole.stop, TableStopped(refusal, whole.stop))
        if ended and not content.steps:
            with about(f"{self.source}: {name}"):
                raise TableStopped(ended.reason.removeprefix(f"{name}: "), ended.at)
        whole = Range(since, max(since, ended.at)) if ended else whole
        bounds = (cuts & {since}) | ({whole.stop} if ended else set())
        if not content.steps and not is_anew:
            return None
        window = Window(self.held.table, self.held.version, (whole,), self.oldest, found.xa, bounds)
        carried = sum(
            step.inherited.size for step in content.steps if isinstance(step, SchemaChange) and step.inherited
        )
        work = CompactionJob(
            self.source, name, window, content.steps, table, head, content.size, filters, inherited_bytes=carried
        )
        return replace(work, reset=resets if is_anew else 0, standing=content.standing, ended=ended)

    def _begin(
        self, entry: Entry, name: TableName, own: Position | None, begun: int, slices: SliceIndex | None
    ) -> Position:
        """Where a table's window begins. own: how far silver has it; begun: the resets that silver has carried out.

        slices: those of the plan, unless they are cut there.
        """
        since = self._since(entry)
        if own and begun > (entry.resets or 0) and since > own:
            raise LostRace(f"{self.source}: {name} was reset since this run began; run again")
        since = max([since, *([own] if own else [])])
        if own and entry.is_reset:
            since = own
        if slices and since == own and slices.is_inside(own):
            raise _Inside(frozenset([own]))  # a run ended before it published that the table stopped here
        if since > self.end:
            raise self._overtaken(f"{name} is compacted up to {since}")
        if since < self.complete_from:
            raise TableStopped(
                f"{self.source}: {name}: {bronze.removal_message(self.source, Range(since, self.oldest))}"
            )
        return since

    def _warn_of_numbers(self, name: TableName, before: TableState | None, after: TableState) -> None:
        """Of columns that have numbers in the lake: earlier versions took labels in the log alone."""
        if before is None or before.definition is None or after.definition is None or after.is_numbered:
            return
        for column in set(without_labels(before.definition)) - set(without_labels(after.definition)):
            log.warning(
                "%s: %s: column %s has labels from here on, and their numbers in rows that are in the lake already; "
                "replay these (stratalog backfill --source %s --table %s) or rebuild the table (stratalog reset)",
                *(self.source, name, column, self.source, name),
            )

    @staticmethod
    def _before(whole: Range, found: RangeScan, rules: Rules, refusal: str) -> tuple[Range, RangeScan, Rules]:
        """What a table's course is made of in a range that ends where a gap of its log begins.

        A server's definition is of the log's end: it names no columns before the statements in between.
        """
        statements = tuple(statement for statement in found.statements if statement.position < whole.stop)

        def complete(logged: TableDefinition, last_change: Position | None) -> TableDefinition:
            if not logged.has_names():
                raise TableStopped(refusal)
            return rules.complete(logged, last_change)

        return whole, replace(found, statements=statements), replace(rules, complete=complete)

    def _overtaken(self, found: str) -> LakeError:
        """The error of a run that finds tables ahead of the log that it took for bronze's end."""
        head = self.held.table.head()
        if head and head.position and head.position > self.end:
            return LostRace(f"{self.source}: {found}, and this run began at {self.end}: another writer has gone on")
        return LakeError(
            f"{self.source}: {found}, and bronze ends at {self.end}: it is not the bronze that the tables came from; "
            "put that one back, or move silver, downstream and published away"
        )

    def _wanted(self, entry: Entry) -> bool:
        return is_chosen(self.tables, entry)

    def _since(self, entry: Entry) -> Position:
        """From where on a table is to be compacted: it has nothing to compact before."""
        if entry.is_reset:
            return self.oldest
        is_new = entry.surveyed is None  # bronze did not show it where earlier runs looked
        if is_new and self.surveyed and self.surveyed >= self.oldest:
            return self.oldest
        return entry.checkpoint or self.begin

    def _in_scope(self, entries: list[Entry]) -> list[Entry]:
        scope = self.pipeline.scope
        return [entry for entry in entries if scope.holds(*entry.name)]

    def _names(self, found: RangeScan) -> set[TableName]:
        """The tables that the log has rows of, and those in scope that have another one's by taking its place."""
        scope = self.pipeline.scope
        return {*found.tables, *(one for one in renamed_tables(found) if scope.holds(one.schema, one.table))}

    def _with_new(self, entries: list[Entry], found: RangeScan) -> list[Entry]:
        known = {entry.name for entry in entries}
        named = self._names(found)
        # A table may have rows by statements alone: it has to stop, and so has to be known. Some servers store names in
        # small letters, and log statements as they were typed.
        alike = {str(TableName(*name)).casefold() for name in known} | {str(name).casefold() for name in named}
        named |= {
            name
            for name in found.written_tables()
            if self.pipeline.scope.holds(name.schema, name.table) and str(name).casefold() not in alike
        }
        new = [name for name in sorted(named) if (name.schema, name.table) not in known]
        for name in new:
            why = self.pipeline.scope.why_helper(name.schema, name.table)
            if why:
                log.warning("%s: %s is left out, %s", self.source, name, why)
        return [*entries, *(Entry(self.source, name.schema, name.table, "current") for name in new)]


def is_chosen(tables: frozenset[TableName] | None, entry: Entry) -> bool:
    return tables is None or TableName(*entry.name) in tables
