"""The oldest binlog files removed from bronze: what stays is every younger slice, whatever the data files hold."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze import table as bronze
from spark_jobs.delta import commits
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table
from spark_jobs.engine.jobs.log_removal import log_removal_arguments
from spark_jobs.runtime.lazy_session import lazy_session
from tests.spark_jobs.engine.lake_rows import newest, rows_of, stored

TASK_BYTES = 1 << 20
Slices = Sequence[tuple[int, int]]


def bronze_of(folder: Path, files: Sequence[Slices], dead: Mapping[int, Sequence[int]] | None = None) -> Snapshot:
    """Bronze with slices of these stretches and numbers by data file, of which some rows are marked as deleted."""
    begin = new_table(str(folder), bronze.COLUMNS, bronze.PROPERTIES | {"delta.enableDeletionVectors": "true"})
    return stored(begin, [rows(slices) for slices in files], dead)


def rows(slices: Slices) -> pa.Table:
    cells = [
        {"stretch": stretch, "number": number, "start": 4, "stop": 9, "payload": f"{stretch} {number} {at}".encode()}
        for at, (stretch, number) in enumerate(slices)
    ]
    return pa.Table.from_pylist(cells, bronze.ARROW)


def slices_of(snapshot: Snapshot) -> list[tuple[int, int, bytes]]:
    """The slices that are not deleted, sorted."""
    return sorted((row["stretch"], row["number"], row["payload"]) for row in rows_of(snapshot))


def remove(spark: SparkSession, snapshot: Snapshot, oldest: tuple[int, int]) -> dict[str, Any]:
    changes: dict[str, Any] = dict(log_removal_arguments(spark, snapshot, oldest, TASK_BYTES))
    commits.commit(snapshot, **changes)
    return changes


def no_session() -> SparkSession:
    raise AssertionError("a session is started")


def without_bounds(file: DataFile) -> DataFile:
    return DataFile({**file.action, "stats": f'{{"numRecords":{file.num_records}}}'})


def test_data_files_of_old_log_alone_go_without_a_session(tmp_path: Path) -> None:
    snapshot = bronze_of(tmp_path / "t", [[(1, 1), (1, 2)], [(1, 3)], [(2, 1), (2, 2)]])
    changes = remove(lazy_session(no_session), snapshot, (2, 1))
    assert (len(changes["removes"]), changes["adds"]) == (2, [])
    after = newest(str(tmp_path / "t"))
    assert slices_of(after) == [(2, 1, b"2 1 0"), (2, 2, b"2 2 1")]
    assert after.commit_info["operation"] == "DELETE"
    with pytest.raises(AssertionError, match="a session is started"):
        remove(lazy_session(no_session), after, (2, 2))


@pytest.mark.spark
def test_a_file_whose_bounds_nobody_knows_is_looked_into(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = bronze_of(tmp_path / "t", [[(1, 1), (1, 3)], [(1, 1)], [(1, 4)]])
    unknown = snapshot.with_files(map(without_bounds, snapshot.files))
    changes = remove(spark, unknown, (1, 2))
    assert (len(changes["removes"]), len(changes["adds"])) == (3, 2)
    assert slices_of(newest(str(tmp_path / "t"))) == [(1, 3, b"1 3 1"), (1, 4, b"1 4 0")]


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(8))
def test_what_stays_is_every_slice_that_is_not_older(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    files = [
        [(rng.randint(1, 3), rng.randint(1, 5)) for _ in range(rng.randint(1, 6))] for _ in range(rng.randint(1, 5))
    ]
    numbers = {at: [row for row in range(len(slices) - 1) if rng.random() < 0.3] for at, slices in enumerate(files)}
    dead = {at: all_rows for at, all_rows in numbers.items() if all_rows}
    before = slices_of(bronze_of(tmp_path / "t", files, dead))
    assert len(before) == sum(map(len, files)) - sum(map(len, dead.values()))
    for oldest in sorted((rng.randint(1, 4), rng.randint(1, 6)) for _ in range(3)):
        remove(spark, newest(str(tmp_path / "t")), oldest)
        assert slices_of(newest(str(tmp_path / "t"))) == [log_slice for log_slice in before if log_slice[:2] >= oldest]
