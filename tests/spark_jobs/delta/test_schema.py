import json
import re
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_jobs.delta.schema import (
    NESTED_IDS,
    PHYSICAL_NAME,
    ArrayType,
    DeltaColumn,
    MapType,
    StructType,
    TableSchema,
    assign_ids,
    column_of,
    from_spark_types,
)
from spark_jobs.errors import LakeError

DDL = [
    ("BOOLEAN", "boolean", pa.bool_()),
    ("TINYINT", "byte", pa.int8()),
    ("SMALLINT", "short", pa.int16()),
    ("INT", "integer", pa.int32()),
    ("BIGINT", "long", pa.int64()),
    ("FLOAT", "float", pa.float32()),
    ("DOUBLE", "double", pa.float64()),
    ("DECIMAL(12,2)", "decimal(12,2)", pa.decimal128(12, 2)),
    ("DECIMAL(38,10)", "decimal(38,10)", pa.decimal128(38, 10)),
    ("STRING", "string", pa.string()),
    ("BINARY", "binary", pa.binary()),
    ("DATE", "date", pa.date32()),
    ("TIMESTAMP", "timestamp", pa.timestamp("us", "UTC")),
    ("TIMESTAMP_NTZ", "timestamp_ntz", pa.timestamp("us")),
    ("ARRAY<FLOAT>", ArrayType("float"), pa.list_(pa.field("element", pa.float32()))),
    ("MAP<STRING, STRING>", MapType("string", "string"), pa.map_(pa.string(), pa.string())),
    (
        "STRUCT<srid: INT, wkb: BINARY>",
        StructType((DeltaColumn("srid", "integer"), DeltaColumn("wkb", "binary"))),
        pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]),
    ),
    (
        "ARRAY<STRUCT<schema: STRING, table: STRING>>",
        ArrayType(StructType((DeltaColumn("schema", "string"), DeltaColumn("table", "string")))),
        pa.list_(pa.field("element", pa.struct([("schema", pa.string()), ("table", pa.string())]))),
    ),
]


@pytest.mark.parametrize("ddl, kind, arrow", DDL)
def test_a_ddl_type_becomes_deltas_and_arrows_and_comes_back(ddl: str, kind: object, arrow: pa.DataType) -> None:
    column = column_of("c", ddl)
    assert column.type == kind
    assert column.ddl == ddl
    assert column.arrow(physical=False).type == arrow


@pytest.mark.parametrize(
    "ddl, same_as",
    [("decimal( 12 , 2 )", "DECIMAL(12,2)"), ("STRUCT<`a b``c` INT>", "STRUCT<a b`c: INT>"), ("bigint", "BIGINT")],
)
def test_other_spellings(ddl: str, same_as: str) -> None:
    assert column_of("c", ddl).ddl == same_as


@pytest.mark.parametrize("ddl, text_type", [("VARCHAR(20)", "varchar(20)"), ("CHAR(3)", "char(3)")])
def test_texts_of_a_length_are_strings_with_metadata(ddl: str, text_type: str) -> None:
    column = column_of("c", ddl)
    assert (column.type, dict(column.metadata)) == ("string", {"__CHAR_VARCHAR_TYPE_STRING": text_type})


@pytest.mark.parametrize(
    "ddl", ["", "INTERVAL DAY", "STRUCT<a: INT", "ARRAY<INT>>", "MAP<INT>", "DECIMAL(x)", "VARIANT"]
)
def test_what_is_no_type_is_refused(ddl: str) -> None:
    with pytest.raises(LakeError, match="not a type"):
        column_of("c", ddl)


def test_a_type_of_the_log_that_is_unknown_is_refused_when_it_is_used() -> None:
    schema = TableSchema((DeltaColumn("v", "variant"),))
    assert TableSchema.from_json(schema.to_json()) == schema
    with pytest.raises(LakeError, match="variant"):
        schema.arrow(physical=False)


def test_ids_are_given_to_parents_before_their_fields() -> None:
    schema = from_spark_types(
        {"a": "INT", "s": "STRUCT<x: INT, y: INT>", "m": "MAP<STRING, STRING>", "l": "ARRAY<STRUCT<z: INT>>"}, True
    )
    assert [(column.name, column.id) for column in schema.all_columns()] == [
        ("a", 1),
        ("s", 2),
        ("x", 3),
        ("y", 4),
        ("m", 5),
        ("l", 8),
        ("z", 10),
    ]
    assert schema.max_column_id == 10
    physical = schema.arrow(physical=True)
    assert physical.field(1).metadata == {b"PARQUET:field_id": b"2"}
    assert physical.field(1).type.field(1).metadata == {b"PARQUET:field_id": b"4"}
    assert {name.partition("-")[0] for name in physical.names} == {"col"}
    assert schema.arrow(physical=False).names == ["a", "s", "m", "l"]


def test_what_maps_and_lists_hold_has_ids_in_files_too() -> None:
    schema = from_spark_types({"m": "MAP<STRING, ARRAY<INT>>", "l": "ARRAY<STRUCT<z: INT>>"}, True)
    assert schema.column("m").nested_ids == {"key": 2, "value": 3, "value.element": 4}
    assert set(schema.column("m").metadata[NESTED_IDS]) == {
        f"{schema.column('m').physical_name}.{path}" for path in ("key", "value", "value.element")
    }
    # by another physical name, as where a file of one table is written for another
    renamed = replace(schema.column("m"), metadata={**schema.column("m").metadata, PHYSICAL_NAME: "x.y"})
    for column in (schema.column("m"), renamed):
        kind = column.arrow(physical=True).type
        assert kind.key_field.metadata == {b"PARQUET:field_id": b"2"}
        assert kind.item_field.metadata == {b"PARQUET:field_id": b"3"}
        assert kind.item_field.type.value_field.metadata == {b"PARQUET:field_id": b"4"}
    assert schema.column("m").arrow(physical=False).type.key_field.metadata is None
    assert schema.column("l").arrow(physical=True).type.value_field.metadata == {b"PARQUET:field_id": b"6"}


def test_a_column_that_has_an_id_gets_none_for_what_it_holds() -> None:
    before = from_spark_types({"m": "MAP<STRING, STRING>"}, True).column("m")
    older = replace(before, metadata={key: value for key, value in before.metadata.items() if key != NESTED_IDS})
    schema, last_id = assign_ids(TableSchema((older, DeltaColumn("b", "integer"))), 1)
    assert (schema.column("m").nested_ids, schema.column("b").id, last_id) == ({}, 2, 2)


def test_ids_that_are_there_stay() -> None:
    schema = from_spark_types({"a": "INT", "b": "INT"}, True)
    extended, last_id = assign_ids(TableSchema((*schema.columns, DeltaColumn("c", "integer"))), schema.max_column_id)
    assert extended.columns[:2] == schema.columns
    assert (extended.column("c").id, last_id) == (3, 3)


def test_without_column_mapping_names_are_physical() -> None:
    schema = from_spark_types({"a": "STRUCT<b: INT>"}, False)
    assert schema.arrow(physical=True) == schema.arrow(physical=False)
    assert [column.metadata for column in schema.all_columns()] == [{}, {}]


def test_what_others_keep_at_a_column_stays() -> None:
    text = (
        '{"type":"struct","fields":[{"name":"ü","type":"string","nullable":false,'
        '"metadata":{"comment":"a \\"comment\\"","__CHAR_VARCHAR_TYPE_STRING":"varchar(20)","x":{"y":[1]}}}]}'
    )
    assert json.loads(TableSchema.from_json(text).to_json()) == json.loads(text)


@pytest.mark.parametrize("text", ["", "{}", '{"fields":[{"name":"a"}]}', '{"fields":[{"name":"a","type":{}}]}'])
def test_a_schema_that_cannot_be_read(text: str) -> None:
    with pytest.raises(LakeError, match="cannot be read"):
        TableSchema.from_json(text)


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(LakeError, match=r"no column 'b'; its columns are a"):
        from_spark_types({"a": "INT"}, False).column("b")


@pytest.mark.parametrize("kind", ["decimal(39,2)", "decimal(0,0)", "decimal(3,4)"])
def test_a_decimal_that_no_table_has_is_refused(kind: str) -> None:
    column = {"name": "a", "type": kind, "nullable": True, "metadata": {}}
    schema = TableSchema.from_json(json.dumps({"type": "struct", "fields": [column]}))
    with pytest.raises(LakeError, match=re.escape(f"a column of type {kind}, which this version does not")):
        schema.arrow(physical=False)
