"""Downstream: the source's tables, merged. One asset a table that rows are routed to, one step a source.

Put here: the step that merges. Not here: how a table is merged (spark_jobs/engine/merge/downstream_job.py).
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checkpoint
from assets.catalog import AssetCatalog
from assets.failures import failing, retried
from assets.keys import Name
from assets.lineage import Lineage
from assets.materialize import Before, Events, StepResult, check_results
from assets.particulars import particulars_of
from assets.progress import progress, sessions
from assets.selection import HANDED_ON, StepSelection, hand_on, selection_of, table_outputs
from assets.silver import reasons_by_stopped_table
from assets.steps import Sessions, around
from spark_jobs.config.model import Pipeline
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.run_telemetry import step_observed
from spark_jobs.runtime.lazy_session import lazy_session

if TYPE_CHECKING:  # these import pyspark
    from datetime import datetime

    from spark_jobs.config.routes import Destination
    from spark_jobs.downstream.merge_job import Merged
    from spark_jobs.lake.commit import Head
    from spark_jobs.pipeline.outcome import Outcome

MERGED = "merged"
"""Output: the Outcome of compaction and merges, None where there was nothing to do."""


def merge_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """Silver -> downstream, for every table, up to silver's checkpoint."""
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"merge_{source}"),
        description=f"Merges the net changes of {source} into the downstream tables, exactly once.",
        out={**table_outputs(lineage.downstream), MERGED: dg.Out(is_required=False, io_manager_key=HANDED_ON)},
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    @around(catalog.execute, "merge", source, catalog.include_metadata)
    def merge(context: dg.OpExecutionContext, idle: bool | None, compacted: Any) -> Events:
        from spark_jobs.downstream.multi_source import SourceTable
        from spark_jobs.lake.layout import lake_of

        lake, picked = lake_of(pipeline), selection_of(context, lineage, lineage.downstream)
        # Dagster's copy and the lake are compared before the merge moves them.
        with failing(), progress(context), step_observed(pipeline, source, context.run_id):
            before = Before.read(
                context, {table.key: SourceTable(lake.downstream(*table.name), source) for table in picked.tables}
            )
            is_wanted = picked.is_any and not idle
            spark = sessions(context, catalog.spark)
            outcome = _merge(pipeline, source, spark, picked, compacted) if is_wanted else None
            steps = merged_tables(catalog, source, outcome) if outcome else {}
            warnings = _doubts(lineage, pipeline) if outcome else {}
        for line in sorted({line for lines in warnings.values() for line in lines}):
            context.log.warning("%s: %s", source, line)
        yield from before.events(context, steps)
        stopped_tables = _stopped(lineage, outcome, compacted)
        yield from check_results(context, lineage.downstream, stopped_tables, set(steps), warnings)
        yield from hand_on(context, MERGED, outcome or compacted)

    return merge


def _merge(
    pipeline: Pipeline, source: str, spark: Sessions, picked: StepSelection, compacted: "Outcome | None"
) -> "Outcome":
    from spark_jobs.pipeline.run import merge_source  # half a second that an idle run need not spend

    session = lazy_session(spark.session)
    return merge_source(session, pipeline, source, compacted, tables=picked.names, into=picked.targets)


def _doubts(lineage: Lineage, pipeline: Pipeline) -> dict[dg.AssetKey, list[str]]:
    """Reasons why rows of downstream tables may not be the server's, also of tables that have no news.

    Foreign keys change them unlogged, or the last comparison has found that they differ.
    """
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation import verified
    from spark_jobs.pipeline.cascades.unlogged_changes import cascades

    # Both are of source tables; a downstream table has those of all that it is made of.
    by_table: dict[Name, list[str]] = defaultdict(list)
    lake = lake_of(pipeline)
    for cascade in cascades(pipeline, lake, lineage.source):
        by_table[cascade.table.schema, cascade.table.table].append(str(cascade))
    for last in verified.read(lake, lineage.source).values():
        if last.state == verified.DIFFERS:
            by_table[last.schema, last.table].append(last.doubt(lineage.source))
    return {
        asset.key: lines
        for asset in lineage.downstream
        if (lines := [line for name in sorted(asset.origins) for line in by_table.get(name, [])])
    }


def _stopped(lineage: Lineage, outcome: "Outcome | None", compacted: "Outcome | None") -> dict[dg.AssetKey, list[str]]:
    """Reasons why downstream tables get no further: since they stopped here, or a source table of theirs did before."""
    before = reasons_by_stopped_table(compacted)
    by_key = {
        asset.key: reasons
        for asset in lineage.downstream
        if (reasons := [before[name] for name in sorted(asset.origins) if name in before])
    }
    for (origin, into), reason in outcome.stopped_into.items() if outcome else ():
        if (origin.schema, origin.table) not in before:
            by_key.setdefault(lineage.catalog.downstream(into), []).append(reason)
    return by_key


def merged_tables(
    catalog: AssetCatalog, source: str, outcome: "Outcome", *, is_live: bool = True
) -> dict[dg.AssetKey, StepResult]:
    """Results of a run's merges, by downstream table. is_live: they brought what is new.

    A table of several stands with the first source that has a part in it: its position is that one's.
    """
    from spark_jobs.downstream.multi_source import SourceTable
    from spark_jobs.lake.layout import lake_of

    # One result a downstream table, by its key.
    steps: dict[dg.AssetKey, StepResult] = {}
    pipeline = catalog.pipeline
    lake, particulars = lake_of(pipeline), particulars_of(pipeline, source)
    newest = {entry.name: entry.committed_at for entry in outcome.entries} if is_live else {}
    for merged in outcome.merged:
        name = (merged.name.schema, merged.name.table)
        into = _destination(pipeline, source, merged)
        table, key = lake.downstream(*into.name), catalog.downstream(into.name)
        silver = catalog.silver(source, name), lake.silver(source, *name)
        metadata = checkpoint.merge_metadata(merged, table, silver, newest.get(name))
        metadata |= particulars(merged.name, merged.range)
        position, version, matches_with = merged.range.stop, None, source
        # A table of several sources stands with the first of them: only that one's position is its own.
        head = table.head() if into.is_merged else None
        if head:
            matches_with = _first_source(pipeline, head)
            first = SourceTable(table, matches_with).head()
            position = first.position if first and first.position else position
            before = steps[key].metadata if key in steps else {}
            metadata = checkpoint.merged_part_metadata(
                metadata, before, _watermarks(pipeline, into.name, head, outcome)
            )
            metadata |= checkpoint.table_metadata(head, table) | checkpoint.position_metadata(position)
            metadata |= checkpoint.watermark_metadata(_shared_watermark(pipeline, into, source, outcome))
            version = f"{position} version {head.version}"
        steps[key] = StepResult(position, metadata, version, is_elsewhere=matches_with != source)
    return steps


def _destination(pipeline: Pipeline, source: str, merged: "Merged") -> "Destination":
    from spark_jobs.lake.layout import downstream_name

    into, name = downstream_name(merged.target), merged.name
    return next(
        destination for destination in pipeline.routing.of(source, name.schema, name.table) if destination.name == into
    )


def _first_source(pipeline: Pipeline, head: "Head") -> str:
    from spark_jobs.downstream.multi_source import parts_of

    sources = {part.owner[0] for part in parts_of(head.checkpoint)}
    return next((source for source in pipeline.sources if source in sources), "")


def _shared_watermark(pipeline: Pipeline, into: "Destination", source: str, outcome: "Outcome") -> "datetime | None":
    """Time up to which a table whose sources share keys has all that they wrote; None for another table."""
    from spark_jobs.downstream.watermark import watermark
    from spark_jobs.lake.layout import lake_of

    return watermark(pipeline, lake_of(pipeline), into.name, {source: outcome.entries}) if into.is_shared else None


def _watermarks(pipeline: Pipeline, into: Name, head: "Head", outcome: "Outcome") -> dict[str, str]:
    """Positions by source up to which a table of several has it: the least of its tables that rows go there from.

    What is published says so of tables without news, and the parts of those that were merged since.
    """
    from spark_jobs.downstream import publication
    from spark_jobs.downstream.multi_source import parts_of
    from spark_jobs.lake.layout import lake_of

    parts = {part.owner: part.position for part in parts_of(head.checkpoint)}
    own_sources, lake, provenance = {entry.source for entry in outcome.entries}, lake_of(pipeline), {}
    for source in pipeline.sources:
        entries = outcome.entries if source in own_sources else publication.read(lake, source)
        routed = [entry for entry in entries if into in {to.name for to in pipeline.routing.of(source, *entry.name)}]
        merged = [(entry.name, Position.parse(at)) for entry in routed if (at := entry.reached(into))]
        reached = [max(at, parts.get((source, *name), at)) for name, at in merged]
        if reached:
            provenance[source] = str(min(reached))
    return provenance
