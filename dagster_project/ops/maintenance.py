"""Maintenance of a source's tables, as a step of a job of its own: it makes no asset, and changes no row of any.

Put here: the step, and what it says of each table. Not here: what is done (spark_jobs/operations/retention/gc.py,
maintenance.py).
"""

from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.progress import progress, sessions
from spark_jobs.config.model import Pipeline
from spark_jobs.runtime.lazy_session import lazy_session
from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.operations.retention.gc import Collected
    from spark_jobs.operations.retention.maintenance import Maintained, Upkeep

FILES_BEFORE = "maintenance/files_before"
FILES_AFTER = "maintenance/files_after"
KEPT_HOURS = "maintenance/kept_hours"
FOLDED_TO = "maintenance/folded_up_to"
FOLDED_BEFORE = "maintenance/folded_rows_before"
FOLDED_AFTER = "maintenance/folded_rows_after"
REMOVED_FILES = "gc/files"
REMOVED_BYTES = "gc/bytes"
OLDEST = "gc/oldest"
KEPT_FOR = "gc/kept_for"


def maintain_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """Remove from bronze what retention allows, then maintain every table of the source."""
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"maintain_{source}"),
        description=f"Removes from {source}'s bronze what retention allows, writes small files of its tables together, "
        "and removes files that no version within reach names.",
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
        out=dg.Out(dg.Nothing),
    )
    @retried
    def maintain(context: dg.OpExecutionContext) -> None:
        from spark_jobs.operations.retention.gc import gc_source
        from spark_jobs.operations.retention.maintenance import maintain_source

        # gc first: what it removed decides which windows may be folded.
        spark = sessions(context, catalog.spark)
        with failing(), progress(context):
            if not _is_filled(pipeline, source):
                context.log.info("%s: bronze holds nothing yet", source)
                return
            if pipeline.retention.bronze:
                metadata = _collected_metadata(gc_source(lazy_session(spark.session), pipeline, source))
                context.log_event(dg.AssetObservation(lineage.bronze, metadata=metadata))
            upkeep = maintain_source(spark.session(), pipeline, source)
        keys = _asset_keys(pipeline, lineage)
        for table in upkeep.tables:
            if table.path in keys:
                context.log_event(dg.AssetObservation(keys[table.path], metadata=_maintained_metadata(table)))
        _fail(upkeep)

    return maintain


def _is_filled(pipeline: Pipeline, source: str) -> bool:
    from spark_jobs.lake.layout import lake_of

    head = lake_of(pipeline).bronze(source).head()
    return bool(head and head.checkpoint)


def _asset_keys(pipeline: Pipeline, lineage: Lineage) -> dict[str, dg.AssetKey]:
    """The assets of tables by path."""
    from spark_jobs.lake.layout import lake_of

    lake, names = lake_of(pipeline), [asset.name for asset in lineage.silver]
    silver = {lake.silver(lineage.source, *name).path: lineage.catalog.silver(lineage.source, name) for name in names}
    targets = [into.name for name in names for into in pipeline.routing.of(lineage.source, *name)]
    downstream = {lake.downstream(*name).path: lineage.catalog.downstream(name) for name in targets}
    return {lake.bronze(lineage.source).path: lineage.bronze} | silver | downstream


def _collected_metadata(collected: "Collected") -> dict[str, Any]:
    reason = {KEPT_FOR: str(collected.kept_for)} if collected.kept_for else {}
    return {
        REMOVED_FILES: len(collected.files),
        REMOVED_BYTES: float(collected.size),
        OLDEST: str(collected.oldest),
    } | reason


def _maintained_metadata(maintained: "Maintained") -> dict[str, Any]:
    files = {
        FILES_BEFORE: maintained.files_before,
        FILES_AFTER: maintained.files_after,
        KEPT_HOURS: maintained.kept_hours,
    }
    fold = maintained.folded
    folded = (
        {FOLDED_TO: str(fold.floor), FOLDED_BEFORE: fold.rows_before, FOLDED_AFTER: fold.rows_after} if fold else {}
    )
    return files | folded


def _fail(upkeep: "Upkeep") -> None:
    """Fails the step, after all else is done, where a table could not be maintained."""
    if upkeep.stopped:
        listed = "\n".join(upkeep.stopped.values())
        raise dg.Failure(f"not maintained: {counted(len(upkeep.stopped), 'table')}:\n{listed}")
