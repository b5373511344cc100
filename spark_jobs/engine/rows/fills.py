"""Values of existing rows in a column that a statement added with a default.

Put here: which columns a statement fills with what, and files written again with them. Not here: what a default means
(ddl/default_values.py), or the words of the steps (silver/schema_evolution.py).

Rows that the same run writes before the statement get the value at once: a file may have columns that the table has
only a commit later. Files that are there are written again, without the rows that deletion vectors mark.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import DeltaColumn, TableSchema, column_of
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.rows.exact_texts import ExactTextChange, with_text_changes
from spark_jobs.errors import LakeError
from spark_jobs.silver.schema_evolution import FILL, assignments
from spark_jobs.text.sql import LITERAL, text_of_literal


@dataclass(frozen=True, slots=True)
class ColumnFill:
    """A column that a statement adds, and what rows before it have there: SQL first, then its value."""

    column: DeltaColumn
    sql: str
    value: pa.Scalar | None = None


def split(steps: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Steps without those that fill columns, and the SQL of what these fill in, by column."""
    rest, filled = list[str](), dict[str, str]()
    for step in steps:
        if step.startswith(FILL):
            filled |= assignments(step)
        else:
            rest.append(step)
    return rest, filled


def fills_of(design: Snapshot, filled: Mapping[str, str]) -> tuple[ColumnFill, ...]:
    """Fills of a table's columns. design: the table after the statement that adds them."""
    return tuple(ColumnFill(design.schema.column(name), sql) for name, sql in filled.items())


def values_by_expression(expressions: Iterable[str]) -> dict[str, pa.Scalar]:
    """Values of SQL expressions, each a literal of ``ddl/default_values.py`` in casts to types of columns.

    As Spark evaluates them, and without it. Raises LakeError for any other expression.
    """
    return {sql: _value(sql) for sql in dict.fromkeys(expressions)}


def _value(sql: str) -> pa.Scalar:
    """A literal by its form; ``CAST`` goes by the type that it names."""
    if cast := _CAST.fullmatch(sql):
        return _cast(_value(cast[1]), column_of("", cast[2]).arrow(physical=False).type)
    if sql == "NULL":
        return pa.scalar(None)
    if re.fullmatch(r"-?[0-9]+", sql):
        return pa.scalar(Decimal(sql))
    if re.fullmatch(LITERAL, sql):
        return pa.scalar(text_of_literal(sql))
    if digits := re.fullmatch(r"X'([0-9a-f]*)'", sql):
        return pa.scalar(bytes.fromhex(digits[1]))
    if moment := re.fullmatch(r"TIMESTAMP'([0-9 :.-]+)Z'", sql):
        return pa.scalar(datetime.fromisoformat(f"{moment[1]}+00:00"), pa.timestamp("us", "UTC"))
    raise LakeError(f"the value of a new column is no literal that is known: {re.sub(LITERAL, '…', sql)}")


_CAST = re.compile(r"CAST\((.*) AS ([^'()]+(?:\([0-9, ]+\))?)\)", re.DOTALL)


def _cast(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """A value in another type. Arrow reads texts of some types in other ways than Spark does, so Python does."""
    if not (value.is_valid and pa.types.is_string(value.type)):
        return value.cast(kind)
    text = value.as_py()
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(text), kind)
    if pa.types.is_date(kind):
        return pa.scalar(date.fromisoformat(text), kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(datetime.fromisoformat(text), kind)
    return pa.scalar(float(text), kind) if pa.types.is_floating(kind) else value.cast(kind)


def fills_with_values(fills: Iterable[ColumnFill], values: Mapping[str, pa.Scalar]) -> tuple[ColumnFill, ...]:
    """Fills with the values of their SQL, as ``values_by_expression`` gives them."""
    return tuple(replace(fill, value=values[fill.sql]) for fill in fills)


def with_fills(rows: pa.Table, fills: Sequence[ColumnFill]) -> pa.Table:
    """Rows with the columns that are filled, in the place of those of their names or after the others."""
    for fill in fills:
        name, kind = fill.column.name, fill.column.arrow(physical=False).type
        assert fill.value is not None
        values = pa.repeat(fill.value.cast(kind), len(rows))
        at = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)
    return rows


def write(
    path: str, rows: pa.Table, schema: TableSchema, configuration: Mapping[str, str], fills: Sequence[ColumnFill]
) -> DataFile:
    """Write rows of a table with the values of columns that later statements add. path: the table's.

    Columns are known by their physical names: one that a statement adds may have the name of one that another drops.
    """
    by_name = {column.physical_name: column for column in schema.columns}
    by_name |= {fill.column.physical_name: fill.column for fill in fills}
    values = {column.physical_name: rows.column(column.name) for column in schema.columns}
    for fill in fills:
        assert fill.value is not None
        kind = fill.column.arrow(physical=False).type
        values[fill.column.physical_name] = pa.chunked_array([pa.repeat(fill.value.cast(kind), len(rows))])
    physical = TableSchema(tuple(replace(column, name=name) for name, column in by_name.items()))
    return data_files.write(path, pa.table(values), physical, configuration)


def rewritten_with_fills(
    path: str,
    file: DataFile,
    schema: TableSchema,
    configuration: Mapping[str, str],
    fills: Sequence[ColumnFill],
    *,
    exact: Sequence[ExactTextChange] = (),
) -> Iterator[DataFile]:
    """A file written again with filled columns and changed exact texts; none where it has no row left.

    path: the table's. schema: that the file is read by.
    """
    rows = data_files.read_living(path, file, schema.names, schema)
    if len(rows):
        yield write(path, with_text_changes(rows, exact), schema, configuration, fills)
