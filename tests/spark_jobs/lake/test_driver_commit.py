"""Small tables that the driver writes, as deltalake and Spark read them; what they refuse."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
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
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.driver_commit import require_shared, snapshot_upon, with_columns
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from tests.lakes.lake_tables import table_rows

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


def sources(table: Table) -> list[tuple[str | None, str]]:
    """Of all rows, as DataFusion reads them."""
    query = deltalake.QueryBuilder().register("small", deltalake.DeltaTable(table.path))
    small = pa.table(query.execute("SELECT source, name FROM small").read_all())
    return sorted(((fields["source"], fields["name"]) for fields in small.to_pylist()), key=str)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "small"), plain=False)


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}])
def test_rows_are_appended_and_replaced(table: Table, properties: dict[str, str]) -> None:
    first = table.append_rows(rows_of(), table.unwritten_head(COLUMNS, properties), checkpoint(1))
    assert first == table.head()
    second = table.append_rows(rows_of(row("a", "x"), row("b", "y"), row(None, "z")), first, checkpoint(2))
    third = table.replace_rows(rows_of(row("a", "x2"), row("a", "x3")), {"source": "a"}, second, checkpoint(3))
    assert third == table.head()
    assert sources(table) == [("a", "x2"), ("a", "x3"), ("b", "y"), (None, "z")]
    fourth = table.replace_rows(rows_of(row("a", "x4")), {"source": "a", "name": "x2"}, third, checkpoint(4))
    assert sources(table) == [("a", "x3"), ("a", "x4"), ("b", "y"), (None, "z")]
    assert len(table.file_sizes()) == 1, "files that lose rows are written again"
    fifth = table.replace_rows(rows_of(), {}, fourth, checkpoint(5))
    assert (sources(table), table.head()) == ([], fifth)
    assert (fifth.version, fifth.counter) == (4, 5)


def test_whoever_planned_on_an_older_version_loses(table: Table) -> None:
    new = table.unwritten_head(COLUMNS, {})
    first = table.append_rows(rows_of(row("a", "x")), new, checkpoint(1))
    with pytest.raises(LostRace, match="another writer committed first"):
        table.append_rows(rows_of(row("a", "y")), new, checkpoint(1))
    table.append_rows(rows_of(row("b", "x")), first, checkpoint(2))
    with pytest.raises(LostRace):
        table.replace_rows(rows_of(), {}, first, checkpoint(2))
    assert sources(table) == [("a", "x"), ("b", "x")]


def test_rows_that_a_vector_deletes_do_not_come_back(table: Table) -> None:
    new = table.unwritten_head(COLUMNS, PROPERTIES | {"delta.columnMapping.mode": "none"})
    table.append_rows(rows_of(row("a", "x"), row("a", "gone"), row("b", "y")), new, checkpoint(1))
    snapshot = snapshot_of(table.path)
    assert snapshot
    (vector,) = deletion_vectors.write(table.path, [BitMap64([1])], snapshot.configuration)
    commits.commit(snapshot, dv_updates=[(snapshot.files[0], vector)])
    head = table.head()
    assert head
    table.replace_rows(rows_of(row("b", "y2")), {"source": "b"}, head, checkpoint(2))
    assert sources(table) == [("a", "x"), ("b", "y2")]


def test_a_column_that_the_rows_lack_is_null(table: Table) -> None:
    head = table.append_rows(rows_of(row("a", "x")), table.unwritten_head(COLUMNS, {}), checkpoint(1))
    table.append_rows(rows_of(row("b", "y")).drop_columns(["at"]), head, checkpoint(2))
    assert [fields["at"] for fields in sorted(table.rows(), key=lambda fields: str(fields["source"]))] == [NOON, None]


@pytest.mark.parametrize(
    "feature, reason",
    [
        ({"delta.enableRowTracking": "true"}, "its property delta.enableRowTracking is true"),
        ({"delta.checkpoint.writeStatsAsJson": "false"}, "its property delta.checkpoint.writeStatsAsJson is false"),
    ],
)
def test_a_table_with_another_tool_s_feature_is_refused_by_its_name(
    table: Table, feature: dict[str, str], reason: str
) -> None:
    head = table.append_rows(rows_of(row("a", "x")), table.unwritten_head(COLUMNS, {}), checkpoint(1))
    deltalake.DeltaTable(table.path).alter.set_table_properties(feature, raise_if_not_exists=False)
    upon = replace(head, version=1)
    for write in (table.append_rows, partial(table.replace_rows, cells={})):
        with pytest.raises(LakeError) as refused:
            write(rows_of(row("b", "y")), head=upon, checkpoint=checkpoint(2))
        assert str(refused.value).startswith(f"{table.path}: {reason}: Stratalog does not write such a table; take ")
    assert table.head() == upon
    assert (sources(table), len([*Path(table.path).glob("*.parquet")])) == ([("a", "x")], 1)


def test_a_version_that_is_gone_is_named(table: Table) -> None:
    head = table.append_rows(rows_of(row("a", "x")), table.unwritten_head(COLUMNS, {}), checkpoint(1))
    with pytest.raises(LakeError, match="has no version 7 any more; restore the table's _delta_log"):
        table.append_rows(rows_of(), replace(head, version=7), checkpoint(2))


@pytest.mark.parametrize("properties", [{}, PROPERTIES])
def test_columns_that_a_table_lacks_are_added_by_the_commit_that_needs_them(
    table: Table, properties: dict[str, str]
) -> None:
    narrow = {name: kind for name, kind in COLUMNS.items() if name not in ("at", "parts")}
    old_rows = rows_of(row("a", "x"), row("b", "y")).drop_columns(["at", "parts"])
    head = table.append_rows(old_rows, table.unwritten_head(narrow, properties), checkpoint(1))
    snapshot = snapshot_upon(table.path, head)
    assert with_columns(snapshot, narrow) == (snapshot, {}), "it lacks none"
    head = table.replace_rows(rows_of(row("b", "z")), {"source": "b"}, head, checkpoint(2), columns=COLUMNS)
    assert (table.columns(), head.version) == (COLUMNS, 1)
    cells = sorted((fields.source, fields.name, fields.at is None, fields.parts) for fields in table_rows(table))
    assert cells == [("a", "x", True, None), ("b", "z", False, [(1, "z")])]
    later = table.replace_rows(rows_of(), {"source": "b"}, head, checkpoint(3), columns=COLUMNS)
    assert "metaData" not in (Path(table.path) / "_delta_log" / f"{later.version:020}.json").read_text()


@pytest.mark.spark
def test_spark_reads_what_the_driver_wrote(spark: SparkSession, table: Table) -> None:
    head = table.append_rows(
        rows_of(row("a", "x"), row("b", "y")), table.unwritten_head(COLUMNS, PROPERTIES), checkpoint(1)
    )
    table.replace_rows(rows_of(row("b", "y2")), {"source": "b"}, head, checkpoint(2))
    all_rows = sorted((row.source, row.name, row.at, row.parts[0].text) for row in table.read(spark).collect())
    assert [(source, name, text) for source, name, _, text in all_rows] == [("a", "x", "x"), ("b", "y2", "y2")]
    assert sources(table) == [cells[:2] for cells in all_rows]


def test_a_file_that_another_machine_has_is_not_committed(tmp_path: Path) -> None:
    """A task on a machine without the lake's file system writes the file into a folder of its own."""
    table = Table(str(tmp_path / "table"), plain=False)
    head = table.append_rows(rows_of(row("shop", "a")), table.unwritten_head(COLUMNS, PROPERTIES), checkpoint(4))
    upon = snapshot_upon(table.path, head)
    file = data_files.write(table.path, rows_of(row("shop", "b")), upon.schema, upon.configuration)
    require_shared(upon, {"adds": [file]})
    file.location(table.path).unlink()
    with pytest.raises(
        LakeError, match=f"a task wrote {file.location(table.path).name}, and it is not there; set lake: to"
    ):
        table.append_files(upon, [file], head, checkpoint(8))
    assert table.head() == head
