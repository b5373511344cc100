from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import SLICE_SCHEMA
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.table import spark_type


def test_a_bronze_row_is_a_slice_and_where_it_came_from() -> None:
    assert set(bronze.ARROW.names) - set(SLICE_SCHEMA.names) == {"stretch", "number", "server_uuid"}
    assert set(SLICE_SCHEMA.names) - set(bronze.ARROW.names) == set(bronze.REDACTED_COLUMN)
    assert bronze.REDACTED_ARROW.names == [*bronze.ARROW.names, *bronze.REDACTED_COLUMN]
    assert bronze.ARROW.names == list(bronze.COLUMNS)


def test_the_columns_that_delta_keeps_statistics_of_stand_first() -> None:
    count = int(bronze.PROPERTIES["delta.dataSkippingNumIndexedCols"])
    assert list(bronze.COLUMNS)[:count] == ["stretch", "number", "start", "stop"]


@pytest.mark.parametrize(
    "field", [field for field in bronze.ARROW if not pa.types.is_nested(field.type)], ids=lambda field: field.name
)
def test_spark_and_arrow_types_agree(field: pa.Field) -> None:
    assert bronze.COLUMNS[field.name] == spark_type(str(field.type))


def test_it_begins_where_the_first_extraction_did() -> None:
    checkpoint = BronzeCommit(Position("b.000009", 4), "x", begin=Position("b.000003", 77))
    assert bronze.begin(checkpoint) == Position("b.000003", 77)


@pytest.mark.parametrize(
    "bounds, location",
    [
        ({}, "b.000001:4"),
        ({"oldest": "b.000003:4"}, "b.000003:4"),
        ({"oldest": "b.000003:4", "removed_to": "b.000002:900"}, "b.000002:900"),
        ({"oldest": "2/b.000001:700", "removed_to": "b.000009:50"}, "b.000009:50"),
        ({"oldest": "b.000002:4", "removed_to": "b.000002:900"}, "b.000002:4"),  # a file was brought back since
    ],
)
def test_between_what_gc_removed_and_where_it_begins_it_lacks_nothing(bounds: dict[str, str], location: str) -> None:
    positions: dict[str, Any] = {name: Position.parse(text) for name, text in bounds.items()}
    checkpoint = BronzeCommit(Position("b.000009", 4), "x", begin=Position("b.000001", 4), **positions)
    assert bronze.complete_from(checkpoint) == Position.parse(location)
    bronze.require_held("shop", checkpoint, Position.parse(location))


LOCATIONS = ["b.999999:4", "b.999999:500", "b.1000000:0", "b.1000000:300", "2/b.000001:0"]


@pytest.mark.parametrize(
    "start, stop, last",
    [
        ("b.000001:4", "3/b.000001:4", "two:9"),
        ("b.000001:4", "2/b.000001:0", "one:3"),
        ("b.000001:4", "b.1000000:300", "one:2"),
        ("b.999999:4", "b.1000000:0", "one:1"),
        ("b.999999:500", "b.1000000:0", None),
        ("2/b.000001:1", "3/b.000001:4", None),
    ],
)
def test_the_last_gtid_of_a_range(tmp_path: Path, start: str, stop: str, last: str | None) -> None:
    snapshot = with_gtids(tmp_path)
    assert bronze.last_gtid(snapshot, Range(Position.parse(start), Position.parse(stop))) == last


def test_gtids_of_statements_by_where_they_stand(tmp_path: Path) -> None:
    """Of a range: rows have GTIDs too, and one of the statements has none."""
    snapshot = with_gtids(tmp_path, kinds=["statement", "statement", "rows", "statement", "statement"])
    first, _, _, fourth, last = map(Position.parse, LOCATIONS)
    all_offsets = Range(first, replace(last, offset=last.offset + 1))
    assert bronze.statement_gtids(snapshot, all_offsets) == {
        first.order: "one:1",
        fourth.order: "one:3",
        last.order: "two:9",
    }
    assert bronze.statement_gtids(snapshot, Range(first, fourth)) == {first.order: "one:1"}


def with_gtids(folder: Path, kinds: Sequence[str] = ("rows",) * 5) -> bronze.BronzeSnapshot:
    """Bronze with slices at the positions above, with GTIDs but for the second one."""
    gtids = ["one:1", None, "one:2", "one:3", "two:9"]
    rows = [
        {"stretch": position.stretch, "number": position.number, "start": position.offset, "gtid": gtid, "kind": kind}
        for position, gtid, kind in zip(map(Position.parse, LOCATIONS), gtids, kinds, strict=True)
    ]
    table = Lake(str(folder)).bronze("shop")
    checkpoint = BronzeCommit(Position("b.000001", 4, 3), new_batch())
    schema = pa.schema([bronze.ARROW.field(name) for name in ("stretch", "number", "start", "gtid", "kind")])
    for row in rows[::-1]:
        deltalake.write_deltalake(table.path, pa.Table.from_pylist([row], schema=schema), mode="append")
    return bronze.BronzeSnapshot("shop", table, Head(len(rows) - 1, 1, checkpoint), checkpoint)


def test_log_beyond_a_snapshot_is_that_of_another_run(tmp_path: Path) -> None:
    checkpoint = BronzeCommit(Position("b.000002", 100), new_batch())
    snapshot = bronze.BronzeSnapshot("shop", Lake(str(tmp_path)).bronze("shop"), Head(0, 1, checkpoint), checkpoint)
    snapshot.require_log(Position("b.000002", 100))
    with pytest.raises(LostRace, match=r"^shop: another run has extracted more log; planned again$"):
        snapshot.require_log(Position("b.000002", 101))


@pytest.mark.spark
def test_ranges_and_tables_are_read_by_their_metadata(spark: SparkSession, lake: Path) -> None:
    names = [[("s", "t")], [("s", "u"), ("s", "t")], None, [], [("t", "s")]]
    rows = [
        (
            position.stretch,
            position.number,
            position.offset,
            [{"schema": s, "table": t} for s, t in tables] if tables is not None else None,
        )
        for position, tables in zip(map(Position.parse, LOCATIONS), names, strict=True)
    ]
    columns = "stretch INT, number BIGINT, start BIGINT, tables ARRAY<STRUCT<schema: STRING, table: STRING>>"
    table = Lake(str(lake)).bronze("shop")
    head = table.unwritten_head(
        {k: bronze.COLUMNS[k] for k in ("stretch", "number", "start", "tables")}, bronze.PROPERTIES
    )
    arrow = spark.createDataFrame(rows, columns).toArrow()
    head = table.append_rows(arrow, head, Checkpoint(Position("b.1000000", 4), new_batch()))

    def starts(start: str, stop: str) -> list[tuple[int, int, int]]:
        within = Range(Position.parse(start), Position.parse(stop))
        return sorted((row[0], row[1], row[2]) for row in bronze.read(spark, table, head.version, within).collect())

    orders = [Position.parse(location).order for location in LOCATIONS]
    assert starts("b.000001:4", "3/b.000001:4") == orders
    assert starts("b.999999:500", "b.1000000:300") == orders[1:3]
    assert starts("b.999999:501", "2/b.000001:0") == orders[2:4]
    assert starts("b.1000000:300", "b.1000000:300") == []
