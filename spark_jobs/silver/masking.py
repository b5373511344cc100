"""Filtered, masked and computed columns: what silver has of a table instead of the source's columns.

Put here: what a rule about columns makes of a table's columns and rows. Not here: the rule (config/filters.py), when it
is applied (decode_task.py).

A salt travels in a column that the decoding task adds, and so in no query's text, which Spark shows and logs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.config.computed import Computed
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.silver import table as silver
from spark_jobs.silver.row_filters import term_of
from spark_jobs.text.sql import identifier, literal

SALT = "_salt"
"""The column that holds the salt on the way."""
_WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Bits by type."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as silver has it.

    columns: with the types that masks give them. cells: SQL over the source's columns, by name, ``_raw`` among them.
    salt: that the cells need; None where they need none.
    """

    columns: silver.Columns
    cells: Mapping[str, str]
    salt: str | None = None

    def beside(self, retired: Mapping[str, str]) -> "Shape":
        """The same with columns behind, by name and type, of which rows have NULL."""
        if not retired:
            return self
        cells = {name: f"CAST(NULL AS {kind})" for name, kind in retired.items()}
        return replace(
            self, columns=replace(self.columns, types={**self.columns.types, **retired}), cells={**self.cells, **cells}
        )


def shape(definition: TableDefinition, rule: ColumnRule | None, *, has_partial: bool = False) -> Shape:
    """Raises TableStopped where the rule can not be applied to such a table. has_partial: as in silver.Columns."""
    columns = silver.columns(definition, has_partial=has_partial)
    # Without a rule all columns go through.
    if rule is None:
        return Shape(columns, {name: identifier(name) for name in (*columns.types, "_raw")})
    key = f"columns.{rule.name}"
    types, cells = {}, {}
    for name, kind in columns.types.items():
        # A key may be masked only by what keeps different keys different.
        mask = rule.mask(name)
        if rule.is_left_out(name):
            if name in columns.key:
                raise TableStopped(f"{key} leaves out {name}, which rows are told apart by; mask it by a hash")
            continue
        if mask and name in columns.key and mask.kind != "hash":
            raise TableStopped(
                f"{key}.mask.{name}: {mask.kind} makes one key of several, and {name} is of the key; mask it by a hash"
            )
        types[name], cells[name] = _masked(f"{key}.mask.{name}", mask, name, kind) if mask else (kind, identifier(name))
    if not types:
        raise TableStopped(f"{key} leaves out all columns of {definition}")
    for column in rule.computed:
        types[column.name] = column.type
        cells[column.name] = _computed(f"{key}.computed.{column.name}", column, definition, has_partial=has_partial)
    # Exact texts would show what the columns hide.
    hidden = {name: None for name in columns.types if name not in types or rule.mask(name)}
    cells["_raw"] = silver.raw_sql("_raw", hidden) if hidden else identifier("_raw")
    salts = {mask.salt for name in types if (mask := rule.mask(name)) and mask.kind == "hash"}
    return Shape(replace(columns, types=types), cells, _salt(key, salts))


def _computed(key: str, computed: Computed, definition: TableDefinition, *, has_partial: bool) -> str:
    """SQL: a computed column of rows of a definition; NULL where it lacks a column that the expression names."""
    columns = {str(column.name).casefold(): column for column in definition.columns}
    if computed.name.casefold() in columns:
        raise TableStopped(f"{key} has the name of a column of the table; give it another one: {definition}")
    if has_partial:
        raise TableStopped(
            f"{key}: row images leave columns out, and it is computed from whole rows; SET GLOBAL binlog_row_image = "
            "'FULL', and rebuild the table (stratalog reset)"
        )
    if computed.columns - columns.keys():
        return f"CAST(NULL AS {computed.type})"
    terms = {name: term_of(columns[name], _exact(key, columns[name])) for name in computed.columns}
    try:
        return computed.to_spark(terms.__getitem__)
    except ConfigError as error:
        raise TableStopped(f"{key}: {error}") from error


def _exact(key: str, column: Column) -> str:
    """SQL: a column's value, or an error where the lake's type does not hold it."""
    name, kind = identifier(str(column.name)), silver.spark_type(str(column.arrow))
    if kind not in _MAY_BE_EXACT:
        return name
    message = (
        f"spark_jobs.errors.TableStopped: {key}: column {column.name}: its type in the lake cannot hold the value of a "
        "row, so the expression cannot be evaluated\n\n"
    )
    is_exact = f"map_contains_key(_raw, {literal(str(column.name))})"
    return f"IF({is_exact}, CAST(raise_error({literal(message)}) AS {kind}), {name})"


_MAY_BE_EXACT = ("STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


def _salt(key: str, salts: set[str]) -> str | None:
    if len(salts) > 1:
        raise TableStopped(f"{key}: columns of one table are hashed with one salt")
    return next(iter(salts), None)


def _masked(key: str, mask: Mask, name: str, kind: str) -> tuple[str, str]:
    """The type and the SQL of a column behind its mask."""
    cell = identifier(name)
    match mask.kind:
        case "hash":
            return "STRING", _hashed(key, name, kind)
        case "truncate" if kind == "STRING":
            return kind, f"left({cell}, {mask.length})"
        case "truncate" if kind == "BINARY":
            return kind, f"substring({cell}, 1, {mask.length})"
        case "truncate":
            raise TableStopped(f"{key}: only text and bytes are truncated, and the column is {kind}")
    return kind, f"CAST({_constant(key, mask.constant, kind)} AS {kind})"


def _hashed(key: str, name: str, kind: str) -> str:
    """SHA-256 of salt and value, in hex. A value that only ``_raw`` has is hashed as its text behind a zero byte."""
    cell = identifier(name)
    if kind == "BINARY":
        value = f"concat(encode({SALT}, 'UTF-8'), {cell})"
    elif kind in ("STRING", "DATE", *_WHOLE) or kind.startswith("DECIMAL"):
        value = f"encode(concat({SALT}, CAST({cell} AS STRING)), 'UTF-8')"
    else:
        raise TableStopped(f"{key}: only text, bytes, whole numbers, DECIMAL and DATE are hashed; the column is {kind}")
    exact = f"concat(encode({SALT}, 'UTF-8'), X'00', encode(try_element_at(_raw, {literal(name)}), 'UTF-8'))"
    return f"sha2(coalesce({value}, {exact}), 256)"


def _constant(key: str, value: str | int | None, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "STRING":
        return literal(str(value))
    if kind in _WHOLE and isinstance(value, int):
        if -(1 << _WHOLE[kind] - 1) <= value < 1 << _WHOLE[kind] - 1:
            return str(value)
        raise TableStopped(f"{key}: {value} is no {kind}")
    raise TableStopped(f"{key}: the constant {value!r} does not fit the column, which is {kind}; null fits every one")


def missing(rule: ColumnRule | None, known_columns: frozenset[str]) -> str | None:
    """What is wrong with a rule about a table that has, or had at some time, these columns; None where nothing is."""
    unknown = sorted(rule.names() - known_columns) if rule else []
    return f"columns.{rule.name} names column {unknown[0]}, which the table does not have" if rule and unknown else None


def origins_seen(
    rule: ColumnRule | None, origins: Mapping[str, str | None], before: silver.Columns, after: silver.Columns
) -> dict[str, str | None]:
    """Where columns that are seen come from, of where all columns do.

    Raises TableStopped where a column is seen otherwise under its new name than under its old one.
    """
    if rule is None:
        return dict(origins)
    origins = {**origins, **{column.name: column.name for column in rule.computed}}
    for name, origin in origins.items():
        if origin is not None and _treated(rule, name) != _treated(rule, origin):
            raise TableStopped(
                f"columns.{rule.name}: column {origin} is renamed to {name}, and the rule does not say the same of both"
            )
    return {name: origin if origin in before.types else None for name, origin in origins.items() if name in after.types}


def fills_seen(rule: ColumnRule | None, fills: Mapping[str, Fill], after: silver.Columns) -> dict[str, Fill]:
    """What rows that are there have in new columns that are seen. Raises TableStopped for one that is masked."""
    fills_ = {name: fill for name, fill in fills.items() if name in after.types}
    masked = next((name for name in fills_ if rule and rule.mask(name)), None)
    if rule and masked:
        raise TableStopped(
            f"columns.{rule.name}.mask.{masked}: the column was added with a default, and what rows that are there "
            "have in it is not masked yet; leave it out"
        )
    return fills_


def _treated(rule: ColumnRule, name: str) -> tuple[bool, Mask | None]:
    return rule.is_left_out(name), rule.mask(name)
