"""Filtered, masked and computed columns: the columns that silver has of a table with rules about them.

Put here: the columns, and whether a table can take the rule. Not here: the rule (config/filters.py), what it makes of
rows (column_masks.py).
"""

from collections.abc import Mapping
from dataclasses import replace

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.silver import table as silver
from spark_jobs.silver.row_values import resolving

_WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Bits by type."""


def columns_seen(definition: TableDefinition, rule: ColumnRule | None, *, has_partial: bool = False) -> silver.Columns:
    """The columns that silver has, with the types that masks give them. has_partial: as in silver.Columns.

    Raises TableStopped where the rule can not be applied to such a table.
    """
    columns = silver.columns(definition, has_partial=has_partial)
    # Without a rule all columns go through.
    if rule is None:
        return columns
    key = f"columns.{rule.name}"
    types = {}
    for name, kind in columns.types.items():
        # A key may be masked only by what keeps different keys different.
        mask = rule.mask(name)
        if rule.is_left_out(name):
            if name in columns.key:
                raise TableStopped(f"{key} leaves out {name}, which rows are identified by; mask it by a hash")
            continue
        if mask and name in columns.key and mask.kind != "hash":
            raise TableStopped(
                f"{key}.mask.{name}: {mask.kind} makes one key of several, and {name} is of the key; mask it by a hash"
            )
        types[name] = _masked_type(f"{key}.mask.{name}", mask, kind) if mask else kind
    if not types:
        raise TableStopped(f"{key} leaves out all columns of {definition}")
    for column in rule.computed:
        _require_computed(f"{key}.computed.{column.name}", column, definition)
        types[column.name] = column.type
    _require_one_salt(key, {mask.salt for name in types if (mask := rule.mask(name)) and mask.kind == "hash"})
    return replace(columns, types=types)


def with_retired(columns: silver.Columns, retired: Mapping[str, str]) -> silver.Columns:
    """The same with columns behind, by name and type, of which rows have NULL."""
    return replace(columns, types={**columns.types, **retired}) if retired else columns


def _require_computed(key: str, computed: Computed, definition: TableDefinition) -> None:
    """Check that a table can have a computed column. Raises TableStopped."""
    columns = {str(column.name).casefold() for column in definition.columns}
    if computed.name.casefold() in columns:
        raise TableStopped(f"{key} has the name of a column of the table; give it another one: {definition}")
    # Of rows from a time when the table had no such column, it is NULL.
    if computed.columns <= columns:
        try:
            computed.term(resolving(definition))
        except ConfigError as error:
            raise TableStopped(f"{key}: {error}") from error


def _require_one_salt(key: str, salts: set[str]) -> None:
    if len(salts) > 1:
        raise TableStopped(f"{key}: columns of one table are hashed with one salt")


def _masked_type(key: str, mask: Mask, kind: str) -> str:
    """The type of a column behind its mask. Raises TableStopped where it cannot have it."""
    match mask.kind:
        case "hash":
            if kind not in ("STRING", "BINARY", "DATE", *_WHOLE) and not kind.startswith("DECIMAL"):
                raise TableStopped(
                    f"{key}: only text, bytes, whole numbers, DECIMAL and DATE are hashed; the column is {kind}"
                )
            return "STRING"
        case "truncate":
            if kind not in ("STRING", "BINARY"):
                raise TableStopped(f"{key}: only text and bytes are truncated, and the column is {kind}")
        case "constant":
            _require_constant(key, mask.constant, kind)
    return kind


def _require_constant(key: str, value: str | int | None, kind: str) -> None:
    if value is None or kind == "STRING":
        return
    if not (kind in _WHOLE and isinstance(value, int)):
        reason = f"the constant {value!r} does not fit the column, which is {kind}; null fits every one"
        raise TableStopped(f"{key}: {reason}")
    if not -(1 << _WHOLE[kind] - 1) <= value < 1 << _WHOLE[kind] - 1:
        raise TableStopped(f"{key}: {value} is no {kind}")


def unknown_column_problem(rule: ColumnRule | None, known_columns: frozenset[str]) -> str | None:
    """Problem of a rule about a table that has, or had at some time, these columns; None without one."""
    unknown = sorted(rule.names() - known_columns) if rule else []
    return f"columns.{rule.name} names column {unknown[0]}, which the table does not have" if rule and unknown else None


def origins_seen(
    rule: ColumnRule | None, origins: Mapping[str, str | None], before: silver.Columns, after: silver.Columns
) -> dict[str, str | None]:
    """Origins of the columns that are seen, of those of all columns.

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
    """Fills of rows that are there in new columns that are seen. Raises TableStopped for one that is masked."""
    column_fills = {name: fill for name, fill in fills.items() if name in after.types}
    masked = next((name for name in column_fills if rule and rule.mask(name)), None)
    if rule and masked:
        raise TableStopped(
            f"columns.{rule.name}.mask.{masked}: the column was added with a default, and what rows that are there "
            "have in it is not masked yet; leave it out"
        )
    return column_fills


def _treated(rule: ColumnRule, name: str) -> tuple[bool, Mask | None]:
    return rule.is_left_out(name), rule.mask(name)
