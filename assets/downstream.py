"""Downstream: the source's tables, merged. One asset a table that rows are routed to, one step a source.

Put here: the step that merges. Not here: how a table is merged (spark_jobs/merge.py).
"""

from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checkpoint
from assets.lineage import Lineage, Name, downstream_key
from assets.silver import stopped
from assets.steps import (
    HANDED_ON,
    RETRY,
    Before,
    Done,
    Events,
    Sessions,
    check_results,
    chosen,
    failing,
    hand_on,
    table_outputs,
)
from spark_jobs.config import Pipeline
from spark_jobs.rules import target

if TYPE_CHECKING:  # imports pyspark
    from spark_jobs.pipeline import Outcome

MERGED = "merged"
"""Output: the Outcome of compaction and merges, None where there was nothing to do."""


def merge_step(pipeline: Pipeline, lineage: Lineage, pool: str) -> dg.OpDefinition:
    """Silver -> downstream, for every table, up to silver's checkpoint."""
    source = lineage.source

    @dg.op(
        name=f"merge_{source}",
        description=f"Merges the net changes of {source} into the downstream tables, exactly once.",
        out={**table_outputs(lineage.downstream), MERGED: dg.Out(is_required=False, io_manager_key=HANDED_ON)},
        retry_policy=RETRY,
        pool=pool,
    )
    def merge(
        context: dg.OpExecutionContext, idle: bool | None, compacted: Any, spark: dg.ResourceParam[Sessions]
    ) -> Events:
        from spark_jobs.pipeline import lake_of, merge_source

        lake, picked = lake_of(pipeline), chosen(context, lineage, lineage.downstream)
        with failing():
            before = Before.read(context, {one.key: lake.downstream(*one.name) for one in picked.tables})
            wanted = picked.any and not idle
            outcome = (
                merge_source(spark.session(), pipeline, source, compacted, tables=picked.names) if wanted else None
            )
            done = _done(pipeline, outcome)
        yield from before.events(context, done)
        stopped_here = {name: why for name, why in stopped(outcome).items() if name not in stopped(compacted)}
        yield from check_results(context, lineage.downstream, stopped_here, _worked_on(outcome))
        yield from hand_on(context, MERGED, outcome or compacted)

    return merge


def _worked_on(outcome: "Outcome | None") -> set[Name]:
    return {(one.name.schema, one.name.table) for one in outcome.merged} if outcome else set()


def _done(pipeline: Pipeline, outcome: "Outcome | None") -> dict[dg.AssetKey, Done]:
    from spark_jobs.pipeline import lake_of

    found, lake = {}, lake_of(pipeline)
    newest = {entry.name: entry.committed_at for entry in outcome.entries} if outcome else {}
    for one in outcome.merged if outcome else ():
        name = (one.name.schema, one.name.table)
        into = target(pipeline.route_list, *name)
        metadata = checkpoint.of_merged(one, lake.downstream(*into), lake.silver(one.source, *name), newest.get(name))
        found[downstream_key(into)] = Done(one.range.stop, metadata)
    return found
