"""Jobs of the engine in the test's process give what Spark gives (spark_jobs/engine/jobs/test_spark_job.py)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.errors import DecodeError, LakeError, StratalogError
from tests.lakes.engine_tasks import in_this_process

SPARK: Any = None
"""No session: whatever asks one for something fails."""


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with in_this_process():
        yield


def test_each_task_s_results_come_back_once() -> None:
    results = spark_job.run(SPARK, range(7), lambda task: [(task, nth) for nth in range(task)])
    assert sorted(results) == [(task, nth) for task in range(7) for nth in range(task)]


def test_tasks_change_nothing_of_the_driver_s() -> None:
    counts = [0]

    def work(task: int) -> list[int]:
        counts.append(task)
        return [len(counts)]

    assert spark_job.run(SPARK, [1, 2], work) == [2, 2]
    assert counts == [0]


def test_each_block_comes_once_to_its_bucket_and_results_pass_through() -> None:
    def work(task: int) -> Iterator[object]:
        yield f"task {task}"
        yield from (ShuffleBlock(unit, (unit + task) % 3, b"%d:%d" % (task, unit)) for unit in range(5))

    def finish(blocks: Iterator[ShuffleBlock]) -> Iterator[object]:
        yield sorted((block.bucket, block.unit, bytes(block.rows)) for block in blocks)

    results = spark_job.run(SPARK, range(7), work, finish, 3)
    assert sorted(result for result in results if isinstance(result, str)) == [f"task {task}" for task in range(7)]
    buckets = [result for result in results if not isinstance(result, str)]
    assert [{bucket for bucket, _, _ in blocks} for blocks in buckets] == [{0}, {1}, {2}]
    assert sorted(block for blocks in buckets for block in blocks) == sorted(
        ((unit + task) % 3, unit, b"%d:%d" % (task, unit)) for task in range(7) for unit in range(5)
    )


@pytest.mark.parametrize(
    "error, kind, text",
    [
        (DecodeError, DecodeError, "^b.000001:4: it is broken$"),
        (LakeError, LakeError, "^b.000001:4: it is broken$"),
        (ValueError, LakeError, "a task failed: .*it is broken"),
    ],
)
def test_what_a_task_raises_is_raised_with_its_text(
    error: Callable[[str], Exception], kind: type[StratalogError], text: str
) -> None:
    def work(task: int) -> Iterator[int]:
        yield task
        if task == 1:
            raise error("b.000001:4: it is broken")

    with pytest.raises(kind, match=text):
        spark_job.run(SPARK, range(3), work)
