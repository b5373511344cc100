"""Runs whose jobs are too small for Spark (``spark.job_bytes``): what they leave, and that none is started."""

import os
import time
from pathlib import Path
from typing import Never

import pytest
import yaml

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.engine.merge.downstream_task import DownstreamUnit
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline import run
from spark_jobs.pipeline.run import compact_source, extract_source, run_source
from spark_jobs.runtime.lazy_session import lazy_session
from tests.binlogs.logs import file
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Statement, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR

SOURCE = "shop"
ORDERS = Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40))
MONTH = 31 * 86_400


class Started(Exception):
    pass


def start() -> Never:
    raise Started


SPARK = lazy_session(start)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "binlogs").mkdir()
    return tmp_path


def pipeline_of(folder: Path, job_bytes: int, **sections: object) -> Pipeline:
    document = {"lake": "./lake", "sources": {SOURCE: {"files": "./binlogs"}}, "spark": {"job_bytes": job_bytes}}
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(document | sections), encoding="utf-8")
    return load(path, dict(os.environ))


def write(folder: Path, number: int, *changes: Change) -> int:
    """Writes a binlog file; its bytes."""
    spec = SegmentSpec([ORDERS], [*changes, Commit()], first_number=number, rotate_to=file(number + 1))
    (folder / "binlogs" / file(number)).write_bytes(spec.to_bytes())
    return len(spec.to_bytes())


def orders(pipeline: Pipeline) -> dict[int, str]:
    return {row["id"]: row["note"] for row in lake_of(pipeline).downstream("shop", "orders").rows()}


def test_small_runs_are_whole_without_spark(folder: Path) -> None:
    pipeline = pipeline_of(folder, 1 << 20)
    write(folder, 1, *(Insert("shop.orders", (key, f"n{key}")) for key in range(1, 6)))
    run_source(SPARK, pipeline, SOURCE)
    write(folder, 2, Update("shop.orders", (2, "n2"), (2, "two")), Delete("shop.orders", (3, "n3")))
    run_source(SPARK, pipeline, SOURCE)
    assert orders(pipeline) == {1: "n1", 2: "two", 4: "n4", 5: "n5"}
    write(folder, 3, Statement("shop", "TRUNCATE TABLE orders"), Insert("shop.orders", (9, "n9")))
    run_source(SPARK, pipeline, SOURCE)
    assert orders(pipeline) == {9: "n9"}


@pytest.mark.parametrize("mode", ["append", "history", "soft_delete"])
def test_so_are_those_of_tables_of_every_change(folder: Path, mode: str) -> None:
    pipeline = pipeline_of(folder, 1 << 20, downstream=[{"tables": ["shop.orders"], "mode": mode}])
    # One file: of a range over several nobody knows how much log it is.
    changes: list[Change] = [
        Insert("shop.orders", (1, "a")),
        Commit(),
        Update("shop.orders", (1, "a"), (1, "b")),
        Commit(),
    ]
    (folder / "binlogs" / file(1)).write_bytes(SegmentSpec([ORDERS], changes).to_bytes())
    run_source(SPARK, pipeline, SOURCE)
    rows = lake_of(pipeline).downstream("shop", "orders").rows()
    assert sorted(row["note"] for row in rows) == (["b"] if mode == "soft_delete" else ["a", "b"])


def test_a_job_of_so_many_bytes_is_spark_s(folder: Path) -> None:
    size = write(folder, 1, Insert("shop.orders", (1, "a")))
    with pytest.raises(Started):
        run_source(SPARK, pipeline_of(folder, size // 2), SOURCE)
    with pytest.raises(Started):
        run_source(SPARK, pipeline_of(folder, 0), SOURCE)


def test_a_disk_that_is_full_is_a_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = pipeline_of(folder, 1 << 20)
    write(folder, 1, Insert("shop.orders", (1, "a")))

    def full(*_: object, **__: object) -> Never:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spark_jobs.bronze.landing.data_files.write_parts", full)
    with pytest.raises(LakeError, match="No space left on device"):
        run_source(SPARK, pipeline, SOURCE)
    monkeypatch.undo()
    run_source(SPARK, pipeline, SOURCE)
    assert orders(pipeline) == {1: "a"}


@pytest.mark.parametrize("count", [10, pytest.param(40, marks=pytest.mark.thorough)])
def test_many_small_commits_leave_few_files_and_a_short_log(folder: Path, count: int) -> None:
    """A reduced form of ``make bench BENCH=week``: maintenance comes between runs, a month apart by their files."""
    pipeline, keys = pipeline_of(folder, 1 << 20), 7
    lake = lake_of(pipeline)
    tables = [lake.bronze(SOURCE), lake.silver(SOURCE, "shop", "orders"), lake.downstream("shop", "orders")]
    for number in range(1, count + 1):
        key, before = number % keys, f"n{number - keys}"
        row = (key, f"n{number}")
        write(
            folder, number, Insert("shop.orders", row) if number <= keys else Update("shop.orders", (key, before), row)
        )
        run_source(SPARK, pipeline, SOURCE)
        if number % 10:
            continue
        then = time.time() - MONTH
        for table in (*tables, lake.published()):
            for path in Path(table.path, "_delta_log").iterdir():
                os.utime(path, (then, then))
        assert not maintain_source(SPARK, pipeline, SOURCE).stopped
        for table in (*tables, lake.published()):
            assert len(table.file_sizes()) <= 2
            assert len([*Path(table.path, "_delta_log").iterdir()]) < 25
    assert orders(pipeline) == {number % keys: f"n{number}" for number in range(count - 6, count + 1)}


def test_a_table_by_itself_is_small_too(folder: Path) -> None:
    """A merge that the job of all tables did not do: each round of a follower would start Spark for it."""
    pipeline = pipeline_of(folder, 1 << 20)
    write(folder, 1, Insert("shop.orders", (1, "a")))
    extract_source(SPARK, pipeline, SOURCE)
    outcome = compact_source(SPARK, pipeline, SOURCE)
    (entry,) = outcome.entries
    legs = {TableName(*entry.name): (Destination("shop", "orders"),)}
    (table_merge,) = run._table_merges(SPARK, pipeline, SOURCE, legs, into=None, repeated={})
    merged = table_merge.merge().merged
    assert merged
    assert merged.inserted == 1


def test_rows_that_maintenance_wrote_together_are_not_merged_again(folder: Path) -> None:
    pipeline = pipeline_of(folder, 1 << 20)
    for number in range(1, 4):
        write(folder, number, *(Insert("shop.orders", (100 * number + key, f"n{key}")) for key in range(50)))
        run_source(SPARK, pipeline, SOURCE)
    assert not maintain_source(SPARK, pipeline, SOURCE).stopped
    write(folder, 4, Insert("shop.orders", (1, "a")))
    compacted = (extract_source(SPARK, pipeline, SOURCE), compact_source(SPARK, pipeline, SOURCE))[1]
    (entry,) = compacted.entries
    legs = {TableName(*entry.name): (Destination("shop", "orders"),)}
    (table_merge,) = run._table_merges(SPARK, pipeline, SOURCE, legs, into=None, repeated={})
    prepared = table_merge.prepared(0, {}, None)
    assert prepared
    assert isinstance(prepared.unit, DownstreamUnit)
    assert [file.num_records for file in prepared.unit.pending] == [1]
