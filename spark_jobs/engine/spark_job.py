"""A Spark job whose tasks are given: one partition each, and at most one shuffle between two steps.

Put here: how tasks and their results travel through Spark. Not here: what they do (silver_task.py, downstream_task.py).

Only DataFrames are used, so that it runs through Spark Connect too. Tasks travel in the function, which PySpark
broadcasts where it is large; what they give comes back as pickled values in a binary column.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.runtime.engine_errors import translated
from spark_jobs.runtime.executors import checked
from spark_jobs.storage.reach import carried

Task = TypeVar("Task")
Batches = Iterator[pa.RecordBatch]

_DDL = "bucket INT, unit INT, value BINARY"
_SCHEMA = pa.schema([("bucket", pa.int32()), ("unit", pa.int32()), ("value", pa.binary())])
_DONE = -1
"""The unit of a value that is a result."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that a task has of a unit which other tasks have rows of too: Arrow IPC, for the bucket of their keys."""

    unit: int
    bucket: int
    rows: bytes


def run(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Any]],
    finish: Callable[[Iterator[Piece]], Iterable[Any]] | None = None,
    buckets: int = 0,
) -> list[Any]:
    """The results of all tasks, in no order.

    Args:
        spark: the session.
        tasks: pickled into the job; each is one Spark task.
        work: from a task to results, and pieces for ``finish``.
        finish: from the pieces of a bucket, of all tasks, to results; without it there are no pieces.
        buckets: how many tasks the second step has.

    Raises:
        LakeError, JvmEnded: as Spark's errors mean.
    """
    if not tasks:
        return []
    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(checked(carried(_first(tasks, work, buckets))), _DDL)
    if finish is not None:
        rows = rows.repartitionById(buckets, "bucket").mapInArrow(checked(carried(_second(finish))), _DDL)
    with translated(""):
        answers = rows.select("value").toArrow()
    return [pickle.loads(value) for value in answers.column("value").to_pylist()]  # noqa: S301 - our own tasks' values


def _first(tasks: Sequence[Task], work: Callable[[Task], Iterable[Any]], buckets: int) -> Callable[[Batches], Batches]:
    def run_tasks(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for value in work(tasks[number]):
                    yield _row(value, number % max(1, buckets))

    return run_tasks


def _second(finish: Callable[[Iterator[Piece]], Iterable[Any]]) -> Callable[[Batches], Batches]:
    def run_bucket(batches: Batches) -> Batches:
        results: list[pa.RecordBatch] = []

        def pieces() -> Iterator[Piece]:
            for batch in batches:
                for at in range(batch.num_rows):
                    bucket, unit = batch.column(0)[at].as_py(), batch.column(1)[at].as_py()
                    if unit == _DONE:
                        results.append(batch.slice(at, 1))
                    else:
                        yield Piece(unit, bucket, batch.column(2)[at].as_py())

        for value in finish(pieces()):
            yield _row(value, 0)
        yield from results

    return run_bucket


def _row(value: Any, bucket: int) -> pa.RecordBatch:
    if isinstance(value, Piece):
        cells = ([value.bucket], [value.unit], [value.rows])
    else:
        cells = ([bucket], [_DONE], [pickle.dumps(value)])
    return pa.record_batch([pa.array(cell, field.type) for cell, field in zip(cells, _SCHEMA, strict=True)], _SCHEMA)
