"""Logs that both decoders read alike, and a decoder that reads a value as another."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.binlog.rows import blocks
from spark_jobs.binlog.types import numeric
from spark_jobs.binlog.types.base import Filled, Finished
from spark_jobs.checks.second_reader import compare, values
from spark_jobs.checks.second_reader.compare import read_twice
from spark_jobs.errors import LakeError
from tests.binlogs.segment_spec import Commit, Delete, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR
from tests.spark_jobs.checks.second_reader.readings import SOURCE, landed, reading_of, recorded

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name, least_values, excluded",
    [
        ("mysql-5.7-MySQL-before-metadata", 1700, {values.ZERO_DATES, values.NEGATIVE_TIME, values.INVALID_TEXT}),
        ("mysql-8.0-types", 270, {values.ZERO_DATES, values.NEGATIVE_TIME, values.YEAR_ZERO}),
        ("mysql-8.0-wide", 1100, set()),
        ("mysql-8.0-minimal-metadata", 12, {values.YEAR_ZERO, values.LABELS}),
        ("mysql-8.0-transactions", 40, set()),
        ("mysql-9.7-full-metadata", 1700, {values.CHARSETS, values.ZERO_DATES, values.NEGATIVE_TIME}),
        ("mysql-9.7-partial-JSON", 980, {values.CHARSETS, "partial updates of JSON"}),
        ("mysql-9.7-packed", 270, {values.JSON_OPAQUE, "compressed transactions"}),
        ("mariadb-11.4-transactions", 19, {"compressed events of MariaDB"}),
        ("mariadb-11.4-full-metadata", 0, {values.TYPES}),
        ("mysql-9.7-compressed-transactions", 0, {"compressed transactions"}),
    ],
)
def test_what_servers_logged_is_read_alike(name: str, least_values: int, excluded: set[str], tmp_path: Path) -> None:
    reading = reading_of(tmp_path, recorded(name))
    assert reading.lines()[: reading.different] == []
    assert reading.is_equal
    assert reading.values >= least_values
    assert excluded <= set(reading.excluded)


SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))],
    changes=[
        Insert("shop.t", (1, "ä")),
        Commit(),
        Update("shop.t", (1, "ä"), (1, "b")),
        Commit(),
        Delete("shop.t", (1, "b")),
        Commit(),
    ],
)


def one_more(filled: Filled) -> Finished:
    return pc.add(filled.array(pa.int32()), pa.scalar(1, pa.int32())), None


@pytest.fixture
def _altered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Meanwhile an INT is read as the next number."""
    reading = numeric.INT.reading
    monkeypatch.setattr(numeric.INT, "reading", lambda column: replace(reading(column), finish=one_more))
    blocks.plan_of.cache_clear()
    yield
    monkeypatch.undo()
    blocks.plan_of.cache_clear()


@pytest.mark.usefixtures("_altered")
def test_a_decoder_that_is_wrong_is_seen_with_place_and_values(tmp_path: Path) -> None:
    pipeline = landed(tmp_path, SPEC.to_bytes())
    reading = read_twice(pipeline, SOURCE)
    assert (reading.changes, reading.different) == (3, 4)
    delete, after, _, insert = reading.differences
    offsets = [offset for offset, event in zip(SPEC.offsets(), SPEC.events(), strict=False) if event[4] in (30, 31, 32)]
    assert [at.position.offset for at in (insert, after, delete)] == offsets
    assert [at.image for at in reading.differences] == ["before", "after", "before", "after"]
    assert str(insert) == (
        f"mysql-bin.000001:{offsets[0]}: row 0 of shop.t: id (after): Stratalog reads 2, mysql-replication 1"
    )


@pytest.mark.usefixtures("_altered")
def test_values_of_tables_with_rules_are_not_shown(tmp_path: Path) -> None:
    rules = "columns:\n  private: {tables: [shop.t], mask: {note: {constant: null}}}\n"
    pipeline = landed(tmp_path, SPEC.to_bytes(), rules)
    reading = read_twice(pipeline, SOURCE)
    assert {difference.values for difference in reading.differences} == {None}
    assert "row 0 of shop.t: id (after): Stratalog and mysql-replication read different values" in reading.lines()[3]


@pytest.mark.usefixtures("_altered")
def test_the_first_differences_are_listed_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "SHOWN", 2)
    pipeline = landed(tmp_path, SPEC.to_bytes())
    reading = read_twice(pipeline, SOURCE)
    assert len(reading.differences) == 2
    assert reading.lines()[2] == "… and 2 more"
    assert reading.to_json()["different"] == 4


def test_bronze_without_log_is_an_error(tmp_path: Path) -> None:
    pipeline = landed(tmp_path, SPEC.to_bytes())
    with pytest.raises(LakeError, match="bronze holds nothing yet"):
        read_twice(pipeline.model_copy(update={"lake": str(tmp_path / "none")}), SOURCE)
