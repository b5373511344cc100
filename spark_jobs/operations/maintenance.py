"""Keeping the lake's tables quick to read and no larger than they need be: ``stratalog maintain``.

Put here: which tables, when a table is worth rewriting, how long its older versions are kept. Not here: removing what
was logged (gc.py), or folding old windows of silver, where that is asked for (fold_windows.py); no statement here
changes a row.

Small files are written together, and those in which many rows are marked as deleted are written without them (OPTIMIZE;
REORG for every marked row). Data files that no version within reach names are removed (VACUUM). Delta commits these
statements without a transaction id, so each table's next counter is taken first: a writer that planned before loses and
plans again, and one that commits in between makes the statement fail, which is then tried again.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.log_files import directory, why_not_store
from spark_jobs.downstream import publication as published
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import view
from spark_jobs.downstream.publication import Entry
from spark_jobs.engine import key_index
from spark_jobs.errors import JvmEnded, StratalogError
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import patiently
from spark_jobs.lake.table import Table
from spark_jobs.operations.fold_windows import Folded, fold, why_not
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)

_SMALL, _LARGE = 64 << 20, 128 << 20
"""Bytes below which a file is written together with others, and of what they become at most. What a MERGE or gc has to
write again is whole files."""
_MARKED = 0.05
"""Part of a file's rows marked as deleted from which on it is written again."""
_OPTIMIZE = {
    "spark.databricks.delta.optimize.minFileSize": str(_SMALL),
    "spark.databricks.delta.optimize.maxFileSize": str(_LARGE),
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(_MARKED),
}
_VACUUM = {
    # A table's versions are for what its rows are; and retention.versions is what is asked for, if less than a week.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta lists folders by so many tasks, whatever there is to list; a table of ours is a few folders, not 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to one table: its data files before and after, and how long files are kept.

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
    """Of a silver table whose old windows were folded."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The tables of a source after maintenance. ``stopped``: why, by path; ``unfolded``: why not now, by table."""

    tables: list[Maintained] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    unfolded: dict[TableName, str] = field(default_factory=dict)


def maintain_source(spark: SparkSession, pipeline: Pipeline, source: str, *, purge: bool = False) -> Upkeep:
    """Maintains every table of a source, and ``published``; what stops one does not stop the others.

    ``purge``: every row marked as deleted is removed from its file, however few there are.
    """
    lake, upkeep = lake_of(pipeline), Upkeep()
    folding = _folding(lake, source) if pipeline.retention.fold else {}
    for table, needed_version in _tables(lake, source):
        head = table.head()
        try:
            entry = folding.get(table.path)
            folded = patiently(partial(_folded, spark, lake, entry, upkeep)) if entry else None
            maintained = _maintained(spark, table, head, needed_version, pipeline.retention.versions, purge=purge)
            maintained = replace(maintained, folded=folded) if maintained else None
        except JvmEnded:
            raise
        except StratalogError as error:
            upkeep.stopped[table.path] = advised(error, source)
            log.error("%s", upkeep.stopped[table.path])  # noqa: TRY400 - the message is the whole of it
        else:
            upkeep.tables.extend([maintained] if maintained else [])
    _publish(spark, lake, source, {table_.path: table_ for table_ in upkeep.tables})
    return upkeep


def superseded(table: Table, version: int) -> datetime | None:
    """When the commit after a version was made; None where it is the newest."""
    later = [entry for entry in table.history() if entry["version"] > version]
    return datetime.fromtimestamp(later[-1]["timestamp"] / 1000, UTC) if later else None


def _tables(lake: Lake, source: str) -> Iterator[tuple[Table, int | None]]:
    """The tables, each with the oldest version that an open reader needs; None for the newest alone."""
    entries = published.read(lake, source)
    yield lake.bronze(source), None
    yield lake.schema(source), None
    yield lake.clock(source), None
    downstream = {target.path for entry in entries for target in entry.into}
    opened = published.versions(lake)
    for entry in entries:
        if entry.silver_version is not None:
            yield lake.silver(source, *entry.name), min([entry.silver_version, *_merged(lake, entry)])
            yield lake.load(source, *entry.name), None
    for path in sorted(downstream):
        yield Table(path, lake.plain), opened.get(path)
    yield lake.published(), None


def _merged(lake: Lake, entry: Entry) -> list[int]:
    """The silver version that each downstream table merged last: a merge after a backfill compares with it."""
    owner = (entry.source, *entry.name)
    commits = (DownstreamCommit.of_head(view(Table(target.path, lake.plain), owner).head()) for target in entry.into)
    return [commit.silver_version for commit in commits if commit]


def _folding(lake: Lake, source: str) -> dict[str, Entry]:
    """The source's tables that have silver, by its path."""
    entries = (entry for entry in published.read(lake, source) if entry.silver_version is not None)
    return {lake.silver(source, *entry.name).path: entry for entry in entries}


def _folded(spark: SparkSession, lake: Lake, entry: Entry, upkeep: Upkeep) -> Folded | None:
    """Folds a table's old windows, or notes why not. Raises LostRace, LakeError."""
    head = lake.silver(entry.source, *entry.name).head()
    reason = why_not(lake, entry, head) if head else None
    if reason:
        name = TableName(*entry.name)
        log.info("%s: %s: its old windows are not folded now: %s", entry.source, name, reason)
        upkeep.unfolded[name] = reason
        return None
    return fold(spark, lake, entry)


def _maintained(
    spark: SparkSession,
    table: Table,
    head: Head | None,
    needed_version: int | None,
    retention_: timedelta,
    *,
    purge: bool,
) -> Maintained | None:
    """None where there is no table, or nothing of ours in it. head: before anything was done. Raises LostRace."""
    if head is None or head.checkpoint is None:
        return None
    before = table.files()
    if _is_worth_it(spark, table, before):
        _rewrite(spark, table, purge=purge)
    hours = _hours(table, needed_version, retention_)
    table.run(spark, _VACUUM, f"VACUUM {table.sql} RETAIN {hours} HOURS")
    folder = None if why_not_store(table.path) else directory(table.path)
    if isinstance(folder, Path):
        key_index.remove_stale(folder)
    return Maintained(table.path, len(before), len(table.files()), head.version, _after(table, head.version), hours)


def _after(table: Table, version: int) -> int:
    """The newest version that has the rows of an earlier one: where no commit but maintenance's came since."""
    maintenance = [
        version_ for version_, checkpoint in table.since(version) if checkpoint.kind == CommitKind.MAINTENANCE
    ]
    newest = max(maintenance, default=version)
    return newest if len(maintenance) == newest - version else version


def _is_worth_it(spark: SparkSession, table: Table, files: list[int]) -> bool:
    """Whether files can be written together, or have rows marked as deleted."""
    return sum(size < _SMALL for size in files) > 1 or table.marked_rows(spark) > 0


def _rewrite(spark: SparkSession, table: Table, *, purge: bool) -> None:
    """Writes small files together, upon the head as it is now; again where another writer came first."""
    statements = [f"REORG TABLE {table.sql} APPLY (PURGE)"] if purge else []
    # Bronze's rows are up to 1 MiB each and more, and have to be read a few at a time.
    confs = _OPTIMIZE | (bronze.READING | bronze.WRITING if _is_bronze(table) else {})

    def rearrange() -> None:
        head = table.head()
        assert head is not None
        table.rearrange(spark, head, confs, [*statements, f"OPTIMIZE {table.sql}"])

    patiently(rearrange)


def _is_bronze(table: Table) -> bool:
    return "payload" in table.columns()


def _hours(table: Table, needed_version: int | None, retention_: timedelta) -> int:
    """How long data files are kept that the newest version does not name; longer where a reader needs an older one."""
    since = superseded(table, needed_version) if needed_version is not None else None
    age = datetime.now(UTC) - since + _HOUR if since else timedelta()
    return math.ceil(max(retention_, age) / _HOUR)


def _publish(spark: SparkSession, lake: Lake, source: str, maintained: dict[str, Maintained]) -> None:
    """Names the versions after maintenance where those before it are published; they hold the same rows.

    Also after maintenance that was killed before it did; and as others have published meanwhile.
    """
    published.renew(spark, lake, source, lambda entry: _renewed(entry, lake, maintained))


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
    return _after(Table(maintained.path, lake.plain), published)
