"""A table's definition after ALTER TABLE.

Source: the order in which changes of columns are carried out is that of sql/sql_table.cc (``prepare_fields_and_keys``).

Put here: applying operations to a definition. Not here: reading the statement (parse_alter.py), which values survive
(widening.py), what happens in the lake (silver/schema_evolution.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.binlog import Column, Moment, TableDefinition
from spark_jobs.ddl.columns import DeclaredColumn, column_in_charset
from spark_jobs.ddl.default_values import Fill, fill_of, with_default
from spark_jobs.ddl.definitions import PRIMARY
from spark_jobs.ddl.operations import (
    FIRST,
    Add,
    AddPrimary,
    AddUnique,
    Change,
    Convert,
    Default,
    Drop,
    DropIndex,
    DropPrimary,
    Operation,
    Visible,
)
from spark_jobs.ddl.parse_alter import name_index
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import Unsupported


@dataclass(frozen=True, slots=True)
class AlteredDefinition:
    """A definition after a statement. origins: for each of its columns the ordinal before, None for a new one.

    fills: what rows that were there have in new columns, by name; absent for NULL. declared: what the statement says of
    each column, None where it says nothing.
    """

    definition: TableDefinition
    origins: tuple[int | None, ...]
    fills: dict[str, Fill]
    declared: tuple[DeclaredColumn | None, ...] = ()
    is_open: frozenset[str] = frozenset()
    """Names of new columns of which the statement does not say whether they may be NULL."""


@dataclass(slots=True)
class _Slot:
    """A column on its way: from which it comes, what declares it, where it is to go."""

    name: str
    origin: int | None
    declared: DeclaredColumn | None = None
    after: str | None = None


@readable
def altered_definition(
    before: TableDefinition, clauses: Sequence[Operation], moment: Moment | None = None
) -> AlteredDefinition:
    """The definition after the operations of one statement, with where its columns come from.

    moment: when the statement started, for values that new columns take from its clock.
    Its key is None where the statement does not tell which index takes the place of the one that went; a table without
    a key gets one by a primary key alone. Raises Unsupported.
    """
    slots, origins = _slots(before, clauses)
    _require_one_primary(before, clauses, origins)
    definition = definition_after_clauses(before, clauses)
    if before.key == () and not _primary(before, clauses):
        definition = replace(definition, key=(), index=None)
    new = {slot.name: fill_of(slot.declared, moment) for slot in slots if slot.origin is None and slot.declared}
    fills = {name: fill for name, fill in new.items() if fill is not None}
    is_open = frozenset(slot.name for slot in slots if slot.origin is None and slot.declared and slot.declared.is_open)
    return AlteredDefinition(definition, origins, fills, tuple(slot.declared for slot in slots), is_open)


@readable
def definition_after_clauses(before: TableDefinition, clauses: Sequence[Operation]) -> TableDefinition:
    """The definition after the operations of one statement, whatever they do to rows and keys.

    Its key is None where the statement does not tell which index takes the place of the one that went. Raises
    Unsupported.
    """
    slots, origins = _slots(before, clauses)
    columns = [_column_after(before, slot, clauses) for slot in slots]
    names = [slot.name.casefold() for slot in slots]
    primary = _primary(before, clauses)
    if primary:
        key = tuple(name_index(names, name) for name in primary)
        return _with_not_null_key(replace(before, columns=tuple(columns), key=key, index=PRIMARY))
    surviving = None if before.key is None else tuple(origins.index(at) for at in before.key if at in origins)
    if surviving is None or _loses_key(before, clauses, slots) or (before.key and not surviving):
        return replace(before, columns=tuple(columns), key=None, index=None)
    if surviving:
        return _with_not_null_key(replace(before, columns=tuple(columns), key=surviving))
    return replace(before, columns=tuple(columns), **_first_key(clauses, slots, columns))


def _with_not_null_key(definition: TableDefinition) -> TableDefinition:
    """The columns of a primary key are NOT NULL, whatever statements say of them."""
    if definition.index not in (None, PRIMARY):
        return definition
    key = definition.key or ()
    columns = [
        replace(column, nullable=column.nullable and at not in key) for at, column in enumerate(definition.columns)
    ]
    return replace(definition, columns=tuple(columns))


def _slots(before: TableDefinition, clauses: Sequence[Operation]) -> tuple[list["_Slot"], tuple[int | None, ...]]:
    """The columns behind a statement, in order, and from which ones before they come. Raises Unsupported."""
    slots, waiting = _surviving(before, clauses)
    for slot in waiting:
        at = len(slots) if slot.after is None else _behind(slots, slot.after)
        slots.insert(at, slot)
    names = [slot.name.casefold() for slot in slots]
    twice = next((slot.name for slot in slots if names.count(slot.name.casefold()) > 1), None)
    if twice is not None:
        raise Unsupported(f"the table has a column {twice} already, as far as is known: {before}")
    return slots, tuple(slot.origin for slot in slots)


def _primary(before: TableDefinition, clauses: Sequence[Operation]) -> list[str]:
    """The columns of the primary key that a statement makes, by itself or as part of a column's definition."""
    existing = {name.casefold() for name in before.column_names()}
    added = [name for clause in clauses if isinstance(clause, AddPrimary) for name in clause.columns]
    effective = [
        clause
        for clause in clauses
        if not (isinstance(clause, Add) and clause.if_missing and clause.name.casefold() in existing)
    ]
    columns = [clause.declared for clause in effective if isinstance(clause, Add | Change) and clause.declared]
    return added or [str(column.column.name) for column in columns if column.in_key]


def _require_one_primary(before: TableDefinition, clauses: Sequence[Operation], origins: Sequence[int | None]) -> None:
    """Check that a table gets no second primary key: some statements do nothing then. Raises Unsupported."""
    is_there = before.index == PRIMARY and any(at in origins for at in before.key or ())
    if is_there and _primary(before, clauses) and not any(isinstance(clause, DropPrimary) for clause in clauses):
        raise Unsupported("it adds a primary key to a table that has one, as far as is known")


def _loses_key(before: TableDefinition, clauses: Sequence[Operation], slots: Sequence["_Slot"]) -> bool:
    """True if the index by which rows are identified goes, or may."""
    if any(isinstance(clause, DropPrimary) for clause in clauses):
        return True
    return any(drops_key(before, clause) for clause in clauses if isinstance(clause, DropIndex)) or _may_be_null(
        before, slots
    )


def _first_key(clauses: Sequence[Operation], slots: Sequence["_Slot"], columns: Sequence[Column]) -> dict[str, Any]:
    """Key and index of a table that had none: a unique index of columns without NULL that the statement makes.

    Not known where a column that was there is NOT NULL from now on, which may make a key of an index.
    """
    if any(slot.declared and slot.origin is not None and not slot.declared.column.nullable for slot in slots):
        return {"key": None, "index": None}
    names = [slot.name.casefold() for slot in slots]
    uniques = [AddUnique("", (slot.name,)) for slot in slots if slot.declared and slot.declared.is_unique]
    for unique in [*(clause for clause in clauses if isinstance(clause, AddUnique)), *uniques]:
        key = tuple(name_index(names, name) for name in unique.columns or ())
        if key and not any(columns[at].nullable or columns[at].computed for at in key):
            return {"key": key, "index": unique.name}
    return {"key": (), "index": None}


@readable
def drops_key(before: TableDefinition, dropped: DropIndex) -> bool:
    """True if the index that goes is, or may be, the one by which rows are identified.

    Where the log tells the key itself and nothing names the index, the next TABLE_MAP does.
    """
    name = dropped.name.casefold()
    if name == PRIMARY.casefold():
        return before.index in (None, PRIMARY)
    return bool(before.key) and before.index is not None and before.index.casefold() in ("", name)


def _may_be_null(before: TableDefinition, slots: Sequence[_Slot]) -> bool:
    """True if a unique index stops being a key because a column of it may be NULL."""
    if before.index in (None, PRIMARY):
        return False
    key = before.key or ()
    return any(slot.declared and slot.declared.column.nullable and slot.origin in key for slot in slots)


def _surviving(before: TableDefinition, clauses: Sequence[Operation]) -> tuple[list[_Slot], list[_Slot]]:
    """The columns that stay where they are.

    And those that are put somewhere afterwards, as they are named there.
    """
    # Columns without FIRST or AFTER keep their order, whatever their new names are.
    names = [name.casefold() for name in before.column_names()]
    drops = {clause.name.casefold() for clause in clauses if isinstance(clause, Drop)}
    changes = {clause.old.casefold(): clause for clause in clauses if isinstance(clause, Change)}
    _require_there(before, clauses)
    slots = []
    for ordinal, name in enumerate(names):
        change = changes.get(name)
        if change is not None and change.after is None:
            slots.append(_Slot(change.new, ordinal, change.declared))
        elif change is None and name not in drops:
            slots.append(_Slot(before.column_names()[ordinal], ordinal))
    # IF NOT EXISTS looks at names that no clause of the same statement drops or changes.
    staying = {name for name in names if name not in drops and name not in changes}
    waiting = []
    for clause in clauses:
        if isinstance(clause, Add) and not (clause.if_missing and clause.name.casefold() in staying):
            waiting.append(_Slot(clause.name, None, clause.declared, clause.after))
        elif isinstance(clause, Change) and clause.after is not None and clause.old.casefold() in names:
            waiting.append(_Slot(clause.new, names.index(clause.old.casefold()), clause.declared, clause.after))
    return slots, waiting


def _require_there(before: TableDefinition, clauses: Sequence[Operation]) -> None:
    names = {name.casefold() for name in before.column_names()}
    demanded = [clause.name for clause in clauses if isinstance(clause, Drop) and not clause.if_there]
    demanded += [clause.old for clause in clauses if isinstance(clause, Change) and not clause.if_there]
    twice = {name for name in demanded if demanded.count(name) > 1}
    if twice:
        raise Unsupported(f"it changes column {min(twice)} twice")
    missing = [name for name in demanded if name.casefold() not in names]
    if missing:
        raise Unsupported(f"the table had no column {missing[0]}, as far as is known: {before}")


def _behind(slots: Sequence[_Slot], name: str) -> int:
    if name == FIRST:
        return 0
    at = next((k for k, slot in enumerate(slots) if slot.name.casefold() == name.casefold()), None)
    if at is None:
        raise Unsupported(f"there is no column {name} for AFTER")
    return at + 1


def _column_after(before: TableDefinition, slot: _Slot, clauses: Sequence[Operation]) -> Column:
    if slot.declared is not None:
        return with_default(slot.declared)
    column = before.columns[slot.origin or 0]
    column = replace(column, name=slot.name) if column.name is not None else column
    for clause in clauses:
        if isinstance(clause, Default) and clause.name.casefold() == slot.name.casefold():
            column = (
                with_default(DeclaredColumn(column, clause.words)) if clause.words else replace(column, default=None)
            )
        if isinstance(clause, Visible) and clause.name.casefold() == slot.name.casefold():
            column = replace(column, invisible=not clause.is_visible)
    charset = next((clause.charset for clause in clauses if isinstance(clause, Convert)), None)
    return column_in_charset(column, charset) if charset else column
