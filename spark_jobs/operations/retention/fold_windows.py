"""Folding: old windows of a silver table become one, below a floor under which nothing can be replayed.

Put here: which windows may be folded, and the commit. Not here: the fold (engine/silver/fold_job.py), refusing a
range that lies below the floor (pipeline/backfill/run.py).

The windows that end before bronze begins become one: a row per key, or an image with its copies, as all of them
leave it. What they leave deleted has no row any more, since no older row is left that it has to outdo. That is one
commit under the table's counter, which says up to where (``folded``), and it changes nothing downstream: so it is done
only where downstream has all that silver has. Why it is sound: docs/adr/0009-retention.md.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.config.modes import Mode
from spark_jobs.delta import features
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import SharedPart, view
from spark_jobs.downstream.publication import Entry
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.silver import fold_job
from spark_jobs.engine.silver.fold_job import OldWindows
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import progress
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit

log = logging.getLogger(__name__)

_WORTH = 4
"""Ratio of what may be folded already to the rows that are to be folded: a row is written again, all in all, a number
of times that grows with the logarithm of what the table has seen, not with its age."""


@dataclass(frozen=True, slots=True)
class Folded:
    """Result of a fold: the windows up to ``floor`` are one since."""

    name: TableName
    floor: Position
    rows_before: int
    rows_after: int
    """Both of the windows below the floor."""


def why_not(lake: Lake, entry: Entry, head: Head) -> str | None:
    """Reason why a silver table at this head is not folded now; None where it may be."""
    load = progress(lake, entry.source, TableName(*entry.name))
    if entry.is_reset:
        return "it is reset, and the next run rebuilds it"
    if load and load.is_open:
        return "it is being loaded"
    merged = [view(Table(target.path, lake.plain), (entry.source, *entry.name)) for target in entry.into]
    if any(isinstance(target, SharedPart) for target in merged):
        return "it has keys in common with other sources' tables, whose older changes its deletes have to outdo"
    keeping = next((target.mode for target in entry.into if target.mode != Mode.MIRROR), None)
    if keeping:
        return f"a downstream table of it keeps what was deleted (mode: {keeping})"
    has_all = bool(merged) and all(is_merged(lake, entry, head, target) for target in merged)
    return None if has_all else "downstream has not got all of it yet"


def is_merged(lake: Lake, entry: Entry, head: Head, table: Table) -> bool:
    """True if downstream has all of silver: no window, and no replayed window, is still to be merged."""
    merged = DownstreamCommit.of_head(table.head())
    if merged is None:
        return False
    since = lake.silver(entry.source, *entry.name).since(merged.silver_version)
    return all(checkpoint.kind == CommitKind.MAINTENANCE for version, checkpoint in since if version <= head.version)


def fold(spark: SparkSession, lake: Lake, entry: Entry, capacity: Capacity) -> Folded | None:
    """Fold the windows that bronze does not go back to; None where there is too little to fold.

    Raises LostRace where another writer of the table came first, LakeError.
    """
    # Only windows before bronze's oldest byte are folded: those after it can be replayed.
    table, bronze_head = lake.silver(entry.source, *entry.name), lake.bronze(entry.source).head()
    head = table.head()
    if bronze_head is None or bronze_head.checkpoint is None or head is None or head.checkpoint is None:
        return None
    oldest = bronze.oldest(bronze_head.checkpoint)
    snapshot = snapshot_of(table.path, head.version)
    if oldest == bronze.begin(bronze_head.checkpoint) or snapshot is None:
        return None
    features.require_written(snapshot)
    windows = fold_job.old_windows(spark, snapshot, oldest, silver.fold_floor(head), capacity)
    # A second fold writes the first one's rows again, so it has to be worth it.
    is_worth = (windows.rows - windows.folded_rows) * _WORTH >= windows.folded_rows
    if windows.count < 2 or windows.window is None or not is_worth:
        return None
    # One row a key, or one an image with its copies, replaces the windows below the floor in one commit.
    floor = _stored_position(windows.window[1], stretches(bronze_head.checkpoint))
    emptied = _emptied(head, windows, stretches(bronze_head.checkpoint))
    columns = silver.stored_columns(table, head)
    folded = fold_job.fold(spark, snapshot, columns, windows, capacity, floor=floor, emptied=emptied)
    commit = replace(SilverCommit.of(head.checkpoint), batch=new_batch(), kind=CommitKind.MAINTENANCE, folded_to=floor)
    table.land(snapshot, head, commit, **fold_job.arguments_of_fold(spark, snapshot, folded))
    name = TableName(*entry.name)
    log.info("%s: %s: folded up to %s, %d rows to %d", entry.source, name, floor, windows.rows, folded.rows)
    return Folded(name, floor, windows.rows, folded.rows)


def _emptied(head: Head, windows: OldWindows, log_stretches: Sequence[Stretch]) -> Position | None:
    """The last statement below the floor that emptied the table: rows before it are not part of what is folded."""
    assert windows.window is not None
    emptied = SilverCommit.of(head.checkpoint).emptied_at if head.checkpoint else None
    positions = [windows.emptied] if windows.emptied else []
    positions += [emptied.order] if emptied and emptied.order <= windows.window[1] else []
    return _stored_position(max(positions), log_stretches) if positions else None


def _stored_position(position: Sequence[int], log_stretches: Sequence[Stretch]) -> Position:
    """A stored position as a position; the files of a stretch share their base name."""
    stretch, number, offset = position
    (entry,) = (entry for entry in log_stretches if entry.number == stretch)
    return Position(entry.file(number), offset, stretch)
