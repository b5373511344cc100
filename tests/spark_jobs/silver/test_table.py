from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import (
    ADDED,
    CHANGE_POSITION_TYPE,
    Columns,
    columns,
    position_cell,
    position_sql,
    properties,
    raw_sql,
    require_same_columns,
    spark_type,
    stored_columns,
    window_condition,
)
from tests.lakes.lake_tables import schema_of

NAME = TableName("shop", "t")
ID, NOTE = Column("id", 3, nullable=False), Column("note", 15, 80, charset=255)


@pytest.mark.parametrize(
    "column, kind",
    [
        (Column("c", 1), "TINYINT"),
        (Column("c", 1, unsigned=True), "SMALLINT"),
        (Column("c", 2), "SMALLINT"),
        (Column("c", 2, unsigned=True), "INT"),
        (Column("c", 9), "INT"),
        (Column("c", 9, unsigned=True), "INT"),
        (Column("c", 3), "INT"),
        (Column("c", 3, unsigned=True), "BIGINT"),
        (Column("c", 8), "BIGINT"),
        (Column("c", 8, unsigned=True), "DECIMAL(20,0)"),
        (Column("c", 246, 12 << 8 | 2), "DECIMAL(12,2)"),
        (Column("c", 246, 38 << 8 | 30), "DECIMAL(38,30)"),
        (Column("c", 246, 39 << 8 | 2), "STRING"),
        (Column("c", 4, 4), "FLOAT"),
        (Column("c", 245, 4), "STRING"),
        (Column("c", 255, 4), "STRUCT<srid: INT, wkb: BINARY>"),
        (Column("c", 242, 4), "ARRAY<FLOAT>"),
        (Column("c", 254, 16, charset=63, declared="uuid"), "STRING"),
        (Column("c", 7, declared="timestamp(3)"), "TIMESTAMP"),
        (Column("c", 12, declared="datetime"), "TIMESTAMP_NTZ"),
        (Column("c", 5, 8), "DOUBLE"),
        (Column("c", 16, 1), "BIGINT"),
        (Column("c", 16, 64), "DECIMAL(20,0)"),
        (Column("c", 10), "DATE"),
        (Column("c", 18, 6), "TIMESTAMP_NTZ"),
        (Column("c", 17, 6), "TIMESTAMP"),
        (Column("c", 19, 6), "STRING"),
        (Column("c", 13), "SMALLINT"),
        (Column("c", 254, 40, charset=255), "STRING"),
        (Column("c", 254, 40, charset=63), "BINARY"),
        (Column("c", 15, 40, charset=8), "STRING"),
        (Column("c", 15, 40, charset=63), "BINARY"),
        (Column("c", 252, 2, charset=255), "STRING"),
        (Column("c", 252, 2, charset=63), "BINARY"),
        (Column("c", 247, 1, labels=("a",), charset=255), "STRING"),
        (Column("c", 248, 1, labels=("a",), charset=255), "STRING"),
    ],
    ids=str,
)
def test_columns_have_the_contracts_types(column: Column, kind: str) -> None:
    definition = TableDefinition(NAME, (ID, column), (0,))
    assert columns(definition).types == {"id": "INT", "c": kind}
    assert spark_type(str(column.arrow)) == kind


def test_names_and_key_are_in_their_order() -> None:
    table_columns = columns(TableDefinition(NAME, (NOTE, ID, Column("n", 3)), (2, 1)))
    assert list(table_columns.types) == ["note", "id", "n"]
    assert (table_columns.key, table_columns.rest) == (("n", "id"), ("note",))


@pytest.mark.parametrize(
    "definition, message",
    [
        (
            TableDefinition(NAME, (ID,), None),
            (
                "shop.t: neither the log nor a statement tells whether the table has a key, and which; "
                "SET GLOBAL binlog_row_metadata = 'FULL'"
            ),
        ),
        (
            TableDefinition(NAME, (ID, Column("_copies", 3)), ()),
            "shop.t: its column _copies has the name of one that is added; rename it",
        ),
        (
            TableDefinition(NAME, (ID, Column("_identity_7", 3)), (0,)),
            "shop.t: its column _identity_7 has the name of one that is added; rename it",
        ),
        (
            TableDefinition(NAME, (ID, Column("_raw", 3)), (0,)),
            "shop.t: its column _raw has the name of one that is added; rename it",
        ),
        (
            TableDefinition(NAME, (ID, Column("_OP", 3)), (0,)),
            "shop.t: its column _OP has the name of one that is added; rename it",
        ),
        (
            TableDefinition(NAME, (Column(None, 3), NOTE), (0,)),
            "shop.t: the names of its columns are not known; SET GLOBAL binlog_row_metadata = 'FULL'",
        ),
    ],
)
def test_a_table_that_cannot_be_merged_stops_with_a_reason(definition: TableDefinition, message: str) -> None:
    with pytest.raises(TableStopped) as stopped:
        columns(definition)
    assert str(stopped.value) == message


@pytest.mark.parametrize("name", sorted(ADDED))
def test_each_added_column_is_refused_as_a_sources(name: str) -> None:
    with pytest.raises(TableStopped, match=f"its column {name} has the name of one that is added"):
        columns(TableDefinition(NAME, (ID, Column(name, 3)), (0,)))


@pytest.mark.parametrize(
    "names, message",
    [
        (("_metadata",), "_metadata has the name of a column that Spark adds to every table read"),
        (("_Metadata",), "_Metadata has the name of a column that Spark adds to every table read"),
        (("_wındow",), "_wındow has the name of one that is added"),
        (("s", "ſ"), "s and ſ have one name to Spark"),
        (("Σ", "ς"), "Σ and ς have one name to Spark"),
        (("k", "\u212a"), "k and \u212a have one name to Spark"),
        (("i", "ı"), "i and ı have one name to Spark"),
        (("i", "İ"), "i and İ have one name to Spark"),
    ],
)
def test_names_that_spark_takes_for_others_are_refused(names: tuple[str, ...], message: str) -> None:
    definition = TableDefinition(NAME, (ID, *(Column(name, 3) for name in names)), (0,))
    with pytest.raises(TableStopped, match=message):
        columns(definition)


def test_names_that_only_look_alike_are_taken() -> None:
    names = ("ss", "ß", "e\u0301", "é", "_at", "_exact", "a", "ä")
    assert [*columns(TableDefinition(NAME, (ID, *(Column(name, 3) for name in names)), (0,))).types][1:] == [*names]


def test_a_table_without_a_key_is_a_bag_that_counts() -> None:
    table_columns = columns(TableDefinition(NAME, (ID, NOTE), ()))
    assert (table_columns.is_keyless, table_columns.key, table_columns.rest) == (True, (), ("id", "note"))
    assert table_columns.added == ADDED | {"_copies": "BIGINT"}
    keyed = columns(TableDefinition(NAME, (ID, Column("_copies", 3)), (0,)))
    assert (keyed.is_keyless, keyed.added) == (False, ADDED)


def test_a_key_s_identity_is_its_columns_and_what_they_cannot_hold() -> None:
    columns = Columns({"id": "INT", "a`b": "STRING", "n": "DATE"}, ("a`b", "id"))
    assert columns.identity("t.") == ["t.`a``b`", "try_element_at(t._raw, 'a`b')", "t.`id`"]


@pytest.mark.spark
def test_a_bag_s_rows_are_equal_where_all_their_bytes_are(spark: SparkSession) -> None:
    kinds = {"f": "FLOAT", "d": "DOUBLE", "v": "ARRAY<FLOAT>", "g": "STRUCT<srid: INT, wkb: BINARY>", "s": "STRING"}
    rows = [
        "(1.5F, 0D, array(1F), named_struct('srid', 0, 'wkb', X'00'), 'a', NULL)",
        "(1.5F, -0D, array(1F), named_struct('srid', 0, 'wkb', X'00'), 'a', NULL)",
        "(1.5F, 0D, array(-0F), named_struct('srid', 0, 'wkb', X'00'), 'a', NULL)",
        "(1.5F, 0D, array(0F), named_struct('srid', 0, 'wkb', X'00'), 'a', NULL)",
        "(1.5F, 0D, array(1F), named_struct('srid', 0, 'wkb', X'0000'), 'a', NULL)",
        "(1.5F, 0D, array(1F), NULL, 'a', NULL)",
        "(1.5F, 0D, array(1F), NULL, 'a ', NULL)",
        "(1.5F, 0D, array(1F), NULL, NULL, NULL)",
        "(1.5F, 0D, array(1F), NULL, NULL, map('s', 'ff'))",
        "(1.5F, 0D, array(1F), NULL, NULL, map('s', 'ff', 'd', '0'))",
        "(1.5F, 0D, array(1F), NULL, NULL, map('d', '0', 's', 'ff'))",
    ]
    (cell,) = Columns(kinds, ()).identity()
    frame = spark.sql(f"SELECT {cell} one FROM VALUES {', '.join(rows)} AS t(f, d, v, g, s, _raw)")
    assert frame.distinct().count() == len(rows) - 1, "the order of exact texts says nothing"
    assert frame.alias("a").join(frame.alias("b"), on="one").count() == len(rows) + 2


def test_what_is_stored_is_told_from_what_is_added(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).silver("shop", "shop", "t")
    deltalake.write_deltalake(table.path, pa.table({"id": pa.array([1], pa.int32()), "note": ["x"], "_op": ["insert"]}))
    head = Head(0, 1, SilverCommit(Position("b.000001", 4), "b", key=("id",)))
    assert stored_columns(table, head) == Columns({"id": "INT", "note": "STRING"}, ("id",))


def test_another_set_of_columns_stops_the_table(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).silver("shop", "shop", "t")
    require_same_columns(table, {"id": "INT"}, "shop.t")
    deltalake.write_deltalake(table.path, pa.table({"id": pa.array([1], pa.int32()), "_op": ["insert"]}))
    require_same_columns(table, {"id": "INT", "_op": "STRING"}, "shop.t")
    with pytest.raises(TableStopped) as stopped:
        require_same_columns(table, {"id": "BIGINT", "n": "INT", "_op": "STRING"}, "shop.t")
    assert str(stopped.value) == (
        f"shop.t: its columns are now (id BIGINT, n INT), but {table.path} has (id INT), "
        "and no statement of the log says why"
    )


@pytest.mark.parametrize(
    "plain, expected",
    [(True, {}), (False, {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"})],
)
def test_plain_tables_have_no_features(tmp_path: Path, plain: bool, expected: dict[str, str]) -> None:
    assert properties(Lake(str(tmp_path), plain=plain).bronze("shop")) == expected


@pytest.mark.spark
@pytest.mark.parametrize(
    "names, expected_sql",
    [
        ({"a": "a", "b": "b"}, {"a": "0", "b": "1"}),
        ({"a": "x", "b": "b"}, {"x": "0", "b": "1"}),
        ({"a": "b", "b": "a"}, {"b": "0", "a": "1"}),
        ({"a": None, "b": "a"}, {"a": "1"}),
        ({"a": None, "b": None}, None),
    ],
)
def test_exact_texts_follow_their_columns(
    spark: SparkSession, names: dict[str, str | None], expected_sql: dict[str, str] | None
) -> None:
    for raw, expected in (("map('a', '0', 'b', '1')", expected_sql), ("CAST(NULL AS MAP<STRING, STRING>)", None)):
        (row,) = spark.sql(f"SELECT {raw_sql('_raw', names)} found FROM (SELECT {raw} _raw)").collect()
        assert row["found"] == expected


@pytest.mark.spark
def test_windows_are_compared_by_number_not_by_name(spark: SparkSession) -> None:
    starts = [Position.parse(text) for text in ("b.999999:50", "b.1000000:4", "b.1000000:90", "2/b.000001:4")]
    rows = spark.sql(
        " UNION ALL ".join(
            f"SELECT {at} n, 'insert' _op, {position_sql(position)} _window_start" for at, position in enumerate(starts)
        )
    )
    inside = rows.where(window_condition(Range(starts[0], starts[2])))
    assert sorted(row["n"] for row in inside.collect()) == [0, 1]
    assert [row["n"] for row in rows.where(rows["_window_start"] == position_cell(starts[3])).collect()] == [3]


@pytest.mark.spark
def test_every_added_type_is_one_that_spark_reads_back_the_same(spark: SparkSession, lake: Path) -> None:
    table = Lake(str(lake)).silver("shop", "shop", "t")
    columns = {"id": "INT"} | ADDED
    at = Checkpoint(Position("b.000001", 4), new_batch())
    table.append_rows(
        pa.Table.from_pylist([{"id": 1}], schema=schema_of(columns)), table.unwritten_head(columns, {}), at
    )
    (row,) = table.read(spark).collect()
    assert row.asDict() == dict.fromkeys(columns) | {"id": 1}
    assert table.columns() == {"id": "INT"} | ADDED
    assert ADDED["_position"] == CHANGE_POSITION_TYPE
