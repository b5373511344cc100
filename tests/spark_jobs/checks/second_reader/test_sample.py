"""Which events are compared: the newest, and of each table one of each kind."""

from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.checks.second_reader.compare import read_twice
from spark_jobs.checks.second_reader.sample import Sample, newest_slices
from spark_jobs.lake.layout import lake_of
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT
from tests.spark_jobs.checks.second_reader.readings import SOURCE, landed

TABLES = [Table(f"shop.{name}", key=["id"], id=INT.NOT_NULL) for name in ("rare", "busy")]
RARE: list[Change] = [
    *(Insert("shop.rare", (1,)), Commit(), Update("shop.rare", (1,), (2,)), Commit()),
    *(Delete("shop.rare", (2,)), Commit()),
]
BUSY: list[Change] = [change for number in range(200) for change in (Insert("shop.busy", (number,)), Commit())]
CONTENT = SegmentSpec(tables=TABLES, changes=[*RARE, *BUSY]).to_bytes()


@pytest.mark.parametrize("changes, expected", [(1, 4), (10, 13), (1000, 203)])
def test_the_newest_changes_and_every_kind_of_every_table(tmp_path: Path, changes: int, expected: int) -> None:
    reading = read_twice(landed(tmp_path, CONTENT), SOURCE, changes)
    assert (reading.changes, len(reading.tables)) == (expected, 2)


def test_a_pattern_takes_some_tables(tmp_path: Path) -> None:
    reading = read_twice(landed(tmp_path, CONTENT), SOURCE, 1000, lambda name: name.table == "rare")
    assert (reading.changes, reading.tables) == (3, {TableName("shop", "rare")})


def test_the_last_events_come_first_each_with_its_table_map(tmp_path: Path) -> None:
    snapshot = BronzeSnapshot.of(lake_of(landed(tmp_path, CONTENT)), SOURCE)
    sample = Sample(lambda _: True, 10)
    (log_slice,) = newest_slices(snapshot, sample)
    offsets = [event.offset for event in log_slice.events]
    assert len(offsets) == 203
    assert offsets == sorted(offsets, reverse=True)
    assert [(str(event.table), event.kind) for event in log_slice.events[-3:]] == [
        ("shop.rare", kind) for kind in ("delete", "update", "insert")
    ]
    assert all(event.map_wire[4] == 19 for event in log_slice.events)


def test_an_event_that_is_too_large_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.checks.second_reader.sample._MOST_BYTES", 10)
    reading = read_twice(landed(tmp_path, CONTENT), SOURCE)
    assert (reading.changes, reading.excluded["events of more than 1 MiB"]) == (0, 203)
