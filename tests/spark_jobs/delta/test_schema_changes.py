import json
from pathlib import Path

import pytest

from spark_jobs.delta import commits, data_files
from spark_jobs.delta.features import why_not
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.schema_changes import TargetSchema, altered, apply, design_of, is_wider
from spark_jobs.delta.snapshot import Protocol, Snapshot, new_table
from spark_jobs.errors import LakeError
from spark_jobs.silver.schema_evolution import steps
from tests.spark_jobs.delta.tables import MAPPED, append, newest

TYPES = {"a": "INT", "b": "STRING", "c": "STRUCT<x: INT>"}
AFTER_B = {"a": "INT", "b": "STRING", "d": "STRUCT<p: INT, q: BINARY>", "c": "STRUCT<x: INT>"}
ADDED = {"name": "d", "type": "integer", "nullable": True, "metadata": {}}
WIDENING = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
WITHOUT_ZONE = "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"


def design(properties: dict[str, str] | None = None, types: dict[str, str] | None = None) -> TargetSchema:
    return design_of(new_table("/t", types or TYPES, MAPPED if properties is None else properties))


@pytest.mark.parametrize(
    "statements, types",
    [
        ([], TYPES),
        (["ADD COLUMN (`d` INT)"], TYPES | {"d": "INT"}),
        (["ADD COLUMN (_absent ARRAY<STRING>)"], TYPES | {"_absent": "ARRAY<STRING>"}),
        (["ADD COLUMN (`d` DECIMAL(12,2) FIRST)"], {"d": "DECIMAL(12,2)"} | TYPES),
        (["ADD COLUMN (`d` STRUCT<p: INT, q: BINARY> AFTER `b`)"], AFTER_B),
        (["ADD COLUMN (`x ``)` MAP<STRING, STRING> AFTER `c`)"], TYPES | {"x `)": "MAP<STRING, STRING>"}),
        (["DROP COLUMN `b`"], {"a": "INT", "c": "STRUCT<x: INT>"}),
        (["RENAME COLUMN `b` TO `TO`"], {"a": "INT", "TO": "STRING", "c": "STRUCT<x: INT>"}),
        (["RENAME COLUMN `a` TO `A`"], {"A": "INT", "b": "STRING", "c": "STRUCT<x: INT>"}),
        (["ALTER COLUMN `c` FIRST"], {"c": "STRUCT<x: INT>", "a": "INT", "b": "STRING"}),
        (["ALTER COLUMN `a` AFTER `b`"], {"b": "STRING", "a": "INT", "c": "STRUCT<x: INT>"}),
        ([WIDENING, "ALTER COLUMN `a` TYPE BIGINT"], TYPES | {"a": "BIGINT"}),
        (
            [WIDENING, *(f"ALTER COLUMN `a` TYPE {wider}" for wider in ("BIGINT", "DECIMAL(20,0)"))],
            TYPES | {"a": "DECIMAL(20,0)"},
        ),
        ([WITHOUT_ZONE, "ADD COLUMN (`t` TIMESTAMP_NTZ AFTER `c`)"], TYPES | {"t": "TIMESTAMP_NTZ"}),
        (["DROP COLUMN `a`", "ADD COLUMN (`a` STRING FIRST)"], {"a": "STRING", "b": "STRING", "c": "STRUCT<x: INT>"}),
    ],
)
def test_columns_after_statements(statements: list[str], types: dict[str, str]) -> None:
    assert list(altered(design(), statements).schema.spark_types.items()) == list(types.items())


def test_each_change_is_a_new_value_and_ids_are_never_used_again() -> None:
    before = design()
    dropped = altered(before, ["DROP COLUMN `c`"])
    after = altered(dropped, ["ADD COLUMN (`c` STRUCT<x: INT>)"])
    assert before.schema.names == ["a", "b", "c"]
    assert [(column.name, column.id) for column in after.schema.all_columns()] == [
        ("a", 1),
        ("b", 2),
        ("c", 5),
        ("x", 6),
    ]
    assert after.metadata.configuration["delta.columnMapping.maxColumnId"] == "6"
    assert dropped.metadata.configuration["delta.columnMapping.maxColumnId"] == "4"
    physical = [column.physical_name for column in before.schema.all_columns()]
    assert [column.physical_name for column in after.schema.columns[:2]] == physical[:2]
    assert not {column.physical_name for column in after.schema.all_columns()} & set(physical[2:])


def test_a_rename_keeps_ids_and_physical_names() -> None:
    before = design()
    after = altered(before, ["RENAME COLUMN `c` TO `z`", "ALTER COLUMN `z` FIRST"])
    assert after.schema.columns[0].physical_name == before.schema.column("c").physical_name
    assert after.schema.columns[0].type == before.schema.column("c").type


def test_types_that_a_column_had_are_kept() -> None:
    after = altered(design(), [WIDENING, "ALTER COLUMN `a` TYPE BIGINT", "ALTER COLUMN `a` TYPE DECIMAL(22,2)"])
    assert after.schema.column("a").metadata["delta.typeChanges"] == [
        {"toType": "long", "fromType": "integer"},
        {"toType": "decimal(22,2)", "fromType": "long"},
    ]
    unchanged = altered(after, ["ALTER COLUMN `a` TYPE DECIMAL(22,2)"])
    assert unchanged == after


@pytest.mark.parametrize(
    "properties, statement, features",
    [
        (MAPPED, WIDENING, {"columnMapping", "deletionVectors", "typeWidening"}),
        (MAPPED, WITHOUT_ZONE, {"columnMapping", "deletionVectors", "timestampNtz"}),
        (MAPPED, "ADD COLUMN (`t` TIMESTAMP_NTZ)", {"columnMapping", "deletionVectors", "timestampNtz"}),
        ({}, WITHOUT_ZONE, {"timestampNtz"}),
        ({}, WIDENING, {"typeWidening"}),
    ],
)
def test_features_of_the_protocol(properties: dict[str, str], statement: str, features: set[str]) -> None:
    after = altered(design(properties), [statement])
    expected = Protocol(3, 7, frozenset(features), frozenset(features | {"invariants", "appendOnly"}))
    assert after.protocol == expected
    assert ("delta.enableTypeWidening" in after.metadata.configuration) is (statement == WIDENING)
    assert not any(key.startswith("delta.feature") for key in after.metadata.configuration)


def test_a_plain_table_takes_columns_without_ids() -> None:
    after = altered(design({}), ["ADD COLUMN (`d` INT FIRST)", "ALTER COLUMN `d` AFTER `a`"])
    assert after.schema.names == ["a", "d", "b", "c"]
    assert after.schema.max_column_id == 0
    assert after.protocol == Protocol(1, 2)


@pytest.mark.parametrize(
    "properties, statement, match",
    [
        (MAPPED, "ADD COLUMN (`A` INT)", "A cannot be added"),
        (MAPPED, "ADD COLUMN (`d` VARIANT)", "'VARIANT' is not a type"),
        (MAPPED, "ADD COLUMN (`d` INT AFTER `x`)", "no column 'x'"),
        (MAPPED, "DROP COLUMN `x`", "no column 'x'"),
        (MAPPED, "RENAME COLUMN `x` TO `y`", "no column 'x'"),
        (MAPPED, "RENAME COLUMN `a` TO `B`", "a cannot be renamed to B"),
        (MAPPED, "ALTER COLUMN `a` AFTER `a`", "cannot be moved after itself"),
        (MAPPED, "ALTER COLUMN `a` TYPE BIGINT", "without the table's property delta.enableTypeWidening"),
        (MAPPED | {"delta.enableTypeWidening": "true"}, "ALTER COLUMN `a` TYPE STRING", "because it is INT"),
        (
            MAPPED | {"delta.enableTypeWidening": "true"},
            "ALTER COLUMN `c` TYPE STRUCT<x: BIGINT>",
            "because it is STRUCT",
        ),
        ({}, "DROP COLUMN `a`", "a cannot be dropped without column mapping"),
        ({}, "RENAME COLUMN `a` TO `d`", "a cannot be renamed without column mapping"),
    ],
)
def test_what_delta_refuses(properties: dict[str, str], statement: str, match: str) -> None:
    with pytest.raises(LakeError, match=match) as info:
        altered(design(properties), [statement])
    assert not isinstance(info.value, UnsupportedTable)


def test_the_last_column_stays() -> None:
    with pytest.raises(LakeError, match="the table's last"):
        altered(design(types={"a": "INT"}), ["DROP COLUMN `a`"])


@pytest.mark.parametrize(
    "statement, match",
    [
        ("UPDATE SET `a` = CAST(1 AS INT)", "rewrites rows"),
        ("UPDATE SET _raw = x WHERE _raw IS NOT NULL", "UPDATE SET _raw = x rewrites rows"),
        ("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "columnMapping.mode = name is not set"),
        ("SET TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')", "is not set"),
        ("ALTER COLUMN `a` SET NOT NULL", "is not known"),
        ("ADD CONSTRAINT x CHECK (a > 0)", "is not known"),
        ("DROP COLUMN `a`, `b`", "is not known"),
    ],
)
def test_what_is_refused(statement: str, match: str) -> None:
    with pytest.raises(UnsupportedTable, match=match):
        altered(design(), [statement])


def test_columns_that_statistics_name_are_neither_dropped_nor_renamed() -> None:
    with_setting = design(MAPPED | {"delta.dataSkippingStatsColumns": "a"})
    with pytest.raises(UnsupportedTable, match="dataSkippingStatsColumns"):
        altered(with_setting, ["DROP COLUMN `a`"])


@pytest.mark.parametrize(
    "old, new, wider",
    [
        ("byte", "short", True),
        ("short", "byte", False),
        ("integer", "long", True),
        ("integer", "double", True),
        ("long", "double", False),
        ("float", "double", True),
        ("integer", "float", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("integer", "decimal(10,0)", True),
        ("integer", "decimal(10,1)", False),
        ("long", "decimal(20,0)", True),
        ("long", "decimal(19,0)", False),
        ("double", "decimal(38,0)", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "decimal(10,1)", False),
        ("string", "binary", False),
    ],
)
def test_wider_types(old: str, new: str, wider: bool) -> None:
    assert is_wider(old, new) is wider


@pytest.mark.parametrize(
    "statement, operation, parameters",
    [
        ("DROP COLUMN `b`", "DROP COLUMNS", {"columns": ["b"]}),
        ("RENAME COLUMN `b` TO `d`", "RENAME COLUMN", {"oldColumnPath": "b", "newColumnPath": "d"}),
        (WIDENING, "SET TBLPROPERTIES", {"properties": {"delta.enableTypeWidening": "true"}}),
        ("ADD COLUMN (`d` INT AFTER `b`)", "ADD COLUMNS", {"columns": [{"column": ADDED, "position": "AFTER b"}]}),
    ],
)
def test_what_the_history_says(statement: str, operation: str, parameters: dict[str, object]) -> None:
    after = altered(design(), [statement])
    texts = {key: value if key.endswith("Path") else json.loads(value) for key, value in after.parameters.items()}
    assert (after.operation, texts) == (operation, parameters)


def test_the_projects_steps_are_known() -> None:
    old = {"k": "BIGINT", "gone": "INT", "a": "INT", "b": "STRING", "m": "DECIMAL(10,2)"}
    new = {
        "b2": "STRING",
        "k": "BIGINT",
        "n `q`": "TIMESTAMP_NTZ",
        "a": "BIGINT",
        "m": "DECIMAL(12,2)",
        "o": "MAP<STRING, STRING>",
    }
    origins = {"b2": "b", "k": "k", "n `q`": None, "a": "a", "m": "m", "o": None}
    statements = [step for step in steps(old, new, origins, {}) if not step.startswith("UPDATE ")]
    assert len(statements) == 9
    assert altered(design(types=old), statements).schema.spark_types == new
    assert list(altered(design(types=old), statements).schema.names) == list(new)


def test_a_snapshot_is_changed_as_its_design() -> None:
    snapshot = new_table("/t", TYPES, MAPPED)
    after = apply(snapshot, [WIDENING, "ALTER COLUMN `a` TYPE BIGINT"])
    expected = altered(design_of(snapshot), [WIDENING, "ALTER COLUMN `a` TYPE BIGINT"])
    assert (after.metadata, after.protocol) == (expected.metadata, expected.protocol)
    assert (after.path, after.version, after.files) == ("/t", -1, ())


def committed(snapshot: Snapshot, statement: str) -> Snapshot:
    after = altered(design_of(snapshot), [statement])
    protocol = None if after.protocol == snapshot.protocol else after.protocol
    version = commits.commit(
        snapshot,
        metadata=after.metadata,
        protocol=protocol,
        operation=after.operation,
        operation_parameters=after.parameters,
    )
    return newest(snapshot.path, version)


def test_files_of_before_are_read_by_columns_of_after(tmp_path: Path) -> None:
    snapshot = append(
        new_table(str(tmp_path / "t"), {"key": "BIGINT", "i32": "INT", "text": "STRING"}, MAPPED), range(5)
    )
    before = data_files.read_columns(
        snapshot.path, snapshot.files[0], snapshot.schema.names, snapshot.schema
    ).to_pylist()
    for statement in (
        WIDENING,
        "ALTER COLUMN `i32` TYPE BIGINT",
        "RENAME COLUMN `text` TO `words`",
        "ADD COLUMN (`text` STRING FIRST)",
        "DROP COLUMN `words`",
    ):
        snapshot = committed(snapshot, statement)
    assert why_not(snapshot) is None
    (file,) = snapshot.files
    after = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
    assert after.to_pylist() == [{"text": None, "key": row["key"], "i32": row["i32"]} for row in before]
    assert file.bounds(snapshot.schema, "i32").nulls == [row["i32"] for row in before].count(None)
