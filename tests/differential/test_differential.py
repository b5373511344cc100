"""What ``stratalog changes`` and ``events`` read from a log, against the servers that wrote it.

Random tables get random statements; then the log's changes, applied in order to nothing, must be what the server's own
SELECT shows, value for value. The seed of a run is printed where it fails; STRATALOG_SEED sets it, STRATALOG_SOAK is
the number of seconds to go on for on every server.

Put here: what is compared. Not here: tables and statements (workload.py), values (kinds.py).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.binlog.events import list_events
from spark_jobs.changes import as_logged, changes_of_files, wanted_tables
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import DecodeError, Unsupported
from tests.differential.kinds import EVERYTHING, KINDS, Dialect
from tests.differential.replica import Replica, text_of
from tests.differential.workload import Connection, RandomTable, dialect_of, held, some_kinds, table_of, write
from tests.fix_servers import Servers
from tests.servers import SERVERS, tool_of

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

SOAK = float(os.environ.get("STRATALOG_SOAK", "0"))
SEED = int(os.environ.get("STRATALOG_SEED") or ("1" if os.environ.get("CI") else SystemRandom().randrange(10**9)))
_FULL = {"binlog_row_metadata": "FULL"}


@dataclass(frozen=True, slots=True)
class Setting:
    """Global variables of a run. knows: what its log tells of columns, see EVERYTHING."""

    variables: dict[str, object] = field(default_factory=dict)
    here: Callable[[Dialect], bool] = lambda _: True
    knows: frozenset[str] = EVERYTHING
    pending: str | None = None


def _mysql(*since: int) -> Callable[[Dialect], bool]:
    return lambda dialect: dialect.since(since, None)


def _mariadb(*since: int) -> Callable[[Dialect], bool]:
    return lambda dialect: dialect.since(None, since)


def _metadata(dialect: Dialect) -> bool:
    return dialect.since((8, 0, 1), (10, 5))


SETTINGS: dict[str, Setting] = {
    "full metadata": Setting(_FULL, _metadata),
    "no checksums": Setting(_FULL | {"binlog_checksum": "NONE"}, _metadata),
    "minimal metadata": Setting({"binlog_row_metadata": "MINIMAL"}, _metadata, knows=frozenset({"signs", "charsets"})),
    "no metadata (MySQL)": Setting({}, lambda dialect: dialect.since((5, 6), None) and dialect.version < (8,), knows=frozenset()),
    "no metadata (MariaDB)": Setting({"binlog_row_metadata": "NO_LOG"}, _mariadb(10, 5), knows=frozenset()),
    "minimal row images": Setting(_FULL | {"binlog_row_image": "MINIMAL"}, _metadata, pending="row images"),
    "row images without blobs": Setting(_FULL | {"binlog_row_image": "NOBLOB"}, _metadata, pending="row images"),
    "compressed events": Setting(
        _FULL | {"log_bin_compress": "ON", "log_bin_compress_min_len": 10}, _mariadb(10, 5), pending="compressed rows"
    ),
    "compressed transactions": Setting(
        _FULL | {"binlog_transaction_compression": "ON"}, _mysql(8, 0, 20), pending="compressed transactions"
    ),
    "partial JSON": Setting(_FULL | {"binlog_row_value_options": "PARTIAL_JSON"}, _mysql(8, 0, 3), pending="partial JSON"),
    "old temporal formats": Setting(_FULL | {"mysql56_temporal_format": "OFF"}, _mariadb(10, 5), pending="old temporals"),
}  # fmt: skip
"""A setting that the decoder learns loses its ``pending``."""

RUNS = [(server, setting) for server in SERVERS for setting in SETTINGS]


@dataclass(slots=True)
class Log:
    """The files that a server wrote while something was done."""

    files: list[Path] = field(default_factory=list)

    def chunks(self, size: int = 1 << 20) -> Iterator[tuple[str, Iterator[bytes]]]:
        for path in self.files:
            content = path.read_bytes()
            yield path.name, (content[at : at + size] for at in range(0, len(content), size))


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


@contextmanager
def variables(connection: Connection, values: dict[str, object]) -> Iterator[None]:
    """Global variables as given, and for the session where it has them; then as they were."""
    before = {name: connection.execute(f"SELECT @@GLOBAL.{name}")[0][0] for name in values}
    try:
        _set(connection, values)
        yield
    finally:
        _set(connection, before)


def _set(connection: Connection, values: dict[str, object]) -> None:
    for name, value in values.items():
        text = str(value) if str(value).isdigit() else f"'{value}'"
        connection.execute(f"SET GLOBAL {name} = {text}")


@contextmanager
def connected(server: MySQLServer) -> Iterator[Connection]:
    with server.connect(conv={}, charset="utf8mb4") as connection:
        one = Connection(connection)
        one.execute("SET SESSION innodb_strict_mode = OFF")
        yield one


@dataclass(slots=True)
class Compared:
    """What the runs of one server and setting amounted to."""

    tables: int = 0
    changes: int = 0
    rows: int = 0
    values: int = 0
    before_images: int = 0
    events: int = 0
    statements: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{self.tables} tables, {self.changes} changes, {self.rows} rows = {self.values} values equal, "
            f"{self.before_images} before-images found, {self.events} events equal "
            f"({self.statements} statements, {self.refused} refused by the server)"
        )


def unlogged(dialect: Dialect) -> frozenset[str]:
    """What a server leaves out even of full metadata: MySQL before 8.0.17 the character sets of labels."""
    return frozenset() if dialect.since((8, 0, 17), (10, 5)) else frozenset({"labels beyond ASCII"})


def signs(tables: Sequence[RandomTable]) -> Callable[[TableDefinition], TableDefinition]:
    """Tells the signs of columns, without which an integer means nothing."""
    by_name = {(table.schema, table.name): table for table in tables}

    def complete(definition: TableDefinition) -> TableDefinition:
        table = by_name[definition.name.schema, definition.name.table]
        declared = [table.create.partition("id ")[2].partition(",")[0], "", *(c.declared for c in table.columns.values()), ""]
        columns = zip(definition.columns, declared, strict=True)
        return replace(definition, columns=tuple(replace(one, unsigned="UNSIGNED" in sql) for one, sql in columns))

    return complete


def create(random: Random, connection: Connection, dialect: Dialect, schema: str, kinds: Sequence[Sequence[str]]) -> list[RandomTable]:
    tables = []
    connection.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    connection.execute("SET SESSION sql_mode=''")
    for number, some in enumerate(kinds):
        table = table_of(random, dialect, schema, f"t{number}", some)
        connection.execute(table.create)
        tables.append(table)
    return tables


def compare(connection: Connection, log: Log, tables: Sequence[RandomTable], knows: frozenset[str]) -> Compared:
    """Applies the log's changes to nothing and compares with the server. Fails at the first difference."""
    schema = tables[0].schema
    complete = as_logged if "signs" in knows else signs(tables)
    replica = Replica()
    replica.apply(changes_of_files(log.chunks(), wanted_tables([f"{schema}.*"]), complete))
    compared = Compared(tables=len(tables), changes=replica.changes, before_images=replica.found)
    for table in tables:
        expected = held(connection, table, knows)
        found = [_normal(table, row) for row in replica.table(schema, table.name)]
        differing(table, found, expected)
        compared.rows += len(expected)
        compared.values += sum(map(len, expected))
    return compared


def _normal(table: RandomTable, row: dict[str, Any]) -> dict[str, Any]:
    """The log's row with values that are only comparable after some reading."""
    normal = dict(row)
    for place, (name, column) in enumerate(table.columns.items(), 3):
        shown = name if name in row else f"@{place}"
        if column.found and normal[shown] is not None:
            normal[shown] = column.found(normal[shown])
    return normal


def differing(table: RandomTable, found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    found_texts, expected_texts = sorted(map(text_of, found)), sorted(map(text_of, expected))
    if found_texts == expected_texts:
        return
    extra = [row for row in found if text_of(row) not in set(expected_texts)]
    missing = [row for row in expected if text_of(row) not in set(found_texts)]
    about = f"{table.create}\nin the log {len(found)} rows, {len(extra)} of them not on the server, which has {len(expected)}"
    for row in extra:
        same = next((one for one in missing if list(one.values())[:2] == list(row.values())[:2]), None)
        if same:
            cells = {name: (value, same.get(name)) for name, value in row.items() if text_of({"": value}) != text_of({"": same.get(name)})}
            raise AssertionError(f"{about}\n(log, server) differ in {str(cells)[:3000]}")
    raise AssertionError(f"{about}\nonly in the log: {str(extra[:1])[:2000]}\nonly on the server: {str(missing[:1])[:2000]}")


def compare_events(connection: Connection, log: Log) -> int:
    """The listing of events against the server's own. Returns their number."""
    count = 0
    for path in log.files:
        shown = connection.execute(f"SHOW BINLOG EVENTS IN '{path.name}'")
        theirs = [(int(at), kind, int(server), int(stop)) for _, at, kind, server, stop, *_ in shown]
        ours = [(e.offset, e.type, e.server_id, e.stop) for e in list_events(iter([path.read_bytes()]), path.name)]
        # MariaDB from 11.4 on writes 0 where the event's end in the file is not known yet.
        theirs = [row[:3] + (mine[3] if row[3] == 0 else row[3],) for row, mine in zip(theirs, ours, strict=True)]
        assert ours == theirs, next((one, other) for one, other in zip(ours, theirs, strict=True) if one != other)
        count += len(ours)
    return count


@pytest.mark.parametrize("name, setting", RUNS, ids=[f"{server}-{setting}" for server, setting in RUNS])
def test_changes_of_random_tables(name: str, setting: str, servers: Servers, summary: list[str], request: pytest.FixtureRequest) -> None:
    server = servers.get(name)
    chosen = SETTINGS[setting]
    with connected(server) as connection:
        dialect = dialect_of(connection)
        if not chosen.here(dialect):
            pytest.skip(f"{name} has no {setting}")
        if chosen.pending:
            request.applymarker(pytest.mark.xfail(raises=Unsupported, reason=chosen.pending, strict=True))
        total, began, seed = Compared(), time.monotonic(), SEED
        while seed == SEED or time.monotonic() < began + SOAK:
            one_run(seed, server, connection, dialect, chosen, total)
            seed += 1
        summary.append(f"{name}, {setting}, seeds {SEED} to {seed - 1}: {total}")


def one_run(seed: int, server: MySQLServer, connection: Connection, dialect: Dialect, setting: Setting, total: Compared) -> None:
    random = Random(seed)
    schema = f"random_{seed}"
    try:
        with variables(connection, setting.variables), connected(server) as session, logged(server, session) as log:
            kinds = [some_kinds(random, dialect) for _ in range(4)]
            tables = create(random, session, dialect, schema, kinds)
            write(random, session, tables, 20)
        found = compare(connection, log, tables, setting.knows - unlogged(dialect))
        found.events = compare_events(connection, log)
        found.statements, found.refused = session.statements, session.refused
    except (AssertionError, DecodeError) as error:
        error.add_note(f"STRATALOG_SEED={seed}")
        raise
    finally:
        connection.execute(f"DROP DATABASE IF EXISTS {schema}")
    for part in Compared.__dataclass_fields__:
        setattr(total, part, getattr(total, part) + getattr(found, part))


PENDING = [(server, kind) for server in SERVERS for kind in KINDS if KINDS[kind].pending]


@pytest.mark.parametrize("name, kind", PENDING, ids=[f"{server}-{kind}" for server, kind in PENDING])
def test_types_that_are_not_read_yet(name: str, kind: str, servers: Servers, request: pytest.FixtureRequest) -> None:
    """Refused by name; a type that is read is to take part in the random tables."""
    server = servers.get(name)
    with connected(server) as connection:
        dialect = dialect_of(connection)
        if not KINDS[kind].here(dialect):
            pytest.skip(f"{name} has no {kind}")
        random = Random(SEED)
        schema = "pending_type"
        try:
            with connected(server) as session, logged(server, session) as log:
                tables = create(random, session, dialect, schema, [[kind]])
                write(random, session, tables, 20)
            with pytest.raises(Unsupported):
                compare(connection, log, tables, EVERYTHING)
        finally:
            connection.execute(f"DROP DATABASE IF EXISTS {schema}")
