"""What the package writes beside what Spark writes of the same, and what Spark and deltalake read of it."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.delta import data_files
from spark_jobs.delta.commits import commit
from spark_jobs.delta.features import why_not
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.schema import ID, NESTED_IDS, PHYSICAL_NAME, TableSchema
from spark_jobs.delta.schema_changes import altered, design_of
from spark_jobs.delta.snapshot import MAX_COLUMN_ID, Snapshot, new_table, snapshot_of
from spark_jobs.text import sql
from tests.spark_jobs.delta.alternating_writers import create, forget, spark_snapshot
from tests.spark_jobs.delta.tables import BRONZE, MAPPED, TYPES, append, begin, newest, rows

pytestmark = pytest.mark.spark

DESIGNS = [
    ({"a": "INT", "b": "STRING"}, {}),
    ({"a": "INT", "t": "TIMESTAMP_NTZ"}, {}),
    ({"a": "INT", "l": "ARRAY<STRUCT<t: TIMESTAMP_NTZ>>"}, MAPPED),
    ({"a": "INT", "b": "STRING"}, BRONZE),
    ({"a": "INT", "b": "STRING"}, MAPPED),
    ({"a": "INT"}, {"delta.columnMapping.mode": "name"}),
    ({"a": "INT"}, {"delta.enableDeletionVectors": "true"}),
    ({"a": "INT"}, MAPPED | {"delta.enableTypeWidening": "true"}),
    (TYPES, MAPPED),
    (TYPES, {}),
    ({f"c{at}": "INT" for at in range(300)}, MAPPED),
]


def insert(spark: SparkSession, path: str, keys: range | list[int]) -> Snapshot:
    """The table after Spark's append of rows of these keys, in one file."""
    schema = spark_snapshot(path).schema
    frame = spark.createDataFrame(rows(schema, keys)).coalesce(1)
    casts = (
        f"CAST({sql.identifier(name)} AS {kind}) AS {sql.identifier(name)}" for name, kind in schema.spark_types.items()
    )
    frame.selectExpr(*casts).write.format("delta").mode("append").save(path)
    return spark_snapshot(path)


def plain(schema: TableSchema) -> list[dict[str, Any]]:
    """A schema with a name in the place of each physical name that is made up, and ids as if columns alone had some.

    Spark gives none to what arrays and maps hold, unless a table is to be read as Iceberg.
    """
    ids = sorted(column.id for column in schema.all_columns() if column.id)

    def numbered(value: dict[str, Any]) -> dict[str, Any]:
        value.pop(NESTED_IDS, None)
        return value | {ID: ids.index(value[ID])} if ID in value else value

    text = re.sub(r"col-[0-9a-f-]{36}", "col-…", schema.to_json())
    return list(json.loads(text, object_hook=numbered)["fields"])


def settings(configuration: Mapping[str, str]) -> dict[str, str]:
    """A table's properties without the number of its last id."""
    return {key: value for key, value in configuration.items() if key != MAX_COLUMN_ID}


def same_schema(own_schema: TableSchema, sparks: TableSchema) -> None:
    assert plain(own_schema) == plain(sparks)
    pairs = zip(own_schema.all_columns(), sparks.all_columns(), strict=True)
    assert all((PHYSICAL_NAME in lake_column.metadata) is (PHYSICAL_NAME in two.metadata) for lake_column, two in pairs)


def read_by_spark(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    table = spark.read.format("delta").load(path).toArrow()
    return sorted(arrow_rows(table), key=lambda row: row["key"])


def read_by_deltalake(path: str) -> list[dict[str, Any]]:
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return sorted(arrow_rows(pa.table(builder.execute("SELECT * FROM t").read_all())), key=lambda row: row["key"])


def arrow_rows(table: pa.Table) -> list[dict[str, Any]]:
    return [{name: comparable(cell) for name, cell in row.items()} for row in table.to_pylist()]


def comparable(value: Any) -> Any:
    """A cell in a form that does not depend on the reader."""
    if isinstance(value, dict):
        return {name: comparable(cell) for name, cell in value.items()}
    if isinstance(value, list):
        return [comparable(cell) for cell in value]
    if isinstance(value, tuple):
        return tuple(comparable(cell) for cell in value)
    if hasattr(value, "utcoffset"):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else value


def expected_rows(schema: TableSchema, keys: Iterable[int]) -> list[dict[str, Any]]:
    return arrow_rows(rows(schema, sorted(keys)))


# New tables, statistics, statements


@pytest.mark.thorough
@pytest.mark.parametrize("types, properties", DESIGNS)
def test_a_new_table_is_as_spark_makes_it(
    spark: SparkSession, tmp_path: Path, types: dict[str, str], properties: dict[str, str]
) -> None:
    sparks = create(spark, str(tmp_path / "sparks"), types, properties)
    own_table = new_table(str(tmp_path / "ours"), types, properties)
    assert own_table.protocol == sparks.protocol
    assert settings(own_table.configuration) == settings(sparks.configuration)
    assert own_table.configuration.get(MAX_COLUMN_ID, "0") == str(own_table.schema.max_column_id)
    assert own_table.metadata.rest == sparks.metadata.rest
    same_schema(own_table.schema, sparks.schema)
    assert own_table.schema.spark_types == types
    commit(own_table)
    empty = spark.range(1).selectExpr(
        *(f"CAST(NULL AS {kind}) AS {sql.identifier(name)}" for name, kind in types.items())
    )
    empty.write.format("delta").mode("append").save(own_table.path)
    reread = newest(own_table.path, 1)
    assert reread.metadata == own_table.metadata


@pytest.mark.parametrize("properties", [MAPPED, BRONZE, {}])
def test_statistics_are_as_spark_writes_them(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    create(spark, str(tmp_path), TYPES, properties)
    snapshot = insert(spark, str(tmp_path), range(60))
    (sparks,) = snapshot.files
    own_file = data_files.write(
        snapshot.path, rows(snapshot.schema, range(60)), snapshot.schema, snapshot.configuration
    )
    text = {snapshot.schema.column(name).physical_name for name in ("text",)}
    for kind in ("numRecords", "minValues", "maxValues", "nullCount", "tightBounds"):
        own_stats, two = own_file.stats.get(kind), sparks.stats.get(kind)
        if kind == "maxValues":
            assert isinstance(own_stats, dict)
            assert isinstance(two, dict)
            own_stats, two = (
                {name: value for name, value in stats.items() if name not in text} for stats in (own_stats, two)
            )
        assert own_stats == two, kind
    for name in snapshot.schema.names:
        assert own_file.bounds(snapshot.schema, name).nulls == sparks.bounds(snapshot.schema, name).nulls
    columns = data_files.read_columns(snapshot.path, sparks, snapshot.schema.names, snapshot.schema)
    assert sorted(arrow_rows(columns), key=lambda row: row["key"]) == expected_rows(snapshot.schema, range(60))


def test_the_first_leaves_of_a_wide_table(spark: SparkSession, tmp_path: Path) -> None:
    types = {"key": "BIGINT", "_position": TYPES["_position"], "tables": TYPES["tables"], "text": "STRING"}
    wide = types | {f"c{at}": "INT" for at in range(300)}
    path = str(tmp_path)
    create(spark, path, wide, MAPPED)
    spark.range(5).selectExpr(
        "id AS key",
        f"CAST(NULL AS {types['_position']}) AS _position",
        f"CAST(NULL AS {types['tables']}) AS tables",
        "'x' AS text",
        *(f"CAST(id AS INT) AS c{at}" for at in range(300)),
    ).coalesce(1).write.format("delta").mode("append").save(path)
    snapshot = spark_snapshot(path)
    (file,) = snapshot.files
    columns = data_files.read_columns(path, file, snapshot.schema.names, snapshot.schema)
    own_file = data_files.write(path, columns, snapshot.schema, snapshot.configuration)
    assert own_file.stats == file.stats
    assert len(snapshot.schema.columns) == 304
    commit(snapshot, adds=[own_file])
    assert spark.read.format("delta").load(path).where("c299 = 3 AND c5 = 3").count() == 2


STATEMENTS = [
    ["ADD COLUMN (`n` INT FIRST)", "ADD COLUMN (`p` STRUCT<srid: INT, wkb: BINARY> AFTER `a`)", "DROP COLUMN `p`"],
    [
        "ADD COLUMN (`l` ARRAY<STRUCT<q: INT>>)",
        "ADD COLUMN (_absent ARRAY<STRING>)",
        "ADD COLUMN (`m` MAP<STRING, STRING>)",
    ],
    ["RENAME COLUMN `b` TO `x y`", "ALTER COLUMN `x y` FIRST", "ALTER COLUMN `x y` AFTER `c`", "DROP COLUMN `a`"],
    [
        "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER COLUMN `a` TYPE BIGINT",
        "ALTER COLUMN `a` TYPE DECIMAL(20,0)",
        "ALTER COLUMN `a` TYPE DECIMAL(24,2)",
        "ALTER COLUMN `f` TYPE DOUBLE",
        "RENAME COLUMN `a` TO `z`",
    ],
    ["SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')", "ADD COLUMN (`t` TIMESTAMP_NTZ AFTER `a`)"],
]


@pytest.mark.thorough
@pytest.mark.parametrize("statements", STATEMENTS)
@pytest.mark.parametrize("properties", [MAPPED, {}])
def test_statements_change_a_table_as_spark_does(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str], statements: list[str]
) -> None:
    path = str(tmp_path)
    design = design_of(
        create(spark, path, {"a": "INT", "b": "STRING", "c": "STRUCT<x: INT>", "f": "FLOAT"}, properties)
    )
    for statement in statements:
        if not properties and statement.startswith(("DROP", "RENAME")):
            break
        spark.sql(f"ALTER TABLE {sql.delta(path)} {statement}")
        sparks = spark_snapshot(path)
        design = altered(design, [statement])
        same_schema(design.schema, sparks.schema)
        assert settings(design.metadata.configuration) == settings(sparks.configuration)
        assert design.protocol == sparks.protocol
        assert design.operation == sparks.commit_info["operation"]
        assert design.parameters.keys() == sparks.commit_info["operationParameters"].keys()


# All types of columns


@pytest.mark.parametrize("properties", [MAPPED, BRONZE, {}])
def test_all_types_are_read_back(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    snapshot = append(append(begin(str(tmp_path), properties), range(70)), range(70, 100))
    expected = expected_rows(snapshot.schema, range(100))
    assert read_by_spark(spark, snapshot.path) == expected
    assert read_by_deltalake(snapshot.path) == expected
    rewritten = spark.read.format("delta").load(snapshot.path)
    rewritten.coalesce(1).write.format("delta").mode("overwrite").save(snapshot.path)
    after = newest(snapshot.path, 2)
    columns = data_files.read_columns(snapshot.path, after.files[0], after.schema.names, after.schema)
    assert sorted(arrow_rows(columns), key=lambda row: row["key"]) == expected


PREDICATES = [
    "text = '{text}'",
    "text >= '{text}'",
    "at = TIMESTAMP'{at}'",
    "at >= TIMESTAMP'{at}'",
    "local <= TIMESTAMP_NTZ'{local}'",
    "day = DATE'{day}'",
    "m = {m}BD",
    "wide > {wide}BD",
    "d < {d}",
    "f = {f}",
    "_position.number = {key}",
    "key IN ({key}, 12345)",
]


@pytest.mark.parametrize(
    "count", [pytest.param(2, marks=pytest.mark.thorough), pytest.param(5, marks=pytest.mark.long)]
)
def test_spark_skips_no_file_that_it_needs(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """Each file has a row: its bounds are its values."""
    snapshot = begin(str(tmp_path))
    all_rows = rows(snapshot.schema, range(60))
    adds = [
        data_files.write(snapshot.path, all_rows.slice(at, 1), snapshot.schema, snapshot.configuration)
        for at in range(60)
    ]
    commit(snapshot, adds=adds)
    frame = spark.read.format("delta").load(snapshot.path)
    conditions = [condition for values in all_rows.slice(0, count).to_pylist() for condition in conditions_of(values)]
    # Of rows that are read before, one query tells all conditions.
    loaded = spark.createDataFrame(frame.toArrow())
    truths = loaded.selectExpr("key", *(f"{condition} AS c{at}" for at, condition in enumerate(conditions))).collect()
    for at, condition in enumerate(conditions):
        found = {row["key"] for row in frame.where(condition).select("key").collect()}
        assert found == {row["key"] for row in truths if row[f"c{at}"]}, condition


def conditions_of(values: Mapping[str, Any]) -> Iterator[str]:
    """What asks for a row by the values that it has."""
    text = {key: literal(value) for key, value in values.items()}
    for predicate in PREDICATES:
        name = re.findall(r"\{(\w+)\}", predicate)[0]
        if values[name] is not None and not (name == "text" and "'" in values[name]):
            yield predicate.format(**text)


def literal(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\\", "\\\\")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f"DOUBLE('{value}')"
    return value.isoformat(" ").removesuffix("+00:00") if hasattr(value, "hour") else str(value)


# What Spark alone writes


WITH = "CREATE TABLE T (a INT) USING delta TBLPROPERTIES("
REFUSED = [
    (f"{WITH}'delta.enableRowTracking' = 'true')", "table feature rowTracking"),
    (f"{WITH}'delta.appendOnly' = 'true')", "appendOnly is true"),
    (f"{WITH}'delta.enableInCommitTimestamps' = 'true')", "enableInCommitTimestamps is true"),
    (f"{WITH}'delta.checkpointPolicy' = 'v2')", "v2"),
    (f"{WITH}'delta.columnMapping.mode' = 'id')", "columnMapping.mode is id"),
    ("CREATE TABLE T (a INT, b INT GENERATED ALWAYS AS (a + 1)) USING delta", "column b has a generation expression"),
    ("CREATE TABLE T (a BIGINT GENERATED ALWAYS AS IDENTITY, b INT) USING delta", "column a is an identity"),
    ("CREATE TABLE T (a INT NOT NULL) USING delta", "column a is NOT NULL"),
    ("CREATE TABLE T (a VARCHAR(3)) USING delta", "column a has a CHAR's"),
    ("CREATE TABLE T (a INT, b INT) USING delta PARTITIONED BY (b)", "partitioned by b"),
    ("CREATE TABLE T (a INT, b INT) USING delta CLUSTER BY (b)", "table feature clustering"),
    ("CREATE TABLE T (a VARIANT) USING delta", "variantType"),
]


@pytest.mark.parametrize("statement, reason", REFUSED)
def test_tables_with_other_features_are_refused_by_name(
    spark: SparkSession, tmp_path: Path, statement: str, reason: str
) -> None:
    spark.sql(statement.replace("TABLE T ", f"TABLE {sql.delta(str(tmp_path))} "))
    message = why_not(spark_snapshot(str(tmp_path)))
    assert message is not None
    assert reason in message


def test_a_constraint_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    create(spark, str(tmp_path), {"a": "INT"}, MAPPED)
    spark.sql(f"ALTER TABLE {sql.delta(str(tmp_path))} ADD CONSTRAINT positive CHECK (a > 0)")
    assert "the constraint positive" in (why_not(spark_snapshot(str(tmp_path))) or "")


def test_a_checkpoint_of_the_second_kind_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    create(spark, str(path), {"a": "INT"}, {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"})
    spark.sql(f"INSERT INTO {sql.delta(str(path))} VALUES (1)")
    assert "v2Checkpoint" in (why_not(spark_snapshot(str(path))) or ""), "while its first commits are there"
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    forget(copy, 1)
    with pytest.raises(UnsupportedTable, match="v2Checkpoint"):
        snapshot_of(str(copy))
