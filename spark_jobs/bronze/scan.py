"""Scan of a range of bronze without its payloads: tables, their definitions, statements.

Put here: the questions that planning asks of bronze. Not here: what follows from the answers (silver/timeline/).
One pass over the index of its metadata columns answers for all tables of a source at once.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from spark_jobs.binlog import (
    FormatDescription,
    Session,
    TableDefinition,
    TableName,
    parse_table_map,
    read_session,
    same_layout,
)
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import SliceIndex, read_index, read_slices
from spark_jobs.bronze.xa import NO_XA, Xa, committed, taking_effect
from spark_jobs.ddl.classify import Effect, Statement, classify
from spark_jobs.ddl.effects import CreateTable, CreateTemporary, Rename, TableEffect, effects, name_changes
from spark_jobs.errors import DecodeError, LakeError, TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement of the log: its position, the position after it, and when it took effect.

    database: the session's default one. session: what else of it decides what the statement means.
    """

    position: Position
    statement: Statement
    stop: Position
    database: str = ""
    committed_at: datetime | None = None
    session: Session = field(default_factory=Session)
    begin: Position | None = None
    """Position where its transaction begins; None where it is a transaction by itself."""

    @property
    def boundary(self) -> Position:
        """The boundary of transactions before it."""
        return self.begin or self.position


@dataclass(frozen=True, slots=True)
class TableExtent:
    """A table of the range: where its first and last slices begin, the definitions of its rows, its slices' bytes."""

    first: Position
    last: Position
    definitions: tuple[tuple[Position, TableDefinition], ...]
    size: int = 0


@dataclass(frozen=True)
class RangeScan:
    """``tables`` by name, and statements that matter; XA transactions that are committed stand at their XA COMMIT.

    has_xa: whether any slice is about an XA transaction. xa: those that the range commits. before: the statements
    between where their rows were logged and the range.
    """

    tables: dict[TableName, TableExtent]
    statements: tuple[LoggedStatement, ...]
    has_xa: bool = False
    xa: Xa = NO_XA
    before: tuple[LoggedStatement, ...] = ()
    temporary: frozenset[tuple[str, str]] = frozenset()
    """Temporary tables, in small letters, that statements of the range make."""

    def written_tables(self) -> set[TableName]:
        """The tables whose rows statements change by themselves, in the letters of the statement or of their CREATE.

        Of a statement that does not tell its tables, those that the range creates and that it may be about.
        """
        creates = (statement for statement in self.statements if statement.statement.effect is Effect.CREATES)
        names = [effect.table for create in creates for effect in _effects(create) if isinstance(effect, CreateTable)]
        written_tables: set[TableName] = set()
        for statement in (statement.statement for statement in self.statements if statement.statement.writes_rows):
            if statement.writes is None:
                written_tables |= {name for name in names if statement.names(name.schema, name.table)}
            else:
                written_tables |= {TableName(*name) for name in statement.writes}
        return {
            name for name in written_tables if (name.schema.casefold(), name.table.casefold()) not in self.temporary
        }

    def about(self, name: TableName, since: Position) -> list[LoggedStatement]:
        """The statements from a position on that name a table, in order; without those about indexes alone."""
        return [logged for logged in self._naming(name, since) if logged.statement.effect is not Effect.INDEXES]

    def indexes(self, name: TableName, since: Position) -> list[LoggedStatement]:
        """The statements from a position on that make or drop one of a table's indexes, in order."""
        return [logged for logged in self._naming(name, since) if logged.statement.effect is Effect.INDEXES]

    def last_change(self, name: TableName) -> Position | None:
        """Position where the last statement stands that names a table."""
        logged_statements = self._statements_of(name)
        return max(
            (logged.position for logged in logged_statements if logged.statement.effect is not Effect.INDEXES),
            default=None,
        )

    def _naming(self, name: TableName, since: Position) -> list[LoggedStatement]:
        return [logged for logged in self._statements_of(name) if logged.position >= since]

    def _statements_of(self, name: TableName) -> list[LoggedStatement]:
        """The statements that name a table, or may."""
        exact, open_ = self._by_name
        ordinals = [*exact.get((name.schema.casefold(), name.table.casefold()), ())]
        ordinals += [at for at in open_ if self.statements[at].statement.names(name.schema, name.table)]
        return [self.statements[at] for at in sorted(ordinals)]

    @cached_property
    def _by_name(self) -> tuple[dict[tuple[str, str], list[int]], list[int]]:
        """The statements by the tables that they name, and those that have to be asked: by their positions.

        A first run asks for the statements of every table, and its log has the CREATE of every table.
        """
        exact: dict[tuple[str, str], list[int]] = {}
        open_ = []
        for at, logged in enumerate(self.statements):
            names = logged.statement.exact_names
            if names is None:
                open_.append(at)
            for name in names or ():
                exact.setdefault(name, []).append(at)
        return exact, open_


def scan_metadata(slices: SliceIndex) -> RangeScan:
    """Read the metadata of the given slices (a range of bronze). Raises DecodeError on a damaged table map.

    XA transactions are not in it: see ``scan_effective``.
    """
    definitions: dict[TableName, list[tuple[Position, TableDefinition]]] = {}
    statements, temporary = [], set[tuple[str, str]]()
    # In the order of the log: tables as their first map in a slice defines them, and statements that do something.
    for row in slices.statements_and_table_maps():
        at = Position(row["file"], row["start"], row["stretch"])
        if row["maps"]:
            for definition in definitions_in(row["context"], row["maps"], at):
                definitions.setdefault(definition.name, []).append((at, definition))
        if row["kind"] == "statement" and row["statement"] is not None:
            stop, database = replace(at, offset=row["stop"]), row["database"] or ""
            session = replace(read_session(row["begin"]), is_mariadb=_head_of(row["context"], at).flavor == "mariadb")
            statement = classify(row["statement"], database, session)
            # Tables stop between transactions: a statement stands where its transaction begins.
            position = replace(at, offset=row["transaction_start"])
            logged_statement = LoggedStatement(at, statement, stop, database, row["committed_at"], session, position)
            temporary |= _temporary(logged_statement)
            if statement.effect is not Effect.NONE:
                statements.append(logged_statement)

    tables = {
        name: TableExtent(first, last, tuple(definitions.get(name, ())), size)
        for name, (first, last, size) in slices.extent_by_table().items()
    }
    has_xa = bool(slices.flags("is_xa").any())
    return RangeScan(tables, tuple(statements), has_xa, temporary=frozenset(temporary))


def _temporary(logged_statement: LoggedStatement) -> set[tuple[str, str]]:
    """The temporary table that a statement makes, in small letters."""
    if not logged_statement.statement.verb.startswith("CREATE"):
        return set()
    temporary_names = (effect.table for effect in _effects(logged_statement) if isinstance(effect, CreateTemporary))
    return {(name.schema.casefold(), name.table.casefold()) for name in temporary_names}


def _effects(logged_statement: LoggedStatement) -> tuple[TableEffect, ...]:
    """Effects of a statement on tables; none where it cannot be read: its tables stop at it."""
    with suppress(DecodeError):
        return effects(logged_statement.statement, logged_statement.database, logged_statement.session)
    return ()


def scan_effective(
    table: Table,
    version: int,
    within: Range,
    oldest: Position,
    cuts: Collection[Position] = (),
) -> tuple[SliceIndex, RangeScan]:
    """The slices of bronze that take effect in a range, and their survey. oldest: where bronze begins.

    Rows of XA transactions that the range commits are among them, at the place of the XA COMMIT, wherever they were
    logged; those of others are not. cuts: boundaries of transactions that may lie inside slices, where the range or a
    table's part of it begins. Raises DecodeError, LakeError.
    """
    inside = [cut for cut in cuts if within.start <= cut <= within.stop]
    index = read_index(table, version, within).cut(inside).within(within)
    _require_names(index, table)
    index = derived_slices.with_derived(index, table.path, within)
    range_scan = scan_metadata(index)
    if not range_scan.has_xa:
        return index, _with_derived(range_scan, index)
    xa = committed(index.files, within, oldest)
    before = _before(index.files, within, xa)
    with_new_names = _with_new_names(xa, (*before, *range_scan.statements))
    range_scan = replace(_with_xa(range_scan, with_new_names), before=before)
    return taking_effect(index, xa), _with_derived(range_scan, index)


def _require_names(index: SliceIndex, table: Table) -> None:
    """Check that each slice of rows says which tables these are of. Raises LakeError."""
    if len(index.unnamed):
        at = index.begin(int(index.unnamed[0]))
        raise LakeError(
            f"{table.path}: the slice at {at} does not say which tables it has rows of: a build of before "
            "the first version wrote it, and no table would get its rows; move the lake away, and run again, which "
            "extracts the log again"
        )


def _with_derived(range_scan: RangeScan, index: SliceIndex) -> RangeScan:
    """A survey with the child tables whose changes were derived, with the definition that their rows have there."""
    tables = dict(range_scan.tables)
    for name, derived in derived_slices.definitions_in(index.derived).items():
        logged = tables.get(name)
        definitions = list(logged.definitions) if logged else []
        for at, definition in derived:
            definitions.append((at, _as_logged(definition, at, definitions)))
        positions = [at for at, _ in derived]
        first = min([positions[0], *([logged.first] if logged else [])])
        last = max([positions[-1], *([logged.last] if logged else [])])
        size = logged.size if logged else 0
        ordered_definitions = tuple(sorted(definitions, key=lambda pair: pair[0].order))
        tables[name] = TableExtent(first, last, ordered_definitions, size)
    return replace(range_scan, tables=tables)


def _as_logged(
    definition: TableDefinition, at: Position, known: Sequence[tuple[Position, TableDefinition]]
) -> TableDefinition:
    """The definition of derived rows as the log has it: what silver knows besides would be a difference.

    known: the definitions so far, of which one with the same columns is taken.
    """
    names = [name.casefold() for name in definition.column_names()]
    alike = [
        (position, logged)
        for position, logged in known
        if same_layout(logged, definition)
        and (not logged.has_names() or names == [name.casefold() for name in logged.column_names()])
    ]
    before = [logged for position, logged in alike if position <= at]
    return before[-1] if before else alike[0][1] if alike else definition


def _before(files: DataFiles, within: Range, xa: Xa) -> tuple[LoggedStatement, ...]:
    """The statements from the first rows of the transactions to the range; none where all rows lie in it."""
    log_range = xa.extent()
    if log_range is None or log_range.start >= within.start:
        return ()
    earlier = Range(log_range.start, within.start)
    return scan_metadata(read_slices(files, earlier, "statement").within(earlier)).statements


def _with_new_names(xa: Xa, statements: Iterable[LoggedStatement]) -> Xa:
    """Rows also by the names that statements gave to their tables before the commit: what these hold is not known."""
    for logged in statements:
        with suppress(DecodeError):  # its tables stop at it
            for change in name_changes(logged.statement, logged.database, logged.session):
                if isinstance(change, Rename):
                    xa = xa.also(change.table, change.was, logged.position)
    return xa


def _with_xa(range_scan: RangeScan, xa: Xa) -> RangeScan:
    """A survey with the rows and statements of XA transactions, where they are committed."""
    tables = dict(range_scan.tables)
    for name, (first, last, added) in xa.commits().items():
        occurrence = tables.get(name, TableExtent(first, last, ()))
        size = occurrence.size + added
        tables[name] = replace(
            occurrence, first=min(occurrence.first, first), last=max(occurrence.last, last), size=size
        )
    xa_statements = {_statement_of(row) for row in xa.rows.filter(pc.field("said").is_valid()).to_pylist()}
    meaningful = (statement for statement in xa_statements if statement.statement.effect is not Effect.NONE)
    ordered_statements = sorted((*range_scan.statements, *meaningful), key=lambda statement: statement.position)
    return replace(range_scan, tables=tables, statements=tuple(ordered_statements), xa=xa)


def _statement_of(row: dict[str, Any]) -> LoggedStatement:
    """A statement inside an XA transaction, where that is committed."""
    at, stop = (Position(row["at_file"], row[f"at_{end}"], row["at_stretch"]) for end in ("start", "stop"))
    return LoggedStatement(at, classify(row["said"], row["said_in"]), stop, row["said_in"], row["at_committed"])


def common_definition(name: TableName, definitions: Iterable[tuple[Position, TableDefinition]]) -> TableDefinition:
    """The one definition that all of a range's rows share. Raises TableStopped where they differ, at that position."""
    (first_at, first), *rest = definitions
    for at, definition in rest:
        reason = differs(first, definition, first_at, at)
        if reason:
            raise TableStopped(f"{name}: {reason}", at)
    return first


def differs(first: TableDefinition, second: TableDefinition, first_at: Position, at: Position) -> str | None:
    """Reasons why rows of two definitions are not one table's.

    None where they are. first_at, at: where each is met first.
    """
    if not same_layout(first, second) or first != replace(second, key=first.key):
        return (
            f"its columns differ between {first_at} ({_column_texts(first)}) and {at} ({_column_texts(second)}), "
            "and no statement between them says why"
        )
    if first.key != () and not same_key(first, second):
        return (
            f"rows are identified by ({key_names(first)}) at {first_at}, and by ({key_names(second)}) at "
            f"{at}; a change of the key is not followed"
        )
    return None


def same_key(first: TableDefinition, second: TableDefinition) -> bool:
    """True if rows are identified by the same columns, as far as both definitions know."""
    if first.key is None or second.key is None:
        return True
    return {str(name).casefold() for name in _key_columns(first)} == {
        str(name).casefold() for name in _key_columns(second)
    }


def key_names(definition: TableDefinition) -> str:
    """The key's columns, for messages."""
    return ", ".join(_key_columns(definition)) or "all columns"


def _key_columns(definition: TableDefinition) -> list[str]:
    names = definition.column_names()
    return [names[at] for at in definition.key or ()]


def definitions_in(context: bytes, maps: list[bytes], at: Position) -> list[TableDefinition]:
    """The table maps of a slice, read under the format event that its context begins with."""
    format_ = _head_of(context, at)
    return [parse_table_map(event, format_, str(at)) for event in maps]


def _head_of(context: bytes, at: Position) -> FormatDescription:
    """The format event that the context of a slice begins with. Raises DecodeError."""
    return FormatDescription.parse(context[: int.from_bytes(context[9:13], "little")], str(at))


def _column_texts(definition: TableDefinition) -> str:
    return ", ".join(f"{column.name or '?'} {column.sql_type}" for column in definition.columns)
