"""Initial load of tables that existed before their log begins, without locks: ``stratalog load``.

Put here: the order of a load over all tables of a source. Not here: which tables are read (selection.py), reading one
(reading.py), landing it in silver (landing.py), how far a load has come (commit.py).

A table is read by ranges of its primary key while it is written to. The rows count from a position in the log before
which all was committed, so that whatever the log says after it wins; they land in one commit, once silver has passed
the position where the log ended when the last range had been read. Until then nobody sees them, and from then on the
table is whole: why, and what has to hold, is in docs/adr/0011-initial-load.md.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config import known_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError, about
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.pipeline.cascades.unlogged_changes import NO_UNLOGGED_CHANGES, unlogged_changes_of
from spark_jobs.pipeline.initial_load.anchor import Anchor
from spark_jobs.pipeline.initial_load.commit import LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext, OnProgress
from spark_jobs.pipeline.initial_load.landing import LandedTable, land
from spark_jobs.pipeline.initial_load.reading import read_table
from spark_jobs.pipeline.initial_load.selection import (
    TableToRead,
    is_named,
    newest_checkpoint,
    require_each,
    select_tables,
)
from spark_jobs.pipeline.initial_load.throttle import Throttle
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import compact_source, extract_source, merge_source, publish
from spark_jobs.pipeline.tables_at_once import each_table
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server

CHUNK_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of a load. ``tables``: those that are complete since; ``outcome``: of the run that carried them on."""

    tables: dict[TableName, LoadCommit]
    outcome: Outcome
    seconds: float = 0.0
    already: list[TableName] = field(default_factory=list)
    """Tables that were asked for by name and had nothing missing."""

    @property
    def stopped(self) -> dict[TableName, str]:
        return self.outcome.stopped


def load_source(  # noqa: PLR0913 - what is loaded, and how gently
    spark: SparkSession,
    pipeline: Pipeline,
    source: str,
    *,
    tables: Sequence[str] = (),
    chunk_rows: int = CHUNK_ROWS,
    max_load: Mapping[str, float] | None = None,
    on_progress: OnProgress = lambda _name, _progress: None,
    is_again: bool = False,
) -> Loaded:
    """Load the named tables of a source (``DB.TABLE``, patterns), or all in scope that are not complete.

    max_load: limits of the server, over which nothing is read (throttle.py). is_again: whether named tables are read
    that have no row missing.

    Brings them downstream too. What stops one table is in the outcome, and does not stop the others. Raises ConfigError
    for a source without a server and a name that no table has, SourceError, LakeError.
    """
    began = time.monotonic()
    require_server(pipeline, source)
    patterns = [Pattern.parse(table) for table in tables]
    # What the log has comes first: it decides which tables are complete without a load.
    before = _compacted(spark, pipeline, source)
    stopped: dict[TableName, str] = {}
    with about(source):
        anchor = _anchor(pipeline, source)
        throttle = Throttle(anchor.server, max_load or {})
        throttle.check()
        load = LoadContext(spark, pipeline, lake_of(pipeline), source, anchor, chunk_rows, on_progress, throttle)
        planned = select_tables(load, before, patterns, stopped, is_again=is_again)
    if planned.reading:
        start_session(spark)  # by this thread, where it is a lazy one
    entries = _entries_with_loading(source, before, planned.reading)
    publish(pipeline, source, replace(before, entries=entries))
    # Rows are staged, then the log is read up to where they were read, and both are merged.
    read_tables = each_table(planned.reading, partial(read_table, load), stopped)
    after = _compacted(spark, pipeline, source)
    gaps = unlogged_changes_of(pipeline, load.lake, source) if read_tables else NO_UNLOGGED_CHANGES
    landed_tables = each_table(read_tables, lambda table: land(load, table, after, gaps), stopped)
    landed = {table.name: table for table in landed_tables}
    outcome = _merged_forward(spark, pipeline, source, after, landed)
    selected = {name: reason for name, reason in outcome.stopped.items() if not patterns or is_named(name, patterns)}
    outcome = replace(outcome, stopped=selected | stopped)
    # New tables are known from now on, so that no run reports them again.
    new = known_tables.add(pipeline.tables_file, {(source, name.schema, name.table) for name in landed})
    outcome = replace(outcome, new=outcome.new | new)
    progress = {name: table.progress for name, table in landed.items()}
    return Loaded(progress, outcome, time.monotonic() - began, planned.already)


def _merged_forward(
    spark: SparkSession, pipeline: Pipeline, source: str, after: Outcome, landed: Mapping[TableName, LandedTable]
) -> Outcome:
    """Merge and publish the loaded tables with all others."""
    compacted = iter([after])

    def merged() -> Outcome:
        # A run that has published more of the log meanwhile is what this load continues from.
        outcome = next(compacted, None) or compact_source(spark, pipeline, source)
        entries = [_after(entry, landed.get(TableName(*entry.name))) for entry in outcome.entries]
        outcome = merge_source(spark, pipeline, source, replace(outcome, entries=entries))
        publish(pipeline, source, outcome)
        return outcome

    return retry_on_conflict(merged, wait=CONFLICT_WAIT)


def _compacted(spark: SparkSession, pipeline: Pipeline, source: str) -> Outcome:
    extract_source(spark, pipeline, source)
    return compact_source(spark, pipeline, source)


def require_server(pipeline: Pipeline, source: str) -> None:
    """Check that the source is a server, not files. Raises ConfigError."""
    if pipeline.sources[source].files is not None:
        raise ConfigError(
            {
                f"sources.{source}": "is read from binlog files, and a load reads tables of a server; name that as "
                "mysql:, or begin with files from before the tables were created"
            }
        )


def require_tables(pipeline: Pipeline, source: str, tables: Sequence[str]) -> None:
    """Check that the server has a table for each pattern; starts no JVM. Raises ConfigError, SourceError."""

    def names(endpoint: Source) -> Collection[TableName]:
        assert isinstance(endpoint, Server)
        return on_server(endpoint)

    if tables:
        patterns = [Pattern.parse(table) for table in tables]
        require_each(source, patterns, endpoints_of(pipeline, source).first(names))


def _anchor(pipeline: Pipeline, source: str) -> Anchor:
    """The server that bronze's end comes from. Raises SourceError."""
    server = endpoints_of(pipeline, source).current()
    assert isinstance(server, Server)
    return Anchor.of(server, newest_checkpoint(lake_of(pipeline).bronze(source)))


def _entries_with_loading(source: str, before: Outcome, reading: "Sequence[TableToRead]") -> list[Entry]:
    """The entries of a run, and one for each table to load that has none, since the log does not know it."""
    entry_names, location = {entry.name for entry in before.entries}, str(before.position)
    new = [table.name for table in reading if (table.name.schema, table.name.table) not in entry_names]
    bare = [Entry(source, name.schema, name.table, "current") for name in new]
    return [*before.entries, *(replace(entry, position=location, surveyed=location, complete=False) for entry in bare)]


def _after(entry: Entry, landed: "LandedTable | None") -> Entry:
    if landed is None:
        return entry
    position = str(landed.head.position)
    return replace(entry, complete=True, silver_version=landed.head.version, position=position)
