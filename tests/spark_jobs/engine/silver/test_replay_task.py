"""Rows of two sides compared by buckets, held against counters. Put here: files of a few rows of silver."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from spark_jobs.delta.snapshot import Snapshot, new_table
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.engine.silver import replay_task
from spark_jobs.engine.silver.replay_task import (
    ComparedRows,
    FailedReplay,
    KeptRows,
    ReplacedRows,
    ReplayedFiles,
    ReplayedRange,
)
from spark_jobs.errors import LakeError
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, stored, table_of

COLUMNS = silver.Columns({"id": "INT", "v": "INT"}, ("id",))
BUCKETS = 3


def files_of(folder: Path, tables: list[list[Row]], dead: dict[int, list[int]] | None = None) -> Snapshot:
    new = new_table(str(folder), COLUMNS.stored, MAPPED)
    return stored(new, [table_of(rows, COLUMNS.key, new.schema) for rows in tables], dead)


def compared(*sides: ReplayedFiles) -> tuple[Counter[str], list[ReplacedRows]]:
    """Counts over all buckets, and what is replaced."""
    results = [result for side in sides for result in replay_task.work(side)]
    blocks = [result for result in results if isinstance(result, ShuffleBlock)]
    counts = Counter[str]()
    for bucket in range(BUCKETS):
        for count in replay_task.finish(block for block in blocks if block.bucket == bucket):
            assert isinstance(count, ComparedRows)
            counts.update(rows=count.rows, new=count.new, removed=count.removed)
    return counts, [result for result in results if isinstance(result, ReplacedRows)]


def random_rows(chance: Random, count: int) -> list[Row]:
    return [
        Row((chance.randrange(4),), chance.choice([None, 1, 2]), 10 * chance.randrange(3), window=100)
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_equal_rows_cancel_each_other(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    old, new = random_rows(chance, 30), random_rows(chance, 25)
    present, replayed = files_of(tmp_path / "old", [old[:9], old[9:]]), files_of(tmp_path / "new", [new])
    windows = (ReplayedRange(Range(at(100), at(200))),)
    counts, replaced = compared(
        ReplayedFiles(present.path, present.files, present.schema, BUCKETS, windows),
        ReplayedFiles(replayed.path, replayed.files, replayed.schema, BUCKETS, is_new=True),
    )
    added, removed = Counter(new) - Counter(old), Counter(old) - Counter(new)
    assert counts == +Counter(rows=len(new), new=added.total(), removed=removed.total())
    assert [(rows.is_whole, len(BitMap64.deserialize(rows.rows))) for rows in replaced] == [(True, 9), (True, 21)]


def test_only_living_rows_of_the_windows_are_replaced(tmp_path: Path) -> None:
    rows = [
        Row((1,), 1, 10, window=100),
        Row((2,), 2, 20, window=100),
        Row((3,), 3, 30, window=300),
        Row((4,), 4, 40, op="load", window=100),
        Row((5,), 5, 50, op="rename", window=500),
        Row((6,), 6, 60, op="truncate", window=500),
    ]
    snapshot = files_of(tmp_path, [rows], {0: [1]})
    windows = (ReplayedRange(Range(at(100), at(200))), ReplayedRange(Range(at(500), at(600)), is_inherited=True))
    counts, (replaced,) = compared(ReplayedFiles(snapshot.path, snapshot.files, snapshot.schema, BUCKETS, windows))
    assert ([*BitMap64.deserialize(replaced.rows)], replaced.is_whole, counts["removed"]) == ([0, 4], False, 2)
    (rest,) = replay_task.file_without_replaced(
        KeptRows(snapshot.path, replaced, snapshot.schema, dict(snapshot.configuration))
    )
    assert not isinstance(rest, FailedReplay)
    assert rest.num_records == 3


def test_what_a_file_cannot_be_read_for_comes_back(tmp_path: Path) -> None:
    snapshot = files_of(tmp_path, [[Row((1,), 1, 10, window=100)]])
    snapshot.files[0].location(snapshot.path).unlink()
    windows = (ReplayedRange(Range(at(100), at(200))),)
    (failed,) = replay_task.work(ReplayedFiles(snapshot.path, snapshot.files, snapshot.schema, BUCKETS, windows))
    assert isinstance(failed, FailedReplay)
    assert isinstance(failed.error, LakeError)


def test_rows_lie_in_windows_by_where_these_begin() -> None:
    fields = [("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64())]
    schema = pa.schema([("_op", pa.string()), ("_window_start", pa.struct(fields))])
    positions = [{"stretch": 1, "number": 1, "offset": offset} for offset in (99, 100, 199, 200)]
    rows = pa.Table.from_pylist([{"_op": "insert", "_window_start": position} for position in positions], schema)
    inside = replay_task.in_windows(rows, [ReplayedRange(Range(at(100), at(200)))])
    assert np.flatnonzero(inside).tolist() == [1, 2]
