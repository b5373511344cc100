"""Reading of a table's existing rows by tasks of Spark, in ranges of its primary key.

Put here: the loop over ranges, the task, what ends a load because the table changed. Not here: the ranges
(key_ranges.py), rows as the log would have had them (selecting.py), what tasks write (range_files.py).
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

from spark_jobs.binlog import TableName
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.jobs import spark_job
from spark_jobs.errors import SourceError, about
from spark_jobs.lake.commit import new_batch
from spark_jobs.pipeline.initial_load import snapshot
from spark_jobs.pipeline.initial_load.commit import READ, READING, LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.key_ranges import Boundary, Key, KeyRange, key_of, ranges
from spark_jobs.pipeline.initial_load.range_files import FileTarget, RangeTask, read_ranges
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows, RowRules, summed
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.pipeline.initial_load.selection import TableToRead
from spark_jobs.pipeline.initial_load.staging import StagedTable, design_of
from spark_jobs.silver import table as silver
from spark_jobs.source.information_schema import definition_on_server
from spark_jobs.text.progress import Activity, doing
from spark_jobs.text.sql import is_table

log = logging.getLogger(__name__)


_AT_ONCE = 4
"""Tasks of one job, each with a connection, whose rows are committed together."""
_MOST = 8
"""Ranges that one of them reads at most."""
_SHORT, _LONG = 2.0, 10.0
"""Seconds that a job should take."""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that was read whole."""

    name: TableName
    progress: LoadCommit


def read_table(load: LoadContext, table: TableToRead) -> ReadTable:
    """Read what is left of a table, range by range. Raises TableStopped, SourceError, LakeError, LostRace."""
    with about(f"{load.source}: {table.name}"):
        stage = _open_stage(load, table)
        if stage.progress.state == READING:
            try:
                _read_rows(load, stage, table.rules)
            except SourceError:
                _require_same(load, stage)  # for what a change of the table makes of a query, says less than that
                raise
            _require_same(load, stage)
            stage.note(_read_whole(load, stage.progress))
            load.on_progress(table.name, stage.progress)
        return ReadTable(table.name, stage.progress)


def _open_stage(load: LoadContext, table: TableToRead) -> StagedTable:
    """Stage where the rows wait, and how far reading is; started where no load of the table is open."""
    # A load that was interrupted continues after the ranges that are committed.
    if table.progress and table.head:
        rows = table.progress.rows if table.progress.state == READ else table.table.rows_written()
        progress = replace(table.progress, rows=rows)
        stage = StagedTable(table.name, table.table, table.head, progress)
        log.info("%s: %s: resumes after %d rows", load.source, table.name, rows)
    else:
        with load.server.connect() as connection:
            read_from = load.anchor.resolve(load.server.end(connection))
            condition = is_table(table.name.schema, table.name.table)
            query = f"SELECT TABLE_ROWS found FROM information_schema.TABLES WHERE {condition}"
            estimate = next((row["found"] for row in load.server.ask(connection, query)), None)
        commit = LoadCommit(
            table.since,
            new_batch(),
            state=READING,
            read_from=read_from,
            definition=table.definition,
            chunk_rows=load.chunk_rows,
            estimate=estimate,
            rule_digests=table.rules.digests,
        )
        origin = load.lake.silver(load.source, table.name.schema, table.name.table)
        design = design_of(table.table, origin, table.rules.columns)
        head = table.head or table.table.unwritten_head(design.schema.spark_types, silver.properties(origin))
        stage = StagedTable(table.name, table.table, head, commit)
        stage.begin(design)
        load.on_progress(table.name, commit)
    # The server's definition may have changed since the load began.
    if stage.progress.state == READING:
        _require_same(load, stage)
    return stage


def _require_same(load: LoadContext, stage: StagedTable) -> None:
    """End the load, and raise TableStopped, where the server's table is another one than when it began."""
    definition, declared = stage.progress.definition, definition_on_server(load.server, stage.name)
    if declared != definition:
        change = "gone from the server" if declared is None else f"{declared}, and was {definition}"
        raise stage.given_up(f"was changed while it was loaded: it is {change}; load it again")


def _read_rows(load: LoadContext, stage: StagedTable, rules: RowRules) -> None:
    """Read what is left of a table: by its key, or whole where it has none."""
    progress = stage.progress
    missing = max((progress.estimate or 0) - progress.rows, 0)
    if rules.filters_all:
        log.warning("%s: %s: %s filters every INSERT, so no row is read", load.source, stage.name, rules.filters_all)
    elif progress.definition.key:
        with doing(f"{load.source}: reading {stage.name}", missing, unit="rows") as activity:
            _read_ranges(load, stage, rules, activity)
    else:
        with doing(f"{load.source}: reading {stage.name} in one snapshot"):
            _read_snapshot(load, stage, rules)


def _read_whole(load: LoadContext, progress: LoadCommit) -> LoadCommit:
    """Message about a table once all of its rows wait."""
    if progress.is_snapshot:
        return replace(progress, state=READ, read_to=progress.position)
    read_to, gtids = load.anchor.end()
    return replace(progress, state=READ, read_to=read_to, gtids=str(gtids) if gtids else None)


def _read_ranges(load: LoadContext, stage: StagedTable, rules: RowRules, activity: Activity) -> None:
    """Read range after range, some of them at once, and commit the rows of those together."""
    before = stage.progress.rows
    # Ranges of the key, several at once; their rows and how far they go are one commit.
    name, definition = stage.name, stage.progress.definition
    with load.server.connect() as connection:
        key = key_of(connection, name.schema, name.table, silver.columns(definition).key)
    selecting = Selecting(load.source, load.server.settings, definition, key, load.anchor.identity)
    count = 1
    # The next ranges are planned while tasks read: each costs the server a walk over the index.
    with ThreadPoolExecutor(1) as planner:
        parts = [] if stage.progress.is_walked else _ranges(load, key, stage.progress.after, _AT_ONCE)
        while parts:
            load.throttle.wait(f"{load.source}: {name}")
            began, end = time.monotonic(), parts[-1].up_to
            following = planner.submit(_ranges, load, key, end, _AT_ONCE * count) if end is not None else None
            after = None if rules.hides_key else end
            progress = replace(
                stage.progress, chunks=stage.progress.chunks + len(parts), after=after, is_walked=end is None
            )
            _commit_ranges(load, stage, ReadingRules(selecting, rules), parts, progress)
            activity.count = stage.progress.rows - before
            load.on_progress(name, stage.progress)
            count = _next_count(count, time.monotonic() - began)
            parts = following.result() if following else []


def _read_snapshot(load: LoadContext, stage: StagedTable, rules: RowRules) -> None:
    """Read a table in one transaction, and commit its rows as those of the snapshot's position."""
    name, definition = stage.name, stage.progress.definition
    key = Key(name.schema, name.table, ())
    selecting = Selecting(load.source, load.server.settings, definition, key, load.anchor.identity)
    load.throttle.wait(f"{load.source}: {name}")
    progress = replace(stage.progress, chunks=1, is_walked=True)
    # No commit names the files yet: their position is known once they were read.
    upon = stage.snapshot(appends=True)
    task = snapshot.SnapshotTask(selecting, rules, FileTarget.of(upon))
    position, *results = spark_job.run(load.spark, [task], snapshot.read_snapshot)
    files, filtered = _files_and_filtered(results)
    position = load.anchor.resolve(position)
    stage.append(upon, files, progress)
    rows = sum(file.num_records or 0 for file in files)
    stage.progress = replace(
        progress, rows=rows, filtered=summed(None, filtered), position=position, read_from=position, is_snapshot=True
    )


def _files_and_filtered(results: Iterable[DataFile | FilteredRows]) -> tuple[list[DataFile], Counter[str]]:
    """The files that tasks wrote, and what rules have filtered."""
    files, filtered = list[DataFile](), Counter[str]()
    for result in results:
        if isinstance(result, FilteredRows):
            filtered.update(result.counts)
        else:
            files.append(result)
    return files, filtered


def _next_count(count: int, seconds: float) -> int:
    """Ranges that a task of the job after the next takes, by how long a job took: what a crash repeats is a job."""
    if seconds < _SHORT:
        return min(2 * count, _MOST)
    return max(1, count // 2) if seconds > _LONG else count


def _ranges(load: LoadContext, key: Key, after: Boundary | None, count: int) -> list[KeyRange]:
    """The next ranges, on a connection of its own, since reading takes long."""
    with load.server.connect() as connection:
        return list(islice(ranges(connection, key, rows=load.chunk_rows, after=after), count))


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """Reader of ranges of a table, and what its rules make of the rows."""

    selecting: Selecting
    rules: RowRules


def _commit_ranges(
    load: LoadContext,
    stage: StagedTable,
    reading: ReadingRules,
    parts: list[KeyRange],
    progress: LoadCommit,
) -> None:
    """Commit the rows of some ranges, in files that tasks write."""
    upon = stage.snapshot(appends=True)
    selecting, target = reading.selecting, FileTarget.of(upon)
    key = tuple(silver.columns(selecting.definition).key)
    size = -(-len(parts) // _AT_ONCE)
    groups = (tuple(parts[at : at + size]) for at in range(0, len(parts), size))
    tasks = [RangeTask(selecting, group, key, progress.since, target, reading.rules) for group in groups]
    files, filtered_rows = _files_and_filtered(spark_job.run(load.spark, tasks, read_ranges))
    stage.append(upon, files, progress)
    rows_written = progress.rows + sum(file.num_records or 0 for file in files)
    stage.progress = replace(progress, rows=rows_written, filtered=summed(progress.filtered, filtered_rows))
