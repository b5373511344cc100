import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import DeltaColumn, TableSchema, column_of, from_spark_types
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.errors import LakeError
from tests.spark_jobs.delta.tables import BRONZE, MAPPED, TYPES, rows

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def write_file(folder: Path, table: pa.Table, schema: TableSchema, **options: Any) -> DataFile:
    return data_files.write(str(folder), table, schema, options.pop("configuration", {}), **options)


def read(folder: Path, file: DataFile, schema: TableSchema, *names: str) -> pa.Table:
    return data_files.read_columns(str(folder), file, names or schema.names, schema)


@pytest.mark.parametrize("configuration", [{}, MAPPED, BRONZE])
def test_rows_of_all_types_come_back(tmp_path: Path, configuration: dict[str, str]) -> None:
    schema = from_spark_types(TYPES, configuration == MAPPED)
    table = rows(schema, range(200))
    file = write_file(tmp_path, table, schema, configuration=configuration)
    back = read(tmp_path, file, schema)
    assert back.schema.equals(schema.arrow(physical=False), check_metadata=True)
    assert back.to_pylist() == table.to_pylist()
    assert file.num_records == 200
    assert file.size == Path(str(file.location(str(tmp_path)))).stat().st_size
    assert read(tmp_path, file, schema, "text", "key").to_pylist() == table.select(["text", "key"]).to_pylist()


def test_columns_of_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    schema = from_spark_types(TYPES, True)
    table = rows(schema, range(20))
    file = write_file(tmp_path, table.select(list(reversed(table.column_names))), schema)
    assert read(tmp_path, file, schema).to_pylist() == table.to_pylist()


def test_slices_and_chunks_are_written_as_they_are(tmp_path: Path) -> None:
    schema = from_spark_types(TYPES, True)
    table = pa.concat_tables([rows(schema, range(10)).slice(3, 4), rows(schema, range(5)).slice(1)])
    file = write_file(tmp_path, table, schema)
    assert read(tmp_path, file, schema).to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    "ddl, array",
    [
        ("STRING", pa.array(["a", None], pa.large_string())),
        ("STRING", pa.array(["a", None]).dictionary_encode()),
        ("BINARY", pa.array([b"a", None], pa.large_binary())),
        ("TIMESTAMP", pa.array([1, None], pa.timestamp("us", "+00:00"))),
        ("ARRAY<FLOAT>", pa.array([[1.0], None], pa.list_(pa.float32()))),
        ("BIGINT", pa.array([1, None], pa.int32())),
    ],
)
def test_other_forms_of_a_type(tmp_path: Path, ddl: str, array: pa.Array) -> None:
    schema = from_spark_types({"c": ddl}, True)
    file = write_file(tmp_path, pa.table({"c": array}), schema)
    assert read(tmp_path, file, schema)["c"].to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    "table, match",
    [
        (pa.table({"a": [1]}), "their table has"),
        (pa.table({"a": [1], "b": ["x"], "c": [1]}), "their table has"),
        (pa.table({"a": ["x"], "b": ["x"]}), "column a: string cannot be written as INT"),
        (pa.table({"a": [1 << 40], "b": ["x"]}), "column a: int64 cannot be written as INT"),
    ],
)
def test_rows_of_other_columns_are_refused(tmp_path: Path, table: pa.Table, match: str) -> None:
    with pytest.raises(LakeError, match=match):
        write_file(tmp_path, table, from_spark_types({"a": "INT", "b": "STRING"}, False))
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    "configuration, pattern",
    [
        ({}, f"part-00000-{UUID}-c000.snappy.parquet"),
        (MAPPED, f"part-00000-{UUID}-c000.snappy.parquet"),
        ({"delta.randomizeFilePrefixes": "true"}, f"[A-Za-z0-9]{{2}}/part-00000-{UUID}-c000.snappy.parquet"),
        ({"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "4"}, r"[A-Za-z0-9]{4}/part-.*"),
    ],
)
def test_names_of_files(tmp_path: Path, configuration: dict[str, str], pattern: str) -> None:
    schema = from_spark_types({"a": "INT"}, False)
    file = write_file(tmp_path, pa.table({"a": pa.array([1], pa.int32())}), schema, configuration=configuration)
    assert re.fullmatch(pattern, file.path)


def test_parquet_has_physical_names_and_field_ids(tmp_path: Path) -> None:
    schema = from_spark_types(TYPES, True)
    file = write_file(tmp_path, rows(schema, range(3)), schema)
    stored = pq.ParquetFile(file.location(str(tmp_path)))
    ids = {item.name: int(item.metadata[b"PARQUET:field_id"]) for item in stored.schema_arrow}
    assert ids == {column.physical_name: column.id for column in schema.columns}
    assert stored.metadata.metadata == {b"org.apache.spark.version": b"4.2.0"}


def test_row_groups_statistics_and_pages(tmp_path: Path) -> None:
    schema = from_spark_types({"a": "INT", "payload": "BINARY"}, True)
    table = pa.table({"a": pa.array(range(100), pa.int32()), "payload": [bytes([at]) * 100_000 for at in range(100)]})
    file = write_file(tmp_path, table, schema, row_group_rows=32, page_statistics=["a"], stats_columns=["a"])
    assert data_files.row_groups(str(tmp_path), file) == [32, 32, 32, 4]
    group = pq.ParquetFile(file.location(str(tmp_path))).metadata.row_group(0)
    assert [group.column(at).is_stats_set for at in range(2)] == [True, False]
    physical = schema.column("a").physical_name
    assert file.stats == {
        "numRecords": 100,
        "minValues": {physical: 0},
        "maxValues": {physical: 99},
        "nullCount": {physical: 0},
    }
    assert file.bounds(schema, "a").maximum == 99
    assert read(tmp_path, file, schema) == table


def test_rows_are_read_by_number(tmp_path: Path) -> None:
    schema = from_spark_types({"a": "INT"}, True)
    file = write_file(tmp_path, pa.table({"a": pa.array(range(100), pa.int32())}), schema, row_group_rows=32)
    numbers = np.array([99, 0, 31, 32, 5, 98], np.int64)
    rows = data_files.read_rows(str(tmp_path), file, numbers, ["a"], schema)
    assert rows.column("a").to_pylist() == numbers.tolist()


def test_floating_point_numbers_have_no_dictionary(tmp_path: Path) -> None:
    """Spark looks for 0.0 in a dictionary, and does not find -0.0."""
    types = {
        "s": "STRING",
        "f": "FLOAT",
        "n": "STRUCT<d: DOUBLE, i: INT>",
        "m": "MAP<STRING, DOUBLE>",
        "l": "ARRAY<INT>",
    }
    schema = from_spark_types(types, True)
    cells = {"s": ["a"], "f": [-0.0], "n": [{"d": 0.0, "i": 1}], "m": [[("k", 0.5)]], "l": [[1]]}
    file = write_file(tmp_path, pa.Table.from_pydict(cells, schema=schema.arrow(physical=False)), schema)
    group = pq.ParquetFile(file.location(str(tmp_path))).metadata.row_group(0)
    has = [group.column(at).has_dictionary_page for at in range(group.num_columns)]
    assert has == [True, False, False, True, True, False, True]


def test_columns_that_a_file_does_not_have_are_null(tmp_path: Path) -> None:
    schema = from_spark_types({"a": "INT"}, False)
    file = write_file(tmp_path, pa.table({"a": pa.array([1, 2], pa.int32())}), schema)
    later = TableSchema((column_of("n", "ARRAY<STRUCT<x: INT>>"), *schema.columns, column_of("m", "STRING")))
    assert read(tmp_path, file, later).to_pylist() == [{"n": None, "a": 1, "m": None}, {"n": None, "a": 2, "m": None}]
    assert read(tmp_path, file, later, "n").num_rows == 2


@pytest.mark.parametrize(
    "before, after, values, expected",
    [
        ("TINYINT", "BIGINT", [1, None, -128], [1, None, -128]),
        ("INT", "DOUBLE", [1, None], [1.0, None]),
        ("FLOAT", "DOUBLE", [0.5, None], [0.5, None]),
        ("INT", "DECIMAL(12,2)", [7, -1], [Decimal("7.00"), Decimal("-1.00")]),
        ("BIGINT", "DECIMAL(22,2)", [-(1 << 62)], [Decimal(-(1 << 62)).quantize(Decimal("0.01"))]),
        ("DECIMAL(10,2)", "DECIMAL(20,5)", [Decimal("1.25")], [Decimal("1.25000")]),
        ("DATE", "TIMESTAMP_NTZ", [datetime(1582, 10, 4).date()], [datetime(1582, 10, 4)]),  # noqa: DTZ001
        ("ARRAY<FLOAT>", "ARRAY<DOUBLE>", [[0.5, None], None, [], [2.0]], [[0.5, None], None, [], [2.0]]),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", [[("a", 1)], None, []], [[("a", 1)], None, []]),
        (
            "STRUCT<x: INT, y: STRING>",
            "STRUCT<y: STRING, z: INT, x: BIGINT>",
            [{"x": 1, "y": "a"}, None, {"x": None, "y": None}],
            [{"y": "a", "z": None, "x": 1}, None, {"y": None, "z": None, "x": None}],
        ),
    ],
)
def test_a_file_that_is_older_than_its_columns_types(
    tmp_path: Path, before: str, after: str, values: list[Any], expected: list[Any]
) -> None:
    old = from_spark_types({"c": before}, False)
    file = write_file(tmp_path, pa.table({"c": pa.array(values, old.arrow(False).field(0).type)}), old)
    new = from_spark_types({"c": after}, False)
    back = read(tmp_path, file, new)
    assert back.schema == new.arrow(physical=False)
    assert back["c"].to_pylist() == expected


def test_names_with_dots_are_names(tmp_path: Path) -> None:
    schema = TableSchema((DeltaColumn("a.b", "integer"), column_of("a", "STRUCT<b: INT, c: INT>")))
    table = pa.table(
        {"a.b": pa.array([1], pa.int32()), "a": pa.array([{"b": 2, "c": 3}], schema.arrow(False).field(1).type)}
    )
    file = write_file(tmp_path, table, schema)
    assert read(tmp_path, file, schema, "a.b").to_pylist() == [{"a.b": 1}]
    assert read(tmp_path, file, schema, "a", "a.b").to_pylist() == table.select(["a", "a.b"]).to_pylist()


def test_times_of_96_bits_are_read_to_the_microsecond(tmp_path: Path) -> None:
    schema = from_spark_types({"at": "TIMESTAMP"}, False)
    moments = [datetime.fromisoformat(f"{year}-01-01T00:00:00.000001+00:00") for year in ("0001", "2024", "9999")]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert read(tmp_path, DataFile({"path": "a.parquet"}), schema) == table


@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(20,0)", "DECIMAL(9,2)", "TINYINT"])
@pytest.mark.parametrize(
    "lowest, highest, keys",
    [(None, None, 8), (3, None, 6), (None, 3, 4), (2, 3, 2), (4, 5, 2), (100, None, 0), (None, -1, 0)],
)
def test_row_groups_without_a_row_between_two_values_are_not_read(
    tmp_path: Path, kind: str, lowest: int | None, highest: int | None, keys: int
) -> None:
    schema = from_spark_types({"k": kind}, False)
    target = schema.arrow(physical=False).field(0).type
    table = pa.table({"k": pa.array(range(8), pa.int8()).cast(target)})
    file = write_file(tmp_path, table, schema, row_group_rows=2)
    between = data_files.read_between(str(tmp_path), file, ["k"], schema, ("k", lowest, highest))
    values = [int(value) for value in between.column(0).to_pylist()]
    inside = {n for n in range(8) if (lowest is None or n >= lowest) and (highest is None or n <= highest)}
    assert (len(values), inside <= set(values)) == (keys, True)


def test_row_groups_with_null_are_read(tmp_path: Path) -> None:
    schema = from_spark_types({"k": "INT"}, False)
    file = write_file(tmp_path, pa.table({"k": pa.array([1, None, 5, 6], pa.int32())}), schema, row_group_rows=2)
    between = data_files.read_between(str(tmp_path), file, ["k"], schema, ("k", 5, 6))
    assert between.column(0).to_pylist() == [1, None, 5, 6]


def test_columns_whose_values_repeat_have_a_dictionary(tmp_path: Path) -> None:
    count = 10_000
    schema = from_spark_types({"k": "BIGINT", "status": "STRING", "d": "DOUBLE"}, False)
    table = pa.table({"k": range(count), "status": [f"s{n % 7}" for n in range(count)], "d": [0.5] * count})
    file = write_file(tmp_path, table, schema)
    group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    encodings = {group.column(at).path_in_schema: group.column(at).encodings for at in range(3)}
    assert {name for name, encoding_names in encodings.items() if "RLE_DICTIONARY" in encoding_names} == {"status"}


def test_long_values_have_no_dictionary(tmp_path: Path) -> None:
    """They would be hashed and compared for nothing, however few there are."""
    schema = from_spark_types({"k": "BIGINT", "payload": "BINARY"}, False)
    table = pa.table({"k": range(8), "payload": [b"a" * 100_000] * 8})
    group = pq.ParquetFile(tmp_path / write_file(tmp_path, table, schema).path).metadata.row_group(0)
    assert [group.column(at).has_dictionary_page for at in range(2)] == [True, False]


def test_a_layout_may_ask_for_another_compression(tmp_path: Path) -> None:
    schema = from_spark_types({"payload": "BINARY"}, False)
    table = pa.table({"payload": [bytes(range(256)) * 64] * 8})
    file = write_file(tmp_path, table, schema, compression="zstd")
    assert file.path.endswith(".zstd.parquet")
    opened = pq.ParquetFile(tmp_path / file.path)
    assert opened.metadata.row_group(0).column(0).compression == "ZSTD"
    assert opened.read().column("payload").to_pylist() == table.column("payload").to_pylist()


def test_a_bit_that_flipped_in_a_page_is_seen(tmp_path: Path) -> None:
    """Values without compression that shows it: each page has a checksum."""
    schema = TableSchema((column_of("a", "BIGINT"),))
    file = write_file(tmp_path, pa.table({"a": pa.array(np.random.default_rng(1).integers(0, 1 << 60, 500))}), schema)
    path = file.location(str(tmp_path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))  # type: ignore[union-attr]
    with pytest.raises(LakeError, match=r"a data file cannot be read: .*; restore the table from a backup"):
        read(tmp_path, file, schema, "a")
