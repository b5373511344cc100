"""Rows of a table as of a position: all of them, those of some keys, or those that fulfil a condition.

Put here: reading a merged table of the scratch lake, and choosing rows. Not here: how it came there (replayed.py), or
files that rows are written to (row_files.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.config.filters import ColumnRule
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.rows.locate import Hit, Keys, hits
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.condition import Condition
from spark_jobs.log.position import Position
from spark_jobs.silver.row_filters import true_rows
from spark_jobs.silver.row_values import Image, fault_text, problem_of, resolving
from spark_jobs.text.key_values import key_values, require_one_value, typed_value

_RAW = "_raw"
_EXACT = pa.map_(pa.string(), pa.string())
_NO_VALUE = "its type in the lake cannot hold the value of a row, so the condition cannot be evaluated"

KeyValues = str | Sequence[Any]
"""A value for each column of a key, in its order; text of other types is parsed. As one text: as CSV has the values."""


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Rows that are asked for: those of some keys, and those for which a condition is TRUE; all without either."""

    keys: tuple[KeyValues, ...] = ()
    condition: Condition | None = None

    @classmethod
    def of(cls, keys: Sequence[KeyValues] = (), condition: str | None = None) -> "RowQuery":
        """The query of rows by keys and a condition. Raises ConfigError if the condition cannot be parsed."""
        try:
            return cls(tuple(keys), Condition.parse(condition) if condition else None)
        except ConfigError as error:
            raise ConfigError({"where": str(error)}) from error


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table as it was at a position.

    Attributes:
        name: of the source's table, which it had then.
        at: the position.
        key: the columns of its key; empty for a table without one.
        definition: as the source had it then.
        snapshot: its merged rows, in the scratch lake; its columns alone where it had no row.
        choice: which rows are asked for.
        keys_never_whole: keys that are not among the rows, because no row image of theirs had all columns.
    """

    name: TableName
    at: Position
    key: tuple[str, ...]
    definition: TableDefinition
    snapshot: Snapshot
    choice: RowQuery = field(default_factory=RowQuery)
    rule: ColumnRule | None = None
    keys_never_whole: int = 0

    def selection(self) -> "QueryRows":
        """The rows that are asked for.

        Raises ConfigError where the choice is not about such a table, LakeError.
        """
        self._require_condition()
        version, names = self.snapshot, self.snapshot.schema.names
        if self.choice.keys:
            keys = wanted_keys(self.choice.keys, version.schema, self.key, str(self.name))
            key_rows = [read_hit(version, hit, names) for hit in located(version, keys)]
            is_exact = any(rows.column(_RAW).null_count < len(rows) for rows in key_rows)
            return QueryRows(self, is_exact, tuple(key_rows))
        parts = (data_files.read_columns(version.path, file, [_RAW], version.schema) for file in version.files)
        return QueryRows(self, any(rows.column(0).null_count < len(rows) for rows in parts))

    def _require_condition(self) -> None:
        condition, rule = self.choice.condition, self.rule
        names = {*(condition.columns if condition else ()), *(self.key if self.choice.keys else ())}
        hidden = sorted(name for name in names if rule and (rule.is_left_out(name) or rule.mask(name)))
        if rule and hidden:
            raise ConfigError(
                {"where": f"columns.{rule.name} hides {hidden[0]} of {self.name}; no row is chosen by it"}
            )
        problem = problem_of(condition, self.definition) if condition else None
        if problem:
            raise ConfigError({"where": problem})

    def holding(self, rows: pa.Table) -> pa.Table:
        """The rows for which the condition is TRUE. Raises ConfigError."""
        condition = self.choice.condition
        if condition is None or not len(rows):
            return rows
        raw = rows.column(_RAW).combine_chunks()
        evaluate = condition.compiled(resolving(self.definition))
        cells = evaluate(Image(rows, raw).cells(self.definition, condition.columns))
        if cells.faults is not None and (cells.faults != 0).any():
            fault = int(cells.faults[np.flatnonzero(cells.faults)[0]])
            raise ConfigError({"where": f"{self.name}: {fault_text(self.definition, fault, _NO_VALUE)}"})
        return rows.filter(pa.array(true_rows(cells, len(rows))))


@dataclass(frozen=True, slots=True)
class QueryRows:
    """Rows of a table that are asked for.

    Attributes:
        of: the table.
        has_exact: whether some row has a value that its column's type does not hold, and ``_raw`` does.
        key_rows: rows of the keys that are asked for; None where all rows are read.
    """

    of: TableAt
    has_exact: bool
    key_rows: tuple[pa.Table, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """The source's, as the lake has them; ``_raw`` behind them where some row has an exact text."""
        names = [name for name in self.of.snapshot.schema.names if name not in ADDED]
        return [*names, *([_RAW] if self.has_exact else [])]

    @property
    def spark_types(self) -> dict[str, str]:
        types = self.of.snapshot.schema.spark_types
        return {name: types[name] for name in self.columns}

    @property
    def schema(self) -> pa.Schema:
        columns = self.of.snapshot.schema
        return pa.schema([columns.column(name).arrow(physical=False).remove_metadata() for name in self.columns])

    def batches(self) -> Iterator[pa.Table]:
        """The rows, in no order, a row group after the other.

        Raises LakeError, and ConfigError where a value that the condition asks for is not in the lake.
        """
        version, schema = self.of.snapshot, self.schema
        names = [*dict.fromkeys([*self.columns, _RAW])]
        parts = self.key_rows if self.key_rows is not None else _living(version, names)
        for rows in parts:
            kept_rows = self.of.holding(rows).select(self.columns)
            if len(kept_rows):
                yield kept_rows.cast(schema)

    def table(self) -> pa.Table:
        """All of them, by key where there is one. Raises as ``batches``."""
        rows = pa.concat_tables([self.schema.empty_table(), *self.batches()])
        return rows.sort_by([(name, "ascending") for name in self.of.key]) if self.of.key else rows


def wanted_keys(keys: Sequence[KeyValues], schema: TableSchema, key: Sequence[str], table: str) -> Keys:
    """Keys as they are looked for in a table's files. Raises ConfigError for what is no key of the table."""
    if not key:
        raise ConfigError({"key": f"{table} has no key; choose rows by a condition instead (--where)"})
    rows_of_values = [key_values(values, key, table) if isinstance(values, str) else values for values in keys]
    wrong = next((values for values in rows_of_values if len(values) != len(key)), None)
    if wrong is not None:
        names = ", ".join(key)
        raise ConfigError({"key": f"the key of {table} is ({names}): give {len(key)} values, not {len(wrong)}"})
    columns = [
        pa.array([_key_value(values[at], schema.column(name), key, table) for values in rows_of_values])
        for at, name in enumerate(key)
    ]
    rows = pa.table(columns, names=list(key)).append_column(_RAW, pa.nulls(len(keys), _EXACT))
    return Keys(_distinct(rows, key), key)


def _distinct(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    first: dict[tuple[Any, ...], int] = {}
    for number, cells in enumerate(zip(*(rows.column(name).to_pylist() for name in key), strict=True)):
        first.setdefault(cells, number)
    return rows.take(pa.array(list(first.values()), pa.int64()))


def _key_value(value: Any, column: DeltaColumn, key: Sequence[str], table: str) -> pa.Scalar:
    """A value of a key's column, from text of any type."""
    kind = column.arrow(physical=False).type
    try:
        return typed_value(value, kind) if isinstance(value, str) else pa.scalar(value, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if isinstance(value, str):
            require_one_value(value, key, table)
        text = f"what is given for {column.name} of {table} is no {column.ddl}; bytes are written in hex"
        raise ConfigError({"key": text}) from error


def located(version: Snapshot, keys: Keys) -> Iterator[Hit]:
    """Row numbers of some keys in a version, by statistics and by the indexes that it has. Raises LakeError."""
    return hits(version.path, version.files, version.schema, keys, builds_index=False)


def read_hit(version: Snapshot, hit: Hit, names: Sequence[str]) -> pa.Table:
    return data_files.read_rows(version.path, hit.file, hit.rows, names, version.schema)


def _living(version: Snapshot, names: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a version, a row group after the other, without those that deletion vectors delete."""
    for file in version.files:
        with data_files.reading(version.path, file):
            opened = data_files.open_file(version.path, file)
            count = opened.metadata.num_rows
        mask = (
            deletion_vectors.living_rows_mask(version.path, file.deletion_vector, count)
            if file.deletion_vector
            else None
        )
        begin = 0
        for group in range(opened.num_row_groups):
            with data_files.reading(version.path, file):
                rows = data_files.read_row_group(opened, group, names, version.schema)
            end = begin + len(rows)
            yield rows if mask is None else rows.filter(pa.array(mask[begin:end]))
            begin = end
