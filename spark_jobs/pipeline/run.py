"""Run of one source through the layers: extract, compact, merge, publish.

Put here: the order of a source's work in each layer, and what is published after it. Not here: what a table has to do
(planner.py), the merge of one table (table_merge.py, engine/merge/downstream_job.py), or who asked for it
(spark_jobs/cli, Dagster's assets).
"""

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.extract import Extracted, ExtractionPlan, execute_plan, plan
from spark_jobs.bronze.redaction import Redaction
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config import known_tables
from spark_jobs.config.model import Pipeline, Spark
from spark_jobs.config.routes import Destination, Name
from spark_jobs.ddl.default_values import on_server_default
from spark_jobs.downstream import commit_clock, publication
from spark_jobs.downstream.merge_job import Merged
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.merge.part_merge import PlannedTables
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.engine.silver.silver_plan import PreparedCompaction
from spark_jobs.engine.silver.silver_task import WindowResult
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import (
    SourceError,
    StratalogError,
    TableStopped,
)
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import FIRST_EVENT, Position, Range
from spark_jobs.pipeline import iceberg_tables
from spark_jobs.pipeline.cascades.step import CascadeStep
from spark_jobs.pipeline.cascades.unlogged_changes import unlogged_changes_of
from spark_jobs.pipeline.comments import SourceComments
from spark_jobs.pipeline.destinations import TableInto, destinations_or_stop
from spark_jobs.pipeline.logged_changes import LoggedChanges
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.planner import Plan, Planner, is_chosen
from spark_jobs.pipeline.table_merge import MergeSummary, TableMerge, TableMergeResult, at_one_version, by_table
from spark_jobs.pipeline.tables_at_once import each_table
from spark_jobs.pipeline.unchanged_targets import DestinationLeg, targets_without_new_rows
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.runtime.tasks_here import placement_for, task_errors
from spark_jobs.schema.history import follow, new_facts, reading_of
from spark_jobs.silver.compaction_job import Compacted, CompactionJob
from spark_jobs.source.protocol import FilePart, Source
from spark_jobs.source.server import by_one_connection
from spark_jobs.telemetry.spans import annotate, span
from spark_jobs.text.counts import counted
from spark_jobs.text.progress import doing
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


def extract_source(spark: SparkSession, pipeline: Pipeline, name: str, *, until: Position | None = None) -> Extracted:
    """Source -> bronze, from the first endpoint that can be read, to the log's end or a transaction's end before.

    Planned again where another writer comes first. Raises SourceError, DecodeError, LakeError.
    """
    lake = lake_of(pipeline)
    brief = session_over(spark, 0)  # its rows are slices, however large the log is
    landed: list[Extracted] = []

    def from_endpoint(source: Source) -> Extracted:
        shares = pipeline.routing.shares(name)
        unreadable: Exception | None = None
        reading = declared = None
        settings, began = pipeline.sources[name], time.monotonic()
        with by_one_connection(source):
            # A definition that cannot be read must not keep the log out of bronze: it is raised after the commit.
            try:
                reading = reading_of(lake, source, settings.schema_dump, on_server_default)
                declared = new_facts(lake, source)
            except SourceError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a definition is like: raised once the log is in bronze
                unreadable = error
            now = source.now() if shares and until is None else None
            planned = plan(lake.bronze(name), source, settings.start, until)
        # The commit of bronze, then what is known of its tables at its end.
        planned = replace(planned, redact=Redaction.of(settings.redact))
        extracted = execute_plan(_session_of(spark, pipeline, planned), lake, source, planned, began)
        landed.append(extracted)
        if extracted.range:
            known_tables.add(pipeline.tables_file, set(), {name: _server_kind(source, extracted)})
        if unreadable:
            raise unreadable
        follow(lake, name, reading, declared)
        if shares:
            try:
                commit_clock.advance(brief, lake, name, now)
            except TableStopped as error:  # the tables that it is about stop by it when they are merged
                log.warning("%s", error)
        return extracted

    with span("extract", layer="bronze"), doing(f"{name}: reading the log"):
        newest = retry_on_conflict(lambda: endpoints_of(pipeline, name).first(from_endpoint), wait=CONFLICT_WAIT)
        # Of several tries, the one that found most of the log is what this run has done.
        extracted = max(landed, key=lambda part: part.bytes, default=newest)
        annotate(bytes=extracted.bytes, transactions=extracted.transactions, events=extracted.events)
    _warn_of_purge(pipeline, name, extracted)
    return extracted


def _warn_of_purge(pipeline: Pipeline, name: str, extracted: Extracted) -> None:
    """Warn where the server may purge log before a later run reads it."""
    shortage = extracted.margin.shortage(pipeline.retention) if extracted.margin else None
    if shortage:
        log.warning("%s: %s", name, shortage)


def _session_of(spark: SparkSession, pipeline: Pipeline, planned: ExtractionPlan) -> SparkSession:
    """The session that reads what was planned; no session is started where that is nothing."""
    return placement_for(spark, pipeline.spark, planned.bytes).session if planned.parts else spark


def _server_kind(source: Source, extracted: Extracted) -> str:
    """Kind of server that wrote the log that was read: ``mysql`` or ``mariadb``, which has no UUID."""
    if source.endpoint is not None:
        return "mysql" if extracted.stretch and extracted.stretch.uuid else "mariadb"
    format_, _ = source.reading()(FilePart(extracted.range.stop.file, FIRST_EVENT, FIRST_EVENT))
    return format_.flavor if format_ else "mysql"


@span("compact", layer="silver")
def compact_source(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    *,
    tables: frozenset[TableName] | None = None,
    appeared: Sequence[TableName] = (),
    finished: dict[TableName, Compacted] | None = None,
) -> Outcome:
    """Bronze -> silver, up to bronze's end, for each table in scope (and in ``tables``) that has something new.

    appeared: tables that nothing is published of, and that only log has which was put before bronze's oldest.
    finished: the tables that earlier calls have compacted and not published; gets what this one compacts. Planned again
    where another writer comes first.
    """
    finished = {} if finished is None else finished
    derived = Counter[TableName]()
    outcome = retry_on_conflict(
        lambda: _compact_tables(
            spark, pipeline, name, tables=tables, appeared=appeared, finished=finished, derived=derived
        ),
        wait=CONFLICT_WAIT,
    )
    return replace(outcome, derived=dict(derived))


def _compact_tables(  # noqa: PLR0913 - as ``compact_source``
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    *,
    tables: frozenset[TableName] | None,
    appeared: Sequence[TableName],
    finished: dict[TableName, Compacted],
    derived: Counter[TableName],
) -> Outcome:
    """One try. finished: the tables that this one and those before it have compacted. derived: what they derived."""
    # The tables to be planned: those that are published, and those that only older log has (appeared).
    lake = lake_of(pipeline)
    snapshot = BronzeSnapshot.find(lake, name)
    published, surveyed = publication.current(lake, name)
    entries = published + [Entry(name, table.schema, table.table, "current") for table in appeared]
    if snapshot is None:
        return Outcome(entries, None, found=published)
    # Changes that the server did not log are derived before, and limit how far their tables are compacted.
    with doing(f"{name}: planning what is to be compacted"):
        gaps = unlogged_changes_of(pipeline, lake, name)
        applied = CascadeStep(pipeline, lake, snapshot, entries, gaps).run()
        derived.update(applied.derived)
        gaps = replace(gaps, refused=applied.refused)
        planner = Planner(pipeline, lake, snapshot, tables, surveyed, gaps, applied.limits)
        planned = planner.plan(entries)
    if planned.work:
        log.info("%s: compacting %s up to %s", name, counted(len(planned.work), "table"), snapshot.end)
    # All tables in one job; each is committed by itself, and one that fails stops alone.
    units = silver_units(spark, planned, snapshot.table, pipeline.spark)
    with span("commits", tables=len(planned.work)):
        jobs = each_table(
            planned.work,
            partial(_compact, spark, planned, units),
            planned.stopped,
            f"{name}: silver",
            lambda job: finished.update({job.name: job}),
        )
    for job in jobs:
        if job.stopped:
            planned.stop(job.name, f"{name}: {job.name}", job.stopped)
    # The outcome covers what earlier tries have finished, too.
    jobs = [*finished.values()]
    new = known_tables.add(pipeline.tables_file, {(name, job.name.schema, job.name.table) for job in jobs})
    after = planner.after(planned, jobs)
    annotate(tables=len(jobs), changes=sum(job.changes for job in jobs), rows=sum(job.rows for job in jobs))
    waiting = {child: limit.end for child, limit in applied.limits.items() if child not in planned.stopped}
    return Outcome(
        after, snapshot.end, compacted=jobs, stopped=planned.stopped, new=new, waiting=waiting, found=published
    )


@dataclass(frozen=True, slots=True)
class SilverUnits:
    """Results of one job for tables, and stops of others before anything of them can be committed."""

    results: Mapping[TableName, tuple[PreparedCompaction, list[WindowResult]]] = field(default_factory=dict)
    errors: Mapping[TableName, StratalogError] = field(default_factory=dict)


def silver_units(spark: SparkSession, planned: "Plan", bronze_table: Table, settings: Spark) -> SilverUnits:
    """Results of one job for tables; ``_compact`` commits them."""
    if planned.index is None:
        return SilverUnits()
    # Slices are cut where a window of some table ends, so that a task reads whole slices.
    index = planned.index.cut({position for work in planned.work for position in work.window.cuts})
    preparation = silver_plan.prepared(planned.work, index)
    if not preparation.units:
        return SilverUnits({}, preparation.errors)
    # One job for all tables; each one's results are committed by itself.
    table_count = counted(len(preparation.units), "table")
    placement = placement_for(spark, settings, silver_job.log_bytes(preparation.units))
    capacity = Capacity(placement.slots, settings.task_bytes)
    doing_units = doing(f"compacting {table_count}")
    with span("engine", tables=len(preparation.units)), doing_units, task_errors(placement.session):
        completed, refused = silver_job.run_until_stopped(
            placement.session, index, bronze_table.path, preparation.units, capacity
        )
    units_by_name = {unit.work.name: (unit, results) for unit, results in completed}
    return SilverUnits(units_by_name, preparation.errors | {unit.work.name: error for unit, error in refused})


def _compact(spark: SparkSession, planned: "Plan", units: SilverUnits, work: CompactionJob) -> Compacted:
    try:
        if work.name in units.errors:
            raise units.errors[work.name]
        return silver_job.commit(*units.results[work.name], partial(silver_job.refill_results, session_over(spark, 0)))
    except TableStopped as error:
        planned.note_position(work.name, error)
        raise


@span("merge", layer="downstream")
def merge_source(  # noqa: PLR0913 - the ways in which less than all is merged
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    before: Outcome | None = None,
    *,
    tables: frozenset[TableName] | None = None,
    into: frozenset[Name] | None = None,
    repeated: Mapping[TableName, tuple[Range, ...]] | None = None,
) -> Outcome:
    """Silver -> downstream for every table in scope (of ``tables``, where given), up to silver's checkpoint.

    into: the downstream tables to merge into; all without it. repeated: windows of tables whose keys are merged
    although silver has not replaced them. Planned again where another writer comes first.
    """
    finished: dict[TableInto, Merged] = {}
    return retry_on_conflict(
        lambda: _merge_tables(
            spark, pipeline, name, before, tables=tables, into=into, repeated=repeated, finished=finished
        ),
        wait=CONFLICT_WAIT,
    )


def _merge_tables(  # noqa: PLR0913 - as ``merge_source``
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    before: Outcome | None,
    *,
    tables: frozenset[TableName] | None,
    into: frozenset[Name] | None,
    repeated: Mapping[TableName, tuple[Range, ...]] | None,
    finished: dict[TableInto, Merged],
) -> Outcome:
    """One try. finished: what this one and those before it have merged."""
    lake = lake_of(pipeline)
    entries, position = (before.entries, before.position) if before else publication.current(lake, name)
    stopped = dict(before.stopped) if before else {}

    # Where each table goes, and what has nothing to merge.
    scope = pipeline.scope
    selected = [entry for entry in entries if scope.holds(*entry.name) and entry.position and is_chosen(tables, entry)]
    names = [TableName(*entry.name) for entry in selected]
    legs = {origin: destinations_or_stop(pipeline, name, origin, stopped) for origin in names}
    table_merges = _table_merges(spark, pipeline, name, legs, into=into, repeated=repeated or {})
    unchanged = _unchanged_targets(
        lake, name, table_merges=table_merges, entries=selected, before=before, stopped=stopped
    )
    table_merges = [table_merge for table_merge in table_merges if table_merge.name not in unchanged]

    # The merges, and why which stopped.
    stopped_into: dict[TableInto, str] = {}
    units = _merge_units(spark, table_merges, pipeline.spark)
    merge, note = partial(_merge_table, units), partial(_note_merge, finished)
    with span("commits", tables=len(table_merges), by_engine=len(units)):
        merge_results = each_table(table_merges, merge, stopped_into, f"{name}: downstream", note)
    results = at_one_version({result.name: result for result in merge_results})
    stopped_into |= _logged_stops(results.values())
    for origin, reason in by_table(stopped_into).items():
        stopped[origin] = f"{stopped[origin]}\n{reason}" if origin in stopped else reason

    merge_summary = MergeSummary(lake, legs, results, stopped_into, stopped, unchanged)
    for result in results.values():
        _note_merge(finished, result)
    merges = [*finished.values()]
    annotate(tables=len(merges), rows=sum(map(_merged_row_count, merges)))
    compacted, new = (before.compacted, before.new) if before else ([], set())
    after = [merge_summary.after(entry) for entry in entries]
    waiting, derived = (before.waiting, before.derived) if before else ({}, {})
    found = before.found if before else entries
    return Outcome(after, position, compacted, merges, stopped, stopped_into, new, waiting, derived, found)


def _logged_stops(results: Iterable[TableMergeResult]) -> dict[TableInto, str]:
    """Messages of the merges that stopped, by source table and destination; each is logged."""
    messages = {result.name: advised(result.stopped, table=result.name[0]) for result in results if result.stopped}
    for message in messages.values():
        log.error("%s", message)
    return messages


def _table_merges(
    spark: SparkSession,
    pipeline: Pipeline,
    source: str,
    legs: Mapping[TableName, tuple[Destination, ...]],
    *,
    into: frozenset[Name] | None,
    repeated: Mapping[TableName, tuple[Range, ...]],
) -> list[TableMerge]:
    """The source tables on their way to the downstream tables that are chosen."""
    # Shared by all: who may merge into a table of several now, and what decodes every change.
    locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
    lake, changes = lake_of(pipeline), LoggedChanges(pipeline, source)
    comments = SourceComments(pipeline, source)
    return [
        TableMerge(
            spark=spark,
            lake=lake,
            source=source,
            origin=origin,
            into=destination,
            is_one_of_several=len(destinations) > 1,
            locks=locks,
            changes=changes,
            comments=comments,
            settings=pipeline.spark,
            repeated=repeated.get(origin, ()),
        )
        for origin, destinations in legs.items()
        for destination in destinations
        if into is None or destination.name in into
    ]


def _unchanged_targets(
    lake: Lake,
    source: str,
    *,
    table_merges: Sequence["TableMerge"],
    entries: Sequence[Entry],
    before: Outcome | None,
    stopped: Mapping[TableName, str],
) -> dict[TableInto, Target]:
    """The merges that have nothing to merge, with what is published of their downstream tables."""
    moved = {job.name for job in before.compacted} if before else set()
    by_name = {TableName(*entry.name): entry for entry in entries}
    legs = [
        DestinationLeg(by_name[table_merge.origin], table_merge.into)
        for table_merge in table_merges
        if not (table_merge.repeated or table_merge.origin in moved or table_merge.origin in stopped)
    ]
    return (
        targets_without_new_rows(lake, source, legs, publication.read(lake, source) if before else entries)
        if legs
        else {}
    )


Units = Mapping[TableInto, tuple[PreparedMerge, list[MergedFiles]]]


def _merge_units(spark: SparkSession, table_merges: Sequence["TableMerge"], settings: Spark) -> Units:
    """Results of one job for the merges.

    They are committed by ``TableMerge.merge``, which tries the others.
    """
    units: list[tuple[TableInto, PreparedMerge]] = []
    planned_tables: PlannedTables = {}
    log: ChangedLog | None = None
    with suppress(StratalogError):  # raised again, and reported, where a table is brought
        log = table_merges[0].changes.log() if any(map(_has_every_change, table_merges)) else None
    for table_merge in table_merges:
        with suppress(StratalogError):
            prepared = table_merge.prepared(len(units), planned_tables, log)
            if prepared:
                units.append((table_merge.name, prepared))
    if not units:
        return {}
    table_count = counted(len(units), "table")
    prepared_merges = [unit for _, unit in units]
    placement = placement_for(spark, settings, downstream_job.size_of(prepared_merges))
    capacity = Capacity(placement.slots, settings.task_bytes)
    doing_units = doing(f"{table_merges[0].source}: merging {table_count}")
    with span("engine", tables=len(units)), doing_units, task_errors(placement.session):
        results = downstream_job.run(placement.session, prepared_merges, capacity, log)
    outcomes = ((name, unit, results[unit.unit.number]) for name, unit in units)
    return {name: (unit, outcome) for name, unit, outcome in outcomes if not any(result.error for result in outcome)}


def _has_every_change(table_merge: "TableMerge") -> bool:
    return table_merge.into.mode.has_every_change


def _note_merge(finished: dict[TableInto, Merged], result: TableMergeResult) -> None:
    """Note what was merged; a try that finds nothing more has not merged less."""
    merged, earlier = result.merged, finished.get(result.name)
    if merged and (_merged_row_count(merged) or not earlier or not _merged_row_count(earlier)):
        finished[result.name] = merged


def _merged_row_count(merged: Merged) -> int:
    return merged.inserted + merged.updated + merged.deleted


def _merge_table(units: Units, table_merge: "TableMerge") -> "TableMergeResult":
    return table_merge.merge(units.get(table_merge.name))


@span("publish", layer="published")
def publish(pipeline: Pipeline, name: str, outcome: Outcome) -> None:
    """Write what a run left, in one commit, where it differs from what is published; then Iceberg's metadata of it.

    Raises LostRace, LakeError.
    """
    _publish(pipeline, name, outcome)
    iceberg_tables.show_tables(pipeline, name)


def _publish(pipeline: Pipeline, name: str, outcome: Outcome) -> None:
    lake = lake_of(pipeline)
    published, surveyed = publication.current(lake, name)
    if outcome.position is None or (surveyed == outcome.position and _is_same(outcome.entries, published)):
        return
    now = datetime.now(UTC)
    entries = [replace(entry, published_at=now) for entry in outcome.entries]
    with doing(f"{name}: publishing"):
        publication.write(lake, name, entries, outcome.position, found=outcome.found)
    log.info("%s: published up to %s", name, outcome.position)


def run_source(
    spark: SparkSession, pipeline: Pipeline, name: str, on_extracted: Callable[[], object] = lambda: None
) -> tuple[Extracted, Outcome]:
    """All three layers of one source, and the publication. Tables that stop are in the outcome.

    on_extracted: called once bronze has all of the log that this run merges.
    """
    extracted = extract_source(spark, pipeline, name)
    on_extracted()
    # A run that has published more of the log meanwhile is what this one continues from.
    forward_merge = partial(merge_forward, spark, pipeline, name)
    return extracted, retry_on_conflict(forward_merge, wait=CONFLICT_WAIT)


def merge_forward(spark: SparkSession, pipeline: Pipeline, name: str) -> Outcome:
    """Silver and downstream of one source up to bronze's end, and the publication. Raises LostRace."""
    outcome = merge_source(spark, pipeline, name, compact_source(spark, pipeline, name))
    publish(pipeline, name, outcome)
    # Child tables wait at a statement until their mirrors are there, by which later changes are derived.
    while outcome.waiting:
        further = merge_source(spark, pipeline, name, compact_source(spark, pipeline, name))
        publish(pipeline, name, further)
        is_stuck = further.waiting == outcome.waiting
        outcome = outcome.then(further)
        if is_stuck:
            break
    return outcome


def _is_same(first: list[Entry], second: list[Entry]) -> bool:
    def key(entries: list[Entry]) -> set[Entry]:
        return {replace(entry, published_at=None) for entry in entries}

    return key(first) == key(second)
