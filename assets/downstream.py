"""Downstream: the source's tables, merged. One asset a table that rows are routed to, one step a source.

Put here: the step that merges. Not here: how a table is merged (spark_jobs/downstream/merge.py).
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checkpoint
from assets.keys import Lineage, Name, downstream_key
from assets.particulars import particulars_of
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
from spark_jobs.config.model import Pipeline
from spark_jobs.operations.failures import noted
from spark_jobs.runtime.lazy_session import lazy_session

if TYPE_CHECKING:  # these import pyspark
    from datetime import datetime

    from spark_jobs.config.routes import Destination
    from spark_jobs.downstream.merge_job import Merged
    from spark_jobs.lake.commit import Head
    from spark_jobs.pipeline.outcome import Outcome

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
        from spark_jobs.downstream.multi_source import SourceTable
        from spark_jobs.lake.layout import lake_of
        from spark_jobs.pipeline.run import merge_source

        lake, picked = lake_of(pipeline), chosen(context, lineage, lineage.downstream)
        with failing(), noted(pipeline.path, source, is_last=False):
            before = Before.read(
                context, {table.key: SourceTable(lake.downstream(*table.name), source) for table in picked.tables}
            )
            wanted = picked.any and not idle
            merging = partial(merge_source, tables=picked.names, into=picked.targets)
            outcome = merging(lazy_session(spark.session), pipeline, source, compacted) if wanted else None
            done = merged_tables(pipeline, source, outcome) if outcome else {}
        yield from before.events(context, done)
        yield from check_results(context, lineage.downstream, _stopped(lineage, outcome, compacted), set(done))
        yield from hand_on(context, MERGED, outcome or compacted)

    return merge


def _stopped(lineage: Lineage, outcome: "Outcome | None", compacted: "Outcome | None") -> dict[dg.AssetKey, list[str]]:
    """Why downstream tables get no further: since they stopped here, or a source table of theirs did before."""
    before = stopped(compacted)
    found = {
        one.key: reasons
        for one in lineage.downstream
        if (reasons := [before[name] for name in sorted(one.origins) if name in before])
    }
    for (origin, into), why in outcome.stopped_into.items() if outcome else ():
        if (origin.schema, origin.table) not in before:
            found.setdefault(downstream_key(into), []).append(why)
    return found


def merged_tables(
    pipeline: Pipeline, source: str, outcome: "Outcome", *, is_live: bool = True
) -> dict[dg.AssetKey, Done]:
    """What a run's merges did, by downstream table. is_live: they brought what is new.

    A table of several stands with the first source that has a part in it: its position is that one's.
    """
    from spark_jobs.downstream.multi_source import SourceTable
    from spark_jobs.lake.layout import lake_of

    found: dict[dg.AssetKey, Done] = {}
    lake, particulars = lake_of(pipeline), particulars_of(pipeline, source)
    newest = {entry.name: entry.committed_at for entry in outcome.entries} if is_live else {}
    for one in outcome.merged:
        name = (one.name.schema, one.name.table)
        into = _destination(pipeline, source, one)
        table, key = lake.downstream(*into.name), downstream_key(into.name)
        metadata = checkpoint.of_merged(one, table, lake.silver(source, *name), newest.get(name))
        metadata |= particulars(one.name, one.range)
        position, version, stands_with = one.range.stop, None, source
        whole = table.head() if into.is_merged else None
        if whole:
            stands_with = _first_source(pipeline, whole)
            first = SourceTable(table, stands_with).head()
            position = first.position if first and first.position else position
            before = found[key].metadata if key in found else {}
            metadata = checkpoint.of_merged_part(metadata, before, _watermarks(pipeline, into.name, whole, outcome))
            metadata |= checkpoint.of_head(whole, table) | checkpoint.of_position(position)
            metadata |= checkpoint.of_watermark(_settled(pipeline, into, source, outcome))
            version = f"{position} version {whole.version}"
        found[key] = Done(position, metadata, version, is_elsewhere=stands_with != source)
    return found


def _destination(pipeline: Pipeline, source: str, merged: "Merged") -> "Destination":
    from spark_jobs.lake.layout import downstream_name

    into, name = downstream_name(merged.target), merged.name
    return next(one for one in pipeline.routing.of(source, name.schema, name.table) if one.name == into)


def _first_source(pipeline: Pipeline, head: "Head") -> str:
    from spark_jobs.downstream.multi_source import parts_of

    there = {part.owner[0] for part in parts_of(head.checkpoint)}
    return next((source for source in pipeline.sources if source in there), "")


def _settled(pipeline: Pipeline, into: "Destination", source: str, outcome: "Outcome") -> "datetime | None":
    """Up to when a table has all that its sources wrote, where these have keys in common; None for another one."""
    from spark_jobs.downstream.watermark import watermark
    from spark_jobs.lake.layout import lake_of

    return watermark(pipeline, lake_of(pipeline), into.name, {source: outcome.entries}) if into.is_shared else None


def _watermarks(pipeline: Pipeline, into: Name, head: "Head", outcome: "Outcome") -> dict[str, str]:
    """Up to where each source is in a table of several: the least of its tables that rows go there from.

    What is published says so of tables without news, and the parts of those that were merged since.
    """
    from spark_jobs.downstream import publication
    from spark_jobs.downstream.multi_source import parts_of
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.log.position import Position

    parts = {part.owner: part.position for part in parts_of(head.checkpoint)}
    own, lake, found = {entry.source for entry in outcome.entries}, lake_of(pipeline), {}
    for source in pipeline.sources:
        entries = outcome.entries if source in own else publication.read(lake, source)
        there = [one for one in entries if into in {to.name for to in pipeline.routing.of(source, *one.name)}]
        merged = [(one.name, Position.parse(at)) for one in there if (at := one.reached(into))]
        reached = [max(at, parts.get((source, *name), at)) for name, at in merged]
        if reached:
            found[source] = str(min(reached))
    return found
