from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError, LakeError, LostRace
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.records import Consumer, Record, Records, require_group_name

FIRST = Record("g", 0, Cursor(Position("b.000001", 4)), ("shop.*",), 3, Consumer("1", "host:2", 30.0))


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(Lake(str(tmp_path)), "shop")


def test_the_newest_version_counts(records: Records, tmp_path: Path) -> None:
    assert (records.read("g"), records.groups()) == (None, [])
    record = records.write(FIRST)
    for batch in range(4, 14):
        record = records.write(replace(record, batch=batch))
    assert records.read("g") == record
    assert (record.version, record.batch, record.tables, record.consumer) == (11, 13, FIRST.tables, FIRST.consumer)
    assert len([*(tmp_path / "subscriptions" / "shop").iterdir()]) == 4
    assert 0 <= records.age(record) < 60


def test_of_two_writers_one_loses(records: Records) -> None:
    record = records.write(FIRST)
    newest = records.write(record)
    with pytest.raises(LostRace, match="shop: group g: another consumer or command has changed it"):
        records.write(record)
    assert records.read("g") == newest


def test_a_writer_that_slept_while_its_version_was_removed_loses_too(records: Records) -> None:
    record = asleep = records.write(FIRST)
    for _ in range(8):
        record = records.write(record)
    with pytest.raises(LostRace):
        records.write(asleep)
    assert records.read("g") == record


def test_a_group_that_another_consumer_made_meanwhile_is_not_made_again(records: Records) -> None:
    """Its first versions are removed by then, so that the file of the first one can be created."""
    record = records.write(FIRST)
    for _ in range(8):
        record = records.write(record)
    with pytest.raises(LostRace):
        records.write(FIRST)
    assert records.read("g") == record


def test_a_group_that_was_removed_does_not_come_back(records: Records) -> None:
    record = records.write(FIRST)
    records.write(replace(FIRST, group="h"))
    records.remove("g")
    with pytest.raises(LostRace):
        records.write(record)
    assert records.groups() == ["h"]


def test_damage_is_named(records: Records, tmp_path: Path) -> None:
    records.write(FIRST)
    (file,) = (tmp_path / "subscriptions" / "shop").iterdir()
    file.write_text("{}")
    with pytest.raises(LakeError, match="is no record of a group"):
        records.read("g")


def test_names(records: Records) -> None:
    assert require_group_name("a.b-c_1") == "a.b-c_1"
    for name in ("", ".a", "-a", "a/b", "a b", "x" * 101):
        with pytest.raises(ConfigError, match="is no name of a group"):
            require_group_name(name)


def test_a_store_that_spark_alone_writes_is_refused() -> None:
    with pytest.raises(ConfigError, match="subscriptions need a lake on a file system, s3a://, abfss:// or gs://"):
        Records(Lake("hdfs://name/lake"), "shop")
