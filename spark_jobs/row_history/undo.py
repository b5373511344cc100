"""Undo of chosen changes: SQL that reverts them, the last one first, each of their transactions as one.

Put here: which changes are taken back, in which order, what is refused, and the script. Not here: statements
(undo_steps.py), asking a server (undo_check.py), or reading the log (trace.py).

Nothing is executed here. All chosen changes are in memory: the last one is the first to be taken back.
"""

import heapq
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import stored_changes
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.effects import AlterTable, DropSchema, DropTable, Rename, TruncateTable, UnknownChange, effects
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.errors import ConfigError, DecodeError, Unsupported
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.row_history.table_life import life_of
from spark_jobs.row_history.trace import Selection, TableTrace, TracedChange
from spark_jobs.row_history.undo_children import (
    ChildRules,
    Event,
    event_of,
    require_parents,
    require_whole_events,
)
from spark_jobs.row_history.undo_steps import SESSION, UndoStep, steps_of
from spark_jobs.schema.history import by_table
from spark_jobs.schema.tracker import as_of
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.text.disclosure import cell, text_lines
from spark_jobs.text.sql import standard_literal

log = logging.getLogger(__name__)

_MOST_SHOWN = 300
"""Characters of a statement that a comment has."""


@dataclass(frozen=True, slots=True)
class Undo:
    """The steps that take changes back, in the order in which they are to be executed."""

    source: str
    steps: tuple[UndoStep, ...]

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        source: str,
        names: Sequence[TableName],
        selection: Selection,
        keys: Sequence[UnloggedChanges],
    ) -> "Undo":
        """keys: the foreign keys of the source's log that cascade.

        Raises LakeError, SourceError, DecodeError, ConfigError, and Unsupported for what cannot be taken back.
        """
        for name in names:
            _require_raw(pipeline, source, name, selection)
        tables = [_Table.of(pipeline, source, name, selection) for name in names]
        changes = {table.name: list(table.trace.changes()) for table in tables}
        restored = (
            _Children(pipeline, source, selection, ChildRules(source, keys)).steps(tables, changes) if tables else {}
        )
        steps = [step for table in tables for step in table.steps(_without_derived(changes[table.name]))]
        # The last event first, its rows, and behind them what foreign keys did by it.
        events = defaultdict[Event, list[UndoStep]](list)
        for step in sorted(steps, key=lambda step: step.traced.position, reverse=True):
            events[event_of(step.traced)].append(step)
        return cls(
            source,
            tuple(step for event, event_steps in events.items() for step in (*event_steps, *restored.get(event, ()))),
        )

    def transactions(self) -> Iterator[list[UndoStep]]:
        """The steps by the transaction of the source that made the changes."""
        for _, group in groupby(self.steps, key=lambda step: step.traced.facts.transaction):
            yield list(group)

    def script(self) -> Iterator[str]:
        """The lines of the SQL."""
        yield f"-- takes {len(self.steps):,} changes of {cell(self.source)} back, the last one first\n"
        yield "-- where a row was changed since, its statement does nothing, and the next one prints the conflict\n"
        for statement in SESSION:
            yield f"{statement};\n"
        for steps in self.transactions():
            yield "\n"
            yield from _comments(steps)
            yield "START TRANSACTION;\n"
            for step in steps:
                yield f"{step.sql()};\n"
                yield f"SELECT {standard_literal(str(step.location))} AS conflict FROM DUAL WHERE ROW_COUNT() = 0;\n"
            yield "COMMIT;\n"


def _comments(steps: Sequence[UndoStep]) -> Iterator[str]:
    """Authors of what a transaction takes back, and their statements, the last one first."""
    change, facts = steps[0].traced.change, steps[0].traced.facts
    makers = [
        f"{change.committed_at:%Y-%m-%d %H:%M:%S.%f}Z",
        str(facts.transaction),
        *([f"gtid {change.gtid}"] if change.gtid else []),
        *([f"connection {facts.connection}"] if facts.connection is not None else []),
    ]
    yield f"-- {'  '.join(makers)}\n"
    for statement in dict.fromkeys(step.traced.facts.statement for step in steps):
        if statement:
            text = statement if len(statement) <= _MOST_SHOWN else f"{statement[:_MOST_SHOWN]}…"
            yield from (f"-- {line}\n" for line in text_lines(text))


def _without_derived(changes: Iterable[TracedChange]) -> list[TracedChange]:
    return [traced for traced in changes if not traced.change.is_derived]


@dataclass(frozen=True, slots=True)
class _Children:
    """The children of the tables whose changes are taken back."""

    pipeline: Pipeline
    source: str
    selection: Selection
    rules: ChildRules

    def steps(
        self, tables: Sequence["_Table"], changes: Mapping[TableName, Sequence[TracedChange]]
    ) -> dict[Event, list[UndoStep]]:
        """Steps by event that restore what foreign keys did by it. Raises Unsupported.

        changes: the chosen ones of each table, those by foreign keys among them.
        """
        logged = [traced for listed in changes.values() for traced in _without_derived(listed)]
        events = {event_of(traced) for traced in logged}
        self.rules.require_known(lake_of(self.pipeline), logged)
        chosen = (traced for listed in changes.values() for traced in listed if traced.change.is_derived)
        require_parents(chosen, events, self.rules)
        # Children that nobody named come back too.
        trace = tables[0].trace
        children = {
            name: self._table_with_all_changes(name)
            for name in sorted(_children_of(trace.snapshot.table.path, trace.within, events))
        }
        for name in children:
            _require_raw(self.pipeline, self.source, name, self.selection)
        # What foreign keys did to them by the chosen events, in the order of the log.
        derived = [traced for table in children.values() for traced in table.trace.derived()]
        derived = sorted(
            (traced for traced in derived if event_of(traced) in events), key=lambda traced: traced.position
        )
        # By keys or a condition an event may be chosen in part.
        if derived and (self.selection.keys or self.selection.condition):
            all_changes = (
                traced
                for table in tables
                for traced in _without_derived(self._table_with_all_changes(table.name).trace.changes())
            )
            require_whole_events(self.source, logged, all_changes, {event_of(traced) for traced in derived})
        # Each change as a step of its table, by event in the order that the rules give.
        restored = self.rules.restored(logged, derived)
        by_table = defaultdict[TableName, list[TracedChange]](list)
        for traced in (traced for listed in restored.values() for traced in listed):
            by_table[traced.change.definition.name].append(traced)
        steps = {step.traced.position: step for name, table in children.items() for step in table.steps(by_table[name])}
        return {
            event: [steps[traced.position] for traced in listed if traced.position in steps]
            for event, listed in restored.items()
        }

    def _table_with_all_changes(self, name: TableName) -> "_Table":
        """A table with all of its changes in the range."""
        everything_chosen = replace(self.selection, keys=(), condition=None, gtids=(), connections=(), pattern=None)
        return _Table.of(self.pipeline, self.source, name, everything_chosen)


def _children_of(bronze: str, within: Range, events: Collection[Event]) -> set[TableName]:
    """The tables whose rows foreign keys changed by some events."""
    found = set[TableName]()
    for part in stored_changes(bronze, derived_slices.read(bronze, within)):
        offsets = part.batch().column("offset").to_pylist()
        if any((part.at.stretch, part.at.number, offset) in events for offset in offsets):
            found.add(part.definition.name)
    return found


def _require_raw(pipeline: Pipeline, source: str, name: TableName, selection: Selection) -> None:
    """Check that a script shows no values that rules hide, unless asked for. Raises ConfigError."""
    rules = filters_of(pipeline.filters, source, name)
    if not selection.is_raw and (rules.rows or rules.columns):
        raise ConfigError(
            f"{name}: rules about its columns or rows hide values that the SQL would have; with --raw, whoever may "
            "read bronze gets them"
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """A table whose changes are taken back. current: its definition at the end of the log, where the lake knows it."""

    name: TableName
    trace: TableTrace
    snapshot: BronzeSnapshot
    current: TableDefinition | None

    @classmethod
    def of(cls, pipeline: Pipeline, source: str, name: TableName, selection: Selection) -> "_Table":
        trace = TableTrace.of(pipeline, source, name, selection)
        versions = by_table(lake_of(pipeline), source).get(name, ())
        version = next(iter(as_of(versions, trace.snapshot.end).values()), None)
        return cls(name, trace, trace.snapshot, version.definition if version else None)

    def steps(self, changes: Sequence[TracedChange]) -> Iterator[UndoStep]:
        """The steps of changes of the table, in the log's order."""
        if not changes:
            return
        self._require_same_columns(changes)
        # Generated columns are in the log, and no statement sets them.
        generated = (
            [
                name
                for name, column in zip(self.current.column_names(), self.current.columns, strict=True)
                if column.computed
            ]
            if self.current
            else []
        )
        by_definition: dict[TableDefinition, list[TracedChange]] = {}
        for traced in changes:
            by_definition.setdefault(traced.change.definition, []).append(traced)
        lists = [steps_of(self.name, definition, group, generated) for definition, group in by_definition.items()]
        yield from heapq.merge(
            *([step for step in steps if step] for steps in lists), key=lambda step: step.traced.position
        )

    def _require_same_columns(self, changes: Sequence[TracedChange]) -> None:
        """Check that the table still has the columns and the key of the changes. Raises Unsupported."""
        # What a statement did to columns since the first change, the definition of now tells.
        first = changes[0].facts.transaction
        life = life_of(self.trace.indexes.files, self.name, Range(first, self.snapshot.end))
        for logged in life.statements:
            kinds = _effects_on(logged)
            if any(isinstance(effect, TruncateTable | DropTable | DropSchema) for effect in kinds):
                log.warning(
                    "%s: %s emptied the table, which is not taken back: the log has no rows of it", self.name,
                    logged.position,
                )  # fmt: skip
            if not any(_changes_columns(effect) for effect in kinds):
                continue
            for definition in {traced.change.definition for traced in changes}:
                if self.current is None or not _fits(definition, self.current):
                    raise Unsupported(
                        f"{logged.position}: {self.name} has other columns now than when the changes were made: "
                        f"{logged.statement.short}; choose changes after it (--from), or change the columns back"
                    )


def _effects_on(logged: object) -> tuple[object, ...]:
    try:
        return tuple(effects(logged.statement, logged.database, logged.session))  # type: ignore[attr-defined]
    except DecodeError:
        return (UnknownChange(""),)


def _changes_columns(effect: object) -> bool:
    if isinstance(effect, AlterTable):
        return not isinstance(effect.clauses, tuple) or bool(effect.clauses)
    return isinstance(effect, UnknownChange | Rename)


def _fits(definition: TableDefinition, current: TableDefinition) -> bool:
    """True if the columns of a definition are in another one as they were, and the key is the same."""
    columns = dict(zip(current.column_names(), current.columns, strict=True))
    then = dict(zip(definition.column_names(), definition.columns, strict=True))
    keys = [[names.column_names()[at] for at in names.key or ()] for names in (definition, current)]
    return keys[0] == keys[1] and all(
        name in columns and columns[name].sql_type == column.sql_type for name, column in then.items()
    )
