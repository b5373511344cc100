"""Silver: the net change of every key, a table for each of the source's. One asset a table, one step a source.

Put here: the step that compacts. Not here: how a window is compacted (spark_jobs/engine/silver/silver_job.py).
"""

from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.failures import failing, retried
from assets.keys import Name
from assets.lineage import Lineage
from assets.materialize import Before, Events, StepResult, check_results
from assets.particulars import particulars_of
from assets.progress import progress, sessions
from assets.selection import HANDED_ON, StepSelection, hand_on, selection_of, table_outputs
from assets.steps import Sessions, around
from spark_jobs.config.model import Pipeline
from spark_jobs.operations.observation.run_telemetry import step_observed
from spark_jobs.runtime.lazy_session import lazy_session

if TYPE_CHECKING:  # imports pyspark
    from spark_jobs.pipeline.outcome import Outcome

COMPACTED = "compacted"
"""Output: the Outcome of compaction, None where there was nothing to do."""


def compact_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """Bronze -> silver, for every table that has something new, up to bronze's end."""
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"compact_{source}"),
        description=f"Reduces what bronze has of {source} to the net change of every key, table by table.",
        out={**table_outputs(lineage.silver), COMPACTED: dg.Out(is_required=False, io_manager_key=HANDED_ON)},
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    @around(catalog.execute, "compact", source, catalog.include_metadata)
    def compact(context: dg.OpExecutionContext, idle: bool | None) -> Events:
        from spark_jobs.lake.layout import lake_of

        lake, picked = lake_of(pipeline), selection_of(context, lineage, lineage.silver)
        # Dagster's copy and the lake are compared before the compaction moves them.
        with failing(), progress(context), step_observed(pipeline, source, context.run_id):
            before = Before.read(context, {table.key: lake.silver(source, *table.name) for table in picked.tables})
            is_wanted = picked.is_any and not idle
            outcome = _compact(pipeline, source, sessions(context, catalog.spark), picked) if is_wanted else None
            steps = _steps(pipeline, lineage, outcome)
        yield from before.events(context, steps)
        reasons = {catalog.silver(source, name): [reason] for name, reason in reasons_by_stopped_table(outcome).items()}
        yield from check_results(context, lineage.silver, reasons, set(steps))
        yield from hand_on(context, COMPACTED, outcome)

    return compact


def _compact(pipeline: Pipeline, source: str, spark: Sessions, picked: StepSelection) -> "Outcome":
    from spark_jobs.pipeline.run import compact_source  # half a second that an idle run need not spend

    return compact_source(lazy_session(spark.session), pipeline, source, tables=picked.names)


def reasons_by_stopped_table(outcome: "Outcome | None") -> dict[Name, str]:
    """Reasons why tables stopped, by name."""
    return {(name.schema, name.table): reason for name, reason in outcome.stopped.items()} if outcome else {}


def _steps(pipeline: Pipeline, lineage: Lineage, outcome: "Outcome | None") -> dict[dg.AssetKey, StepResult]:
    from spark_jobs.lake.layout import lake_of

    if not (outcome and outcome.compacted):
        return {}
    source = lineage.source
    steps, particulars = {}, particulars_of(pipeline, source)
    for compacted in outcome.compacted:
        name = (compacted.name.schema, compacted.name.table)
        derived = outcome.derived.get(compacted.name, 0)
        metadata = checkpoint.compaction_metadata(compacted, lake_of(pipeline).silver(source, *name), derived)
        steps[lineage.catalog.silver(source, name)] = StepResult(
            compacted.range.stop, metadata | particulars(compacted.name, compacted.range)
        )
    return steps
