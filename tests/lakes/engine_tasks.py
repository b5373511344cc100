"""The tasks of the engine's jobs and of bronze, run in the test's process.

Put here: what stands in the place of Spark's scheduler and its Python processes. Not here: which tests choose it
(fix_spark.py), or an order of a seed's and faults (faults/runs.py).

A job of Spark costs half a second of processor, whatever its tasks do. What travels is pickled here too, and what a
task raises arrives as its text, as it does from Spark.
"""

import itertools
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from spark_jobs.bronze import extract, landing
from spark_jobs.bronze.landing import Landed, Totals
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Batches, ShuffleBlock
from spark_jobs.runtime.engine_errors import explained

Step = Callable[[Batches], Batches]
"""A function of mapInArrow."""


@contextmanager
def in_this_process() -> Iterator[None]:
    """Jobs run here while the context lasts, whatever session they are given."""
    with patch.object(spark_job, "run", run), patch.object(extract, "land_slices", land_slices):
        yield


def run(
    _spark: Any,
    tasks: Sequence[Any],
    work: Callable[[Any], Iterable[Any]],
    finish: Callable[[Iterator[ShuffleBlock]], Iterable[Any]] | None = None,
    buckets: int = 0,
) -> list[Any]:
    """As ``spark_job.run``: the results of all tasks, one after the other."""
    if not tasks:
        return []
    first = spark_job._first_stage(tasks, work, buckets)
    answers = pa.Table.from_batches(_mapped(first, _partitions(len(tasks), len(tasks))), spark_job._SCHEMA)
    if finish is not None:
        positions = answers.column("bucket")
        parts = [answers.filter(pc.equal(positions, bucket)).to_batches() for bucket in range(buckets)]
        second = spark_job._second(finish)
        answers = pa.Table.from_batches(_mapped(second, parts), spark_job._SCHEMA)
    return [pickle.loads(value) for value in answers.column("value").to_pylist()]  # noqa: S301 - of this process


def land_slices(_spark: Any, snapshot: Snapshot, count: int, tasks: int, slicing: Step) -> Landed:
    """As ``landing.land_slices``."""
    task = landing._writing(snapshot.path, snapshot.schema, dict(snapshot.configuration), slicing)
    batches = _mapped(task, _partitions(count, tasks), snapshot.path)
    landed: list[Landed] = [pickle.loads(value.as_py()) for batch in batches for value in batch.column(0)]  # noqa: S301
    files = tuple(file for part in landed for file in part.files)
    return Landed(files, reduce(Totals.__add__, (part.totals for part in landed), Totals()))


def _partitions(count: int, partitions: int) -> list[list[pa.RecordBatch]]:
    """The ids of ``spark.range(0, count, 1, partitions)``, a partition at a time."""
    bounds = [count * number // partitions for number in range(partitions + 1)]
    ids = (range(start, stop) for start, stop in itertools.pairwise(bounds))
    return [[pa.record_batch([pa.array(part, pa.int64())], ["id"])] for part in ids]


def _mapped(step: Step, partitions: Iterable[Iterable[pa.RecordBatch]], path: str = "") -> list[pa.RecordBatch]:
    """What a function of mapInArrow makes of all partitions. Raises what Spark's text of its error means."""
    code = cloudpickle.dumps(step)  # type: ignore[no-untyped-call]
    try:
        return [batch for partition in partitions for batch in pickle.loads(code)(iter(partition))]  # noqa: S301
    except Exception as error:
        raise explained(path, traceback.format_exc()) from error
