"""Random schemas of foreign keys at a server, random transactions, and the tables after each.

Put here: making them, and reading what the server logged of them. Not here: what is derived from that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pymysql
from pymysql.constants import CR

from spark_jobs.binlog import Decoder, SliceBytes, Slicer, TableDefinition, TableName, definitions_of
from spark_jobs.binlog.events.types import CASCADES_LOGGED, NO_FOREIGN_KEY_CHECKS
from spark_jobs.cascades.derivation import ImagePair, Reference
from spark_jobs.ddl.foreign_keys import declared_keys
from tests.fix_mysql import Database

CASCADING_RULES = (*("CASCADE",) * 4, *("SET NULL",) * 3)
RULES = (*CASCADING_RULES, "RESTRICT", "NO ACTION")
COLUMNS = ["id", "n", "x", "r", "s", "v"]
_INTO = f"({', '.join(COLUMNS)})"
PAIRS = (
    *(("r", "id"),) * 3,
    *(("r", "n"),) * 2,
    *(("s", "x"),) * 3,
    *(("r, s", "n, x"),) * 2,
    *(("n", "n"), ("x", "x"), ("id", "id")),
)
"""Columns of a child, and those of a parent that they may refer to."""
_IN_LARGE_TABLES = 0.15
"""Share of keys of large tables whose rules may refuse, or whose columns are a key: with more of them the server
refuses most statements of many rows."""
TEXTS = ("a", "A", "á", "b", "B", "b ", "ß", "ss", "s", "z", "Z", "", " ", "æ", "ae", "ñ", "n", "ö", "Ö")
FEW = 24
"""Numbers that keys are of: so many rows a table has at most, nearly."""
_LOST = (0, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST)
"""Numbers of errors of a connection whose server is gone."""
_FAMILIES = (1, 1, 3, 10, 30)
"""Children that a parent gets in tables of many rows."""


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change of a row in the log, with where it stands, and whether the server cascades at it unlogged."""

    position: tuple[str, int, int]
    change: ImagePair
    cascades: bool


@dataclass(frozen=True, slots=True)
class After:
    """Where the log ends after a transaction, and what each table has then."""

    end: tuple[str, int]
    rows: dict[str, set[tuple[Any, ...]]]


@dataclass
class RandomTables:
    """Tables of a schema with foreign keys among them, in all shapes that the server takes."""

    database: Database
    chance: Random
    text: str
    """Type of the columns of text, with its collation."""
    tables: int = 4
    size: int = FEW
    """Numbers that keys are of; texts are longer where there are more."""
    shares: bool = False
    """True if keys of a child may have columns in common, whose order of effects the log does not tell."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)
    start: "After | None" = None
    """Before the first key, and the first row."""

    @cached_property
    def _server_version(self) -> str:
        return str(self.database.execute("SELECT VERSION()")[0][0])

    @property
    def is_mariadb(self) -> bool:
        return "MariaDB" in self._server_version

    @property
    def _log_statement(self) -> str:
        is_renamed = not self.is_mariadb and int(self._server_version.partition(".")[0]) > 8
        return "BINARY LOG" if is_renamed else "MASTER"

    def create(self) -> None:
        """Makes the tables with their keys, and rows."""
        self.declare()
        for _ in range(4):
            for table in self.columns:
                self.attempt(
                    f"INSERT IGNORE INTO {table} {_INTO} VALUES {', '.join(self._row() for _ in range(self.size))}"
                )

    def declare(self) -> None:
        """Makes the tables, then keys between any two of them, cycles and self-references included."""
        for number in range(self.tables):
            self.columns[f"t{number}"] = COLUMNS
            self.database.execute(self.definition_of(f"t{number}"))
        self.start = self.after()
        tries = self.tables if self.is_large else (1 if self.shares else 4) * (self.tables + 2)
        for number in range(tries):
            self.try_key(f"f{number}")

    def definition_of(self, table: str) -> str:
        """The statement that makes a table, without keys to others."""
        return (
            f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT, x {self.text}, r INT, s {self.text}, v INT,"
            " UNIQUE (n, x), UNIQUE (n), UNIQUE (x), KEY (r, s), KEY (s)) ENGINE=InnoDB"
        )

    def random_table(self) -> str:
        return self.chance.choice([*self.columns])

    def try_key(self, name: str) -> None:
        """Adds a key, unless the server has reasons against it."""
        child, parent = self.random_table(), self.random_table()
        is_any = not self.is_large or self.chance.random() < _IN_LARGE_TABLES
        columns, parent_columns = self.chance.choice(PAIRS if is_any else [pair for pair in PAIRS if pair[0] > "q"])
        # MySQL refuses a column that refers to itself, and 8.0 leaves other keys out of force then.
        if (child, columns) == (parent, parent_columns) and not self.is_mariadb:
            return
        is_any = not self.is_large or self.chance.random() < _IN_LARGE_TABLES
        on_delete, on_update = (self.chance.choice(RULES if is_any else CASCADING_RULES) for _ in range(2))
        statement = (
            f"ALTER TABLE {child} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {parent} ({parent_columns}) "
            f"ON DELETE {on_delete} ON UPDATE {on_update}"
        )
        taken = {name for known in self.references if known.child.table == child for name in known.key.columns}
        if not self.shares and taken & {*columns.split(", ")}:
            return
        try:
            self.database.execute(statement)
        except pymysql.Error:
            return
        (key,) = declared_keys(statement, self.database.name)
        self.references.append(Reference(TableName(self.database.name, child), key))

    @property
    def is_large(self) -> bool:
        """True if statements are to change many rows, few of which the server refuses."""
        return self.size > FEW

    def transaction(self) -> None:
        """Some statements, of which the server refuses what breaks a key."""
        self.begin()
        self.end(is_kept=self.chance.random() < 0.9)

    def begin(self) -> None:
        """The statements of a transaction that is open afterwards."""
        self.database.execute(f"SET foreign_key_checks = {int(self.chance.random() < 0.95)}")
        self.database.execute("BEGIN")
        for _ in range(self.chance.randrange(1, 12 if self.is_large else 6)):
            self.attempt(self._statement())

    def end(self, *, is_kept: bool) -> None:
        """Commits what has begun, or takes it back."""
        self.database.execute("COMMIT" if is_kept else "ROLLBACK")

    def attempt(self, statement: str) -> None:
        try:
            self.database.execute(statement)
        except pymysql.Error as error:
            if error.args[0] in _LOST:
                raise
            # Else the server has taken back what the statement did.

    def parent_statement(self) -> str:
        """Rows that go or get another id, by their ids alone: other columns may have other names."""
        table = self.random_table()
        few_rows = f"id IN ({', '.join(self._number() for _ in range(self.size // 8))})"
        return self.chance.choice(
            [f"DELETE FROM {table} WHERE {few_rows}", f"UPDATE {table} SET {self._later('id')} WHERE {few_rows}"]
        )

    def _statement(self) -> str:
        kinds = (self._insert, self._insert_or_update, self._referral, self._of_parents, self._delete, self._update)
        (kind,) = self.chance.choices(kinds, (4, 1, 5, 16, 1, 1) if self.is_large else (3, 1, 3, 3, 2, 3))
        return kind(self.random_table())

    def _insert(self, table: str) -> str:
        rows = ", ".join(self._row() for _ in range(self.size if self.is_large else self.size // 3))
        verbs = ["INSERT INTO", "INSERT IGNORE INTO", "INSERT IGNORE INTO", "REPLACE INTO"]
        verb = self.chance.choice(verbs[1:3] if self.is_large else verbs)
        return f"{verb} {table} {_INTO} VALUES {rows}"

    def _insert_or_update(self, table: str) -> str:
        return (
            f"INSERT INTO {table} {_INTO} VALUES {self._row()} "
            f"ON DUPLICATE KEY UPDATE {self._later('id')}, {self._later('n')}"
        )

    def _delete(self, table: str) -> str:
        few_rows = f"id IN ({', '.join(self._number() for _ in range(self.size // 8))})"
        many_rows = f"{self._part('id')} AND id > {self._number()}"
        return self.chance.choice(
            [f"DELETE IGNORE FROM {table} WHERE {few_rows}", f"DELETE FROM {table} WHERE {many_rows}"]
        )

    def _update(self, table: str) -> str:
        if self.chance.random() < 0.3:
            return f"UPDATE {table} SET {self._setting()} WHERE id > {self._number()} ORDER BY id DESC"
        return f"UPDATE IGNORE {table} SET {self._setting()}, v = {self._number()} WHERE {self._part('id')}"

    def _part(self, column: str) -> str:
        return f"{column} % 4 = {self.chance.randrange(4)}"

    def _referral(self, table: str) -> str:
        """Rows of a child that refer to a row of its parent, some by other letters that are equal to the parent's."""
        if not self.references:
            return self._insert(table)
        reference = self.chance.choice(self.references)
        values = [
            f"c.{column} = {'UPPER' if column in 'xs' and self.chance.random() < 0.3 else ''}(p.{parent_column})"
            for column, parent_column in zip(reference.key.columns, reference.key.parent_columns, strict=True)
        ]
        # Of few rows one parent gets the children, of many each parent some, or a few parents many.
        parents = f"p.id = {self._number()}"
        if self.is_large:
            parents = f"p.id = c.id - c.id % {self.chance.choice(_FAMILIES)} - {self.chance.randrange(5)}"
        return (
            f"UPDATE IGNORE {reference.child.table} c, {reference.key.parent.table} p SET {', '.join(values)} "
            f"WHERE {self._part('c.id')} AND {parents}"
        )

    def _of_parents(self, table: str) -> str:
        """Rows of a parent that have children go, or get another key."""
        if not self.references:
            return self._delete(table)
        reference = self.chance.choice(self.references)
        columns = zip(reference.key.columns, reference.key.parent_columns, strict=True)
        equal = " AND ".join(f"c.{column} = p.{parent_column}" for column, parent_column in columns)
        child, parent = reference.child.table, reference.key.parent.table
        rows = f"{equal} WHERE {self._part('c.id')}"
        if self.chance.random() < 0.5:
            return f"DELETE p FROM {parent} p JOIN {child} c ON {rows}"
        moved = [f"{name} = p.{name} + {self.size + 6}" for name in ("id", "n")]
        setting = self.chance.choice([*moved, "x = UPPER(p.x)", "x = CONCAT('q', p.x)"])
        return f"UPDATE IGNORE {parent} p JOIN {child} c ON {rows.replace(' WHERE', f' SET p.{setting} WHERE')}"

    def _later(self, column: str) -> str:
        return f"{column} = {column} + {self.size + 6}"

    def _setting(self) -> str:
        """A change of a column that keys may refer to."""
        column = self.chance.choice(["id", "n", "x"])
        if column == "x":
            return f"x = {self.chance.choice([self._text(), 'UPPER(x)', 'LOWER(x)'])}"
        value = self.chance.choice([f"{column} % {self.size + 6}", f"{column} + 1", self._number()])
        return self.chance.choice([self._later(column), *[f"{column} = {value}"] * 3])

    def _row(self) -> str:
        refers = 0.01 if self.is_large else 0.2
        numbers = self._maybe(self._number(), 0.8), self._maybe(self._number(), refers)
        # Of short texts there are not as many as rows.
        texts = self._maybe(self._text(), 0.4 if self.is_large else 0.8), self._maybe(self._text(), refers)
        return f"({self._number()}, {numbers[0]}, {texts[0]}, {numbers[1]}, {texts[1]}, {self._number()})"

    def _maybe(self, value: str, chance: float) -> str:
        return value if self.chance.random() < chance else "NULL"

    def _number(self) -> str:
        return str(self.chance.randrange(1, self.size * (4 if self.is_large else 1) + 1))

    def _text(self) -> str:
        return f"'{''.join(self.chance.choice(TEXTS) for _ in range(4 if self.is_large else 2))}'"

    def after(self) -> After:
        """What the server has now."""
        file, end = self.database.execute(f"SHOW {self._log_statement} STATUS")[0][:2]
        rows = {table: set(self.database.execute(f"SELECT * FROM {table}")) for table in self.columns}
        return After((file, end), rows)


def logged(
    folder: Path, files: Sequence[str], start: tuple[str, int], schema: str, collation: int | None = None
) -> Iterator[tuple[TableDefinition, LoggedChange]]:
    """The changes of a schema's tables in the files of a log, in its order, with the definition of each.

    collation: of text, where the log does not tell it.
    """
    for file in files:
        content = (folder / file).read_bytes()
        slicer = Slicer(file, 0, None)
        slices = [row for batch in [*slicer.feed(content), *slicer.finish()] for row in batch.to_pylist()]
        parts = [SliceBytes(row["start"], row["context"], row["payload"], row["transaction_start"]) for row in slices]
        definitions = {
            definition.name: _named_definition(definition, collation)
            for part in parts
            for definition in definitions_of(file, part.start, part.context, part.payload)
            if definition.name.schema == schema
        }
        changes = [
            (definition, change)
            for definition in definitions.values()
            for change in _changes_of(definition, file, parts)
            if change.position[:2] >= start
        ]
        yield from sorted(changes, key=lambda change: change[1].position)


def _named_definition(definition: TableDefinition, collation: int | None) -> TableDefinition:
    if definition.has_names():
        return definition
    columns = (
        replace(column, name=name, unsigned=False, charset=collation)
        for column, name in zip(definition.columns, COLUMNS, strict=True)
    )
    return replace(definition, columns=tuple(columns))


def _changes_of(definition: TableDefinition, file: str, parts: Sequence[SliceBytes]) -> Iterator[LoggedChange]:
    decoder = Decoder(definition, before="all", flags=True)
    for changes in decoder.decode_slices(file, parts):
        assert changes.flags is not None
        columns = (changes.op, changes.offset, changes.row, changes.flags, changes.before, changes.after)
        for op, offset, row, flags, before, after in zip(*(column.to_pylist() for column in columns), strict=True):
            old = {1: None, 2: before, 3: after}[op]
            change = ImagePair(definition.name, old, None if op == 3 else after)
            is_unlogged = not flags & (NO_FOREIGN_KEY_CHECKS | CASCADES_LOGGED)
            yield LoggedChange((file, offset, row), change, is_unlogged)
