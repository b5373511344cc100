"""Shared keys (``keys: shared``): source tables whose equal keys are one row of a downstream table.

Put here: which tables can share keys, and what the lake has of the sources that do. Not here: the merge
(engine/merge/shared_merge.py), or the columns of such a table (multi_source.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs.downstream import commit_clock as clock
from spark_jobs.downstream.commit_clock import Clock
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import Owner, Part
from spark_jobs.errors import LakeError, TableStopped
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class SharedSources:
    """State of the sources that share keys in the lake: their silver, and their order times."""

    spark: SparkSession
    lake: Lake

    def silver(self, owner: Owner) -> Table:
        return self.lake.silver(*owner)

    def clock(self, source: str, until: Position | None = None) -> Clock:
        """A source's order times, found up to a position of its log where they are not.

        Raises LakeError, TableStopped.
        """
        source_clock = clock.clock_of(self.lake, source)
        if until and (source_clock is None or source_clock.position < until):
            source_clock = clock.advance(self.spark, self.lake, source)
        if source_clock is None:
            path = (self.lake.bronze(source) if until else self.lake.clock(source)).path
            raise LakeError(f"{path} is missing, which has the order times of rows")
        return source_clock


def require_one_key(work: MergeJob, parts: Sequence[Part]) -> None:
    """Check that the parts of a table identify rows by the same key columns. Raises TableStopped."""
    # Keys can be shared only if each row has one, and is whole.
    columns = work.columns
    if columns.is_keyless:
        raise TableStopped("has no key that it could share with others (keys: shared); give it one, or leave keys: out")
    if columns.has_partial:
        raise TableStopped(
            "has row images that omit columns, which are not completed with keys: shared; "
            "SET GLOBAL binlog_row_image = 'FULL', and reset it: stratalog reset"
        )
    # The same key must mean the same row in every part; floats are not compared for equality.
    for part in parts:
        kinds = [{columns.types.get(name), part.columns.get(name)} for name in columns.key]
        if sorted(part.key) != sorted(columns.key) or {"FLOAT", "DOUBLE"} in kinds:
            own_key = _key_text(columns.key, columns.types)
            raise TableStopped(
                f"its key is ({own_key}), and that of {part}, which it has keys in common with, is "
                f"({_key_text(part.key, part.columns)}); alter one of them, or route it to a table of its own"
            )


def _key_text(key: Sequence[str], types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {types.get(name)}" for name in key)
