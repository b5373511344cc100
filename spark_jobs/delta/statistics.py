"""Statistics of data files, as Delta keeps them: a JSON text in each file's ``add`` action.

Put here: collecting them from rows, and reading bounds of a column. Not here: which files a query needs.

Names are physical. Strings are cut after 32 characters, the maximum with a greater character behind; times are cut to
milliseconds, so a maximum may be up to 999 microseconds later than its text.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta.schema import DeltaColumn, DeltaType, StructType, TableSchema, decimal_of

_PREFIX = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = {"byte", "short", "integer", "long"}
_FLOATS = {"float", "double"}
_ORDERED = {*_INTEGERS, *_FLOATS, "string", "date", "timestamp", "timestamp_ntz"}
_INDEXED_DEFAULT = 32


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column by a file's statistics: no value is outside of them. None where they do not say."""

    minimum: Any
    maximum: Any
    nulls: int | None


def indexed_columns(schema: TableSchema, configuration: Mapping[str, str]) -> TableSchema:
    """The part of a schema that Delta collects statistics of: the first 32 leaves, or those that the table names."""
    setting = configuration.get("delta.dataSkippingStatsColumns")
    if setting is not None:
        names = {name.strip().strip("`") for name in setting.split(",")}
        return TableSchema(tuple(column for column in schema.columns if column.name in names))
    count = int(configuration.get("delta.dataSkippingNumIndexedCols", _INDEXED_DEFAULT))
    return schema if count < 0 else TableSchema(_first_leaves(schema.columns, count)[0])


def collect(rows: pa.Table, schema: TableSchema, *, tight_bounds: bool) -> str:
    """The statistics of rows, by the columns of ``schema``, whose order and names need not be that of the rows.

    Args:
        rows: by physical names.
        schema: the columns that statistics are kept of.
        tight_bounds: whether the table may have deletion vectors, and statistics say that no row is deleted.
    """
    minimums, maximums, nulls = _collected([(column, rows.column(column.physical_name)) for column in schema.columns])
    values: dict[str, Any] = {
        "numRecords": rows.num_rows,
        "minValues": minimums,
        "maxValues": maximums,
        "nullCount": nulls,
    }
    if tight_bounds:
        values["tightBounds"] = True
    return _json(values)


def parse(text: str | None) -> dict[str, Any]:
    """Statistics as Python values, decimals exact; empty where there are none."""
    return dict(json.loads(text, parse_float=Decimal)) if text else {}


def loosened(text: str | None) -> str | None:
    """The statistics of a file that has got a deletion vector: bounds hold for rows that are deleted too."""
    values = parse(text)
    return _json(values | {"tightBounds": False}) if values else None


def bounds(values: Mapping[str, Any], column: DeltaColumn) -> Bounds:
    """The bounds of a top-level column by a file's parsed statistics."""
    name = column.physical_name
    nulls = values.get("nullCount", {}).get(name)
    minimum = _bound_value(values.get("minValues", {}).get(name), column.type)
    maximum = _bound_value(values.get("maxValues", {}).get(name), column.type)
    if isinstance(maximum, datetime):
        maximum += timedelta(microseconds=999)
    return Bounds(minimum, maximum, nulls if isinstance(nulls, int) else None)


def _first_leaves(columns: Collection[DeltaColumn], count: int) -> tuple[tuple[DeltaColumn, ...], int]:
    """First columns with so many leaves, within their structs, and how many these are."""
    first_columns: list[DeltaColumn] = []
    leaves = 0
    for column in columns:
        if leaves >= count:
            break
        if isinstance(column.type, StructType):
            fields, inner = _first_leaves(column.type.fields, count - leaves)
            first_columns.append(DeltaColumn(column.name, StructType(fields), column.nullable, column.metadata))
            leaves += inner
        else:
            first_columns.append(column)
            leaves += 1
    return tuple(first_columns), leaves


def _collected(
    cells: Collection[tuple[DeltaColumn, pa.ChunkedArray]],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(minimums, maximums, null counts) by physical name, nested as structs are. Arrays and maps have null counts."""
    minimums: dict[str, Any] = {}
    maximums: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for column, values in cells:
        name = column.physical_name
        # A struct is no value of its own: its fields have the statistics.
        if isinstance(column.type, StructType):
            fields = [(item, pc.struct_field(values, item.physical_name)) for item in column.type.fields]
            minimums[name], maximums[name], nulls[name] = _collected(fields)
            continue
        nulls[name] = values.null_count
        # The protocol defines no order for the other types.
        if not (column.type in _ORDERED or decimal_of(column.type)):
            continue
        minimum, maximum = _extremes(values, column.type)
        if minimum is not None:
            minimums[name] = minimum
        if maximum is not None:
            maximums[name] = maximum
    return minimums, maximums, nulls


def _extremes(values: pa.ChunkedArray, kind: DeltaType) -> tuple[Any, Any]:
    """Least and greatest value as they are written in JSON; None where there is none that can be written."""
    # Integers have an order in Arrow for every time zone.
    if values.null_count == len(values):
        return None, None
    match kind:
        case "timestamp" | "timestamp_ntz":
            values = values.cast(pa.int64())
        case "date":
            values = values.cast(pa.int32())
    # Text is cut to a prefix; a cut maximum is raised, so that it still is an upper bound.
    extremes = pc.min_max(values)
    minimum, maximum = extremes["min"].as_py(), extremes["max"].as_py()
    match kind:
        case "string":
            return minimum[:_PREFIX], _string_above(maximum)
        case "date":
            return _date_text(minimum), _date_text(maximum)
        case "timestamp" | "timestamp_ntz":
            zone = "Z" if kind == "timestamp" else ""
            return _time_text(minimum, zone), _time_text(maximum, zone)
        case "float" | "double":
            return _float_extremes(values, minimum, maximum)
        case _:
            return minimum, maximum


def _float_extremes(values: pa.ChunkedArray, minimum: float, maximum: float) -> tuple[Any, Any]:
    """Spark orders NaN after all numbers, and Arrow leaves it out."""
    nan = pc.is_nan(values)
    if pc.any(nan).as_py():
        only = pc.all(nan, skip_nulls=True).as_py()
        return "NaN" if only else _float_json(minimum), "NaN"
    return _float_json(minimum), _float_json(maximum)


def _float_json(value: float) -> Any:
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _string_above(text: str) -> str | None:
    """The text, or a short one that is greater; None where there is no greater character."""
    rest = text[_PREFIX : _PREFIX + 1]
    if not rest:
        return text
    if rest < "\x7f":
        return text[:_PREFIX] + "\x7f"
    return text[:_PREFIX] + "\U0010ffff" if rest < "\U0010ffff" else None


def _date_text(days: int) -> str | None:
    try:
        return date.fromordinal(_EPOCH.toordinal() + days).isoformat()
    except (ValueError, OverflowError):  # outside of the years 1 to 9999
        return None


def _time_text(micros: int, zone: str) -> str | None:
    try:
        value = _EPOCH + timedelta(milliseconds=micros // 1000)
    except OverflowError:  # outside of the years 1 to 9999
        return None
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


def _bound_value(value: Any, kind: DeltaType) -> Any:
    """A bound in Python; None where it is missing, or of a type that the column had before."""
    try:
        parser = _PARSERS.get(kind) if isinstance(kind, str) else None
        return parser(value) if parser else _decimal(value)
    except (TypeError, ValueError):
        return None


def _decimal(value: Any) -> Decimal | None:
    return Decimal(value) if _is(value, int, Decimal) else None


def _float(value: Any) -> float | None:
    return float(value) if _is(value, int, Decimal) else None


def _integer(value: Any) -> int | None:
    return value if _is(value, int) else None


def _string(value: Any) -> str | None:
    return value if _is(value, str) else None


def _is(value: Any, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(_FLOATS, _float),
    "string": _string,
    "date": date.fromisoformat,
    "timestamp": lambda value: datetime.fromisoformat(value).astimezone(UTC),
    "timestamp_ntz": lambda value: datetime.fromisoformat(value).replace(tzinfo=None),
}
"""Parsers by type; those that are not here are decimals, or have no bounds."""


def _json(value: Any) -> str:
    """JSON with decimals as numbers of all their digits."""
    match value:
        case dict():
            return (
                "{"
                + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_json(item)}" for key, item in value.items())
                + "}"
            )
        case Decimal():
            return format(value, "f")
        case _:
            return json.dumps(value, ensure_ascii=False)
