"""Bronze: the log of one source, byte for byte. One asset a source.

Put here: the step that extracts. Not here: how a log is read (spark_jobs/bronze/extract.py).
"""

from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.materialize import Events, StepResult, compared, materialized, resynced
from assets.partitions import register_files
from assets.progress import progress, sessions
from assets.selection import HANDED_ON, hand_on, is_selected
from assets.steps import FROM_TAG, SOURCE_TAG, TO_TAG, Sessions, around
from spark_jobs.config.model import Pipeline
from spark_jobs.log.position import Range
from spark_jobs.operations.observation.backlog import backlog, is_every_table_current
from spark_jobs.operations.observation.run_telemetry import step_observed
from spark_jobs.runtime.lazy_session import lazy_session

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.bronze.extract import Extracted
    from spark_jobs.lake.commit import Head

BRONZE = "bronze"
LOG = "log"
"""Input: nothing is handed over, it draws the arrow from the source."""
ENDPOINT_TAG = "stratalog/endpoint"
"""Tag of a run: the server that was read."""
IDLE = "idle"
"""Output: whether the run has nothing to do, so that it needs no Spark session."""


def extract_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """Source -> bronze, from bronze's head to the end of the source's log."""
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"extract_{source}"),
        description=f"Reads the log of {source} from bronze's head to its end, whole transactions, byte for byte.",
        ins={LOG: dg.In(dg.Nothing)},
        out={
            BRONZE: dg.Out(dg.Nothing, is_required=False),
            IDLE: dg.Out(bool, is_required=False, io_manager_key=HANDED_ON),
        },
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    @around(catalog.execute, "extract", source, catalog.include_metadata)
    def extract(context: dg.OpExecutionContext) -> Events:
        # Without news the step starts no Spark and says so; the steps after it are known by ``idle``.
        moved = False
        if is_selected(context, BRONZE):
            with failing(), progress(context):
                ahead = backlog(pipeline, source)
            moved = ahead.moved
            observe(context, lineage, checkpoint.backlog_metadata(ahead))
            spark = sessions(context, catalog.spark) if moved else None
            yield from _extracted(context, pipeline, lineage, spark)
            if not moved:
                context.log.info("%s: nothing new; the log ends at %s", source, ahead.end)
        with failing():
            idle = not moved and is_every_table_current(pipeline, source)
        yield from hand_on(context, IDLE, idle)

    return extract


def _extracted(context: dg.OpExecutionContext, pipeline: Pipeline, lineage: Lineage, spark: Sessions | None) -> Events:
    """Extract where there is a session to do it with; otherwise Dagster's copy is all that may need mending."""
    from spark_jobs.lake.layout import lake_of

    key, table = lineage.bronze, lake_of(pipeline).bronze(lineage.source)
    # What Dagster has of bronze is compared with the lake before the extraction moves it.
    with failing(), progress(context), step_observed(pipeline, lineage.source, context.run_id, starts=True):
        head = table.head()
        comparison = compared(context, {key: head.position if head else None})[key]
        extracted = _extract(pipeline, lineage.source, spark) if spark else None
        register_files(context.instance, lineage)
    if extracted and extracted.stretch and extracted.stretch.endpoint:
        context.instance.add_run_tags(context.run_id, {ENDPOINT_TAG: extracted.stretch.endpoint})
    if extracted and (extracted.range or not head):
        # A new position is a materialization; without one, Dagster's copy may still need mending.
        tag_range(context, lineage.source, extracted.range)
        observe(context, lineage, checkpoint.read_source_metadata(extracted))
        step = StepResult(
            extracted.range.stop, checkpoint.extraction_metadata(extracted, table), _version(extracted.head)
        )
        yield materialized(key, step, comparison)
    else:
        yield from resynced(key, comparison, head, table, _version(head))


def _extract(pipeline: Pipeline, source: str, spark: Sessions) -> "Extracted":
    from spark_jobs.pipeline.run import extract_source  # half a second that an idle run need not spend

    return extract_source(lazy_session(spark.session), pipeline, source)


def observe(context: dg.OpExecutionContext, lineage: Lineage, metadata: checkpoint.Metadata) -> None:
    """Record an observation of the source."""
    context.log_event(dg.AssetObservation(lineage.origin, metadata=metadata))


def tag_range(context: dg.OpExecutionContext, source: str, log_range: Range) -> None:
    """Tags of the range that a run of one source read; a run of several has a tag for each."""
    if context.run.tags.get(SOURCE_TAG) == source:
        tags = {FROM_TAG: str(log_range.start), TO_TAG: str(log_range.stop)}
    else:
        tags = {f"range/{source}": str(log_range)}
    context.instance.add_run_tags(context.run_id, tags)


def _version(head: "Head | None") -> str | None:
    """Data version: the position where the log that bronze holds begins: what lies after it never changes.

    Were it the position, every table that a run has nothing new for would stand as unsynced in the UI until it has.
    """
    from spark_jobs.bronze import table as bronze

    return str(bronze.begin(head.checkpoint)) if head and head.checkpoint else None
