from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from spark_jobs.delta.schema import from_spark_types
from spark_jobs.delta.statistics import parse
from spark_jobs.iceberg.avro_files import Metrics
from spark_jobs.iceberg.bounds import metrics, to_bytes
from spark_jobs.iceberg.schema import Leaf, leaves, name_mapping, schema_of

TIME = datetime(1582, 10, 4, 23, 59, 59, 123456)  # noqa: DTZ001 - of a column without a zone


@pytest.mark.parametrize(
    "kind, value",
    [
        ("int", -1),
        ("long", 1 << 40),
        ("float", 0.5),
        ("double", -1e300),
        ("string", "ü\U0010ffff"),
        ("date", date(1, 1, 1)),
        ("timestamp", TIME),
        ("timestamptz", TIME.replace(tzinfo=UTC)),
        ("decimal(12, 2)", Decimal("-0.01")),
        ("decimal(12, 2)", Decimal("1.28")),
        ("decimal(38, 0)", Decimal("9" * 38)),
        ("decimal(38, 4)", Decimal("1234567890123456789012345678901234.5678")),
        ("decimal(38, 4)", Decimal("-1234567890123456789012345678901234.5612")),
        ("decimal(38, 9)", Decimal("12345678901234567890123456789.55")),
    ],
)
def test_a_value_s_bytes_are_read_by_pyiceberg(kind: str, value: Any) -> None:
    field = {"id": 1, "name": "c", "required": False, "type": kind}
    of_type = Schema.model_validate({"type": "struct", "fields": [field], "schema-id": 0}).find_type(1)
    assert isinstance(of_type, PrimitiveType)
    result = from_bytes(of_type, to_bytes(value, kind, is_lower=True))
    match kind:
        case "date":
            assert result == value.toordinal() - date(1970, 1, 1).toordinal()
        case "timestamp" | "timestamptz":
            since = value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            assert result == (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case _:
            assert result == value


def test_a_zero_has_the_sign_that_leaves_out_neither() -> None:
    assert to_bytes(0.0, "double", is_lower=True) == bytes(7) + b"\x80"
    assert to_bytes(-0.0, "double", is_lower=False) == bytes(8)


def test_metrics_come_of_statistics_by_physical_names() -> None:
    columns = {"a": "INT", "s": "STRUCT<x: STRING, y: BINARY>", "m": "MAP<STRING, INT>", "n": "DOUBLE", "z": "DATE"}
    schema = from_spark_types(columns, column_mapping=False)
    fields, mapping = _numbered(schema_of_ids(schema)), name_mapping(schema_of_ids(schema))
    stats = parse(
        '{"numRecords": 5, "minValues": {"a": -3, "s": {"x": "a"}, "n": 1.5}, "maxValues": {"a": 7, "s": {"x": "b"}, '
        '"n": "NaN"}, "nullCount": {"a": 1, "s": {"x": 2, "y": 5}, "m": 0, "n": 0}, "tightBounds": false}'
    )
    table_columns = list(leaves(fields, mapping))
    assert [(leaf.id, leaf.type, leaf.path) for leaf in table_columns][:2] == [
        (1, "int", ("a",)),
        (3, "string", ("s", "x")),
    ]
    ids = {leaf.path[-1]: leaf.id for leaf in table_columns}
    result = metrics(stats, table_columns)
    assert result.null_value_counts == {ids["a"]: 1, ids["x"]: 2, ids["y"]: 5, ids["n"]: 0}
    assert result.value_counts == dict.fromkeys(result.null_value_counts or (), 5)
    assert set(result.lower_bounds or ()) == {ids["a"], ids["x"], ids["n"]}
    assert result.upper_bounds == {ids["a"]: b"\x07\x00\x00\x00", ids["x"]: b"b"}


def schema_of_ids(schema: Any) -> Any:
    """The schema with ids, and with physical names that are the logical ones."""
    from spark_jobs.delta.schema import PHYSICAL_NAME, assign_ids

    def named(value: Any) -> Any:
        for field in value:
            field["metadata"][PHYSICAL_NAME] = field["name"]
            if isinstance(field["type"], dict):
                named(field["type"].get("fields", []))
        return value

    import json

    fields = json.loads(schema.to_json())["fields"]
    text = json.dumps({"type": "struct", "fields": named(fields)})
    return assign_ids(type(schema).from_json(text), 0)[0]


def _numbered(schema: Any) -> Any:
    return schema_of(schema)["fields"]


def test_of_a_file_without_statistics_nothing_is_known() -> None:
    assert metrics({}, [Leaf(1, "int", ("a",))]) == Metrics()
