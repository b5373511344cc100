"""Inverse of ALTER TABLE: the definitions that a table may have had before, from the one after a statement.

It goes by the operations that ``definition_after_clauses`` carries out, and what it finds is carried out again: where
that does not lead to the definition that is known, it is not what was there. Several definitions may be left, and
columns of which the statement tells no more than the name: the TABLE_MAP of the rows before it decides
(``matching_definition``).

Put here: one statement, and rows before it. Not here: the way back over a log (schema/reverse_replay.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from spark_jobs.binlog import OLD_TWINS, Column, TableDefinition
from spark_jobs.ddl.alter import definition_after_clauses
from spark_jobs.ddl.definitions import PRIMARY, column_list, declared_as_logged
from spark_jobs.ddl.diff import differences, with_timestamps_of
from spark_jobs.ddl.operations import (
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
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import DecodeError, Unsupported

MOST = 64
"""Definitions that are carried back before a statement counts as one that cannot be."""
_TOO_MANY = "it leaves too many ways in which the columns may have stood before it"
_INTEGERS = (1, 2, 9, 3, 8)
_BYTES = 63
_BINARY, _VARBINARY = 254, 15
_ADDRESSES = (4, 16)
"""Lengths of BINARY that MariaDB's UUID, INET4 and INET6 are logged as."""


@dataclass(frozen=True, slots=True)
class EarlierDefinition:
    """A definition that a table may have had at a position.

    is_open: of each column, whether its name alone is known. It stands as it was after the statement that changed it,
    under the name that it had before.
    """

    definition: TableDefinition
    is_open: tuple[bool, ...]

    @property
    def is_named(self) -> bool:
        return not any(self.is_open)


@readable
def known_definition(definition: TableDefinition) -> EarlierDefinition:
    """A definition of which every column is known."""
    return EarlierDefinition(definition, (False,) * len(definition.columns))


@readable
def inverted(candidates: Sequence[EarlierDefinition], clauses: Sequence[Operation]) -> list[EarlierDefinition]:
    """Candidates for a table before the operations of one statement, that left it as one of the candidates.

    Raises Unsupported for what no log tells: which says what that is.
    """
    right, reasons = list[EarlierDefinition](), list[Unsupported]()
    for after in candidates:
        try:
            right += _inverted(after, clauses)
        except Unsupported as error:
            reasons.append(error)
    if not right:
        raise reasons[0]
    if len(right) > MOST:
        raise Unsupported(_TOO_MANY)
    return right


def _inverted(after: EarlierDefinition, clauses: Sequence[Operation]) -> list[EarlierDefinition]:
    _require_stated(after.definition, clauses)
    attempts = [attempt for absent in _absences(clauses) for attempt in _before(after, clauses, absent)]
    differs = [(attempt, _differs(attempt, after, clauses)) for attempt in attempts]
    right = [attempt for attempt, difference in differs if difference is None]
    if not right:
        reason = next((reason for _, reason in differs if reason), "it names columns that the table does not have")
        raise Unsupported(f"its result is not the known definition after it: {reason}")
    return right


@readable
def matching_definition(candidates: Sequence[EarlierDefinition], logged: TableDefinition) -> EarlierDefinition:
    """The one definition that rows were logged with. Raises Unsupported where none fits them, or several do."""
    right, reasons = [], []
    for candidate in candidates:
        try:
            right.append(_closed(candidate, logged))
        except DecodeError as error:
            reasons.append(str(error))
    if not right:
        raise Unsupported(reasons[0])
    if any(candidate != right[0] for candidate in right):
        names = [" or ".join(f"({', '.join(candidate.definition.column_names())})" for candidate in right)]
        raise Unsupported(f"its columns were {names[0]} before it, and the rows do not tell which")
    return right[0]


def _require_stated(after: TableDefinition, clauses: Sequence[Operation]) -> None:
    """Check that the operations can be undone from the definition after them. Raises Unsupported."""
    for clause in clauses:
        if isinstance(clause, Drop):
            raise Unsupported(f"it drops column {clause.name}, and what that was is in no log")
        if isinstance(clause, Change) and clause.if_there and clause.old.casefold() != clause.new.casefold():
            raise Unsupported(f"it renames column {clause.old} if that was there, which the log does not tell")
    if after.key is not None and _touches_key(after, clauses):
        raise Unsupported("it changes keys, and the earlier key is in no log")


def _touches_key(after: TableDefinition, clauses: Sequence[Operation]) -> bool:
    """True if rows may have been identified by other columns before.

    Without an index that it makes, the unique indexes that are left keep their order: the first one stays the first.
    Columns that are NOT NULL after it left at most fewer indexes usable before it.
    """
    declaring = [clause.declared for clause in clauses if isinstance(clause, Add | Change) and clause.declared]
    if any(isinstance(clause, AddPrimary | DropPrimary) for clause in clauses) or any(
        clause.in_key for clause in declaring
    ):
        return True
    if after.index == PRIMARY:
        return False
    key = {after.column_names()[at].casefold() for at in after.key or ()}
    changed = [clause.declared for clause in clauses if isinstance(clause, Change) and clause.declared]
    may_gain = any(declared.column.nullable or str(declared.column.name).casefold() in key for declared in changed)
    gained = {clause.name.casefold() for clause in clauses if isinstance(clause, AddUnique)}
    gained |= {"" for declared in declaring if declared.is_unique}
    is_made = bool(after.key) and (not after.index or bool(gained & {"", after.index.casefold()}))
    return may_gain or (bool(gained) and is_made) or any(isinstance(clause, DropIndex) for clause in clauses)


def _absences(clauses: Sequence[Operation]) -> Iterator[frozenset[str]]:
    """Columns of those to be added if they are missing that were missing; by name."""
    maybe = [clause.name.casefold() for clause in clauses if isinstance(clause, Add) and clause.if_missing]
    if len(maybe) > 4:
        raise Unsupported("it adds columns if they are missing, and which were, is not in the log")
    subsets = chain.from_iterable(combinations(maybe, count) for count in range(len(maybe), -1, -1))
    return map(frozenset, subsets)


@dataclass(frozen=True, slots=True)
class _Was:
    """A column before a statement. origin: its ordinal after it, by which the key is found."""

    column: Column
    is_open: bool
    origin: int


def _before(
    after: EarlierDefinition, clauses: Sequence[Operation], absent: frozenset[str]
) -> Iterator[EarlierDefinition]:
    adds = {clause.name.casefold(): clause for clause in clauses if isinstance(clause, Add)}
    dropped = {name for name, clause in adds.items() if not clause.if_missing or name in absent}
    changes = {clause.new.casefold(): clause for clause in clauses if isinstance(clause, Change)}
    staying, moved = list[_Was](), list[_Was]()
    for ordinal, (column, is_open) in enumerate(zip(after.definition.columns, after.is_open, strict=True)):
        name = str(column.name).casefold()
        change = changes.get(name)
        if name in dropped and change is None:
            continue
        was = _was(column, ordinal, change, is_open=is_open)
        was = was if change and change.declared else _undeclared(was, name, clauses)
        (moved if change and change.after is not None else staying).append(was)
    for columns in _placements(staying, moved):
        yield _definition(after.definition, columns)


def _was(column: Column, ordinal: int, change: Change | None, *, is_open: bool) -> _Was:
    if change is None:
        return _Was(column, is_open, ordinal)
    name = change.old
    if change.declared is None:
        return _Was(replace(column, name=name), is_open, ordinal)
    return _Was(replace(column, name=name, default=None, computed=None, invisible=None), True, ordinal)


def _undeclared(was: _Was, name: str, clauses: Sequence[Operation]) -> _Was:
    """Column without what operations say of it and do not declare. name: that after them, in small letters."""
    column, is_open = was.column, was.is_open
    for clause in clauses:
        if isinstance(clause, Default) and clause.name.casefold() == name:
            column = replace(column, default=None)
        if isinstance(clause, Visible) and clause.name.casefold() == name:
            column = replace(column, invisible=None)
        if isinstance(clause, Convert) and column.type.has_labels:
            column = replace(column, charset=None)
        if isinstance(clause, Convert) and column.type.is_character:
            is_open = True
    return _Was(column, is_open, was.origin)


def _placements(staying: list[_Was], moved: list[_Was]) -> Iterator[list[_Was]]:
    """Every order in which columns that a statement puts somewhere may have stood among the others."""
    if not moved:
        yield staying
        return
    count = 0
    for columns in _placements(staying, moved[1:]):
        for at in range(len(columns) + 1):
            count += 1
            if count > MOST:
                raise Unsupported(_TOO_MANY)
            yield [*columns[:at], moved[0], *columns[at:]]


def _definition(after: TableDefinition, columns: list[_Was]) -> EarlierDefinition:
    origins = [column.origin for column in columns]
    missing = [at for at in after.key or () if at not in origins]
    if missing:
        raise Unsupported(f"it adds column {after.columns[missing[0]].name}, which is in the key after it")
    key = None if after.key is None else tuple(origins.index(at) for at in after.key)
    definition = replace(after, columns=tuple(column.column for column in columns), key=key)
    return EarlierDefinition(definition, tuple(column.is_open for column in columns))


def _differs(before: EarlierDefinition, after: EarlierDefinition, clauses: Sequence[Operation]) -> str | None:
    """Difference between the definition after a statement and what is known after it; None without one."""
    try:
        definition = definition_after_clauses(before.definition, clauses)
    except DecodeError as error:
        return str(error)
    names, expected = ([name.casefold() for name in table.column_names()] for table in (definition, after.definition))
    if names != expected:
        return f"it leads to ({column_list(definition)}), and the table is ({column_list(after.definition)})"
    triples = zip(definition.columns, after.definition.columns, after.is_open, strict=True)
    definition = replace(definition, columns=tuple(two if is_open else column for column, two, is_open in triples))
    lines = differences(with_timestamps_of(definition, after.definition), after.definition, "what is known after it")
    return "; ".join(lines) or None


def _closed(candidate: EarlierDefinition, logged: TableDefinition) -> EarlierDefinition:
    """Definition with what the rows tell of open columns. Raises Unsupported where that is not all, or is another."""
    definition = candidate.definition
    if len(definition.columns) != len(logged.columns):
        raise Unsupported(f"its rows have ({column_list(logged)}), which ({column_list(definition)}) is not")
    triples = zip(definition.columns, logged.columns, candidate.is_open, strict=True)
    columns = tuple(_by_rows(column, row) if is_open else column for column, row, is_open in triples)
    fits = declared_as_logged(logged, replace(definition, columns=columns))
    if fits is None:
        raise Unsupported(
            f"its rows have ({column_list(logged)}), which ({column_list(replace(definition, columns=columns))}) is not"
        )
    return known_definition(replace(fits, name=definition.name))


def _by_rows(after: Column, logged: Column) -> Column:
    """A column whose type a statement changed or declared again, by the rows before it. Raises Unsupported.

    The sign of an integer is none that a strict session tells: it refuses what changes a value of a row that is there,
    and rows that went before had values too.
    """
    column = replace(logged, name=after.name)
    if column.unsigned is None and column.type_code not in _INTEGERS:
        column = replace(column, unsigned=bool(after.unsigned))
    for is_missing, phrase in _MISSING:
        if is_missing(column):
            raise Unsupported(f"it declares column {after.name}, and the log does not tell {phrase} that had before")
    return column


def _may_be_disguised(column: Column) -> bool:
    """True if MariaDB may have declared it as another type than the log has it as."""
    if column.charset != _BYTES or column.declared is not None:
        return False
    is_address = column.type_code == _BINARY and column.meta in _ADDRESSES
    return is_address or (column.type_code == _VARBINARY and column.meta % 4 == 0)


_MISSING: tuple[tuple[Callable[[Column], bool], str], ...] = (
    (lambda column: column.type.has_labels, "the labels"),
    (lambda column: column.unsigned is None, "the sign"),
    (lambda column: column.type.is_character and column.charset is None, "the character set"),
    (_may_be_disguised, "whether it was UUID, INET or VECTOR"),
    (lambda column: column.type_code in OLD_TWINS.values() and column.declared is None, "the digits of a second"),
)
"""Facts that a TABLE_MAP may leave out of a column."""
