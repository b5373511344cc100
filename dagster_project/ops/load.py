"""Initial load of tables that are older than their log, as a step of a job of its own.

Put here: the step, and what it says of each table while it is loaded. Not here: what is done
(spark_jobs/pipeline/initial_load/load.py).
"""

import threading
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets import checkpoint
from assets.downstream import merged_tables
from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.materialize import StepResult, report_step
from assets.progress import progress, sessions
from spark_jobs.config.model import Pipeline
from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.binlog import TableName
    from spark_jobs.pipeline.initial_load.commit import LoadCommit
    from spark_jobs.pipeline.initial_load.load import Loaded

STATE = "load/state"
ROWS = "load/rows"
ESTIMATED = "load/estimated_rows"
RANGES = "load/ranges"
SINCE = "load/as_of"
READ_TO = "load/log_ended_at"


class LoadConfig(dg.Config):
    """Tables to load, as ``DB.TABLE``, patterns too; none means all that are not complete.

    max_load: limits of the server as ``stratalog load --max-load`` takes them.
    """

    # Literal defaults: the launchpad shows keys with these, and none whose default is made by a function.
    tables: list[str] = Field(default=[], description="DB.TABLE or patterns; none: all tables that lack rows.")
    chunk_rows: int = Field(default=50_000, description="Rows that one query reads, a range of the key.")
    max_load: str = Field(default="", description="As Threads_running=25,replica_lag=5: pause while one is above.")


def load_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """Complete tables of a source that are older than its log.

    It takes hours for large tables, so it is in no pool: runs of the source continue meanwhile, and what commits to one
    table at the same time is tried again. A step that failed on a lost connection continues where it was.
    """
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"read_rows_of_{source}"),
        description=f"Reads tables of {source} that are older than its log by their keys, without locks, or in one "
        "snapshot, and completes them downstream. An interrupted load resumes.",
        required_resource_keys={catalog.spark},
        out=dg.Out(dg.Nothing),
    )
    @retried
    def load(context: dg.OpExecutionContext, config: LoadConfig) -> None:
        from spark_jobs.pipeline.initial_load import throttle
        from spark_jobs.pipeline.initial_load.load import load_source

        # Tables are read in threads; Dagster's log takes one event at a time.
        one_at_a_time = threading.Lock()

        def report_progress(name: "TableName", commit: "LoadCommit") -> None:
            with one_at_a_time:
                key = catalog.silver(source, (name.schema, name.table))
                context.log_event(dg.AssetObservation(key, metadata=progress_metadata(commit)))

        with failing(), progress(context):
            loaded = load_source(
                sessions(context, catalog.spark).session(),
                pipeline,
                source,
                tables=config.tables,
                chunk_rows=config.chunk_rows,
                max_load=throttle.parse(config.max_load),
                on_progress=report_progress,
            )
        # Tables that were not loaded fail the step, without a retry: a user has to act.
        _report(context, lineage, loaded)
        if loaded.stopped:
            listed = "\n".join(loaded.stopped.values())
            raise dg.Failure(f"not loaded: {counted(len(loaded.stopped), 'table')}:\n{listed}", allow_retries=False)

    return load


def progress_metadata(commit: "LoadCommit") -> dict[str, Any]:
    """Metadata of the progress of a table's load."""
    estimate = {} if commit.estimate is None else {ESTIMATED: checkpoint.number(commit.estimate)}
    ended = {} if commit.read_to is None else {READ_TO: str(commit.read_to)}
    metadata = {
        STATE: commit.state,
        ROWS: checkpoint.number(commit.rows),
        RANGES: commit.chunks,
        SINCE: str(commit.since),
    }
    return metadata | estimate | ended


def _report(context: dg.OpExecutionContext, lineage: Lineage, loaded: "Loaded") -> None:
    """The materializations of what came downstream; the step is no asset's."""
    from spark_jobs.lake.layout import lake_of

    catalog, source = lineage.catalog, lineage.source
    lake = lake_of(catalog.pipeline)
    for fromkey in dict.fromkeys(merged.name for merged in loaded.outcome.merged):
        name = (fromkey.schema, fromkey.table)
        silver = lake.silver(source, *name)
        head = silver.head()
        if head and head.position:
            step = StepResult(head.position, checkpoint.table_metadata(head, silver))
            report_step(context, catalog.silver(source, name), step)
    for key, merged in merged_tables(catalog, source, loaded.outcome, is_live=False).items():
        report_step(context, key, merged)
