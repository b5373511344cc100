"""Removal of changes that were derived from foreign keys, with the log of the same range: a part of ``stratalog gc``.

A reader of them reads bronze at the same positions, so that they go once bronze has let their log go, and no earlier.
The commit says of which child tables some are gone: log from before, which an archive can bring back, is not decoded
for those.

Put here: which of them go, and the commit. Not here: which log may go (gc.py).
"""

from dataclasses import replace

from pyspark.sql import SparkSession

from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.engine.jobs.log_removal import log_removal_arguments
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position


def remove_derived_before(spark: SparkSession, lake: Lake, source: str, oldest: Position, task_bytes: int) -> None:
    """Remove the derived changes of files of the log before a position's, in one commit; none where there are none.

    Args:
        spark: the session, which may be a lazy one.
        lake: the lake.
        source: the source.
        oldest: where bronze begins.
        task_bytes: bytes of data files for each task.

    Raises LostRace, LakeError.
    """
    table = lake.cascades(source)
    head = table.head()
    stored = CascadesCommit.of_head(head)
    names = derived_slices.tables_before(lake.bronze(source).path, oldest) if stored else set()
    if not head or not stored or not names:
        return
    removed = {**stored.removed, **{str(name): str(oldest) for name in sorted(names)}}
    commit = replace(stored, batch=new_batch(), kind=CommitKind.GC, changes=0, removed=removed)
    upon = driver_commit.snapshot_upon(table.path, head)
    table.land(upon, head, commit, **log_removal_arguments(spark, upon, oldest.order[:2], task_bytes))
