"""Run of a backfill: a range of a source's log replayed for its tables, one after the other, and the merges after it.

Put here: the order of the work. Not here: what is asked for (request.py), which windows a range means
(pipeline/replay_windows.py, pipeline/replay_plan.py), replacing them (replay.py), or how bronze gets what it lacks of
the log (pipeline/restore.py).

Log that bronze lacks is brought first, where the range needs it or a window does that it touches. What was
logged before the first extraction began is in no window yet: it becomes windows of its own, older than all.

What follows downstream: the next merge sees the replaced windows in silver's history and applies them
(engine/merge/downstream_job.py).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.errors import JvmEnded, LakeError, StratalogError, about
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.replay import replay
from spark_jobs.pipeline.backfill.request import (
    DEFAULTS,
    DOWNSTREAM,
    SILVER,
    BackfillOptions,
    BackfillRequest,
    OnFetched,
    OnTable,
    ReplayedTable,
    without_notice,
    without_report,
)
from spark_jobs.pipeline.cascades.unlogged_changes import require_derived
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.replay_plan import NeedsEarlierLog, floor_above, plan_table
from spark_jobs.pipeline.replay_windows import windows
from spark_jobs.pipeline.restore import fetch
from spark_jobs.pipeline.run import compact_source, merge_source, publish
from spark_jobs.pipeline.table_choice import tables_in_scope
from spark_jobs.runtime.spark_session import session_over, slots
from spark_jobs.silver.compaction_job import Compacted
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


def backfill(
    spark: SparkSession,
    pipeline: Pipeline,
    request: BackfillRequest,
    on_table: OnTable = without_report,
    on_fetched: OnFetched = without_notice,
) -> Outcome:
    """Execute a request. Raises ConfigError, SourceError, LakeError."""
    request.require_valid(pipeline)
    log_range = request.range(pipeline)
    options = request.options(on_table, on_fetched)
    return backfill_source(spark, pipeline, request.source, log_range, request.wants, options=options)


def backfill_source(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    log_range: Range,
    is_selected: Callable[[TableName], bool],
    *,
    options: BackfillOptions = DEFAULTS,
) -> Outcome:
    """Replay a range for the chosen tables in scope. Raises LakeError; LostRace if other writers keep winning."""
    # The log of the range must be in bronze before anything is replaced.
    lake = lake_of(pipeline)
    replaces = SILVER in options.layers
    names = sorted(filter(is_selected, tables_in_scope(pipeline, name)))
    if replaces:
        snapshot = BronzeSnapshot.of(lake, name)
        _require_end(snapshot, log_range)
        if log_range.start < snapshot.complete_from and not _are_folded(lake, name, names, log_range):
            _fetch_log(spark, pipeline, name, log_range.start, options)
    replay_table = partial(_replay_table, spark, pipeline, name, log_range=log_range, options=options)
    replays, stopped = _replay_tables(name, names, replay_table, options.on_table)
    replaced = [replay.compacted for replay in replays if replay.compacted]
    repeated = _merged_again(pipeline, name, replays, replaces=replaces)
    compacted: dict[TableName, Compacted] = {}

    def published() -> Outcome:
        # Tables that the range has and silver does not have yet are compacted like in a run. A run that has published
        # more of the log meanwhile is what this continues from.
        before = _first_seen(spark, pipeline, name, log_range, is_selected, compacted=compacted) if replaces else None
        if DOWNSTREAM not in options.layers:
            if before:
                publish(pipeline, name, before)
            return Outcome(*publication.current(lake, name), stopped=before.stopped if before else {})
        # Downstream takes what silver replaced, or, where only downstream was asked for, the windows of the range.
        tables = (frozenset(names) - stopped.keys()) | compacted.keys()
        outcome = merge_source(spark, pipeline, name, before, tables=tables, repeated=repeated)
        publish(pipeline, name, outcome)
        return outcome

    outcome = retry_on_conflict(published, wait=CONFLICT_WAIT)
    return replace(outcome, compacted=[*replaced, *compacted.values()], stopped=outcome.stopped | stopped)


def _replay_tables(
    source: str,
    names: Sequence[TableName],
    replay_table: Callable[[TableName], ReplayedTable],
    on_table: OnTable,
) -> tuple[list[ReplayedTable], dict[TableName, str]]:
    """Replays of tables, and why the others could not be replayed, by name. Raises JvmEnded.

    on_table: as in BackfillOptions.
    """
    replays: list[ReplayedTable] = []
    stopped: dict[TableName, str] = {}
    for at, table_name in enumerate(names, 1):
        try:
            replay = retry_on_conflict(partial(replay_table, table_name))
        except JvmEnded:
            raise
        except StratalogError as error:
            stopped[table_name] = advised(error, source, table_name)
            log.error("%s", stopped[table_name])  # noqa: TRY400 - the message is the whole of it
        else:
            replays.append(replay)
            on_table(replay, at, len(names))
    return replays, stopped


def _merged_again(
    pipeline: Pipeline, source: str, replays: Sequence[ReplayedTable], *, replaces: bool
) -> dict[TableName, tuple[Range, ...]]:
    """The windows that are merged although silver has not replaced them, by table.

    Changes may differ where the net change of their window does not.
    """

    def has_every_change(name: TableName) -> bool:
        return any(into.mode.has_every_change for into in pipeline.routing.of(source, name.schema, name.table))

    return {replay.name: replay.windows for replay in replays if not replaces or has_every_change(replay.name)}


def _first_seen(
    spark: SparkSession,
    pipeline: Pipeline,
    name: str,
    log_range: Range,
    is_selected: Callable[[TableName], bool],
    *,
    compacted: dict[TableName, Compacted],
) -> Outcome | None:
    """Compact the tables that only log from before the first extraction shows, as a run does that sees one first.

    compacted: those of earlier tries, that nothing may be published of; gets what this one compacts.
    """
    snapshot = BronzeSnapshot.of(lake_of(pipeline), name)
    begin, oldest = snapshot.begin, snapshot.oldest
    if log_range.start >= begin or oldest >= begin:
        return None
    _, scan = scan_effective(snapshot.table, snapshot.version, Range(oldest, begin), oldest)
    published = {entry.name for entry in publication.read(lake_of(pipeline), name)}
    new = [table for table in scan.tables if (table.schema, table.table) not in published]
    appeared = sorted(table for table in new if pipeline.scope.holds(table.schema, table.table) and is_selected(table))
    if not appeared:
        return None
    return compact_source(spark, pipeline, name, tables=frozenset(appeared), appeared=appeared, finished=compacted)


def _fetch_log(spark: SparkSession, pipeline: Pipeline, source: str, begin: Position, options: BackfillOptions) -> None:
    """Fetch the log from a position on that bronze lacks. Raises LakeError where nobody has what it lacks."""
    for piece in retry_on_conflict(lambda: fetch(spark, pipeline, source, begin, options.archive)):
        options.on_fetched(piece)


def _are_folded(lake: Lake, source: str, names: Sequence[TableName], log_range: Range) -> bool:
    """True if older log is of no use, since no table that it could be of is replayed there."""
    heads = (lake.silver(source, name.schema, name.table).head() for name in names)
    return bool(names) and all(floor_above(head, log_range) for head in heads)


def _replay_table(
    spark: SparkSession, pipeline: Pipeline, source: str, name: TableName, log_range: Range, *, options: BackfillOptions
) -> ReplayedTable:
    """One table; planned again each time, since another writer may have moved its head."""
    lake = lake_of(pipeline)
    table = lake.silver(source, name.schema, name.table)
    head = table.head()
    # behind silver's head: a run may continue meanwhile, and this has all that silver has
    snapshot = BronzeSnapshot.of(lake, source)
    if SILVER not in options.layers:
        return ReplayedTable(name, windows(table, head, log_range, stretches(snapshot.checkpoint)) if head else ())
    if head is not None and log_range.start < snapshot.begin:
        require_derived(pipeline, snapshot, name, log_range.start)
    try:
        work = plan_table(pipeline, snapshot, name, head, log_range=log_range)
    except NeedsEarlierLog as error:
        with about(f"{source}: {name}"):
            _fetch_log(spark, pipeline, source, error.begin, options)
        return _replay_table(spark, pipeline, source, name, log_range, options=options)
    if work is None:
        return ReplayedTable(name)
    return replay(session_over(spark, 0), work, Capacity(slots(spark), pipeline.spark.task_bytes))


def _require_end(snapshot: BronzeSnapshot, log_range: Range) -> None:
    """Check that the range ends within bronze. Raises LakeError."""
    if snapshot.end < log_range.stop:
        raise LakeError(
            f"{snapshot.source}: the range ends at {log_range.stop}, and bronze at {snapshot.end}: a run "
            "reads later log (stratalog run), a backfill does not; run first, or end the range there"
        )
