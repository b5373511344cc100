"""Downstream tables that have all of silver, found without opening either: a run's cost follows the changes.

What a run published names the versions of both layers. Where none of both has a newer one, there is nothing to merge.

Put here: which tables that is true of. Not here: merging the others (run.py).
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from spark_jobs.binlog import TableName
from spark_jobs.config.routes import Destination, Name
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.snapshot import commit_info_of
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

_AT_ONCE = 16
"""Tables looked at side by side: on an object store each is some requests."""


@dataclass(frozen=True, slots=True)
class DestinationLeg:
    """A source table on its way to a downstream table, and its row as compaction left it."""

    entry: Entry
    into: Destination

    @property
    def name(self) -> tuple[TableName, Name]:
        return TableName(*self.entry.name), self.into.name


def targets_without_new_rows(
    lake: Lake, source: str, legs: Iterable[DestinationLeg], published: Iterable[Entry]
) -> dict[tuple[TableName, Name], Target]:
    """The targets that have nothing to merge, with their published state."""
    before = {entry.name: entry for entry in published}
    likely = [(leg, target) for leg in legs if (target := _published(lake, leg, before.get(leg.entry.name)))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        is_newest = pool.map(lambda pair: _is_newest(lake, source, *pair), likely)
        return {leg.name: target for (leg, target), newest in zip(likely, is_newest, strict=True) if newest}


def _published(lake: Lake, leg: DestinationLeg, before: Entry | None) -> Target | None:
    """The downstream table as it is published, where it had all of silver's rows then; None otherwise."""
    if before is None or before.state != "current" or before.silver_version is None or leg.into.is_shared:
        return None
    if leg.entry.state != "current" or leg.entry.silver_version != before.silver_version:
        return None
    target = next((target for target in before.into if target.name == leg.into.name), None)
    if target is None or target.version is None or target.reason or target.merged != before.position:
        return None
    if target.mode != leg.into.mode:
        return None
    try:
        return target if lake.downstream(*leg.into.name).path == target.path else None
    except TableStopped:  # the lake has no place for it, as its merge says
        return None


def _is_newest(lake: Lake, source: str, leg: DestinationLeg, target: Target) -> bool:
    assert leg.entry.silver_version is not None
    assert target.version is not None
    silver = lake.silver(source, *leg.entry.name)
    return (
        silver.is_newest(leg.entry.silver_version)
        and lake.downstream(*leg.into.name).is_newest(target.version)
        and _is_published(silver, leg.entry.silver_version, target)
    )


def _is_published(silver: Table, version: int, target: Target) -> bool:
    """True if a version of silver is not beyond what is published: a table that was restored gets its numbers again."""
    try:
        info = commit_info_of(silver.path, version) or {}
    except UnsupportedTable:
        return False
    commit = Checkpoint.from_json(info.get("userMetadata"))
    return commit is None or target.merged is None or commit.position <= Position.parse(target.merged)
