"""Iceberg schema of a Delta table: field ids are the ids of Delta's column mapping.

Put here: types, names in files, and which schemas Iceberg cannot show. Not here: metadata of tables
(metadata_files.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.delta.schema import (
    TYPE_CHANGES,
    ArrayType,
    DeltaColumn,
    DeltaType,
    MapType,
    StructType,
    TableSchema,
    decimal_of,
)
from spark_jobs.delta.snapshot import Metadata

NAME_MAPPING = "schema.name-mapping.default"
"""The table's property with physical names by field id."""
_TYPES = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_PROMOTED = {("int", "long"), ("float", "double")}
"""Types of Iceberg that a reader reads as another, besides decimals of more digits. Dates as times are in the
specification too, and no engine that was tried reads them."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field of a struct, that a data file may have bounds of."""

    id: int
    type: str
    """Iceberg's."""
    path: tuple[str, ...]
    """Physical names, from the outermost column."""


def why_not(metadata: Metadata) -> str | None:
    """Reason why a table of this metadata cannot be shown; None where it can."""
    if not metadata.column_mapping:
        return "it has no column mapping, and so its files have no field ids"
    if metadata.partition_columns:
        return "it has partitions"
    return next(filter(None, map(_why_not_column, metadata.schema.all_columns())), None)


def _why_not_column(column: DeltaColumn) -> str | None:
    for path in _lacking(column):
        return (
            f"column {column.name} is from an earlier version, which wrote no field id for its {path}; "
            "rebuild the table (stratalog reset)"
        )
    # Types that Iceberg lacks, and changes of types that its readers do not follow.
    for kind in _primitives(column.type):
        if kind not in _TYPES and decimal_of(kind) is None:
            return f"column {column.name} has the type {kind}, which Iceberg has not"
    for change in column.metadata.get(TYPE_CHANGES, ()):
        before, after = change["fromType"], change["toType"]
        if not _is_promotion(before, after):
            return (
                f"column {column.name} was widened from {before} to {after}, and Iceberg's readers do not read one as "
                "the other; rebuild the table (stratalog reset)"
            )
    return None


def _lacking(column: DeltaColumn) -> Iterator[str]:
    """Paths in the column's arrays and maps that have no id."""

    def paths(kind: DeltaType, before: str) -> Iterator[str]:
        match kind:
            case ArrayType(element):
                yield f"{before}element"
                yield from paths(element, f"{before}element.")
            case MapType(key, value):
                yield f"{before}key"
                yield f"{before}value"
                yield from paths(key, f"{before}key.")
                yield from paths(value, f"{before}value.")
            case _:
                pass

    return (path for path in paths(column.type, "") if path not in column.nested_ids)


def _primitives(kind: DeltaType) -> Iterator[str]:
    """Primitive types in a type, those in structs left out, whose fields are columns of their own."""
    match kind:
        case ArrayType(element):
            yield from _primitives(element)
        case MapType(key, value):
            yield from _primitives(key)
            yield from _primitives(value)
        case str():
            yield kind
        case _:
            pass


def _is_promotion(before: str, after: str) -> bool:
    decimals = decimal_of(before), decimal_of(after)
    if decimals[0] and decimals[1]:
        return decimals[0][1] == decimals[1][1] and decimals[0][0] <= decimals[1][0]
    names = _TYPES.get(before), _TYPES.get(after)
    return None not in names and (names[0] == names[1] or names in _PROMOTED)


def schema_of(schema: TableSchema) -> dict[str, Any]:
    """The struct of a table's columns, as Iceberg's metadata has it, without the number of the schema.

    Raises KeyError for what ``why_not`` refuses.
    """
    return {"type": "struct", "fields": [_schema_field(column) for column in schema.columns]}


def _schema_field(column: DeltaColumn) -> dict[str, Any]:
    field = {
        "id": column.id,
        "name": column.name,
        "required": not column.nullable,
        "type": _type(column.type, column.nested_ids),
    }
    comment = column.metadata.get("comment")
    return field | {"doc": comment} if comment else field


def _type(kind: DeltaType, ids: Mapping[str, int], path: str = "") -> Any:
    match kind:
        case StructType(fields):
            return {"type": "struct", "fields": [_schema_field(item) for item in fields]}
        case ArrayType(element, contains_null):
            at = f"{path}element"
            return {
                "type": "list",
                "element-id": ids[at],
                "element-required": not contains_null,
                "element": _type(element, ids, f"{at}."),
            }
        case MapType(key, value, contains_null):
            return {
                "type": "map",
                "key-id": ids[f"{path}key"],
                "key": _type(key, ids, f"{path}key."),
                "value-id": ids[f"{path}value"],
                "value-required": not contains_null,
                "value": _type(value, ids, f"{path}value."),
            }
        case _:
            decimal = decimal_of(kind)
            return f"decimal({decimal[0]}, {decimal[1]})" if decimal else _TYPES[str(kind)]


def name_mapping(schema: TableSchema) -> list[dict[str, Any]]:
    """Physical names by field id, for readers that do not go by the ids in files."""
    return [_named(column) for column in schema.columns]


def _named(column: DeltaColumn) -> dict[str, Any]:
    return _mapping(column.id, column.physical_name, column.type, column.nested_ids)


def _mapping(number: int | None, name: str, kind: DeltaType, ids: Mapping[str, int], path: str = "") -> dict[str, Any]:
    entry: dict[str, Any] = {"field-id": number, "names": [name]}
    match kind:
        case StructType(fields):
            return entry | {"fields": [_named(item) for item in fields]}
        case ArrayType(element):
            parts = {"element": element}
        case MapType(key, value):
            parts = {"key": key, "value": value}
        case _:
            return entry
    inner = [_mapping(ids[f"{path}{part}"], part, of, ids, f"{path}{part}.") for part, of in parts.items()]
    return entry | {"fields": inner}


def leaves(fields: Sequence[Mapping[str, Any]], mapping: Sequence[Mapping[str, Any]]) -> Iterator[Leaf]:
    """The primitive columns and fields of structs, by a schema's fields and its mapping of names."""
    named = {entry["field-id"]: entry for entry in mapping}
    for field in fields:
        entry = named[field["id"]]
        if isinstance(field["type"], str):
            yield Leaf(field["id"], field["type"], (entry["names"][0],))
        elif field["type"]["type"] == "struct":
            for leaf in leaves(field["type"]["fields"], entry["fields"]):
                yield Leaf(leaf.id, leaf.type, (entry["names"][0], *leaf.path))
