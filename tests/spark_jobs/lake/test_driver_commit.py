"""Small tables that the driver writes, as deltalake and Spark read them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.driver_commit import require_shared, snapshot_upon
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.runtime.lazy_session import lazy_session

COLUMNS = {"source": "STRING", "name": "STRING", "at": "TIMESTAMP", "parts": "ARRAY<STRUCT<id: BIGINT, text: STRING>>"}
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("parts", pa.list_(pa.struct([("id", pa.int64()), ("text", pa.string())]))),
    ]
)
PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def row(source: str | None, name: str) -> dict[str, Any]:
    return {"source": source, "name": name, "at": NOON, "parts": [{"id": 1, "text": name}]}


def rows_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def checkpoint(offset: int) -> Checkpoint:
    return Checkpoint(Position("${x}ä.000001", offset), new_batch())


def never() -> SparkSession:
    pytest.fail("Spark is started")


class LazyTable(Table):
    """A table whose small commits start no Spark."""

    def add(self, rows: pa.Table, head: Head, commit: Checkpoint) -> Head:
        return self.append_rows(lazy_session(never), rows, head, commit)

    def put(self, rows: pa.Table, cells: dict[str, str], head: Head, commit: Checkpoint) -> Head:
        return self.replace_rows(lazy_session(never), rows, cells, head, commit)


def sources(table: Table) -> list[tuple[str | None, str]]:
    """Of all rows, as DataFusion reads them."""
    query = deltalake.QueryBuilder().register("small", deltalake.DeltaTable(table.path))
    small = pa.table(query.execute("SELECT source, name FROM small").read_all())
    return sorted(((fields["source"], fields["name"]) for fields in small.to_pylist()), key=str)


@pytest.fixture
def table(tmp_path: Path) -> LazyTable:
    return LazyTable(str(tmp_path / "small"), plain=False)


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}])
def test_rows_are_appended_and_replaced(table: LazyTable, properties: dict[str, str]) -> None:
    first = table.add(rows_of(), table.new(COLUMNS, properties), checkpoint(1))
    assert first == table.head()
    second = table.add(rows_of(row("a", "x"), row("b", "y"), row(None, "z")), first, checkpoint(2))
    third = table.put(rows_of(row("a", "x2"), row("a", "x3")), {"source": "a"}, second, checkpoint(3))
    assert third == table.head()
    assert sources(table) == [("a", "x2"), ("a", "x3"), ("b", "y"), (None, "z")]
    fourth = table.put(rows_of(row("a", "x4")), {"source": "a", "name": "x2"}, third, checkpoint(4))
    assert sources(table) == [("a", "x3"), ("a", "x4"), ("b", "y"), (None, "z")]
    assert len(table.files()) == 1, "files that lose rows are written anew"
    fifth = table.put(rows_of(), {}, fourth, checkpoint(5))
    assert (sources(table), table.head()) == ([], fifth)
    assert (fifth.version, fifth.counter) == (4, 5)


def test_whoever_planned_on_an_older_version_loses(table: LazyTable) -> None:
    new = table.new(COLUMNS, {})
    first = table.add(rows_of(row("a", "x")), new, checkpoint(1))
    with pytest.raises(LostRace, match="another writer committed first"):
        table.add(rows_of(row("a", "y")), new, checkpoint(1))
    table.add(rows_of(row("b", "x")), first, checkpoint(2))
    with pytest.raises(LostRace):
        table.put(rows_of(), {}, first, checkpoint(2))
    assert sources(table) == [("a", "x"), ("b", "x")]


def test_rows_that_a_vector_deletes_do_not_come_back(table: LazyTable) -> None:
    new = table.new(COLUMNS, PROPERTIES | {"delta.columnMapping.mode": "none"})
    table.add(rows_of(row("a", "x"), row("a", "gone"), row("b", "y")), new, checkpoint(1))
    snapshot = snapshot_of(table.path)
    assert snapshot
    (vector,) = deletion_vectors.write(table.path, [BitMap64([1])], snapshot.configuration)
    commits.commit(snapshot, dv_updates=[(snapshot.files[0], vector)])
    head = table.head()
    assert head
    table.put(rows_of(row("b", "y2")), {"source": "b"}, head, checkpoint(2))
    assert sources(table) == [("a", "x"), ("b", "y2")]


def test_a_column_that_the_rows_lack_is_null(table: LazyTable) -> None:
    head = table.add(rows_of(row("a", "x")), table.new(COLUMNS, {}), checkpoint(1))
    table.add(rows_of(row("b", "y")).drop_columns(["at"]), head, checkpoint(2))
    assert [fields["at"] for fields in sorted(table.rows(), key=lambda fields: str(fields["source"]))] == [NOON, None]


@pytest.mark.parametrize(
    "path, head",
    [
        ("hdfs://name/table", Head(0, 1, None)),
        ("", Head(0, 1, None, widens=True)),
        ("", Head(0, 1, None, Table("x", plain=False).new(COLUMNS, {}).design)),
        ("", Head(0, 1, None)),  # of a table with a feature that delta/ does not write
    ],
)
def test_spark_makes_the_commits_that_the_driver_does_not(tmp_path: Path, path: str, head: Head) -> None:
    feature = {"delta.checkpoint.writeStatsAsJson": "false"}
    deltalake.write_deltalake(tmp_path, rows_of(row("a", "x")), configuration=feature)
    assert snapshot_upon(path or str(tmp_path), head) is None


@pytest.mark.spark
def test_spark_and_the_driver_take_turns(spark: SparkSession, table: LazyTable) -> None:
    first = table.add(rows_of(row("a", "x"), row("b", "y")), table.new(COLUMNS, PROPERTIES), checkpoint(1))
    frame = spark.createDataFrame(rows_of(row("c", "z")))
    by_spark = table.append(frame, first, checkpoint(2))
    assert by_spark == replace(by_spark, version=1, counter=2)
    by_driver = table.put(rows_of(row("b", "y2")), {"source": "b"}, by_spark, checkpoint(3))
    with pytest.raises(LostRace):
        table.append(frame, by_spark, checkpoint(4))
    table.replace(frame, "source = 'c'", by_driver, checkpoint(5))
    rows_ = sorted((row.source, row.name, row.at, row.parts[0].text) for row in table.read(spark).collect())
    assert [cells[:2] for cells in rows_] == [("a", "x"), ("b", "y2"), ("c", "z")]
    assert rows_[1][3] == "y2"
    assert sources(table) == [cells[:2] for cells in rows_]


def test_a_file_that_another_machine_has_is_not_committed(tmp_path: Path) -> None:
    """A task on a machine without the lake's file system writes the file into a folder of its own."""
    table = LazyTable(str(tmp_path / "table"), plain=False)
    head = table.add(rows_of(row("shop", "a")), table.new(COLUMNS, PROPERTIES), checkpoint(4))
    upon = snapshot_upon(table.path, head)
    assert upon is not None
    file = data_files.write(table.path, rows_of(row("shop", "b")), upon.schema, upon.configuration)
    require_shared(upon, {"adds": [file]})
    file.location(table.path).unlink()
    with pytest.raises(
        LakeError, match=f"a task wrote {file.location(table.path).name}, and it is not there; set lake: to"
    ):
        table.append_files(upon, [file], head, checkpoint(8))
    assert table.head() == head
