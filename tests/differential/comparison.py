"""A server's log against the server. Put here: recording what is logged, and comparing it with the server's own words.

Not here: what is logged (workload.py), and under which settings (test_differential.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from spark_jobs.binlog import TableDefinition
from spark_jobs.binlog.slices.listing import list_events
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import CompleteDefinition, as_logged, wanted_tables
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl import definitions
from spark_jobs.demo.server import MySQLServer
from spark_jobs.log.position import Position
from spark_jobs.source.information_schema import read_definitions
from spark_jobs.source.server import Server
from tests.differential.columns import EVERYTHING, Dialect
from tests.differential.replica import Replica, Row, text_of
from tests.differential.workload import Connection, RandomTable, rows_held

_SHOWN = 300
"""Characters of a value that a failure shows."""


@dataclass(slots=True)
class Log:
    """The files that a server wrote while something was done."""

    files: list[Path] = field(default_factory=list)

    def chunks(self, size: int = 1 << 20) -> Iterator[tuple[str, Iterator[bytes]]]:
        for path in self.files:
            content = path.read_bytes()
            yield path.name, (content[at : at + size] for at in range(0, len(content), size))


@dataclass(slots=True)
class Compared:
    """What was compared, and found equal."""

    tables: int = 0
    changes: int = 0
    rows: int = 0
    values: int = 0
    before_images: int = 0
    events: int = 0
    statements: int = 0
    refused: int = 0

    def add(self, other: "Compared") -> None:
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))

    def __str__(self) -> str:
        return (
            f"{self.tables} tables, {self.changes:,} changes, {self.rows:,} rows, {self.values:,} values, "
            f"{self.before_images:,} before-images, {self.events:,} events"
            f" ({self.refused} of {self.statements:,} statements refused by the server)"
        )


@contextmanager
def connected(server: MySQLServer) -> Iterator[Connection]:
    """A session that gets values as the server prints them."""
    with server.connect(conv={}, charset="utf8mb4") as connection:
        session = Connection(connection)
        session.execute("SET SESSION innodb_strict_mode = OFF")
        yield session


@contextmanager
def variables(connection: Connection, values: dict[str, object]) -> Iterator[None]:
    """Global variables as given, then as they were; sessions that begin inside have them too."""
    before = {name: connection.execute(f"SELECT @@GLOBAL.{name}")[0][0] for name in values}
    try:
        _set_variables(connection, values)
        yield
    finally:
        _set_variables(connection, before)


def _set_variables(connection: Connection, values: dict[str, object]) -> None:
    for name, value in values.items():
        text = str(value) if str(value).isdigit() else f"'{value}'"
        connection.execute(f"SET GLOBAL {name} = {text}")


@contextmanager
def logged(server: MySQLServer, connection: Connection) -> Iterator[Log]:
    """The log of what is done inside, in files of its own."""
    connection.execute("FLUSH BINARY LOGS")
    first = connection.execute("SHOW BINARY LOGS")[-1][0]
    log = Log()
    yield log
    connection.execute("FLUSH BINARY LOGS")
    names = [row[0] for row in connection.execute("SHOW BINARY LOGS")]
    log.files = [server.data / name for name in names[names.index(first) : -1]]


def unlogged(dialect: Dialect) -> frozenset[str]:
    """What a server leaves out even of full metadata: MySQL before 8.0.17 the character sets of labels."""
    return frozenset() if dialect.since((8, 0, 17), (10, 5)) else frozenset({"labels of one character set"})


def signs(tables: Sequence[RandomTable]) -> CompleteDefinition:
    """Tells the signs of columns, without which an integer means nothing."""
    by_name = {(table.schema, table.name): table for table in tables}

    def complete(definition: TableDefinition, *_: object) -> TableDefinition:
        table = by_name[definition.name.schema, definition.name.table]
        columns = zip(definition.columns, table.declared(), strict=True)
        return replace(
            definition, columns=tuple(replace(column, unsigned="UNSIGNED" in sql) for column, sql in columns)
        )

    return complete


def from_server(server: MySQLServer) -> CompleteDefinition:
    """Tells what the server's information_schema does, as the pipeline takes it."""
    settings = MySQL(host=server.host, port=server.port, user=server.user, password=SecretStr(server.password))
    source = Server("server", settings)
    with source.connect() as connection:
        by_name = {definition.name: definition for definition in read_definitions(source, connection)}
    return lambda logged, _: definitions.with_server_definition(
        "server", logged, (Position("log", 4), by_name[logged.name]), None
    )


def compare_tables(
    server: MySQLServer,
    connection: Connection,
    log: Log,
    tables: Sequence[RandomTable],
    knows: frozenset[str],
    alone: bool,
) -> Compared:
    """Compares a log that tells so much of columns as it is, and where that is not all, with the server's definitions.

    alone: whether it can be read without these at all. Fails at the first difference.
    """
    compared = Compared()
    if alone:
        compared.add(compare_rows(connection, log, tables, knows, as_logged if "signs" in knows else signs(tables)))
    is_named = "names" in knows and not any(
        column.is_undeclared for table in tables for column in table.columns.values()
    )
    if not alone or not is_named:
        # A definition adds only declared types to a log that has names.
        knowledge = knows if "names" in knows else EVERYTHING
        compared.add(compare_rows(connection, log, tables, knowledge | {"declared types"}, from_server(server)))
    return compared


def compare_rows(
    connection: Connection, log: Log, tables: Sequence[RandomTable], knows: frozenset[str], complete: CompleteDefinition
) -> Compared:
    """Applies the log's changes to nothing, and compares with the server."""
    replica = Replica()
    names = [f"{table.schema}.{table.name}" for table in tables]
    replica.apply(changes_of_files(log.chunks(), wanted_tables(names), complete))
    compared = Compared(tables=len(tables), changes=replica.changes, before_images=replica.count)
    for table in tables:
        expected = rows_held(connection, table, knows)
        all_rows = [_comparable(table, row) for row in replica.table(table.schema, table.name)]
        assert_same(table.create, all_rows, expected)
        compared.rows += len(expected)
        compared.values += sum(map(len, expected))
    return compared


def _comparable(table: RandomTable, row: Row) -> Row:
    """The log's row with values that are only comparable after some reading."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for offset, (name, column) in enumerate(table.columns.items(), 3):
        if column.comparable:
            readers[name] = readers[f"@{offset}"] = column.comparable
    return {
        name: readers[name](value) if name in readers and value is not None else value for name, value in row.items()
    }


def assert_same(about: str, actual: list[Row], expected: list[Row]) -> None:
    """Check whether the log's rows are the server's, in whatever order; tells the first values that are not."""
    actual_texts, expected_texts = sorted(map(text_of, actual)), sorted(map(text_of, expected))
    if actual_texts != expected_texts:
        extra = [row for row in actual if text_of(row) not in set(expected_texts)]
        missing = [row for row in expected if text_of(row) not in set(actual_texts)]
        counts = f"the log has {len(actual)} rows, {len(extra)} of them not on the server, which has {len(expected)}"
        raise AssertionError(f"{about[:3000]}\n{counts}\n{_first_difference(extra, missing)}")


def _first_difference(extra: list[Row], missing: list[Row]) -> str:
    for row in extra:
        for expected_row in missing:
            unlike = [
                name for name in expected_row if text_of({"": row.get(name)}) != text_of({"": expected_row[name]})
            ]
            if len(unlike) <= (len(row) + 1) // 2:
                return "\n".join(
                    f"{name}: {_short(row.get(name))} and on the server {_short(expected_row[name])}" for name in unlike
                )
    return f"only in the log: {_short(extra[:1])}, only on the server: {_short(missing[:1])}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)})"


def compare_events(connection: Connection, log: Log) -> Compared:
    """The listing of the log's events against the server's own: position, type, server and end of each."""
    count = 0
    for path in log.files:
        all_rows = connection.execute(f"SHOW BINLOG EVENTS IN '{path.name}'")
        server_events = [(int(at), kind, int(server), int(stop)) for _, at, kind, server, stop, *_ in all_rows]
        own_events = [
            (e.offset, e.type, e.server_id, e.stop) for e in list_events(iter([path.read_bytes()]), path.name)
        ]
        assert_same_events(own_events, server_events)
        count += len(own_events)
    return Compared(events=count)


def assert_same_events(
    own_events: list[tuple[int, Any, int, int]], server_events: list[tuple[int, Any, int, int]]
) -> None:
    """MariaDB from 11.4 on writes an event's end as 0 where it does not know it yet: inside a transaction.

    MySQL shows what is inside a compressed transaction behind it, without a position in the file; in our listing it has
    the place of its payload.
    """
    server_events = [event for event in server_events if event[0] != event[3]]
    own_events = own_events[:1] + [event for before, event in pairwise(own_events) if before[0] != event[0]]
    assert len(own_events) == len(server_events)
    for event, (offset, kind, server_id, stop) in zip(own_events, server_events, strict=True):
        assert event == (offset, kind, server_id, stop or event[3])
