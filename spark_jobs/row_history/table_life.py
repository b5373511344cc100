"""Names of a table over time, and the statements about it, from statements of the log alone.

Put here: names and statements of one table in a part of the log. Not here: what a statement does to columns (schema/,
silver/), or rows (trace.py).

The table's own name counts at any time. Where a statement gave it to a table that had another name, the rows of that
name count before the statement too; what else had the name is not distinguished.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from spark_jobs.binlog import TableName
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import read_slices
from spark_jobs.bronze.scan import LoggedStatement, scan_metadata
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.effects import DropSchema, DropTable, FreeName, Rename, TruncateTable, effects
from spark_jobs.errors import DecodeError
from spark_jobs.log.position import Position, Range


@dataclass(frozen=True, slots=True)
class TableLife:
    """names: what a table was called, each with the position before which it was; None for any time.

    statements: those about it, in order. emptied: positions at which it lost all rows.
    """

    names: dict[TableName, Position | None]
    statements: tuple[LoggedStatement, ...]
    emptied: tuple[Position, ...]

    def holds(self, name: TableName, at: Position) -> bool:
        """True if rows of a name are the table's at a position."""
        limit = self.names.get(name, at)
        return limit is None or at < limit

    @property
    def unlogged(self) -> list[LoggedStatement]:
        """Statements that change rows without saying which (statement format)."""
        return [statement for statement in self.statements if statement.statement.writes_rows]


def life_of(files: DataFiles, name: TableName, within: Range) -> TableLife:
    """The life of a table in a part of the log. files: of bronze. Raises LakeError, DecodeError."""
    index = read_slices(files, within, "statement").within(within)
    # XA transactions have no statements about tables.
    ordinary = index.take(np.flatnonzero(index.is_kind("statement") & ~index.flags("is_xa")))
    return _life(name, scan_metadata(ordinary).statements)


def _life(name: TableName, all_statements: Iterable[LoggedStatement]) -> TableLife:
    names: dict[TableName, Position | None] = {name: None}
    statements: list[LoggedStatement] = []
    emptied: list[Position] = []
    for logged in sorted(all_statements, key=lambda logged: logged.position, reverse=True):
        current = [alias for alias, limit in names.items() if limit is None or logged.position < limit]
        if not any(map(logged.statement.names, *zip(*((n.schema, n.table) for n in current), strict=True))):
            continue
        if logged.statement.effect in (Effect.INDEXES, Effect.TRANSACTION, Effect.ROUTINE):
            continue
        statements.append(logged)
        emptied += [logged.position] if _empties(logged, current) else []
        for old in _earlier_names(logged, current):
            names.setdefault(old, logged.position)
    return TableLife(names, tuple(reversed(statements)), tuple(reversed(emptied)))


def _earlier_names(logged: LoggedStatement, names: Iterable[TableName]) -> list[TableName]:
    """Names before a statement of its new tables of these names."""
    folded = {_folded(name) for name in names}
    return [effect.was for effect in _effects(logged) if isinstance(effect, Rename) and _folded(effect.table) in folded]


def _empties(logged: LoggedStatement, names: Iterable[TableName]) -> bool:
    """True if no row of one of the names is left after a statement."""
    folded = {_folded(name) for name in names}
    for effect in _effects(logged):
        if isinstance(effect, TruncateTable | DropTable | FreeName) and _folded(effect.table) in folded:
            return True
        if isinstance(effect, DropSchema) and any(schema == effect.schema.casefold() for schema, _ in folded):
            return True
    return False


def _effects(logged: LoggedStatement) -> tuple[object, ...]:
    """Effects of a statement; none where it cannot be read."""
    with suppress(DecodeError):
        return effects(logged.statement, logged.database, logged.session)
    return ()


def _folded(name: TableName) -> tuple[str, str]:
    return name.schema.casefold(), name.table.casefold()
