"""Metadata that the lake has and Dagster lacks: materializations and check results that no run reports.

Put here: the comparison, and the events. Not here: when it is made (dagster_project/lake_sensor.py), or the same inside
of a run (materialize.py).
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Comparison, Metadata
from assets.lineage import REPLICATING, Lineage
from spark_jobs.operations.observation.backlog import backlog, heads, published_position
from spark_jobs.text.disclosure import cell

ReportedEvent = dg.AssetMaterialization | dg.AssetCheckEvaluation


def adopt(instance: dg.DagsterInstance, lineage: Lineage) -> Iterator[ReportedEvent]:
    """Events for the assets of a source whose positions in the lake are not Dagster's. Raises LakeError."""
    from spark_jobs.bronze import table as bronze
    from spark_jobs.downstream.multi_source import SourceTable
    from spark_jobs.lake.layout import lake_of

    # All tables of the source, as the lake has them.
    source, pipeline = lineage.source, lineage.catalog.pipeline
    lake = lake_of(pipeline)
    tables = {lineage.bronze: lake.bronze(source)}
    tables |= {asset.key: lake.silver(source, *asset.name) for asset in lineage.silver}
    tables |= {asset.key: SourceTable(lake.downstream(*asset.name), source) for asset in lineage.downstream}
    found_heads = dict(zip(tables, heads(list(tables.values())), strict=True))
    recorded = checkpoint.read_last(instance, [*tables, lineage.published])
    # Tables in the order of layers, then what is published.
    for key, head in found_heads.items():
        comparison = Comparison(recorded[key], head.position if head else None)
        if head is None or head.position is None or not comparison.differs:
            continue
        version = str(head.position)
        if key == lineage.bronze:
            metadata = checkpoint.head_metadata(head, tables[key])
            version = str(bronze.begin(head.checkpoint)) if head.checkpoint else version
        else:
            metadata = checkpoint.table_metadata(head, tables[key]) | checkpoint.columns_metadata(tables[key])
        yield _materialization(key, metadata | comparison.to_metadata(), version)
    position = published_position(pipeline, source)
    comparison = Comparison(recorded[lineage.published], position)
    if position and comparison.differs:
        metadata = checkpoint.position_metadata(position) | comparison.to_metadata()
        yield _materialization(lineage.published, metadata, str(position))
        yield from _checks(lineage)


def confirm(instance: dg.DagsterInstance, lineage: Lineage, now: datetime | None = None) -> Iterator[ReportedEvent]:
    """Bronze once more where its source has nothing new, before its freshness window ends. Raises SourceError."""
    pipeline = lineage.catalog.pipeline
    event = instance.get_latest_materialization_event(lineage.bronze)
    if pipeline.max_lag is None or event is None:
        return
    age = (now or datetime.now(UTC)).timestamp() - event.timestamp
    if age < pipeline.max_lag.total_seconds() / 2:
        return
    ahead = backlog(pipeline, lineage.source)
    materialization = event.asset_materialization
    if ahead.bronze and not ahead.moved and materialization:
        metadata = checkpoint.position_metadata(ahead.bronze) | {checkpoint.BACKLOG: 0, checkpoint.NOTHING_NEW: True}
        yield dg.AssetMaterialization(lineage.bronze, metadata=metadata, tags=materialization.tags)


def _materialization(key: dg.AssetKey, metadata: Metadata, version: str) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(key, metadata=metadata, tags=checkpoint.version_tag(version))


def _checks(lineage: Lineage) -> Iterator[dg.AssetCheckEvaluation]:
    """Checks that compare replicated tables with the publication."""
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of

    entries = {entry.name: entry for entry in publication.read(lake_of(lineage.catalog.pipeline), lineage.source)}
    for asset in (*lineage.silver, *lineage.downstream):
        states = [entries[name] for name in asset.origins if name in entries]
        if asset.check and states:
            reasons = [cell(entry.reason or "") for entry in states if entry.state == "stopped"]
            yield dg.AssetCheckEvaluation(
                asset.key, REPLICATING, not reasons, metadata={}, description="\n".join(reasons) or None
            )
