"""A source through the layers: which tables a run works on, and what becomes of each.

Put here: planning over all tables of a source, keeping a stopped table from stopping the others, publishing.
Not here: the work on one table (silver/compact.py, downstream/merge.py), or who asked for it (spark_jobs/cli, Dagster's
assets).
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.extract import Extracted, extract
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.bronze.redaction import Redaction
from spark_jobs.bronze.scan import Survey, look, survey
from spark_jobs.bronze.table import Held
from spark_jobs.config import known_tables as seen
from spark_jobs.config.filters import Filters, TableFilters
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination, Name
from spark_jobs.ddl import sequences
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.default_values import on_server_default
from spark_jobs.ddl.labels import without_labels
from spark_jobs.downstream import commit_clock, publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge import Merged, merge
from spark_jobs.downstream.merge import Work as MergeWork
from spark_jobs.downstream.multi_source import PartTable, SharedPart
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.downstream.shared_keys import merge_shared
from spark_jobs.engine import downstream_job, routing, silver_job
from spark_jobs.engine.downstream_task import MergedFiles
from spark_jobs.engine.silver_task import Written
from spark_jobs.errors import (
    ConfigError,
    JvmEnded,
    LakeError,
    LostRace,
    SourceError,
    StratalogError,
    TableStopped,
    about,
)
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import patiently
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.log_gaps import NO_GAPS, Gaps, before_gap, gaps_of
from spark_jobs.pipeline.settled import Leg, settled
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over, slots
from spark_jobs.schema.history import follow, named, new_facts, reading_of
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit, TableCommit
from spark_jobs.silver.compact import Compacted, Window, Work, compact
from spark_jobs.silver.planning_context import PlanningContext
from spark_jobs.silver.rename_lineage import RenameLineage, own_base, renamed_tables
from spark_jobs.silver.table_timeline import Ended, SchemaChange, TableState
from spark_jobs.silver.timeline.build import build_until_stopped
from spark_jobs.silver.timeline.inputs import Rules, place_of_rows
from spark_jobs.source.endpoints import Endpoints, open_endpoints
from spark_jobs.source.protocol import Source
from spark_jobs.text.progress import Progress
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)

_TABLES_AT_ONCE = 4
"""Tables worked on side by side: commits wait for disks more than for cores."""

Result = TypeVar("Result")


TableInto = tuple[TableName, Name]
"""A source table, and a downstream table that its rows go to."""


class Named(Protocol):
    """Work on one table, and what it is known by: the table, or where it goes too."""

    @property
    def name(self) -> TableName | TableInto: ...


Item = TypeVar("Item", bound=Named)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one layer's run did to a source's tables. ``stopped`` says why, by table."""

    entries: list[Entry]
    position: Position | None
    compacted: list[Compacted] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)
    stopped: dict[TableName, str] = field(default_factory=dict)
    stopped_into: dict[TableInto, str] = field(default_factory=dict)
    """Of the tables that stopped on their way downstream, why, by downstream table too: others of theirs may go on."""
    new: set[seen.Seen] = field(default_factory=set)


def destinations_of(pipeline: Pipeline, source: str, name: TableName) -> tuple[Destination, ...]:
    """The downstream tables that a source table's rows are merged to. Raises TableStopped where routes do not tell."""
    try:
        return pipeline.routing.of(source, name.schema, name.table)
    except ConfigError as error:
        raise TableStopped(f"{source}: {name}: {error}") from error


def downstream_of(lake: Lake, source: str, name: TableName, into: Destination) -> Table:
    """A downstream table as a source table has it: the table, or its part of one of several.

    Raises TableStopped where the lake has no place for it.
    """
    table = lake.downstream(*into.name)
    if into.is_shared:
        return SharedPart(table, (source, name.schema, name.table))
    return PartTable(table, (source, name.schema, name.table)) if into.is_merged else table


def why_not_anew(pipeline: Pipeline, source: str, name: TableName) -> str | None:
    """Why no column of a source table can begin anew (on_incompatible); None where one can."""
    try:
        into = [one for one in pipeline.routing.of(source, name.schema, name.table) if one.is_merged]
    except ConfigError as error:
        return str(error)
    return f"routes merge it with others into {into[0]}" if into else None


def endpoints_of(pipeline: Pipeline, name: str) -> Endpoints:
    """A source's endpoints, with the one that bronze's end comes from. Raises LakeError."""
    head = lake_of(pipeline).bronze(name).head()
    last = stretches(head.checkpoint)[-1] if head and head.checkpoint else None
    settings = pipeline.sources[name]
    return open_endpoints(name, settings, pipeline.endpoints_file, last.endpoint if last else None)


def extract_source(spark: SparkSession, pipeline: Pipeline, name: str, *, until: Position | None = None) -> Extracted:
    """Source -> bronze, from the first endpoint that can be read, to the log's end or a transaction's end before.

    Raises SourceError, DecodeError, LakeError.
    """
    lake = lake_of(pipeline)
    brief = session_over(spark, 0)  # its rows are slices, however large the log is

    def from_endpoint(source: Source) -> Extracted:
        shares = pipeline.routing.shares(name)
        unreadable: Exception | None = None
        reading = declared = None
        try:
            reading = reading_of(lake, source, pipeline.sources[name].schema_dump, on_server_default)
            declared = new_facts(lake, source)
        except SourceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a definition is like: raised once the log is in bronze
            unreadable = error
        now = source.now() if shares and until is None else None
        settings = pipeline.sources[name]
        done = extract(brief, lake, source, settings.start, until=until, redact=Redaction.of(settings.redact))
        if unreadable:
            raise unreadable
        follow(brief, lake, name, reading, declared)
        if shares:
            try:
                commit_clock.advance(brief, lake, name, now)
            except TableStopped as error:  # the tables that it is about stop by it when they are merged
                log.warning("%s", error)
        return done

    extracted = endpoints_of(pipeline, name).first(from_endpoint)
    shortage = extracted.margin.shortage(pipeline.retention) if extracted.margin else None
    if shortage:
        log.warning("%s: %s", name, shortage)
    return extracted


def compact_source(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    *,
    tables: frozenset[TableName] | None = None,
    appeared: Sequence[TableName] = (),
) -> Outcome:
    """Bronze -> silver, up to bronze's end, for each table in scope (and in ``tables``) that has something new.

    appeared: tables that nothing is published of, and that only log has which was put before bronze's oldest.
    """
    lake = lake_of(pipeline)
    held = Held.any(lake, name)
    entries = publication.read(lake, name) + [Entry(name, one.schema, one.table, "current") for one in appeared]
    if held is None:
        return Outcome(entries, None)
    planner = Planner(pipeline, lake, held, tables, publication.surveyed(lake, name))
    planned = planner.plan(entries)
    if planned.work:
        log.info("%s: %d tables have changes up to %s", name, len(planned.work), planner.end)
        start_session(spark)  # by this thread, where it is a lazy one
    units = _silver_units(spark, planned, held.table)
    done = each_table(planned.work, partial(_compact, spark, planned, units), planned.stopped, f"{name}: silver")
    for one in done:
        if one.stopped:
            planned.stop(one.name, f"{name}: {one.name}", one.stopped)
    new = seen.add(pipeline.tables_file, {(name, one.name.schema, one.name.table) for one in done})
    after = planner.after(planned, done)
    return Outcome(after, planner.end, compacted=done, stopped=planned.stopped, new=new)


SilverUnits = Mapping[TableName, tuple[silver_job.Prepared, list[Written]]]


def _silver_units(spark: SparkSession, planned: "Plan", bronze_table: Table) -> SilverUnits:
    """What one Spark job wrote for the tables that the engine takes; ``_compact`` commits it."""
    if planned.index is None:
        return {}
    index = planned.index.cut({place for work in planned.work for place in work.window.cuts})
    units, by_sql = silver_job.prepared(planned.work, index)
    planned.by_sql.update(by_sql)
    if not units:
        return {}
    results = silver_job.run(session_over(spark, 0), bronze_table.path, units, slots(spark))
    done = {}
    for unit in units:
        own = results[unit.unit.number]
        why = silver_job.why_again(unit, own)
        if why:
            planned.by_sql[unit.work.name] = why
        else:
            done[unit.work.name] = unit, own
    return done


def _compact(spark: SparkSession, planned: "Plan", units: SilverUnits, work: Work) -> Compacted:
    if work.name in units:
        return silver_job.commit(*units[work.name])
    try:
        done = compact(session_over(spark, work.bytes), work)
        return replace(done, way=routing.by_spark_sql(planned.by_sql.get(work.name, "")))
    except TableStopped as error:
        planned.note_place(work.name, error)
        raise


def merge_source(  # noqa: PLR0913 - the ways in which less than all is merged
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    before: Outcome | None = None,
    *,
    tables: frozenset[TableName] | None = None,
    into: frozenset[Name] | None = None,
    again: Mapping[TableName, tuple[Range, ...]] | None = None,
) -> Outcome:
    """Silver -> downstream for every table in scope (of ``tables``, where given), up to silver's checkpoint.

    into: the downstream tables to merge into; all without it. again: windows of tables whose keys are merged although
    silver has not replaced them.
    """
    lake = lake_of(pipeline)
    entries = before.entries if before else publication.read(lake, name)
    scope = pipeline.scope
    stopped = dict(before.stopped) if before else {}
    chosen = [entry for entry in entries if scope.holds(*entry.name) and entry.position and _is_in(tables, entry)]
    names = [TableName(*one.name) for one in chosen]
    legs = {one: _destinations(pipeline, name, one, stopped) for one in names}
    turns: dict[str, threading.Lock] = defaultdict(threading.Lock)
    by_sql: dict[TableInto, str] = {}
    deliveries = [
        Delivery(
            spark=spark,
            lake=lake,
            source=name,
            origin=origin,
            into=one,
            is_one_of_several=len(found) > 1,
            turns=turns,
            again=(again or {}).get(origin, ()),
            by_sql=by_sql,
        )
        for origin, found in legs.items()
        for one in found
        if into is None or one.name in into
    ]
    unchanged = _settled(lake, name, deliveries=deliveries, entries=chosen, before=before, stopped=stopped)
    deliveries = [one for one in deliveries if one.name not in unchanged]
    stopped_into: dict[TableInto, str] = {}
    units = _merge_units(spark, deliveries, by_sql)
    bring = partial(_bring, units)
    each = each_table(deliveries, bring, stopped_into, f"{name}: downstream")
    brought = _at_one_version({one.name: one for one in each})
    for one in brought.values():
        if one.stopped:
            stopped_into[one.name] = advised(one.stopped, table=one.name[0])
            log.error("%s", stopped_into[one.name])
    for origin, why in _by_table(stopped_into).items():
        stopped[origin] = f"{stopped[origin]}\n{why}" if origin in stopped else why
    arrivals = _Arrivals(lake, legs, brought, stopped_into, stopped, unchanged)
    done = [one.merged for one in brought.values() if one.merged]
    position = before.position if before else publication.surveyed(lake, name)
    compacted, new = (before.compacted, before.new) if before else ([], set())
    after = [arrivals.after(entry) for entry in entries]
    return Outcome(after, position, compacted, done, stopped, stopped_into, new)


def _settled(
    lake: Lake,
    source: str,
    *,
    deliveries: Sequence["Delivery"],
    entries: Sequence[Entry],
    before: Outcome | None,
    stopped: Mapping[TableName, str],
) -> dict[TableInto, Target]:
    """The deliveries that have nothing to merge, with what is published of their downstream tables."""
    moved = {one.name for one in before.compacted} if before else set()
    by_name = {TableName(*entry.name): entry for entry in entries}
    legs = [
        Leg(by_name[one.origin], one.into)
        for one in deliveries
        if not (one.again or one.origin in moved or one.origin in stopped)
    ]
    return settled(lake, source, legs, publication.read(lake, source) if before else entries) if legs else {}


Units = Mapping[TableInto, tuple[downstream_job.Prepared, list[MergedFiles]]]


def _merge_units(spark: SparkSession, deliveries: Sequence["Delivery"], by_sql: dict[TableInto, str]) -> Units:
    """What one Spark job did for the deliveries that the engine takes; they are committed by ``Delivery.bring``.

    by_sql: gets why Spark SQL takes the others.
    """
    units: list[tuple[TableInto, downstream_job.Prepared]] = []
    for delivery in deliveries:
        with suppress(StratalogError):  # raised again, and reported, where the table is brought
            found = delivery.prepared(len(units))
            if isinstance(found, downstream_job.Prepared):
                units.append((delivery.name, found))
            elif found:
                by_sql[delivery.name] = found
    if not units:
        return {}
    results = downstream_job.run(session_over(spark, 0), [unit for _, unit in units], slots(spark))
    done = {}
    for name, unit in units:
        own = results[unit.unit.number]
        errors = [one.error for one in own if one.error]
        if errors:
            by_sql[name] = errors[0]
        else:
            done[name] = unit, own
    return done


def _bring(units: Units, delivery: "Delivery") -> "Brought":
    return delivery.bring(units.get(delivery.name))


def publish(spark: SparkSession, pipeline: Pipeline, name: str, outcome: Outcome) -> None:
    """Writes what a run left, in one commit, where it differs from what is published."""
    lake = lake_of(pipeline)
    known = publication.surveyed(lake, name)
    if outcome.position is None or (known == outcome.position and _same(outcome.entries, publication.read(lake, name))):
        return
    now = datetime.now(UTC)
    entries = [replace(entry, published_at=now) for entry in outcome.entries]
    publication.write(session_over(spark, 0), lake, name, entries, outcome.position)
    log.info("%s: published up to %s", name, outcome.position)


def run_source(spark: SparkSession, pipeline: Pipeline, name: str) -> tuple[Extracted, Outcome]:
    """All three layers of one source, and the publication. Tables that stop are in the outcome."""
    extracted = extract_source(spark, pipeline, name)
    outcome = merge_source(spark, pipeline, name, compact_source(spark, pipeline, name))
    publish(spark, pipeline, name, outcome)
    return extracted, outcome


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do: windows to compact, tables that cannot go on, and the rows to publish after it."""

    entries: list[Entry]
    work: list[Work]
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
        why = ended.why.removeprefix(f"{where}: ").removeprefix(f"{name}: ")
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
    held: Held
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
        slices, found = look(self.held.table, self.held.version, Range(start, self.end), self.oldest, cuts)
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

    def _with_beginnings(self, found: Survey, entries: list[Entry], start: Position) -> Survey:
        """With the statements about tables that are seen now for the first time, from where nothing showed them yet.

        A table's CREATE may lie far ahead of its first row; it tells that nothing of the table is missing.
        """
        known = {entry.name for entry in entries}
        new = [name for name in self._names(found) if (name.schema, name.table) not in known]
        if not new or start <= self.oldest:
            return found
        earlier = Range(self.oldest, start)
        slices = read_index(self.held.table, self.held.version, earlier, "statement")
        said = survey(slices.within(earlier)).statements
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

    def _is_sequence(self, found: Survey, entry: Entry) -> bool:
        """Whether a table is a sequence of MariaDB's, by what the log or the server calls its columns.

        Raises TableStopped where nothing tells, and its rows would be counted (``on_unnamed: number``).
        """
        seen = found.tables.get(TableName(*entry.name))
        if seen is None or not seen.definitions:
            return entry.reason == sequences.REASON
        logged = seen.definitions[-1][1]
        if logged.named() or not sequences.may_be_sequence(logged):
            return sequences.is_sequence(logged)
        try:
            return sequences.is_sequence(named(self.lake, self.source, logged, None))
        except TableStopped as error:
            if self.pipeline.on_unnamed == "number":
                raise TableStopped(f"{self.source}: {logged.name}: {sequences.OPEN}") from error
            return False  # where nothing names columns, its course stops the table

    def _work(
        self,
        found: Survey,
        entry: Entry,
        rules: Rules,
        *,
        cuts: frozenset[Position] = frozenset(),
        gaps: Gaps = NO_GAPS,
        slices: SliceIndex | None = None,
    ) -> Work | None:
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
                raise TableStopped(ended.why.removeprefix(f"{name}: "), ended.at)
        whole = Range(since, max(since, ended.at)) if ended else whole
        bounds = (cuts & {since}) | ({whole.stop} if ended else set())
        if not content.steps and not is_anew:
            return None
        window = Window(self.held.table, self.held.version, (whole,), self.oldest, found.xa, bounds)
        carried = sum(step.carried.size for step in content.steps if isinstance(step, SchemaChange) and step.carried)
        work = Work(self.source, name, window, content.steps, table, head, content.size, filters, carried=carried)
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
            raise TableStopped(f"{self.source}: {name}: {bronze.gone(self.source, Range(since, self.oldest))}")
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
    def _before(whole: Range, found: Survey, rules: Rules, refusal: str) -> tuple[Range, Survey, Rules]:
        """What a table's course is made of in a range that ends where a gap of its log begins.

        A server's definition is of the log's end: it names no columns before the statements in between.
        """
        statements = tuple(statement for statement in found.statements if statement.position < whole.stop)

        def complete(logged: TableDefinition, last_change: Position | None) -> TableDefinition:
            if not logged.named():
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
        return _is_in(self.tables, entry)

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

    def _names(self, found: Survey) -> set[TableName]:
        """The tables that the log has rows of, and those in scope that have another one's by taking its place."""
        scope = self.pipeline.scope
        return {*found.tables, *(one for one in renamed_tables(found) if scope.holds(one.schema, one.table))}

    def _with_new(self, entries: list[Entry], found: Survey) -> list[Entry]:
        known = {entry.name for entry in entries}
        named = self._names(found)
        # A table may have rows by statements alone: it has to stop, and so has to be known. Some servers store names in
        # small letters, and log statements as they were typed.
        alike = {str(TableName(*name)).casefold() for name in known} | {str(name).casefold() for name in named}
        named |= {
            name
            for name in found.written()
            if self.pipeline.scope.holds(name.schema, name.table) and str(name).casefold() not in alike
        }
        new = [name for name in sorted(named) if (name.schema, name.table) not in known]
        for name in new:
            why = self.pipeline.scope.why_helper(name.schema, name.table)
            if why:
                log.warning("%s: %s is left out, %s", self.source, name, why)
        return [*entries, *(Entry(self.source, name.schema, name.table, "current") for name in new)]


@dataclass(frozen=True, slots=True)
class Brought:
    """A table after a merge into one downstream table: the heads of both layers, and what was merged if anything."""

    name: TableInto
    target: Table
    silver: Head | None
    downstream: Head | None
    merged: Merged | None
    unseen: int | None = None
    """Keys that downstream lacks because no row image of theirs was whole."""
    stopped: StratalogError | None = None
    """Why the merge stopped, where it holds what silver had before."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A source table on its way to one downstream table."""

    spark: SparkSession
    lake: Lake
    source: str
    origin: TableName
    into: Destination
    is_one_of_several: bool
    """Whether the source table goes to others too."""
    turns: dict[str, threading.Lock]
    """By path: parts of one table are merged one after the other."""
    again: tuple[Range, ...] = ()
    by_sql: dict[TableInto, str] = field(default_factory=dict)
    """Why Spark SQL merges tables, and not the engine; of all deliveries of a run."""

    @property
    def name(self) -> TableInto:
        return self.origin, self.into.name

    def prepared(self, number: int) -> "downstream_job.Prepared | str | None":
        """As ``downstream_job.prepared``. Raises TableStopped."""
        into = downstream_of(self.lake, self.source, self.origin, self.into)
        if isinstance(into, PartTable) or self.again:
            return "windows are merged again" if self.again else "several tables are merged into one"
        origin = self.lake.silver(self.source, self.origin.schema, self.origin.table)
        pinned = origin.head()
        if pinned is None or pinned.checkpoint is None:
            return None
        return downstream_job.prepared(number, self._work(origin, pinned, into))

    def bring(self, unit: "tuple[downstream_job.Prepared, list[MergedFiles]] | None" = None) -> Brought:
        """Merges what is new, or commits what a job did of it. Raises TableStopped, LakeError, LostRace."""
        bring = partial(self._committed, *unit) if unit else self._bring
        if not self.is_one_of_several:
            return bring()
        try:
            brought = bring()
        except StratalogError as error:
            raise self._named(error) from error
        return replace(brought, stopped=self._named(brought.stopped)) if brought.stopped else brought

    def _named(self, error: StratalogError) -> StratalogError:
        """The error, which says into which of several downstream tables."""
        where = f"{self.source}: {self.origin}"
        return type(error)(f"{where} into {self.into}: {str(error).removeprefix(f'{where}: ')}")

    def _bring(self) -> Brought:
        into = downstream_of(self.lake, self.source, self.origin, self.into)
        if not isinstance(into, PartTable):
            return self._brought(into)
        with self.turns[into.path]:
            # Other sources merge into it too, by plans of their own.
            return patiently(lambda: self._brought(into), wait=1.0)

    def _brought(self, into: Table) -> Brought:
        origin = self.lake.silver(self.source, self.origin.schema, self.origin.table)
        pinned = origin.head()
        if pinned is None or pinned.checkpoint is None:
            return Brought(self.name, into, None, None, None)
        if isinstance(into, PartTable) and silver.is_numbered(pinned):
            raise TableStopped(
                "its columns have no names (on_unnamed: number), and a table of several goes by names; route it to a "
                "table of its own"
            )
        stopped: TableStopped | None = None
        try:
            merged = self._merged(origin, pinned, into)
        except TableStopped as error:
            merged, stopped = self._merged_before(origin, pinned, into), error
            if merged is None:
                raise
        head = merged.head if merged else into.head()
        commit = DownstreamCommit.of_head(head)
        unseen = commit.keys_never_whole or None if commit else None
        way = routing.by_spark_sql(self.by_sql.get(self.name, ""))
        into_name = str(self.into) if self.is_one_of_several else None
        merged = replace(merged, into=into_name, way=way) if merged else None
        return Brought(self.name, into, pinned, head, merged, unseen, stopped)

    def _committed(self, unit: downstream_job.Prepared, results: Sequence[MergedFiles]) -> Brought:
        with about(f"{self.source}: {self.origin}"):
            merged = downstream_job.commit(unit, results)
        merged = replace(merged, into=str(self.into)) if self.is_one_of_several else merged
        return Brought(self.name, unit.work.target, unit.work.pinned, merged.head, merged)

    def _work(self, origin: Table, pinned: Head, into: Table) -> MergeWork:
        columns = silver.stored_columns(origin, pinned)
        return MergeWork(self.source, self.origin, columns, origin, pinned, into, self.again)

    def _merged(self, origin: Table, pinned: Head, into: Table) -> Merged | None:
        work = self._work(origin, pinned, into)
        return merge_shared(self.spark, self.lake, work) if isinstance(into, SharedPart) else merge(self.spark, work)

    def _merged_before(self, origin: Table, pinned: Head, into: Table) -> Merged | None:
        """The last merge of what silver had before a merge of all stopped; None where none of it can be merged.

        One commit of silver after the other: how many of them a run makes must not decide what is downstream. Where
        keys are shared, other sources decide what may be merged, and nothing is.
        """
        if isinstance(into, SharedPart):
            return None
        commit = DownstreamCommit.of_head(into.head())
        known = commit.silver_version if commit else -1
        merged: Merged | None = None
        for version, checkpoint in reversed(origin.since(known)):
            if version >= pinned.version or checkpoint.kind in (CommitKind.ALTERING, CommitKind.MAINTENANCE):
                continue
            try:
                merged = self._merged(origin, Head(version, pinned.counter, checkpoint), into) or merged
            except TableStopped:  # why, the merge of all has said
                break
        return merged


def filters_of(filters: Filters, source: str, name: TableName) -> TableFilters:
    """The rules about a table. Raises TableStopped where two of them cannot both be."""
    try:
        return filters.of(name.schema, name.table)
    except ConfigError as error:
        raise TableStopped(f"{source}: {error}") from error


def is_complete(head: Head) -> bool:
    """Whether a silver or downstream table has the rows from before its log begins, if there were any."""
    commit = TableCommit.of_head(head)
    return bool(commit and commit.is_complete)


def _is_in(tables: frozenset[TableName] | None, entry: Entry) -> bool:
    return tables is None or TableName(*entry.name) in tables


def _destinations(
    pipeline: Pipeline, source: str, name: TableName, stopped: dict[TableName, str]
) -> tuple[Destination, ...]:
    """None where routes do not tell, which stops the table."""
    try:
        return destinations_of(pipeline, source, name)
    except TableStopped as error:
        stopped[name] = advised(error, source, name)
        log.error("%s", stopped[name])  # noqa: TRY400 - the message is the whole of it
        return ()


def _by_table(stopped: Mapping[TableInto, str]) -> dict[TableName, str]:
    """Why tables stopped, those of one source table together."""
    found: dict[TableName, str] = {}
    for (origin, _), why in stopped.items():
        found[origin] = f"{found[origin]}\n{why}" if origin in found else why
    return found


def _at_one_version(brought: dict[TableInto, Brought]) -> dict[TableInto, Brought]:
    """With the newest version of each table of several for all its parts: it holds all of them as they are now."""
    newest: dict[str, Head] = {}
    for one in brought.values():
        if one.downstream and one.downstream.version >= newest.get(one.target.path, one.downstream).version:
            newest[one.target.path] = one.downstream
    return {name: replace(one, downstream=newest.get(one.target.path)) for name, one in brought.items()}


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """What a run's merges did: into which tables rows came, and why which stopped."""

    lake: Lake
    legs: Mapping[TableName, tuple[Destination, ...]]
    """By source table all the downstream tables that it goes to."""
    brought: Mapping[TableInto, Brought]
    stopped_into: Mapping[TableInto, str]
    stopped: Mapping[TableName, str]
    unchanged: Mapping[TableInto, Target] = field(default_factory=dict)
    """Of the deliveries that had nothing to merge what is published."""

    def after(self, entry: Entry) -> Entry:
        """A table's row behind them. One that stopped somewhere has stopped; where it goes on is told all the same."""
        name = TableName(*entry.name)
        legs = self.legs.get(name, ())
        if name in self.stopped:
            entry = replace(entry, state="stopped", reason=self.stopped[name])
            is_ended = bool(legs) and all((name, leg.name) in self.brought for leg in legs)
            if not is_ended and (not legs[1:] or all((name, leg.name) not in self.stopped_into for leg in legs)):
                return replace(entry, targets=tuple(replace(target, reason=None) for target in entry.targets))
        landed = [self.brought.get((name, leg.name)) for leg in legs]
        pinned = next((one.silver for one in landed if one and one.silver and one.downstream), None)
        if pinned:
            whole, unnamed = is_complete(pinned), silver.is_numbered(pinned) or None
            entry = replace(entry, silver_version=pinned.version, complete=whole, numbered=unnamed)
        elif name not in self.stopped and all((name, leg.name) not in self.unchanged for leg in legs):
            return entry
        targets = list(self._targets(entry, legs))
        return entry.with_targets(targets) if targets else entry

    def _targets(self, entry: Entry, legs: Sequence[Destination]) -> Iterator[Target]:
        known = {one.name: one for one in entry.into}
        for into in (leg.name for leg in legs):
            with suppress(TableStopped):  # the lake has no place for it; the row's reason says so
                path, name = self.lake.downstream(*into).path, (TableName(*entry.name), into)
                if name in self.unchanged:
                    yield replace(self.unchanged[name], merged=entry.position)
                    continue
                target = replace(known.get(into, Target(path)), path=path, reason=self.stopped_into.get(name))
                yield _reached(target, entry, self.brought.get(name))


def _reached(target: Target, entry: Entry, one: Brought | None) -> Target:
    if one is None or one.downstream is None:
        return target
    merged = str(one.downstream.position) if one.stopped else entry.position
    return replace(target, merged=merged, version=one.downstream.version, keys_never_whole=one.unseen)


def each_table(
    work: Sequence[Item], run: Callable[[Item], Result], stopped: dict[Any, str], layer: str = ""
) -> list[Result]:
    """Runs the work of several tables side by side; what one table raises stops that table.

    layer: what lines of progress begin with; none are logged without it. Raises LostRace, once the others are done,
    where another run moved a table first: nothing is wrong with that one.
    """
    done: list[Result] = []
    lost: LostRace | None = None
    progress = Progress(log, layer, len(work)) if layer else None
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        running = [(one.name, pool.submit(run, one)) for one in work]
        if progress:
            for _, future in running:
                future.add_done_callback(progress.add)
        for name, future in running:
            try:
                done.append(future.result())
            except LostRace as error:
                lost = error
            except JvmEnded:
                raise
            except StratalogError as error:
                stopped[name] = advised(error, table=name if isinstance(name, TableName) else name[0])
                log.error("%s", stopped[name])  # noqa: TRY400 - the message is the whole of it
    if lost:
        raise lost
    return done


def _same(one: list[Entry], other: list[Entry]) -> bool:
    def key(entries: list[Entry]) -> set[Entry]:
        return {replace(entry, published_at=None) for entry in entries}

    return key(one) == key(other)
