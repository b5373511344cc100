"""ALTER TABLE as new metadata and a new protocol for a commit.

Put here: what Delta does to a table's columns and properties, in the words that silver/schema_evolution.py writes.
Not here: which statements lead from some columns to others.

Everything is done to values: a table's rows stay as they are. A statement that rewrites rows is refused.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.schema import (
    TYPE_CHANGES,
    DeltaColumn,
    TableSchema,
    assign_ids,
    column_of,
    decimal_of,
    from_spark_types,
)
from spark_jobs.delta.snapshot import (
    CHANGE_DATA_FEED,
    MAX_COLUMN_ID,
    READER_FEATURES,
    TYPE_WIDENING,
    Metadata,
    Protocol,
    Snapshot,
    defined,
    with_features,
)
from spark_jobs.errors import LakeError

FIRST = ""
"""Value in place of a column's name: before all columns."""

_NAME = r"(`(?:[^`]|``)+`|[A-Za-z_]\w*)"
_POSITION_CLAUSE = rf"(?: (FIRST)| AFTER {_NAME})"
_TEXT = r"'((?:[^'\\]|\\.)*)'"
_PROPERTY = re.compile(rf"{_TEXT} = {_TEXT}(?:, )?")
_FEATURE = "delta.feature."
_STATS_COLUMNS = "delta.dataSkippingStatsColumns"
_WIDER_INTEGERS = {
    "byte": {"short", "integer", "long", "double"},
    "short": {"integer", "long", "double"},
    "integer": {"long", "double"},
    "long": set[str](),
}
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits that a decimal has before the point at least, for each integer to be widened to it."""
_WIDER = {"float": {"double"}, "date": {"timestamp_ntz"}}


@dataclass(frozen=True)
class TargetSchema:
    """A table's metadata and protocol, and what the last change to them is called in the history."""

    metadata: Metadata
    protocol: Protocol
    operation: str = "CHANGE COLUMN"
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> TableSchema:
        return self.metadata.schema


def design_of(snapshot: Snapshot) -> TargetSchema:
    return TargetSchema(snapshot.metadata, snapshot.protocol)


def apply(snapshot: Snapshot, statements: Iterable[str]) -> Snapshot:
    """The snapshot with the metadata and the protocol that statements lead to; as ``altered``."""
    design = altered(design_of(snapshot), statements)
    return replace(snapshot, metadata=design.metadata, protocol=design.protocol)


def altered(design: TargetSchema, statements: Iterable[str]) -> TargetSchema:
    """The design after statements, each what stands after ``ALTER TABLE``.

    Raises UnsupportedTable where one is not known here, or rewrites rows; LakeError where Delta refuses it.
    """
    for statement in statements:
        design = _altered(design, statement)
    return design


def redesigned(snapshot: Snapshot, spark_types: Mapping[str, str]) -> Snapshot:
    """A table with other columns, for a commit that removes all of its files. Nothing is written.

    The columns are new ones, whatever their names: ids count on from those of the old columns, so that no file of an
    earlier version is read by them. Properties stay. Raises LakeError for a type that this package does not write.
    """
    metadata = snapshot.metadata
    configuration = dict(metadata.configuration)
    schema = from_spark_types(spark_types, column_mapping=False)
    if metadata.column_mapping:
        last_id = max(int(configuration.get(MAX_COLUMN_ID, "0")), metadata.schema.max_column_id)
        schema, last_id = assign_ids(schema, last_id)
        configuration[MAX_COLUMN_ID] = str(last_id)
    changed, protocol = defined(metadata, snapshot.protocol, schema, configuration)
    return replace(snapshot, metadata=changed, protocol=protocol)


def add_column(design: TargetSchema, name: str, ddl: str, after: str | None = None) -> TargetSchema:
    """A new column, null in the rows that are there: after a column, ``FIRST``, or by default last."""
    if any(column.name.casefold() == name.casefold() for column in design.schema.columns):
        raise LakeError(f"a column {name} cannot be added, because the table has one")
    column = column_of(name, ddl)
    schema = _with_position(design.schema, column, after)
    entry: dict[str, Any] = {"column": column.to_json()}
    if after is not None:
        entry["position"] = _position_clause(after)
    return _with_schema(design, schema, "ADD COLUMNS", {"columns": [entry]})


def drop_column(design: TargetSchema, name: str) -> TargetSchema:
    """The design without a column. Its cells stay in the files; a new column of its name does not have them."""
    _require_mapping(design, f"column {name} cannot be dropped")
    dropped = design.schema.column(name)
    rest = tuple(column for column in design.schema.columns if column is not dropped)
    if not rest:
        raise LakeError(f"column {name} cannot be dropped, because it is the table's last")
    return _with_schema(design, TableSchema(rest), "DROP COLUMNS", {"columns": [name]})


def rename_column(design: TargetSchema, name: str, new: str) -> TargetSchema:
    _require_mapping(design, f"column {name} cannot be renamed")
    column = design.schema.column(name)
    if any(existing is not column and existing.name.casefold() == new.casefold() for existing in design.schema.columns):
        raise LakeError(f"column {name} cannot be renamed to {new}, because the table has such a column")
    schema = _replaced(design.schema, column, replace(column, name=new))
    return _with_schema(design, schema, "RENAME COLUMN", {"oldColumnPath": name, "newColumnPath": new})


def move_column(design: TargetSchema, name: str, after: str) -> TargetSchema:
    """A column in another place: after a column, or ``FIRST``."""
    column = design.schema.column(name)
    if after == name:
        raise LakeError(f"column {name} cannot be moved after itself")
    rest = TableSchema(tuple(existing for existing in design.schema.columns if existing is not column))
    parameters = {"column": column.to_json(), "position": _position_clause(after)}
    return _with_schema(design, _with_position(rest, column, after), "CHANGE COLUMN", parameters)


def widen_column(design: TargetSchema, name: str, ddl: str) -> TargetSchema:
    """A column of a wider type; cells that are there are read as such."""
    column = design.schema.column(name)
    wider = column_of(name, ddl).type
    if wider == column.type:
        return design
    if design.metadata.configuration.get(TYPE_WIDENING, "false").lower() != "true":
        raise LakeError(f"column {name} cannot become {ddl} without the table's property {TYPE_WIDENING}")
    if not is_wider(column.type, wider):
        raise LakeError(f"column {name} cannot become {ddl}, because it is {column.ddl}")
    changes = [*column.metadata.get(TYPE_CHANGES, ()), {"toType": wider, "fromType": column.type}]
    changed = replace(column, type=wider, metadata=dict(column.metadata) | {TYPE_CHANGES: changes})
    parameters = {"column": replace(column, type=wider).to_json()}
    return _with_schema(design, _replaced(design.schema, column, changed), "CHANGE COLUMN", parameters)


def set_properties(design: TargetSchema, properties: Mapping[str, str]) -> TargetSchema:
    """Properties set: type widening, the change data feed, features. Raises UnsupportedTable for others."""
    configuration = dict(design.metadata.configuration)
    features = set()
    for key, value in properties.items():
        if key.startswith(_FEATURE) and value == "supported" and key.removeprefix(_FEATURE) in READER_FEATURES:
            features.add(key.removeprefix(_FEATURE))
        elif key in (TYPE_WIDENING, CHANGE_DATA_FEED) and value in ("true", "false"):
            configuration[key] = value
        else:
            raise UnsupportedTable(f"the property {key} = {value} is not set")
    changed = _designed(design, design.schema, configuration, ("SET TBLPROPERTIES", {"properties": dict(properties)}))
    return replace(changed, protocol=with_features(changed.protocol, features))


def is_wider(old: object, new: object) -> bool:
    """True if Delta widens a type to another: all values of the old are values of the new."""
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    decimal, before = decimal_of(new), decimal_of(old)
    if decimal:
        digits, scale = decimal
        if before:
            return scale >= before[1] and digits - scale >= before[0] - before[1]
        return old in _DIGITS and digits - scale >= _DIGITS[old]
    return new in _WIDER_INTEGERS.get(old, ()) or new in _WIDER.get(old, ())


def _with_schema(
    design: TargetSchema, schema: TableSchema, operation: str, parameters: Mapping[str, Any]
) -> TargetSchema:
    """The design with other columns, the ids and the features that they need."""
    configuration = dict(design.metadata.configuration)
    if design.metadata.column_mapping:
        last_id = max(int(configuration.get(MAX_COLUMN_ID, "0")), design.schema.max_column_id)
        schema, last_id = assign_ids(schema, last_id)
        configuration[MAX_COLUMN_ID] = str(last_id)
    return _designed(design, schema, configuration, (operation, parameters))


def _designed(
    design: TargetSchema, schema: TableSchema, configuration: Mapping[str, str], history: tuple[str, Mapping[str, Any]]
) -> TargetSchema:
    operation, parameters = history
    metadata, protocol = defined(design.metadata, design.protocol, schema, configuration)
    texts = {key: value if isinstance(value, str) else _json(value) for key, value in parameters.items()}
    return TargetSchema(metadata, protocol, operation, texts)


def _altered(design: TargetSchema, statement: str) -> TargetSchema:
    if statement.startswith("UPDATE "):
        raise UnsupportedTable(f"{statement.partition(' WHERE ')[0]} rewrites rows, which a change of columns does not")
    for pattern, change in _STATEMENTS:
        match = pattern.fullmatch(statement)
        if match:
            return change(design, match)
    raise UnsupportedTable(f"ALTER TABLE … {statement} is not known")


def _unquoted(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _column_before(first: str | None, name: str | None) -> str | None:
    if first:
        return FIRST
    return None if name is None else _unquoted(name)


def _moved_column(design: TargetSchema, match: re.Match[str]) -> TargetSchema:
    after = _column_before(match[2], match[3])
    assert after is not None  # the pattern has it
    return move_column(design, _unquoted(match[1]), after)


def _set_table_properties(design: TargetSchema, match: re.Match[str]) -> TargetSchema:
    pairs = _PROPERTY.findall(match[1])
    return set_properties(
        design, {re.sub(r"\\(.)", r"\1", key): re.sub(r"\\(.)", r"\1", value) for key, value in pairs}
    )


_STATEMENTS: tuple[tuple[re.Pattern[str], Callable[[TargetSchema, re.Match[str]], TargetSchema]], ...] = (
    (
        re.compile(rf"ADD COLUMN \({_NAME} (.+?){_POSITION_CLAUSE}?\)", re.DOTALL),
        lambda design, match: add_column(design, _unquoted(match[1]), match[2], _column_before(match[3], match[4])),
    ),
    (re.compile(rf"DROP COLUMN {_NAME}", re.DOTALL), lambda design, match: drop_column(design, _unquoted(match[1]))),
    (
        re.compile(rf"RENAME COLUMN {_NAME} TO {_NAME}", re.DOTALL),
        lambda design, match: rename_column(design, _unquoted(match[1]), _unquoted(match[2])),
    ),
    (
        re.compile(rf"ALTER COLUMN {_NAME} TYPE (.+)", re.DOTALL),
        lambda design, match: widen_column(design, _unquoted(match[1]), match[2]),
    ),
    (re.compile(rf"ALTER COLUMN {_NAME}{_POSITION_CLAUSE}", re.DOTALL), _moved_column),
    (re.compile(rf"SET TBLPROPERTIES \(((?:{_PROPERTY.pattern})+)\)", re.DOTALL), _set_table_properties),
)


def _require_mapping(design: TargetSchema, action: str) -> None:
    if not design.metadata.column_mapping:
        raise LakeError(f"{action} without column mapping, a feature of Delta that the table does not have")
    if _STATS_COLUMNS in design.metadata.configuration:
        raise UnsupportedTable(f"{action}, because the table names columns in {_STATS_COLUMNS}; unset that property")


def _with_position(schema: TableSchema, column: DeltaColumn, after: str | None) -> TableSchema:
    at = len(schema.columns)
    if after is not None:
        at = 0 if after == FIRST else schema.columns.index(schema.column(after)) + 1
    return TableSchema((*schema.columns[:at], column, *schema.columns[at:]))


def _replaced(schema: TableSchema, old: DeltaColumn, new: DeltaColumn) -> TableSchema:
    return TableSchema(tuple(new if column is old else column for column in schema.columns))


def _position_clause(after: str) -> str:
    return "FIRST" if after == FIRST else f"AFTER {after}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
