"""Watermark of a downstream table whose sources share keys: the time up to which it has all that they wrote.

Put here: the least of the sources' times. Not here: what those times are (commit_clock.py), or who shows them
(operations/observation/status.py).
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Name
from spark_jobs.downstream import commit_clock, publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position


def watermark(
    pipeline: Pipeline, lake: Lake, into: Name, entries: Mapping[str, Collection[Entry]] | None = None
) -> datetime | None:
    """The order time up to which the table is complete: no source will have anything older for it.

    entries: of sources that a run is about to publish. None where a source has not been read yet, or nothing tells how
    far it is. Without a JVM.
    """
    watermarks = [
        _source_watermark(pipeline, lake, source, into, (entries or {}).get(source))
        for source in pipeline.sources
        if pipeline.routing.is_shared_by(source, into)
    ]
    times = [moment for moment in watermarks if moment is not None]
    return min(times) if times and len(times) == len(watermarks) else None


def _source_watermark(
    pipeline: Pipeline, lake: Lake, source: str, into: Name, entries: Collection[Entry] | None
) -> datetime | None:
    """Order time that the source had reached where its tables that go there are merged up to."""
    source_entries = entries if entries is not None else publication.read(lake, source)
    routed = [
        entry for entry in source_entries if pipeline.scope.holds(*entry.name) and _goes(pipeline, source, entry, into)
    ]
    reached = [entry.position if entry.silver_version is None else entry.reached(into) for entry in routed]
    surveyed = publication.surveyed_to(lake, source) if entries is None else None
    positions = [Position.parse(location) for location in reached if location is not None] + (
        [surveyed] if surveyed else []
    )
    if len(reached) != sum(location is not None for location in reached) or not positions:
        return None
    return commit_clock.order_time_at(lake, source, min(positions))


def _goes(pipeline: Pipeline, source: str, entry: Entry, into: Name) -> bool:
    return any(to.name == into for to in pipeline.routing.of(source, *entry.name))
