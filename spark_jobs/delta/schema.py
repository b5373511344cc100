"""A Delta table's schema: logical and physical names, column-mapping ids, types.

Put here: ``schemaString`` to and from Python, Arrow and Spark's DDL. Not here: schema changes (schema_changes.py).

With column mapping a column has a physical name, which is its name in Parquet files and in statistics, and an id, which
is its field id in Parquet. What an array or a map of it holds has an id too, as Delta's PROTOCOL.md has it for readers
by ids ("Iceberg Compatibility V2"): ``name.element``, ``name.key``, ``name.value``, with the physical name before.
Without column mapping the physical name is the logical one.
"""

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from spark_jobs.delta.damage import decoding
from spark_jobs.errors import LakeError

ID = "delta.columnMapping.id"
NESTED_IDS = "delta.columnMapping.nested.ids"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
TYPE_CHANGES = "delta.typeChanges"
_TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's column metadata with a CHAR's or VARCHAR's type; Delta stores a string."""

_DDL = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "BYTE": "byte",
    "SMALLINT": "short",
    "SHORT": "short",
    "INT": "integer",
    "INTEGER": "integer",
    "BIGINT": "long",
    "LONG": "long",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
_DDL_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
_ARROW = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DIGITS = 38
"""Most digits of a decimal (Delta's PROTOCOL.md, "Primitive Types")."""
_DECIMAL = re.compile(r"decimal\((\d+), *(-?\d+)\)")

DeltaType: TypeAlias = "str | StructType | ArrayType | MapType"
"""A primitive type by Delta's name (``integer``, ``decimal(12,2)``), or a nested type."""


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """A column of a table, or a field of a struct."""

    name: str
    type: DeltaType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Column mapping, comments, type changes, and whatever else writers keep there."""

    @property
    def physical_name(self) -> str:
        return str(self.metadata.get(PHYSICAL_NAME, self.name))

    @property
    def id(self) -> int | None:
        """The column-mapping id."""
        value = self.metadata.get(ID)
        return None if value is None else int(value)

    @property
    def ddl(self) -> str:
        """The type in Spark's DDL, upper case: ``DECIMAL(12,2)``, ``MAP<STRING, STRING>``."""
        return _ddl_of(self.type)

    @property
    def nested_ids(self) -> Mapping[str, int]:
        """Ids of what arrays and maps hold, by place: ``element``, ``value``, ``value.element``.

        None where an earlier version made the column.
        """
        ids: Mapping[str, int] = self.metadata.get(NESTED_IDS, {})
        name = min(ids, key=len, default="").rpartition(".")[0]
        return {path.removeprefix(f"{name}."): int(number) for path, number in ids.items()}

    def arrow(self, physical: bool) -> pa.Field:
        name = self.physical_name if physical else self.name
        kind = _arrow_of(self.type, physical, self.nested_ids if physical else {})
        return pa.field(name, kind, self.nullable, _field_id(self.id, physical))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": _json_of(self.type),
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DeltaColumn":
        return cls(value["name"], _type_of(value["type"]), value.get("nullable", True), dict(value.get("metadata", {})))


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct; the table itself is one."""

    fields: tuple[DeltaColumn, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array."""

    element: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """A map."""

    key: DeltaType
    value: DeltaType
    value_contains_null: bool = True


@dataclass(frozen=True)
class TableSchema:
    """A table's columns, in order."""

    columns: tuple[DeltaColumn, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def column(self, name: str) -> DeltaColumn:
        """The column with this logical name. Raises LakeError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise LakeError(f"the table has no column {name!r}; its columns are {', '.join(self.names)}")

    @property
    def spark_types(self) -> dict[str, str]:
        """Spark's DDL type of each column by name, as ``lake.table.Table.columns`` returns them."""
        return {column.name: column.ddl for column in self.columns}

    @property
    def max_column_id(self) -> int:
        """The largest column-mapping id, 0 without column mapping."""
        ids = (number for column in self.all_columns() for number in (column.id or 0, *column.nested_ids.values()))
        return max(ids, default=0)

    def all_columns(self) -> Iterator[DeltaColumn]:
        """The columns and all nested fields, parents first."""
        for column in self.columns:
            yield from _nested(column)

    def arrow(self, physical: bool) -> pa.Schema:
        """The schema in Arrow, by logical names, or by physical ones with Parquet's field ids."""
        return pa.schema([column.arrow(physical) for column in self.columns])

    def to_json(self) -> str:
        """``schemaString``."""
        fields = [column.to_json() for column in self.columns]
        return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    @lru_cache(maxsize=64)
    def from_json(cls, text: str) -> "TableSchema":
        """The schema that Delta's JSON says. Raises LakeError if it is damaged or names an unknown type."""
        with decoding("the schema in the table's log"):
            return cls(tuple(DeltaColumn.from_json(item) for item in json.loads(text)["fields"]))


def from_spark_types(types: Mapping[str, str], column_mapping: bool) -> TableSchema:
    """The schema of a new table, from Spark's DDL types by name. Raises LakeError."""
    schema = TableSchema(tuple(column_of(name, ddl) for name, ddl in types.items()))
    return assign_ids(schema, 0)[0] if column_mapping else schema


def column_of(name: str, ddl: str) -> DeltaColumn:
    """A column without column mapping from its name and DDL type. Raises LakeError."""
    parser = _DdlParser(ddl)
    kind = parser.type()
    parser.end()
    text = re.fullmatch(r"\s*(VAR)?CHAR\s*\(\s*(\d+)\s*\)\s*", ddl, re.IGNORECASE)
    metadata = {_TEXT_TYPE: f"{'varchar' if text[1] else 'char'}({text[2]})"} if text else {}
    return DeltaColumn(name, kind, True, metadata)


def assign_ids(schema: TableSchema, last_id: int) -> tuple[TableSchema, int]:
    """The schema with an id and a physical name for each column without one, and the largest id in use."""

    # Ids count up over the whole table, nested fields included. What has one keeps it: data files refer to it.
    def mapped(column: DeltaColumn) -> DeltaColumn:
        nonlocal last_id
        metadata = dict(column.metadata)
        if ID not in metadata:
            last_id += 1
            metadata[ID] = last_id
            metadata.setdefault(PHYSICAL_NAME, f"col-{uuid.uuid4()}")
            ids = {path: last_id + at for at, path in enumerate(_nested_paths(column.type, metadata[PHYSICAL_NAME]), 1)}
            if ids:
                metadata[NESTED_IDS] = ids
                last_id += len(ids)
        return replace(column, metadata=metadata, type=nested(column.type))

    def nested(kind: DeltaType) -> DeltaType:
        match kind:
            case StructType(fields):
                return StructType(tuple(mapped(item) for item in fields))
            case ArrayType(element, contains_null):
                return ArrayType(nested(element), contains_null)
            case MapType(key, value, contains_null):
                return MapType(nested(key), nested(value), contains_null)
            case _:
                return kind

    return TableSchema(tuple(mapped(column) for column in schema.columns)), last_id


def arrow_type(kind: DeltaType, physical: bool) -> pa.DataType:
    """The Arrow type of a Delta type. Raises LakeError."""
    return _arrow_of(kind, physical, {})


def decimal_of(kind: object) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for other types, and for one that no table has."""
    match = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    precision, scale = map(int, match.groups()) if match else (0, 0)
    return (precision, scale) if 1 <= precision <= _DIGITS and scale <= precision else None


def _nested(column: DeltaColumn) -> Iterator[DeltaColumn]:
    yield column
    yield from _fields(column.type)


def _fields(kind: DeltaType) -> Iterator[DeltaColumn]:
    match kind:
        case StructType(fields):
            for item in fields:
                yield from _nested(item)
        case ArrayType(element):
            yield from _fields(element)
        case MapType(key, value):
            yield from _fields(key)
            yield from _fields(value)
        case _:
            pass


def _nested_paths(kind: DeltaType, name: str) -> Iterator[str]:
    """Paths within a type's arrays and maps; not within structs, whose fields are columns of their own."""
    match kind:
        case ArrayType(element):
            parts = {"element": element}
        case MapType(key, value):
            parts = {"key": key, "value": value}
        case _:
            return
    for part, inner in parts.items():
        yield f"{name}.{part}"
        yield from _nested_paths(inner, f"{name}.{part}")


def _field_id(number: int | None, physical: bool) -> dict[str, str] | None:
    return {"PARQUET:field_id": str(number)} if physical and number is not None else None


def _arrow_of(kind: DeltaType, physical: bool, ids: Mapping[str, int], path: str = "") -> pa.DataType:
    """The Arrow type of a Delta type; nested fields by physical or logical names. Raises LakeError for other types.

    ids: those of what arrays and maps hold, by position, which for the type itself is ``path`` and a dot.
    """

    def part(name: str, inner: DeltaType, nullable: bool) -> pa.Field:
        at = f"{path}{name}"
        commit_kind = _arrow_of(inner, physical, ids, f"{at}.")
        return pa.field(name, commit_kind, nullable, _field_id(ids.get(at), physical))

    match kind:
        case StructType(fields):
            return pa.struct([item.arrow(physical) for item in fields])
        case ArrayType(element, contains_null):
            return pa.list_(part("element", element, contains_null))
        case MapType(key, value, contains_null):
            return pa.map_(part("key", key, False), part("value", value, contains_null))
        case str() if kind in _ARROW:
            return _ARROW[kind]
        case _:
            decimal = decimal_of(kind)
            if decimal is None:
                raise LakeError(f"the table has a column of type {kind}, which this version does not read or write")
            return pa.decimal128(*decimal)


def _json_of(kind: DeltaType) -> Any:
    match kind:
        case StructType(fields):
            return {"type": "struct", "fields": [item.to_json() for item in fields]}
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _json_of(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            return {
                "type": "map",
                "keyType": _json_of(key),
                "valueType": _json_of(value),
                "valueContainsNull": contains_null,
            }
        case _:
            return kind


def _type_of(value: Any) -> DeltaType:
    if isinstance(value, str):
        return value
    match value["type"]:
        case "struct":
            return StructType(tuple(DeltaColumn.from_json(item) for item in value["fields"]))
        case "array":
            return ArrayType(_type_of(value["elementType"]), value["containsNull"])
        case "map":
            return MapType(_type_of(value["keyType"]), _type_of(value["valueType"]), value["valueContainsNull"])
        case unknown:
            raise LakeError(f"the table has a column of type {unknown}, which this version does not read or write")


def _ddl_of(kind: DeltaType) -> str:
    match kind:
        case StructType(fields):
            return "STRUCT<" + ", ".join(f"{item.name}: {item.ddl}" for item in fields) + ">"
        case ArrayType(element):
            return f"ARRAY<{_ddl_of(element)}>"
        case MapType(key, value):
            return f"MAP<{_ddl_of(key)}, {_ddl_of(value)}>"
        case _:
            return _DDL_NAMES.get(kind, kind).upper().replace(" ", "")


class _DdlParser:
    """A parser of one type in Spark's DDL."""

    _TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|([A-Za-z_][\w]*)|(\d+)|([<>(),:]))")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> DeltaType:
        """The type that the next words declare. Raises LakeError where they declare none."""
        word = self._next().upper()
        match word:
            case "STRUCT":
                return StructType(tuple(self._list(self._field)))
            case "ARRAY":
                self._require("<")
                element = self.type()
                self._require(">")
                return ArrayType(element)
            case "MAP":
                self._require("<")
                key = self.type()
                self._require(",")
                value = self.type()
                self._require(">")
                return MapType(key, value)
            # Spark's defaults: DECIMAL is DECIMAL(10,0), and the length of a CHAR is not part of Delta's type.
            case "DECIMAL" | "DEC" | "NUMERIC":
                precision, scale = self._numbers() if self._peek() == "(" else (10, 0)
                return f"decimal({precision},{scale})"
            case "CHAR" | "VARCHAR":
                self._numbers()
                return "string"
            case _ if word in _DDL:
                return _DDL[word]
            case _:
                raise self._error()

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._error()

    def _field(self) -> DeltaColumn:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if self._peek() == ":":
            self._next()
        return DeltaColumn(name, self.type())

    def _list(self, item: Any) -> Iterator[Any]:
        self._require("<")
        while self._peek() != ">":
            yield item()
            if self._peek() == ",":
                self._next()
        self._require(">")

    def _numbers(self) -> tuple[int, int]:
        self._require("(")
        first, second = self._next_column_id(), 0
        if self._peek() == ",":
            self._next()
            second = self._next_column_id()
        self._require(")")
        return first, second

    def _next_column_id(self) -> int:
        token = self._next()
        if not token.isdecimal():
            raise self._error()
        return int(token)

    def _require(self, token: str) -> None:
        if self._next() != token:
            raise self._error()

    def _peek(self) -> str:
        match = self._TOKEN.match(self._text, self._at)
        return match[0].strip() if match else ""

    def _next(self) -> str:
        match = self._TOKEN.match(self._text, self._at)
        if not match:
            raise self._error()
        self._at = match.end()
        return match[0].strip()

    def _error(self) -> LakeError:
        return LakeError(f"{self._text!r} is not a type that this version writes")
