"""Tasks that are given, through Spark: what they give comes back, and pieces come to their bucket."""

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from spark_jobs.engine.jobs.spark_job import ShuffleBlock, run
from spark_jobs.errors import DecodeError, LakeError, StratalogError

pytestmark = pytest.mark.spark
TASKS, BUCKETS = 7, 3
# Spark's workers do not have this module: what they run is made inside a function, and travels by value.


def test_no_tasks_are_no_job() -> None:
    session: SparkSession = None  # type: ignore[assignment] # the session is not even asked for
    assert run(session, [], lambda task: [task]) == []


def test_each_task_s_results_come_back_once(spark: SparkSession) -> None:
    def work(task: int) -> Iterator[tuple[int, int]]:
        yield from ((task, nth) for nth in range(task))

    results = run(spark, range(TASKS), work)
    assert sorted(results) == [(task, nth) for task in range(TASKS) for nth in range(task)]


def test_many_and_large_results(spark: SparkSession) -> None:
    """More rows than an Arrow batch of Spark's has, and one that is larger than a message may be."""

    def work(task: int) -> Iterator[bytes]:
        yield from (b"%d" % nth for nth in range(12_000 if task else 0))
        yield b"x" * (task * 5 << 20)

    sizes = Counter(map(len, run(spark, [0, 1, 2], work)))
    assert (sizes.total(), sizes[5 << 20], sizes[10 << 20]) == (24_003, 1, 1)


def test_each_piece_comes_once_to_its_bucket(spark: SparkSession) -> None:
    buckets = BUCKETS

    def work(task: int) -> Iterator[object]:
        yield f"task {task}"
        yield from (ShuffleBlock(unit, (unit + task) % buckets, b"%d:%d" % (task, unit)) for unit in range(5))

    def finish(pieces: Iterator[ShuffleBlock]) -> Iterator[object]:
        piece_list = [(piece.bucket, piece.unit, bytes(piece.rows)) for piece in pieces]
        yield ("bucket", {bucket for bucket, _, _ in piece_list}, piece_list)

    results = run(spark, range(TASKS), work, finish, buckets)
    assert sorted(result for result in results if isinstance(result, str)) == [f"task {task}" for task in range(TASKS)]
    rest = [result for result in results if not isinstance(result, str)]
    assert [len(bucket_list) for _, bucket_list, _ in rest if bucket_list] == [1] * BUCKETS, "a bucket is one task's"
    pieces = sorted(piece for _, _, bucket_pieces in rest for piece in bucket_pieces)
    assert pieces == sorted(
        ((unit + task) % BUCKETS, unit, b"%d:%d" % (task, unit)) for task in range(TASKS) for unit in range(5)
    )


def failing(error: Callable[[str], Exception]) -> Callable[[int], Iterator[int]]:
    def work(task: int) -> Iterator[int]:
        yield task
        if task == 1:
            raise error("b.000001:4: it is broken")

    return work


def stopping(pieces: Iterator[ShuffleBlock]) -> Iterator[int]:
    raise ValueError(f"{len([*pieces])} pieces")


@pytest.mark.parametrize(
    "error, kind, text",
    [
        (DecodeError, DecodeError, "b.000001:4: it is broken"),
        (LakeError, LakeError, "b.000001:4: it is broken"),
        (ValueError, LakeError, "it is broken"),
    ],
)
def test_what_a_task_raises_is_raised_with_its_text(
    spark: SparkSession, error: Callable[[str], Exception], kind: type[StratalogError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        run(spark, range(3), failing(error))


def test_what_the_second_step_raises_is_raised_with_its_text(spark: SparkSession) -> None:
    with pytest.raises(LakeError, match="2 pieces"):
        run(spark, [0, 1], lambda task: [ShuffleBlock(task, 0, b"")], stopping, 1)


def test_tasks_run_outside_of_the_driver(spark: SparkSession) -> None:
    assert os.getpid() not in run(spark, [0, 1], lambda task: [os.getpid()])
