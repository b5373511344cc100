"""Random tables and random statements about them, as SQL.

Put here: what is declared and done. Not here: columns (kinds.py), or what is compared (test_differential.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from tests.differential.columns import Column, Dialect, Json, quoted
from tests.differential.kinds import CHARSETS, KINDS, candidates

SQL_MODES = ("STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "STRICT_ALL_TABLES", "", "ALLOW_INVALID_DATES")
TIME_ZONES = ("+00:00", "-11:30", "+12:59", "+05:30", "-03:00")
_KEYS = ("PRIMARY KEY (id)", "PRIMARY KEY (id)", "PRIMARY KEY (k, id)", "UNIQUE KEY (id)", "KEY (id)")
_IDS = ("INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED", "MEDIUMINT UNSIGNED")
_REFUSED = frozenset({
    *(1048, 1062, 1118, 1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 1441, 1525, 1526, 1690, 1785, 3155, 3903),
    *(4078, 4079),
})  # fmt: skip
"""Errors of statements that a server may refuse for their values: out of range, a duplicate key, too long …."""


class Connection:
    """Statements to one server, and answers as it printed them."""

    def __init__(self, connection: "pymysql.Connection[Cursor]") -> None:
        self._connection = connection
        self.statements = 0
        self.refused = 0

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def attempt(self, statement: str) -> None:
        """Runs a statement that the server may refuse for its values."""
        self.statements += 1
        try:
            self.execute(statement)
        except pymysql.MySQLError as error:
            if error.args[0] not in _REFUSED:
                raise AssertionError(f"{error} in {statement[:2000]}") from error
            self.refused += 1


@dataclass(frozen=True, slots=True)
class RandomTable:
    """``columns`` by name; ``id`` and ``k`` before them, and ``g`` behind where it is ``generated``."""

    schema: str
    name: str
    columns: dict[str, Column]
    nullable: frozenset[str]
    id_type: str
    generated: bool
    create: str

    @property
    def sql(self) -> str:
        return f"`{self.schema}`.`{self.name}`"

    def declared(self) -> list[str]:
        """The declared type of every column, in the order of the table."""
        return [self.id_type, "", *(column.declared for column in self.columns.values()), *[""] * self.generated]


@dataclass(slots=True)
class Numbers:
    """Ids that were not given yet."""

    last: int = field(default=0)

    def next(self) -> int:
        self.last += 1
        return self.last


def dialect_of(connection: Connection) -> Dialect:
    """Asks a server what it is."""
    ((version_text,),) = connection.execute("SELECT VERSION()")
    vendor = "mariadb" if "MariaDB" in version_text else "mysql"
    version = tuple(int(part) for part in version_text.partition("-")[0].split("."))
    has = {name for name, *_ in connection.execute("SHOW CHARACTER SET")} | {"utf8"}
    spellings = {name: name for name in CHARSETS if name in has} | ({"utf8mb3": "utf8"} if "utf8mb3" not in has else {})
    characters = {name: _characters(connection, name, spelt) for name, spelt in spellings.items()}
    return Dialect(vendor, version, {name: letters for name, letters in characters.items() if letters})


def _characters(connection: Connection, charset: str, spelt: str) -> str:
    """The characters that survive the way into a character set and back."""
    letters = candidates(charset)
    ((back,),) = connection.execute(f"SELECT CONVERT(CONVERT({quoted(letters)} USING {spelt}) USING utf8mb4)")
    return "".join(letter for letter, is_same in zip(letters, back, strict=True) if letter == is_same)


def create(
    random: Random, connection: Connection, dialect: Dialect, schema: str, kinds: Sequence[Sequence[str]]
) -> list[RandomTable]:
    """Creates a schema and in it a table a list of kinds.

    All of one engine: a transaction over several engines cannot be rolled back.
    """
    engine = random.choice(["InnoDB", "InnoDB", "InnoDB", "MyISAM"])
    tables = [
        table_of(random, dialect, (schema, f"t{at}"), engine, table_kinds) for at, table_kinds in enumerate(kinds)
    ]
    connection.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    connection.execute("SET SESSION sql_mode=''")
    for table in tables:
        connection.execute(table.create)
    return tables


def table_of(random: Random, dialect: Dialect, name: tuple[str, str], engine: str, kinds: Sequence[str]) -> RandomTable:
    """A table with a column of each of the kinds."""
    columns = {_column_name(random, at): KINDS[kind].make(random, dialect) for at, kind in enumerate(kinds)}
    nullable = frozenset(column_name for column_name in columns if random.random() < 0.7)
    id_type, stored = random.choice(_IDS), random.choice(["VIRTUAL", "STORED"])
    # MariaDB 11.8 leaves generated columns out of the images of updates and deletes; before, virtual ones where it can.
    if dialect.vendor == "mariadb":
        stored = "STORED"
    generated = not dialect.since(None, (11, 5))
    parts = [
        f"id {id_type} NOT NULL",
        "k VARCHAR(9) CHARACTER SET latin1 NOT NULL",
        *(
            f"`{column_name}` {column.declared}{_nulls(column, column_name in nullable)}"
            for column_name, column in columns.items()
        ),
        *[f"g BIGINT GENERATED ALWAYS AS (id % 7) {stored}"] * generated,
        random.choice(_KEYS),
    ]
    create = f"CREATE TABLE `{name[0]}`.`{name[1]}` ({', '.join(parts)}) ENGINE={engine} CHARACTER SET utf8mb4"
    if engine == "InnoDB" and "geometry" not in kinds and random.random() < 0.2:
        create += " PARTITION BY HASH (id) PARTITIONS 3"
    return RandomTable(*name, columns, nullable, id_type, generated, create)


def _column_name(random: Random, at: int) -> str:
    return f"c{at}" + random.choice(["", "", " ü", "☃", ".x", '"', "'q"])


def _nulls(column: Column, nullable: bool) -> str:
    if nullable:
        return " NULL"
    return " NOT NULL DEFAULT '2000-01-01 00:00:00'" if column.declared.startswith("TIMESTAMP") else " NOT NULL"


def some_kinds(random: Random, dialect: Dialect) -> list[str]:
    """Kinds for a table: several times the same, now and then very many."""
    usual = [name for name, kind in KINDS.items() if kind.here(dialect)]
    if random.random() < 0.15:
        narrow = ["tinyint", "int", "bigint", "decimal", "bit", "date", "time", "varbinary", "year"]
        return random.choices(narrow, k=random.randint(30, 130))
    return random.sample(usual, min(len(usual), random.randint(1, 16)))


class Writer:
    """Random statements about one table."""

    def __init__(self, random: Random, table: RandomTable, numbers: Numbers) -> None:
        self.random = random
        self.table = table
        self.numbers = numbers
        self.odd = False
        names = ["id", "k", *table.columns]
        self._names = ",".join(f"`{name}`" for name in names)

    def statement(self) -> str:
        """One statement."""
        kinds: tuple[Callable[[], str], ...] = (
            self.insert, self.insert, self.insert, self.replace, self.upsert, self.copy, self.update, self.update,
            self.update, self.update_all, self.move, self.delete,
        )  # fmt: skip
        return self.random.choice(kinds)()

    def insert(self) -> str:
        rows = self.random.choice([1, 1, 2, 5, 20, 40])
        return f"INSERT INTO {self.table.sql} ({self._names}) VALUES {self._insert_values(rows)}"

    def replace(self) -> str:
        rows = ",".join(self._random_row(self._existing_id()) for _ in range(3))
        return f"REPLACE INTO {self.table.sql} ({self._names}) VALUES {rows}"

    def upsert(self) -> str:
        rows = ",".join(self._random_row(self._existing_id()) for _ in range(3))
        into = f"INSERT INTO {self.table.sql} ({self._names}) VALUES {rows}"
        return f"{into} ON DUPLICATE KEY UPDATE {self._assignment()}"

    def copy(self) -> str:
        first_id = self.numbers.last + 1
        self.numbers.last += 10
        columns = ",".join(f"`{name}`" for name in self.table.columns)
        source = f"SELECT id + {first_id}, k{', ' + columns if columns else ''} FROM {self.table.sql} WHERE id < 10"
        return f"INSERT INTO {self.table.sql} ({self._names}) {source}"

    def update(self) -> str:
        return f"UPDATE {self.table.sql} SET {self._assignment()} WHERE {self._condition()}"

    def update_all(self) -> str:
        assignments = ",".join(f"`{name}`={self._random_literal(name)}" for name in self.table.columns)
        return f"UPDATE {self.table.sql} SET k='u'{',' + assignments if assignments else ''} WHERE {self._condition()}"

    def move(self) -> str:
        """A change of keys, which may run into others."""
        assignment = self.random.choice(["id = id + 1000", "k = CONCAT('k', id % 9)", "id = id - 1"])
        return f"UPDATE {self.table.sql} SET {assignment} WHERE {self._condition()} ORDER BY id"

    def delete(self) -> str:
        return f"DELETE FROM {self.table.sql} WHERE {self._condition()}"

    def _existing_id(self) -> int:
        return self.random.randint(1, self.numbers.last + 1)

    def _condition(self) -> str:
        return self.random.choice([
            f"id % 3 = {self.random.randrange(3)}",
            f"id % 11 = {self.random.randrange(11)}",
            f"id BETWEEN {self._existing_id()} AND {self._existing_id()}",
            f"id = {self._existing_id()}",
        ])  # fmt: skip

    def _assignment(self) -> str:
        names = list(self.table.columns)
        table_columns = self.random.sample(names, self.random.randint(0, min(3, len(names))))
        return ",".join(["k = k", *(f"`{name}`={self._edited(name)}" for name in table_columns)])

    def _edited(self, name: str) -> str:
        edit = self.table.columns[name].edit
        return (
            edit(self.random).format(c=f"`{name}`")
            if edit and self.random.random() < 0.7
            else self._random_literal(name)
        )

    def _insert_values(self, count: int) -> str:
        return ",".join(self._random_row(self.numbers.next()) for _ in range(count))

    def _random_row(self, key: int) -> str:
        return f"({key},'k{key % 5}',{','.join(self._random_literal(name) for name in self.table.columns)})"

    def _random_literal(self, name: str) -> str:
        column = self.table.columns[name]
        if name in self.table.nullable and self.random.random() < 0.15:
            return "NULL"
        odd = column.odd if self.odd and self.random.random() < 0.2 else None
        return (odd or column.value)(self.random)


def write(random: Random, connection: Connection, tables: Sequence[RandomTable], transactions: int) -> None:
    """Rows for every table, then random transactions in random time zones and SQL modes, some of them rolled back."""
    writers = [Writer(random, table, Numbers()) for table in tables]
    for writer in writers:
        connection.attempt(writer.insert())
    for _ in range(transactions):
        mode = random.choice(SQL_MODES)
        connection.execute(f"SET SESSION sql_mode='{mode}', time_zone='{random.choice(TIME_ZONES)}'")
        for statement in _transaction(random, writers, odd=not mode.startswith("STRICT")):
            connection.attempt(statement)


def _transaction(random: Random, writers: Sequence[Writer], *, odd: bool) -> Iterator[str]:
    for writer in writers:
        writer.odd = odd
    if random.random() < 0.3:
        yield random.choice(writers).statement()
        return
    yield "BEGIN"
    for _ in range(random.randint(1, 5)):
        yield random.choice(writers).statement()
        if random.random() < 0.3:
            yield "SAVEPOINT one"
            yield random.choice(writers).statement()
            yield random.choice(["ROLLBACK TO one", "RELEASE SAVEPOINT one"])
    yield random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])


def rows_held(connection: Connection, table: RandomTable, knows: frozenset[str]) -> list[dict[str, Json]]:
    """The table's rows as the server tells them, in the form of ``stratalog changes``, for a log that tells so much."""
    queries = {name: column.query_for(knows) for name, column in table.columns.items()}
    plain: dict[str, tuple[str, Callable[[str], Json]]] = {"id": ("{c}", int), "k": ("{c}", str)}
    queries = {**plain, **queries, **({"g": plain["id"]} if table.generated else {})}
    expressions = ",".join(expression.format(c=f"`{name}`") for name, (expression, _) in queries.items())
    names = list(queries) if "names" in knows else [f"@{offset}" for offset in range(1, len(queries) + 1)]
    readers = [reader for _, reader in queries.values()]
    connection.execute("SET SESSION time_zone='+00:00', sql_mode=''")
    return [
        {name: None if text is None else reader(text) for name, reader, text in zip(names, readers, row, strict=True)}
        for row in connection.execute(f"SELECT {expressions} FROM {table.sql}")
    ]
