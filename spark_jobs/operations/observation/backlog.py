"""Backlog of a source, by positions of its log, bronze and published tables, without a JVM: for sensors and idle runs.

Put here: reading positions and judging whether there is anything to do. Not here: doing it.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.config.model import Pipeline
from spark_jobs.log.position import Position

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.downstream.publication import Entry
    from spark_jobs.lake.commit import Head
    from spark_jobs.lake.table import Table

log = logging.getLogger(__name__)

_AT_ONCE = 16
"""Heads read side by side: on an object store each is a request or two."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Distance between a source's log and bronze, and between bronze and what is published."""

    end: Position
    bronze: Position | None
    published: Position | None
    bytes: int
    """Bytes between bronze and the log's end; where another log is to be taken up, that log's, of which bronze has
    most."""
    reset: bool = False
    """True if a table is to be rebuilt from bronze, and no run has tried since."""
    rerouted: bool = False
    """True if a table goes to a downstream table by now in which nothing of it is."""

    @property
    def moved(self) -> bool:
        return self.bronze is None or self.bronze < self.end

    @property
    def left_behind(self) -> bool:
        """True if bronze holds what no run has carried further: one was cut short, went no further, or is to come."""
        if self.bronze is None:
            return False
        return self.published is None or self.published < self.bronze or self.reset or self.rerouted


def backlog(pipeline: Pipeline, source: str) -> Backlog:
    """Ask the source for its end, the first of its endpoints that answers. Raises SourceError, LakeError."""
    from spark_jobs.bronze.resume import current_log_in_stretch
    from spark_jobs.bronze.source_endpoints import endpoints_of
    from spark_jobs.downstream import publication as published
    from spark_jobs.lake.layout import lake_of

    head = lake_of(pipeline).bronze(source).head()
    bronze = head.position if head else None
    log = endpoints_of(pipeline, source).first(lambda source: current_log_in_stretch(source, head), proves=False)
    moves = bronze is not None and bronze.stretch < log.end.stretch
    size = log.bytes_from(log.first if bronze is None or moves else bronze)
    entries = published.read(lake_of(pipeline), source)
    is_reset = any(entry.state == published.RESET for entry in entries)
    at = published_position(pipeline, source)
    return Backlog(log.end, bronze, at, size, is_reset, _is_rerouted(pipeline, source, entries))


def bronze_position(pipeline: Pipeline, source: str) -> Position | None:
    from spark_jobs.lake.layout import lake_of

    head = lake_of(pipeline).bronze(source).head()
    return head.position if head else None


def published_position(pipeline: Pipeline, source: str) -> Position | None:
    """The position up to which bronze was processed; None if nothing was ever published."""
    from spark_jobs.downstream import publication as published
    from spark_jobs.lake.layout import lake_of

    return published.surveyed_to(lake_of(pipeline), source)


def is_every_table_current(pipeline: Pipeline, source: str) -> bool:
    """True if every table in scope has all that bronze has, in both layers, and no table is stopped."""
    from spark_jobs.downstream import publication as published
    from spark_jobs.lake.layout import lake_of

    bronze = bronze_position(pipeline, source)
    if bronze is None or published_position(pipeline, source) != bronze:
        return False
    entries = published.read(lake_of(pipeline), source)
    in_scope = [entry for entry in entries if pipeline.scope.holds(*entry.name)]
    holds = all(entry.holds(str(bronze)) for entry in in_scope) and not _is_rerouted(pipeline, source, in_scope)
    return holds and _untouched(pipeline, source, in_scope)


def has_pending_work(pipeline: Pipeline, source: str) -> bool:
    """True if the lake alone tells of work for a run: a table to be rebuilt, stopped, or behind bronze. Asks no server.

    Raises LakeError.
    """
    from spark_jobs.downstream import publication as published
    from spark_jobs.lake.layout import lake_of

    entries = published.read(lake_of(pipeline), source)
    return any(entry.state == published.RESET for entry in entries) or not is_every_table_current(pipeline, source)


def nothing_new(pipeline: Pipeline, source: str) -> Position | None:
    """The end of a source's log, where a run would find nothing to do; None where it would, or has to look itself.

    A run looks itself where a schema dump may have been replaced, and where sources share keys: it moves their clock.
    Warns, as a run does, where the source has too little log left. Raises SourceError, LakeError.
    """
    from spark_jobs.bronze.source_endpoints import endpoints_of
    from spark_jobs.source.retention_margin import margin

    if pipeline.sources[source].schema_dump or pipeline.routing.shares(source):
        return None
    ahead = backlog(pipeline, source)
    bronze = ahead.bronze
    if bronze is None or bronze != ahead.end or ahead.left_behind or not is_every_table_current(pipeline, source):
        return None
    # A source of files does not read its last one where that ends at bronze's end.
    remaining = endpoints_of(pipeline, source).first(
        lambda source: margin(source, source.log(bronze), bronze), proves=False
    )
    shortage = remaining.shortage(pipeline.retention)
    if shortage:
        log.warning("%s: %s", source, shortage)
    return ahead.end


def heads(tables: "list[Table]") -> "list[Head | None]":
    """The heads of tables, in their order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda table: table.head(), tables))


def _is_rerouted(pipeline: Pipeline, source: str, entries: "list[Entry]") -> bool:
    """True if a table that continues has a downstream table in which nothing of it is yet, or not with that mode."""
    going = [
        entry for entry in entries if entry.state == "current" and entry.into and pipeline.scope.holds(*entry.name)
    ]
    return any(
        {(to.name, to.mode.value) for to in pipeline.routing.of(source, *entry.name)}
        - {(to.name, to.mode) for to in entry.into}
        for entry in going
    )


def _untouched(pipeline: Pipeline, source: str, entries: "list[Entry]") -> bool:
    """True if silver is as it was published, and every downstream table there.

    Windows that were replayed outside Dagster are still to be merged; a table that was moved away is written again.
    """
    from spark_jobs.lake.layout import lake_of

    lake = lake_of(pipeline)
    in_silver = [entry for entry in entries if entry.silver_version is not None]
    moved = _opened([(lake.silver(source, *entry.name), entry.silver_version) for entry in in_silver])
    if any(head is None or head.version != version for version, head in moved):
        return False
    into = {to.name: to.version for entry in in_silver for to in entry.into if to.version is not None}
    return all(head for _, head in _opened([(lake.downstream(*name), version) for name, version in into.items()]))


def _opened(published: "list[tuple[Table, int | None]]") -> "list[tuple[int | None, Head | None]]":
    """The heads of those tables that are not, for certain, at the version that is published; with that."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        is_newest = list(pool.map(lambda pair: pair[1] is not None and pair[0].is_newest(pair[1]), published))
    rest = [pair for pair, newest in zip(published, is_newest, strict=True) if not newest]
    return list(zip([version for _, version in rest], heads([table for table, _ in rest]), strict=True))
