from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.demo.compare import DemoComparison, compare, lake_rows
from spark_jobs.demo.server_rows import RAW
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import Lake

SCHEMA = pa.schema(
    [
        ("id", pa.decimal128(20, 0)),
        ("code", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("weight", pa.float32()),
        ("digest", pa.binary()),
        (RAW, pa.string()),
    ]
)
KEY = ("id", "code")
ROW: dict[str, Any] = {
    "id": Decimal(2**64 - 1),
    "code": "a",
    "price": Decimal("1.10"),
    "at": datetime.fromisoformat("2024-02-29T12:00:00.000001+00:00"),
    "weight": 0.1,
    "digest": b"a\0",
    RAW: None,
}


def rows(*changes: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([ROW | change for change in changes], SCHEMA)


def test_equal_rows_in_another_order() -> None:
    first, second = {"code": "a"}, {"code": "A", "price": None}
    assert compare(rows(first, second), rows(second, first), KEY) == DemoComparison(rows=2, equal=2)


def test_no_rows_at_all() -> None:
    assert compare(rows(), rows(), KEY) == DemoComparison(rows=0, equal=0)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"price": Decimal("1.11")}, "price is Decimal('1.11') and should be Decimal('1.10')"),
        ({"price": None}, "price is None and should be Decimal('1.10')"),
        ({"at": datetime.fromisoformat("2024-02-29T12:00:00.000002+00:00")}, "at is datetime"),
        ({"weight": 0.10000001}, "weight is"),
        ({"digest": b"a"}, "digest is b'a' and should be b'a\\x00'"),
        ({RAW: '{"at": "0000-00-00"}'}, "_raw is"),
    ],
)
def test_one_cell(change: dict[str, Any], message: str) -> None:
    comparison = compare(rows({}, {"code": "b"}), rows(change, {"code": "b"}), KEY)
    assert (comparison.equal, comparison.different, comparison.missing, comparison.extra) == (1, 1, 0, 0)
    assert not comparison.is_equal
    assert message in comparison.samples[0]
    assert comparison.samples[0].startswith("different: id Decimal('18446744073709551615'), code 'a': ")


def test_keys_differ_by_case_and_by_spaces() -> None:
    comparison = compare(rows({"code": "a"}), rows({"code": "A"}, {"code": "a "}), KEY)
    assert (comparison.equal, comparison.missing, comparison.extra) == (0, 1, 2)
    assert comparison.samples[0] == "missing: id Decimal('18446744073709551615'), code 'a'"


def test_a_row_that_is_there_twice_is_one_too_many() -> None:
    comparison = compare(rows({}), rows({}, {}), KEY)
    assert (comparison.rows, comparison.equal, comparison.extra) == (1, 1, 1)
    assert not comparison.is_equal
    assert comparison.samples[0].startswith("twice: ")


def test_few_samples_of_many_differences() -> None:
    codes = [{"code": str(n)} for n in range(100)]
    comparison = compare(rows(*codes), rows(), KEY)
    assert (comparison.missing, len(comparison.samples)) == (100, 5)


def test_columns_of_other_types_are_not_compared() -> None:
    wider = rows({}).set_column(2, "price", pa.array([Decimal("1.10")], pa.decimal128(14, 2)))
    with pytest.raises(LakeError, match=r"columns differ: .*price decimal128\(12, 2\).*price decimal128\(14, 2\)"):
        compare(rows({}), wider, KEY)


WANTED = pa.schema([("id", pa.int64()), ("born", pa.date32()), (RAW, pa.string())])
WriteTable = Callable[[str], Lake]


@pytest.fixture
def write_table(spark: SparkSession, lake: Path) -> WriteTable:
    def write(select: str) -> Lake:
        spark.sql(select).write.format("delta").save(f"{lake}/downstream/shop/t")
        return Lake(str(lake))

    return write


@pytest.mark.spark
def test_rows_of_the_lake(write_table: WriteTable) -> None:
    lake = write_table(
        "SELECT 1L AS id, DATE '2024-02-29' AS born, CAST(NULL AS MAP<STRING, STRING>) AS _raw, 7 AS _position"
        " UNION ALL SELECT 2L, NULL, map('born', '0000-00-00'), 8"
    )
    expected_rows = [(1, "2024-02-29", None), (2, None, '{"born": "0000-00-00"}')]
    expected = pa.table(dict(zip(WANTED.names, zip(*expected_rows, strict=True), strict=True)), _text_schema()).cast(
        WANTED
    )
    actual = lake_rows(lake.downstream("shop", "t"), WANTED)
    assert compare(expected, actual, ["id"]) == DemoComparison(rows=2, equal=2)


def _text_schema() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("born", pa.string()), (RAW, pa.string())])


def test_a_table_that_is_not_there_has_no_rows(lake: Path) -> None:
    assert lake_rows(Lake(str(lake)).downstream("shop", "t"), WANTED).num_rows == 0


@pytest.mark.spark
@pytest.mark.parametrize(
    "select, message",
    [
        ("SELECT DATE '2024-02-29' AS born, 1L AS id", "has the columns born, id where id, born are expected"),
        ("SELECT 1L AS id, DATE '2024-02-29' AS born, 1 AS more", "has the columns id, born, more where"),
        ("SELECT 1 AS id, DATE '2024-02-29' AS born", "its types are id int32.* where id int64"),
    ],
)
def test_columns_that_are_not_the_servers(write_table: WriteTable, select: str, message: str) -> None:
    lake = write_table(f"{select}, CAST(NULL AS MAP<STRING, STRING>) AS _raw")
    with pytest.raises(LakeError, match=message):
        lake_rows(lake.downstream("shop", "t"), WANTED)
