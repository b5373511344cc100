"""A Spark job whose tasks are given: one partition each, and at most one shuffle between two steps.

Put here: how tasks and their results travel through Spark, or are carried out in this process. Not here: what they do
(engine/silver/silver_task.py, engine/merge/downstream_task.py).

Only DataFrames are used, so that it runs through Spark Connect too. Tasks travel in the function, which PySpark
broadcasts where it is large; what they give comes back as pickled values in a binary column.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.runtime.engine_errors import translated
from spark_jobs.runtime.executors import checked
from spark_jobs.runtime.tasks_here import is_here
from spark_jobs.storage.store_access import with_registered_stores

Task = TypeVar("Task")
Part = TypeVar("Part")
Batches = Iterator[pa.RecordBatch]

_DDL = "bucket INT, unit INT, value BINARY"
_SCHEMA = pa.schema([("bucket", pa.int32()), ("unit", pa.int32()), ("value", pa.binary())])
_DONE = -1
"""The unit of a value that is a result."""
_BATCH_BYTES = 1 << 20
_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Capacity:
    """Division of work: tasks that Spark runs at a time, and bytes of log or files that one takes at most."""

    slots: int
    task_bytes: int = 32 << 20

    def share(self, total_bytes: int, least_bytes: int) -> int:
        """Bytes of a task, where all of them take so many: twice as many tasks as slots, but none below a size."""
        return min(self.task_bytes, max(least_bytes, total_bytes // (2 * self.slots)))


def packed(parts: Iterable[Part], cost: Callable[[Part], float], target: float) -> Iterator[tuple[Part, ...]]:
    """Parts in their order, as many together as cost no more than a target; one that costs more is alone."""
    group, filled = list[Part](), 0.0
    for part in parts:
        size = cost(part)
        if group and filled + size > target:
            yield tuple(group)
            group, filled = [], 0.0
        group.append(part)
        filled += size
    if group:
        yield tuple(group)


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """Rows that a task has of a unit which other tasks have rows of too, packed, for the bucket of their keys."""

    unit: int
    bucket: int
    rows: bytes


def run(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Any]],
    finish: Callable[[Iterator[ShuffleBlock]], Iterable[Any]] | None = None,
    buckets: int = 0,
) -> list[Any]:
    """The results of all tasks, in no order.

    Args:
        spark: the session, or TASKS_HERE (runtime/tasks_here.py).
        tasks: pickled into the job; each is one Spark task.
        work: from a task to results, and blocks for ``finish``.
        finish: from the blocks of a bucket, of all tasks, to results; without it there are no blocks.
        buckets: how many tasks the second step has.

    Raises:
        LakeError, JvmEnded: as Spark's errors mean.
    """
    if not tasks:
        return []
    if is_here(spark):
        return [*_run_here(tasks, work, finish, buckets)]
    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        checked(with_registered_stores(_first_stage(tasks, work, buckets))), _DDL
    )
    if finish is not None:
        rows = rows.repartitionById(buckets, "bucket").mapInArrow(
            checked(with_registered_stores(_second(finish))), _DDL
        )
    with translated(""):
        answers = rows.select("value").toArrow()
    return [pickle.loads(value) for value in answers.column("value").to_pylist()]  # noqa: S301 - our own tasks' values


def _run_here(
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Any]],
    finish: Callable[[Iterator[ShuffleBlock]], Iterable[Any]] | None,
    buckets: int,
) -> Iterator[Any]:
    """The results of all tasks, carried out here one after the other. Raises what they raise."""
    blocks_by_bucket = defaultdict[int, list[ShuffleBlock]](list)
    for task in tasks:
        for value in work(task):
            if isinstance(value, ShuffleBlock):
                blocks_by_bucket[value.bucket].append(value)
            else:
                yield value
    for bucket in range(buckets if finish else 0):
        assert finish
        yield from finish(iter(blocks_by_bucket[bucket]))


def _first_stage(
    tasks: Sequence[Task], work: Callable[[Task], Iterable[Any]], buckets: int
) -> Callable[[Batches], Batches]:
    # As bytes, so that a worker makes objects of its own tasks alone; and PySpark's pickler is ten times as slow.
    pickled_tasks = [pickle.dumps(task) for task in tasks]

    def run_tasks(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                values = work(pickle.loads(pickled_tasks[number]))  # noqa: S301 - the driver's own tasks
                yield from _batches(values, number % max(1, buckets))

    return run_tasks


def _second(finish: Callable[[Iterator[ShuffleBlock]], Iterable[Any]]) -> Callable[[Batches], Batches]:
    """The step after the shuffle: blocks of a bucket go to ``finish``, results of the first step pass through."""

    def run_bucket(batches: Batches) -> Batches:
        results: list[pa.RecordBatch] = []
        # A generator, so that ``finish`` holds a block at a time; results are small and wait for its end.

        def blocks() -> Iterator[ShuffleBlock]:
            for batch in batches:
                for at in range(batch.num_rows):
                    bucket, unit = batch.column(0)[at].as_py(), batch.column(1)[at].as_py()
                    if unit == _DONE:
                        results.append(batch.slice(at, 1))
                    else:
                        yield ShuffleBlock(unit, bucket, batch.column(2)[at].as_py())

        yield from _batches(finish(blocks()), 0)
        yield from results

    return run_bucket


def _batches(values: Iterable[Any], bucket: int) -> Batches:
    """Results, for a bucket, and blocks as rows; several in a batch, which costs Spark more than a row does."""
    cells: list[tuple[int, int, bytes]] = []
    size = 0
    for value in values:
        is_block = isinstance(value, ShuffleBlock)
        cells.append((value.bucket, value.unit, value.rows) if is_block else (bucket, _DONE, pickle.dumps(value)))
        size += len(cells[-1][2])
        if size >= _BATCH_BYTES or len(cells) >= _BATCH_ROWS:
            yield _batch(cells)
            cells, size = [], 0
    if cells:
        yield _batch(cells)


def _batch(cells: Sequence[tuple[int, int, bytes]]) -> pa.RecordBatch:
    columns = zip(zip(*cells, strict=True), _SCHEMA, strict=True)
    return pa.record_batch([pa.array(column, field.type) for column, field in columns], _SCHEMA)
