"""Copies of files at bronze's end. Those before its beginning: test_restore.py and operations/retention/test_gc.py."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze.resume import NextLog
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.pipeline import archive
from spark_jobs.pipeline.archive import read_archive
from spark_jobs.source.files import Files
from tests.binlogs.gtid_logs import A, B, ServerFolder, land, write_log
from tests.binlogs.logs import SOURCE, Logs, file
from tests.binlogs.segment_spec import Commit, Insert


@pytest.fixture
def logs(spark: SparkSession, tmp_path: Path) -> Logs:
    """Five files with an order each."""
    written_logs = Logs(spark, tmp_path)
    for number in range(1, 6):
        written_logs.write(number, Insert("shop.orders", (number, "x")), Commit())
    return written_logs


@pytest.mark.spark
def test_what_a_source_purged_is_read_from_copies_that_are_its_own(logs: Logs, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    (logs.binlogs / file(5)).rename(tmp_path / file(5))
    logs.run()
    shutil.copytree(logs.binlogs, archive)
    shutil.copy(tmp_path / file(5), archive)
    logs.write(6, Insert("shop.orders", (6, "x")), Commit())
    for number in range(1, 5):
        (logs.binlogs / file(number)).unlink()
    with pytest.raises(SourceError, match=rf"{file(4)} is gone .* oldest file is {file(6)}; either .* --archive DIR"):
        logs.run()
    payload = (archive / file(4)).read_bytes()
    logs.write(4, Insert("shop.orders", (4, "y")), Commit()).rename(archive / file(4))
    with pytest.raises(SourceError, match=rf"{file(4)}: is not the file that bronze holds"):
        read_archive(logs.spark, logs.pipeline(), SOURCE, archive)
    (archive / file(4)).write_bytes(payload)
    read_archive(logs.spark, logs.pipeline(), SOURCE, archive)
    shutil.copy(archive / file(5), logs.binlogs)
    logs.run()
    assert [row[0] for row in logs.rows("orders")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("stretch", [1, 2])
def test_copies_continue_the_newest_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int) -> None:
    """The log of a server that took over goes on in copies too, once the server has purged the files."""
    lake = Lake(str(tmp_path / "lake"))
    bronze = lake.bronze("shop")
    if stretch == 2:
        write_log(tmp_path / "one", [("", ["a:1", "a:2"])])
        land(bronze, ServerFolder(tmp_path / "one", A, "one"))
    write_log(tmp_path / "two", [("", ["a:1", "a:2", "a:3"])], base="r")
    land(bronze, ServerFolder(tmp_path / "two", B, "two"))
    files = [("", ["a:1", "a:2", "a:3", "a:4"]), ("a:1-4", ["a:5"])]
    write_log(tmp_path / "copies", files, base="r")

    copies, landed = Files("shop", tmp_path / "copies"), list[NextLog]()
    monkeypatch.setattr(archive, "_require_same_log", lambda *_: None)
    monkeypatch.setattr(archive, "extract", lambda *_, **__: landed.append(land(bronze, copies)))
    spark: SparkSession = object()  # type: ignore[assignment] # no task is run
    archive._into(spark, lake, copies, BronzeSnapshot.of(lake, "shop"), "earliest", redact=None)
    assert [log.range.stop for log in landed] == [Position("r.000002", copies.log().end.offset, stretch)]
