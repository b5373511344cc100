"""Searches in many positions beside the plain comparisons that they stand for."""

import time
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lake import ranges as flat
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver

_ROWS = 20_000
_SECONDS = 60
"""For each query; chains of conditions took minutes, or ended in an error of the JVM."""


def position(nth: int) -> Position:
    """A log of files of 1,000 positions each, of two stretches."""
    return Position(f"b.{nth // 1000 % 10 + 1:06d}", nth % 1000 * 10, nth // 10_000 + 1)


def some_ranges(number: int, seed: int = 1) -> list[tuple[int, int]]:
    """Ranges that do not overlap, about a third of which touch the next one."""
    chance = Random(seed)
    ends = sorted(chance.sample(range(_ROWS), 2 * number))
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    after = [*pairs[1:], (_ROWS, _ROWS)]
    touches = [chance.random() < 0.3 for _ in pairs]
    triples = zip(pairs, after, touches, strict=True)
    return [(start, following[0] if touching else stop) for (start, stop), following, touching in triples]


def as_ranges(pairs: list[tuple[int, int]]) -> list[Range]:
    return [Range(position(start), position(stop)) for start, stop in pairs]


PLACES = (
    "named_struct('stretch', CAST(id DIV 10000 + 1 AS INT), 'number', id DIV 1000 % 10 + 1, 'offset', id % 1000 * 10)"
)


@pytest.mark.parametrize(
    "pairs, expected",
    [
        ([], []),
        ([(5, 5)], []),
        ([(3, 5), (1, 3)], [(1, 5)]),
        ([(1, 9), (2, 3), (20, 30)], [(1, 9), (20, 30)]),
        ([(9_990, 10_000), (10_000, 10_010)], [(9_990, 10_010)]),
    ],
)
def test_ranges_that_touch_are_one(pairs: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert flat.joined(as_ranges(pairs)) == as_ranges(expected)
    assert flat.covering(as_ranges(pairs)) == as_ranges(expected)


@pytest.mark.parametrize("number", [16, 17, 300, 3_000])
def test_few_ranges_cover_many(number: int) -> None:
    pairs = some_ranges(number)
    ranges = flat.covering(as_ranges(pairs))
    assert len(ranges) <= flat.FEW
    assert ranges == flat.joined(ranges)
    assert all(
        any(range_.start <= part.start and part.stop <= range_.stop for range_ in ranges) for part in as_ranges(pairs)
    )


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("number", [1, 2, 17, 300, 3_000])
def test_a_search_finds_what_a_loop_finds(spark: SparkSession, number: int) -> None:
    pairs = some_ranges(number)
    ranges, starts = as_ranges(pairs), [start for start, _ in pairs]
    shuffled = Random(2).sample(range(number), number)
    expressions = {
        "rank": flat.rank([position(start) for start in starts], "place"),
        "following": flat.next_position([position(start) for start in starts], "place"),
        "inside": flat.inside(ranges, "place"),
        "ordinal": flat.ordinal([ranges[at] for at in shuffled], "place"),
    }
    began = time.monotonic()
    rows = spark.range(_ROWS).selectExpr("id", f"{PLACES} AS place")
    rows_ = rows.selectExpr("id", *(f"{text} AS {name}" for name, text in expressions.items())).orderBy("id").collect()
    assert time.monotonic() - began < _SECONDS
    ordinal = {shuffled[at]: at for at in range(number)}
    nth, before = dict[int, int](), 0
    for at, (start, stop) in enumerate(pairs):
        nth |= dict.fromkeys(range(start, stop), ordinal[at])
    for row in rows_:
        before += before < number and starts[before] <= row["id"]
        following = position(starts[before]).order if before < number else None
        assert row["rank"] == before
        assert (row["following"] and tuple(row["following"])) == following
        assert row["inside"] == (row["id"] in nth)
        assert row["ordinal"] == nth.get(row["id"])


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("number", [3, 300, 3_000])
def test_windows_of_many_ranges_are_replaced_in_one_commit(spark: SparkSession, lake: Path, number: int) -> None:
    pairs = some_ranges(number)
    expected = {at for start, stop in pairs for at in range(start, stop)}
    table = Table(str(lake), plain=False)
    types = {"id": "BIGINT", "v": "STRING", "_op": "STRING", "_window_start": silver.PLACE}
    rows = spark.range(_ROWS).selectExpr("id", "'old' AS v", "'insert' AS _op", f"{PLACES} AS _window_start")
    head = table.append(rows, table.new(types, {}), Checkpoint(position(0), new_batch()))
    condition = silver.within_any(as_ranges(pairs))
    new = rows.where(condition).selectExpr("id", "'new' AS v", "_op", "_window_start")
    began = time.monotonic()
    head = table.replace(new, condition, head, Checkpoint(position(1), new_batch()))
    assert time.monotonic() - began < _SECONDS
    new_rows = table.read(spark, head.version).where("v = 'new'")
    assert {row["id"] for row in new_rows.select("id").collect()} == expected
    assert table.read(spark, head.version).count() == _ROWS


@pytest.mark.spark
@pytest.mark.parametrize("number", [1, 2, 3, 33])
def test_a_union_has_the_rows_of_all(spark: SparkSession, number: int) -> None:
    frames = [spark.range(at, at + 1).selectExpr("id", "id AS other") for at in range(number)]
    assert sorted(row["id"] for row in flat.union(frames).collect()) == list(range(number))
