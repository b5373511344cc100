"""Maintenance of the lake's tables, so that they stay quick to read and small: ``stratalog maintain``.

Put here: which tables, when a table is worth rewriting, how long its older versions are kept. Not here: removing what
was logged (gc.py), or folding old windows of silver, where that is asked for (fold_windows.py); no statement here
changes a row.

Small files are written together, and those in which many rows are marked as deleted are written without them, of all
tables in one job, in this process where they are few bytes (engine/jobs/rewrite.py). Data files that no version within
reach names are removed (delta/vacuum.py).
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import index_files, vacuum
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.downstream import publication as published
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import view
from spark_jobs.downstream.publication import Entry
from spark_jobs.engine.jobs import rewrite
from spark_jobs.engine.jobs.rewrite import FileGroup, Rewritten
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.errors import JvmEnded, LakeError, StratalogError
from spark_jobs.iceberg.table_view import NotShown, shown_version
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.operations.retention.fold_windows import Folded, fold, why_not
from spark_jobs.pipeline import iceberg_tables
from spark_jobs.row_history.key_search import keep_indexes
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over, slots
from spark_jobs.runtime.tasks_here import placement_for, task_errors
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)

_HOUR = timedelta(hours=1)
_HERE = 32 << 20
"""Size of a job below which files are written again in this process, in about the time that a JVM takes to start: some
256 MiB of files (``rewrite.size_of``)."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """Result of maintenance of one table: its data files before and after, and how long files are kept.

    ``version_after`` has the rows of ``version_before``, or what they fold to, and is the same where nothing was
    rewritten.
    """

    path: str
    files_before: int
    files_after: int
    version_before: int
    version_after: int
    kept_hours: int
    folded: Folded | None = None
    """Result of folding a silver table's old windows; None where none were folded."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The tables of a source after maintenance. ``stopped``: why, by path; ``unfolded``: why not now, by table."""

    tables: list[Maintained] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    unfolded: dict[TableName, str] = field(default_factory=dict)


@dataclass(slots=True)
class _MaintenanceJob:
    """One table under maintenance. head: before anything was done. pinned: older versions that are read."""

    table: Table
    head: Head
    files_before: int
    pinned: tuple[int, ...]
    entry: Entry | None
    """Entry of a silver table whose old windows may be folded."""
    sort_key: tuple[str, ...]
    is_downstream: bool = False
    log_of: str | None = None
    """Source of a bronze table."""
    folded: Folded | None = None
    groups: list[FileGroup] = field(default_factory=list)
    results: list[Rewritten] = field(default_factory=list)


def maintain_source(spark: SparkSession, pipeline: Pipeline, source: str, *, purge: bool = False) -> Upkeep:
    """Maintains every table of a source, and ``published``; what stops one does not stop the others.

    Spark starts where windows are folded or many bytes of files written again.

    Args:
        spark: the session, which may be a lazy one.
        pipeline: the configuration.
        source: whose tables.
        purge: every row marked as deleted is removed from its file, however few there are.

    Raises LakeError, JvmEnded.
    """
    lake, upkeep = lake_of(pipeline), Upkeep()
    works = list(_works(lake, source, folds=bool(pipeline.retention.fold)))

    # Windows are folded first, since that leaves small files.
    for at, work in enumerate(works):
        with _noted(upkeep, source, work.table):
            if work.entry:
                session = session_over(start_session(spark), 0)
                capacity = Capacity(slots(spark), pipeline.spark.task_bytes)
                work.folded = retry_on_conflict(partial(_folded, session, lake, work.entry, upkeep, capacity))
            work.groups = _file_groups(at, work, purge=purge)

    # Files of all tables are written in one job, and a few of them here.
    groups = [group for work in works if work.table.path not in upkeep.stopped for group in work.groups]
    if groups:
        log.info("%s: %d groups of files are written again", source, len(groups))
        placement = placement_for(spark, pipeline.spark, rewrite.size_of(groups), default=_HERE)
        with task_errors(placement.session):
            rewritten_groups = rewrite.run(
                placement.session, groups, Capacity(placement.slots, pipeline.spark.task_bytes)
            )
        for rewritten in rewritten_groups:
            works[rewritten.unit].results.append(rewritten)

    for work in works:
        with _noted(upkeep, source, work.table):
            if work.table.path not in upkeep.stopped:
                upkeep.tables.append(_maintained(pipeline, work))
    _publish(lake, source, {lake_table.path: lake_table for lake_table in upkeep.tables})
    return upkeep


@contextmanager
def _noted(upkeep: Upkeep, source: str, table: Table) -> Iterator[None]:
    """Note what stops a table, and continue."""
    try:
        yield
    except JvmEnded:
        raise
    except StratalogError as error:
        upkeep.stopped[table.path] = advised(error, source)
        log.error("%s", upkeep.stopped[table.path])  # noqa: TRY400 - the message is the whole of it


def _works(lake: Lake, source: str, *, folds: bool) -> Iterator[_MaintenanceJob]:
    """The tables that there are. folds: whether old windows of silver are folded."""
    entries = [entry for entry in published.read(lake, source) if entry.silver_version is not None]
    by_path = {lake.silver(source, *entry.name).path: entry for entry in entries if folds}
    keys = {target.path: key for entry in entries if (key := _key_columns(lake, entry)) for target in entry.into}
    # Of these alone there are Iceberg tables.
    downstream = {target.path for entry in entries for target in entry.into}
    for table, pinned in _maintained_tables(lake, source):
        head = table.head()
        if head and head.checkpoint:
            yield _MaintenanceJob(
                table,
                head,
                len(table.file_sizes()),
                pinned,
                by_path.get(table.path),
                keys.get(table.path, ()),
                table.path in downstream,
                source if table.path == lake.bronze(source).path else None,
            )


def _key_columns(lake: Lake, entry: Entry) -> tuple[str, ...]:
    """The columns of a table's key; none where it has no key, or its columns are not known."""
    commit = SilverCommit.of_head(lake.silver(entry.source, *entry.name).head())
    return silver.columns(commit.definition).key if commit and commit.definition else ()


def superseded(table: Table, version: int) -> datetime | None:
    """Time of the commit after a version; None where it is the newest."""
    later = [entry for entry in table.history() if entry["version"] > version]
    return datetime.fromtimestamp(later[-1]["timestamp"] / 1000, UTC) if later else None


def _maintained_tables(lake: Lake, source: str) -> Iterator[tuple[Table, tuple[int, ...]]]:
    """The tables, each with its older versions that somebody reads."""
    entries = published.read(lake, source)
    yield lake.bronze(source), ()
    yield lake.schema(source), ()
    yield lake.clock(source), ()
    yield lake.cascades(source), ()
    yield lake.verified(source), ()
    downstream = {target.path for entry in entries for target in entry.into}
    opened = published.versions(lake)
    for entry in entries:
        if entry.silver_version is not None:
            yield lake.silver(source, *entry.name), (entry.silver_version, *_merged(lake, entry))
            yield lake.load(source, *entry.name), ()
    for path in sorted(downstream):
        yield Table(path, lake.plain), (opened[path],) if path in opened else ()
    yield lake.published(), ()


def _merged(lake: Lake, entry: Entry) -> list[int]:
    """The silver version that each downstream table merged last: a merge after a backfill compares with it."""
    owner = (entry.source, *entry.name)
    commits = (DownstreamCommit.of_head(view(Table(target.path, lake.plain), owner).head()) for target in entry.into)
    return [commit.silver_version for commit in commits if commit]


def _folded(spark: SparkSession, lake: Lake, entry: Entry, upkeep: Upkeep, capacity: Capacity) -> Folded | None:
    """Fold a table's old windows, or note why not. Raises LostRace, LakeError."""
    head = lake.silver(entry.source, *entry.name).head()
    reason = why_not(lake, entry, head) if head else None
    if reason:
        name = TableName(*entry.name)
        log.info("%s: %s: its old windows are not folded now: %s", entry.source, name, reason)
        upkeep.unfolded[name] = reason
        return None
    return fold(spark, lake, entry, capacity)


def _file_groups(unit: int, work: _MaintenanceJob, *, purge: bool) -> list[FileGroup]:
    """The groups of a table's files that are worth writing again; none without a table."""
    snapshot = _written_here(work.table)
    if snapshot is None:
        return []
    key = work.sort_key if set(work.sort_key) <= set(snapshot.schema.names) else ()
    return rewrite.groups_of(unit, snapshot, key, purge=purge)


def _written_here(table: Table) -> Snapshot | None:
    """The newest version of a table; None where there is none. Raises LakeError where it is not written here."""
    head = table.head()
    return driver_commit.snapshot_upon(table.path, head) if head else None


def _maintained(pipeline: Pipeline, work: _MaintenanceJob) -> Maintained:
    """Commit what was written of a table, and remove what no version within reach names.

    Raises LostRace, LakeError; NotShown once all is done.
    """
    table, head = work.table, work.head
    errors = [result.error for result in work.results if result.error]
    if errors:
        raise LakeError(errors[0])
    if work.results:
        rewrite.commit(table, work.results)
    # What its versions need no more goes, by the same rule as VACUUM's.
    hours = _hours(table, min(work.pinned, default=None), pipeline.retention.versions)
    snapshot = _written_here(table)
    assert snapshot is not None
    pinned, not_shown = work.pinned, None
    if work.is_downstream:
        try:
            iceberg_tables.expire(pipeline, table.path, hours, pinned)
        except NotShown as error:  # its old files go all the same, but those of the version that Iceberg stays at
            pinned, not_shown = (*pinned, *shown_version(table.path)), error
    older = (snapshot_of(table.path, version) for version in pinned if version < snapshot.version)
    files = vacuum.list_files(snapshot)
    vacuum.remove(table.path, vacuum.unnamed_files(snapshot, files, hours, [version for version in older if version]))
    vacuum.remove(table.path, vacuum.unneeded_log(snapshot, files, pinned))
    if work.log_of:
        keep_indexes(lake_of(pipeline), work.log_of)
    else:
        index_files.remove_stale(table.path)
    if not_shown:
        raise not_shown
    files_after, after = len(table.file_sizes()), newest_with_same_rows(table, head.version)
    return Maintained(table.path, work.files_before, files_after, head.version, after, hours, work.folded)


def newest_with_same_rows(table: Table, version: int) -> int:
    """The newest version that has the rows of an earlier one: where no commit but maintenance's came since.

    Rows that were forgotten count as none.
    """
    maintenance = [
        server_version
        for server_version, checkpoint in table.since(version)
        if checkpoint.kind == CommitKind.MAINTENANCE
    ]
    newest = max(maintenance, default=version)
    return newest if len(maintenance) == newest - version else version


def _hours(table: Table, needed_version: int | None, retention_time: timedelta) -> int:
    """Hours that data files are kept that the newest version does not name.

    Longer where a reader needs an older one.
    """
    since = superseded(table, needed_version) if needed_version is not None else None
    age = datetime.now(UTC) - since + _HOUR if since else timedelta()
    return math.ceil(max(retention_time, age) / _HOUR)


def _publish(lake: Lake, source: str, maintained: dict[str, Maintained]) -> None:
    """Names the versions after maintenance where those before it are published; they hold the same rows.

    Also after maintenance that was killed before it did; and as others have published meanwhile.
    """
    published.overwrite(lake, source, lambda entry: _renewed(entry, lake, maintained))


def _renewed(entry: Entry, lake: Lake, maintained: dict[str, Maintained]) -> Entry:
    silver = maintained.get(lake.silver(entry.source, *entry.name).path)
    targets = [
        replace(target, version=_newest(lake, maintained.get(target.path), target.version)) for target in entry.into
    ]
    entry = replace(entry, silver_version=_newest(lake, silver, entry.silver_version))
    return entry.with_targets(targets) if targets else entry


def _newest(lake: Lake, maintained: Maintained | None, published: int | None) -> int | None:
    """The newest version of a table with the rows of the one that is published."""
    if maintained is None or published is None or published >= maintained.version_after:
        return published
    return newest_with_same_rows(Table(maintained.path, lake.plain), published)
