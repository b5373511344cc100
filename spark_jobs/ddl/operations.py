"""Operations of ALTER TABLE on a table.

Put here: operations as values. Not here: reading them out of a statement (parse_alter.py), applying them (alter.py).
"""

from dataclasses import dataclass

from spark_jobs.ddl.columns import DeclaredColumn, Word

FIRST = ""
"""Position of a column that comes before all others."""


@dataclass(frozen=True, slots=True)
class Add:
    """``after``: the column that it stands behind, FIRST, or None for the end."""

    declared: DeclaredColumn
    after: str | None
    if_missing: bool = False

    @property
    def name(self) -> str:
        return str(self.declared.column.name)


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP COLUMN."""

    name: str
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """CHANGE and MODIFY; RENAME COLUMN, which declares nothing. ``after``: None where the column stays in its place."""

    old: str
    new: str
    declared: DeclaredColumn | None = None
    after: str | None = None
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class Default:
    """ALTER COLUMN … SET DEFAULT, DROP DEFAULT: rows to come have another value, where an INSERT gives none.

    words: None where the default is dropped.
    """

    name: str
    words: tuple[Word, ...] | None


@dataclass(frozen=True, slots=True)
class Convert:
    """All text into another character set. charset: its name, or that of a collation of it."""

    charset: str


@dataclass(frozen=True, slots=True)
class AddPrimary:
    """ADD PRIMARY KEY. columns: their names, in the key's order."""

    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropPrimary:
    """DROP PRIMARY KEY."""


@dataclass(frozen=True, slots=True)
class AddUnique:
    """A unique index more. columns: None where a part of a value or an expression is in it."""

    name: str
    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX, and RENAME INDEX: after it no index has the name."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """RENAME TO: the table's new name. ``schema``: None for the session's default (sql/sql_yacc.yy, ``copy_db_to``)."""

    schema: str | None
    table: str


@dataclass(frozen=True, slots=True)
class Visible:
    """ALTER COLUMN … SET VISIBLE, SET INVISIBLE: whether SELECT * has the column."""

    name: str
    is_visible: bool


Operation = (
    Add | Drop | Change | Default | Convert | AddPrimary | DropPrimary | AddUnique | DropIndex | RenameTable | Visible
)
LEAVING_ROWS = (AddUnique, DropIndex, Visible)
"""Operations that leave every row as it is."""
