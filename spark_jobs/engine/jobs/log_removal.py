"""Removal of the oldest binlog files from bronze: data files that have nothing else go by a commit alone.

Put here: which data files go and which are written again without old slices. Not here: which binlog files may go
(operations/retention/gc.py), or tables that another tool changed.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.jobs import rewrite
from spark_jobs.engine.jobs.rewrite import FileGroup
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.errors import LakeError
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over, slots

LogFile = tuple[int, int]
"""Stretch and number of a binlog file."""


def log_removal_arguments(
    spark: SparkSession, upon: Snapshot, oldest: LogFile, task_bytes: int
) -> Mapping[str, object]:
    """Arguments of ``Table.land`` that remove the slices of older binlog files from bronze.

    Spark starts where a data file has slices of older binlog files and of others: the others are written again.

    Args:
        spark: the session, which may be a lazy one.
        upon: bronze, as it is at the commit's head.
        oldest: the first binlog file that stays.
        task_bytes: bytes of data files for each task.

    Raises LakeError.
    """
    whole_files, cut_files = _data_files(upon, oldest)
    new_files = list(_written_again(spark, upon, cut_files, oldest, task_bytes)) if cut_files else []
    return {
        "adds": new_files,
        "removes": [*whole_files, *cut_files],
        "operation": "DELETE",
        "operation_parameters": {"predicate": f'["(stretch, number) < {oldest}"]'},
        "metrics": {"numRemovedFiles": len(whole_files) + len(cut_files), "numAddedFiles": len(new_files)},
    }


def _data_files(upon: Snapshot, oldest: LogFile) -> tuple[list[DataFile], list[DataFile]]:
    """The data files that have older slices only, and those that may have others beside them."""
    whole_files, cut_files = [], []
    for file in upon.files:
        stretch, number = (file.bounds(upon.schema, name) for name in ("stretch", "number"))
        lowest, highest = (stretch.minimum, number.minimum), (stretch.maximum, number.maximum)
        if None not in highest and highest < oldest:
            whole_files.append(file)
        elif None in lowest or lowest < oldest:
            cut_files.append(file)
    return whole_files, cut_files


def _written_again(
    spark: SparkSession, upon: Snapshot, files: Sequence[DataFile], oldest: LogFile, task_bytes: int
) -> Iterator[DataFile]:
    """Each file without older slices; none for one that has no others."""
    groups = [
        FileGroup(number, upon.path, (file,), upon.schema, upon.configuration, (), oldest=oldest)
        for number, file in enumerate(files)
    ]
    session = start_session(spark)
    for rewritten in rewrite.run(session_over(session, 0), groups, Capacity(slots(session), task_bytes)):
        if rewritten.error:
            raise LakeError(rewritten.error)
        if rewritten.file:
            yield rewritten.file
