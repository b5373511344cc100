import json
from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import parse_mapping_from_json

from spark_jobs.delta.schema import NESTED_IDS, TableSchema
from spark_jobs.delta.schema_changes import altered, design_of
from spark_jobs.delta.snapshot import Metadata, new_table
from spark_jobs.iceberg.schema import name_mapping, schema_of, why_not
from tests.spark_jobs.delta.tables import MAPPED, TYPES

WIDENING = MAPPED | {"delta.enableTypeWidening": "true"}


def metadata_of(types: dict[str, str], properties: dict[str, str] = WIDENING) -> Metadata:
    return new_table("/t", types, properties).metadata


def test_a_schema_is_one_to_pyiceberg() -> None:
    metadata = metadata_of(TYPES)
    assert why_not(metadata) is None
    schema = Schema.model_validate({**schema_of(metadata.schema), "schema-id": 0})
    ids = {column.name: column.id for column in metadata.schema.columns}
    assert {name: schema.find_field(name).field_id for name in TYPES} == ids
    types = {name: str(schema.find_field(name).field_type) for name in ("i8", "i16", "wide", "at", "local", "vector")}
    assert types == {
        "i8": "int",
        "i16": "int",
        "wide": "decimal(38, 10)",
        "at": "timestamptz",
        "local": "timestamp",
        "vector": "list<float>",
    }
    assert schema.highest_field_id == metadata.schema.max_column_id
    nested = metadata.schema.column("_raw").nested_ids
    assert schema.find_field("_raw.key").field_id == nested["key"]
    assert schema.find_field("_raw.value").field_id == nested["value"]


def test_physical_names_are_in_the_mapping() -> None:
    schema = metadata_of({"p": "STRUCT<x: INT>", "m": "MAP<STRING, ARRAY<INT>>"}).schema
    first, second = parse_mapping_from_json(json.dumps(name_mapping(schema))).root
    p, m = schema.columns
    x = next(column for column in schema.all_columns() if column.name == "x")
    assert (first.names, first.field_id) == ([p.physical_name], p.id)
    assert (first.fields[0].names, first.fields[0].field_id) == ([x.physical_name], x.id)
    assert second.fields[1].fields[0].names == ["element"]
    assert second.fields[1].fields[0].field_id == m.nested_ids["value.element"]


def test_comments_are_in_it() -> None:
    column = metadata_of({"a": "INT"}).schema.column("a")
    described = replace(column, metadata={**column.metadata, "comment": "it's"})
    assert schema_of(TableSchema((described,)))["fields"][0]["doc"] == "it's"


@pytest.mark.parametrize(
    "before, after, fits",
    [
        ("TINYINT", "INT", True),
        ("SMALLINT", "BIGINT", True),
        ("INT", "BIGINT", True),
        ("FLOAT", "DOUBLE", True),
        ("DECIMAL(5,2)", "DECIMAL(9,2)", True),
        ("DECIMAL(5,2)", "DECIMAL(9,3)", False),
        ("BIGINT", "DECIMAL(20,0)", False),
        ("INT", "DOUBLE", False),
        ("DATE", "TIMESTAMP_NTZ", False),
    ],
)
def test_types_are_widened_as_iceberg_s_readers_widen_them(before: str, after: str, fits: bool) -> None:
    design = altered(design_of(new_table("/t", {"a": before}, WIDENING)), [f"ALTER COLUMN a TYPE {after}"])
    problem = why_not(design.metadata)
    assert (problem is None) is fits, problem
    if problem:
        assert problem.startswith("column a was widened from ")


def test_what_cannot_be_shown_is_refused_by_name() -> None:
    assert why_not(metadata_of({"a": "INT"}, {})) == "it has no column mapping, and so its files have no field ids"
    metadata = metadata_of({"a": "INT", "m": "MAP<STRING, STRING>"})
    assert why_not(replace(metadata, partition_columns=("a",))) == "it has partitions"
    kind = replace(metadata.schema.column("a"), type="variant")
    assert why_not(metadata.with_schema(TableSchema((kind,)))) == "column a has the type variant, which Iceberg has not"
    column = metadata.schema.column("m")
    older = replace(column, metadata={key: value for key, value in column.metadata.items() if key != NESTED_IDS})
    assert "column m is from an earlier version, which wrote no field id for its key" in str(
        why_not(metadata.with_schema(TableSchema((older,))))
    )
