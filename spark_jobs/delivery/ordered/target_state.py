"""State of a target table while the log is delivered in order: the writer of its rows, and effects of statements.

Put here: the target's columns as a definition of the log has them, and DDL in its place. Not here: rows (plan.py), or
the clauses of ALTER TABLE (target_table.py).
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from spark_jobs.binlog import Column, TableName
from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery import target_table
from spark_jobs.delivery.encode import RAW, OutputColumn, literals
from spark_jobs.delivery.lake_table import LakeColumn, LakeTable, LakeTableShape, as_declared
from spark_jobs.delivery.ordered.judgement import Judge
from spark_jobs.delivery.ordered.unique_keys import UniqueKeys, weights_of
from spark_jobs.delivery.statements import Writer
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import Alterations, Dialect, TargetTable
from spark_jobs.downstream.multi_source import PROVENANCE
from spark_jobs.engine.rows.fills import values_by_expression
from spark_jobs.errors import DeliveryError, about
from spark_jobs.silver.projection import column_origins
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)

Columns = Mapping[str, Mapping[str, str]]
"""Columns by physical name, as the progress row keeps them."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Effect of a statement of the log on the target.

    columns: those behind it. executed: what committed by itself. fills: of columns that are new, in rows that are
    there; they belong into the transaction that moves the position, since carried out later they would undo changes.
    """

    columns: Columns
    executed: list[str]
    fills: list[str]


@dataclass
class TargetState:
    """One source table's table at the target.

    number: of the table in the delivery. before: its columns as they are delivered. state: its definition in the log.
    """

    label: str
    settings: Delivery
    number: int
    into: LakeTable
    judge: Judge
    connection: Connection
    execute: Callable[[str], object]
    """Executes a statement that commits by itself."""
    before: Columns
    state: TableState | None = None
    target: TargetTable | None = field(default=None, init=False)
    writer: Writer | None = field(default=None, init=False)
    keys: UniqueKeys | None = field(default=None, init=False)
    is_helper: Callable[[TableName], bool] = lambda _: False
    """True if a table is one that a tool of online schema changes works with."""
    seed: int = 0
    """Seed of the target's table, for hashes of its keys: source tables that are merged into it have the same one."""

    @property
    def name(self) -> str:
        return f"{identifier(self.into.schema)}.{identifier(self.into.name)}"

    @property
    def has_own_columns(self) -> bool:
        """True if the target has columns that are not delivered: a row that is inserted again would lose them."""
        assert self.target
        assert self.writer
        return len(self.target.columns) > len(self.writer.columns)

    def open(self, state: TableState) -> None:
        """Read the target's table for rows of a definition. Raises DeliveryError, TableStopped."""
        if self.writer is not None and self.state == state:
            return
        # What both sides have of the table is written; the target's own indexes say what conflicts.
        self.state = state
        shape = self._shape(state, self._physical())
        self.target = target_table.target_table(self.connection, self.into.schema, self.into.name)
        if self.target is None:
            raise DeliveryError(f"{self.label}: the target has no such table; create it, or set ddl: apply")
        columns = self.target.output_columns(shape)
        if not columns:
            raise DeliveryError(f"{self.label}: the target's table has no column of the lake's")
        self.writer = Writer(
            self.into.schema,
            self.into.name,
            columns,
            self.target.key(columns),
            self.settings.batch_rows,
            self.connection.facts.max_packet,
            shape.source_key(columns),
        )
        self.keys = UniqueKeys(self.seed, self.target, columns, weights_of(self.connection))

    def apply(self, step: SchemaChange) -> "Applied":
        """Execute what a statement does to the target, but for fills. Raises DeliveryError, TableStopped, LostRace."""
        is_online = step.inherited is not None and self.is_helper(step.inherited.name)
        if step.inherited is not None and not is_online:
            raise DeliveryError(
                f"{self.label}: the statement at {step.range.start} gave the table rows that it had under another name "
                "or key; deliver it from the beginning: stratalog deliver --reload"
            )
        is_emptied = step.empties and not is_online and not step.keeps
        # What an attempt altered, the next one finds altered.
        applied = self.connection.retried(lambda: self._applied(step, is_emptied=is_emptied), self.label)
        self.before, self.writer, self.keys = applied.columns, None, None
        if step.state.definition is not None:
            self.state = step.state
        return applied

    def _applied(self, step: SchemaChange, *, is_emptied: bool) -> "Applied":
        statements = [f"TRUNCATE TABLE {self.name}"] if is_emptied else []
        if step.state.definition is None:
            return Applied(self.before, self._executed(statements), [])
        shape = self._shape(step.state, self._physical_after(step), f"@{step.range.start}")
        self._require_same_key(step)
        fills = self._fills(step, shape) if self.settings.ddl != "ignore" and not step.empties else {}
        defaults = {name: text for name, text in fills.items() if _may_be_default(shape, name, text)}
        statements += self._alterations(shape, step, defaults)
        # A column whose type has no default is filled; it may be repeated, since no row behind it is there.
        filled = [f"{identifier(name)} = {text}" for name, text in fills.items() if name not in defaults]
        columns: Columns = target_table.types_of(shape, Dialect.of(self.connection))
        # Tables of several sources have the columns of all of them.
        columns = dict(self.before) | dict(columns) if self.judge.provenance else columns
        updates = [f"UPDATE {self.name} SET {', '.join(filled)}"] if filled else []
        return Applied(columns, self._executed(statements), updates)

    def _executed(self, statements: list[str]) -> list[str]:
        for statement in statements:
            log.info("%s: %s", self.label, statement)
            self.execute(statement)
        return statements

    def _require_same_key(self, step: SchemaChange) -> None:
        old, new = self.state and self.state.definition, step.state.definition
        if old and new and (old.key or ()) and _key_names(old.columns, old.key) != _key_names(new.columns, new.key):
            names = step.origins or {}
            renamed = tuple(names.get(name) or name for name in _key_names(new.columns, new.key))
            if renamed != _key_names(old.columns, old.key):
                raise DeliveryError(
                    f"{self.label}: the primary key changed at {step.range.start}; change the target's too, and "
                    "deliver the table from the beginning: stratalog deliver --reload"
                )

    def _fills(self, step: SchemaChange, shape: LakeTableShape) -> dict[str, str]:
        """Literal by new column that rows which are there have in it."""
        names = [column.name for column in shape.columns if column.name in step.fills]
        literal_list: dict[str, str] = {}
        for name in names:
            fill = step.fills[name]
            if fill.exact is None and _NUMBER.fullmatch(fill.sql):
                literal_list[name] = fill.sql
                continue
            value = values_by_expression([fill.sql])[fill.sql]
            exact = None if fill.exact is None else [(name, fill.exact)]
            row = pa.table({name: pa.array([value.as_py()], value.type), RAW: pa.array([exact], _RAW)})
            kind = next(column.column.sql_type for column in shape.columns if column.name == name and column.column)
            (literal,) = literals(row, [OutputColumn(name, kind.partition("(")[0].partition(" ")[0])])
            literal_list[name] = literal[0].as_py()
        return literal_list

    def _alterations(self, shape: LakeTableShape, step: SchemaChange, defaults: Mapping[str, str]) -> list[str]:
        if self.settings.ddl == "ignore":
            return []
        target = target_table.target_table(self.connection, self.into.schema, self.into.name)
        dialect = Dialect.of(self.connection)
        if target is None:
            raise DeliveryError(f"{self.label}: the target has no such table; create it, or set ddl: apply")
        # Of a merged table no column is dropped: other sources may have it still.
        before: Columns = {} if self.judge.provenance else self.before
        with about(self.label):
            clauses = Alterations(before, shape, target, dialect, defaults).clauses(
                is_checked=self.settings.ddl == "stop"
            )
        statements = dialect.altering(self.name, clauses)
        if statements and self.settings.ddl == "stop":
            raise DeliveryError(
                f"{self.label}: its columns changed at {step.range.start}, and ddl is stop; run at the target what "
                f"follows, then deliver again: {'; '.join(statements)}"
            )
        return statements

    def _physical(self) -> dict[str, str]:
        """Physical names of the delivered columns, by name."""
        return {column["name"]: physical for physical, column in self.before.items()}

    def _physical_after(self, step: SchemaChange) -> dict[str, str]:
        """The same behind a statement: a column keeps it where it comes from one that was there."""
        physical = self._physical()
        new = self.judge.columns(step.state).types
        # Of an online schema change the column of the same name is the one that was there.
        origins: Mapping[str, str | None] = {name: name for name in new}
        if step.inherited is None and self.state is not None and self.state.definition is not None:
            origins = column_origins(step, self.judge.columns(self.state).types, new)
        return {name: physical[origin] for name, origin in origins.items() if origin is not None and origin in physical}

    def _shape(self, state: TableState, physical: Mapping[str, str], suffix: str = "") -> LakeTableShape:
        table_columns, definition = self.judge.columns(state), state.definition
        assert definition
        declared = {str(column.name): column for column in definition.columns}
        columns = [
            LakeColumn(
                name,
                physical.get(name, f"{name}{suffix}"),
                kind,
                as_declared(declared.get(name), kind, self.into.hashed),
            )
            for name, kind in table_columns.types.items()
        ]
        # Columns that tell whose rows they are stand first, and are part of the key.
        provenance = [
            LakeColumn(name, physical.get(name, name), PROVENANCE[name], None) for name in self.judge.provenance
        ]
        key = (*self.judge.provenance, *table_columns.key) if table_columns.key else ()
        return LakeTableShape((*provenance, *columns), key, "")


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_RAW = pa.map_(pa.string(), pa.string())
_WITHOUT_DEFAULT = re.compile(r"(tiny|medium|long)?(text|blob)|json|geometry|point|.*string|.*polygon|vector")


def _may_be_default(shape: LakeTableShape, name: str, text: str) -> bool:
    """True if a literal may stand behind DEFAULT: types of any length have none, and a cast is no constant."""
    column = next(column.column for column in shape.columns if column.name == name)
    return column is not None and not _WITHOUT_DEFAULT.match(column.sql_type) and not text.startswith("CAST(")


def _key_names(columns: "tuple[Column, ...]", key: tuple[int, ...] | None) -> tuple[str, ...]:
    return tuple(str(columns[at].name) for at in key or ())
