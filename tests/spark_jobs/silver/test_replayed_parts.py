from pathlib import Path

import pytest

from spark_jobs.binlog import Column
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.projection import ProjectedColumn
from spark_jobs.silver.replayed_parts import parts_of
from spark_jobs.silver.table import Columns
from tests.binlogs.timelines import ID, NAME, OLD, V, at, definition, steps

WINDOWS = (Range(at(100), at(200)), Range(at(200), at(300)), Range(at(310), at(400)))


def job(folder: Path, *windows: Range) -> CompactionJob:
    table = Table(str(folder), plain=False)
    now = definition(ID, V, Column("w", 3, nullable=False))
    timeline = steps((300, "ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7"), maps=((100, OLD), (320, now)))
    head = Head(3, 2, SilverCommit(at(400), "b"))
    return CompactionJob("shop", NAME, Window(table, 0, windows), timeline, table, head, 0)


def test_windows_are_decoded_by_the_definition_of_their_time_and_led_to_the_present_one(tmp_path: Path) -> None:
    work = job(tmp_path, *WINDOWS)
    earlier, later = parts_of(work, Columns({"id": "INT", "v": "INT", "w": "INT"}, ("id",)))
    assert (earlier.window.ranges, later.window.ranges) == (WINDOWS[:2], WINDOWS[2:])
    assert earlier.state.definition == OLD
    columns = earlier.projection(work).columns
    assert [*columns] == ["id", "v", "w"]
    assert columns["w"] == ProjectedColumn("INT", fill="CAST(7 AS INT)")
    assert later.projection(work).columns["w"] == ProjectedColumn("INT", "w")


def test_a_window_that_no_definition_is_known_of_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"the definition of rows in \[b\.000001:1000, b\.000001:1100\) is not known"):
        list(parts_of(job(tmp_path, Range(at(1000), at(1100))), Columns({"id": "INT"}, ("id",))))


def test_the_key_of_rows_has_to_be_known(tmp_path: Path) -> None:
    work = job(tmp_path, *WINDOWS)
    unkeyed = definition(*OLD.columns)
    assert unkeyed.key == (0,)
    assert len([*parts_of(work, Columns({"id": "INT"}, ()))]) == 2
