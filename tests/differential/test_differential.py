"""What ``stratalog changes`` and ``events`` read from a log, against the servers that wrote it.

Random tables get random statements; then the log's changes, applied in order to nothing, must be what the server's own
SELECT shows, value for value. A failure tells its seed; STRATALOG_SEED sets the first one, STRATALOG_RUNS how many
there are for each server and setting, and STRATALOG_SOAK for how many seconds to go on with more.

Put here: servers, settings and cases. Not here: tables and statements (workload.py), values (kinds.py), comparing
(comparison.py).
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random, SystemRandom

import pytest
from _pytest.mark.structures import ParameterSet

from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import as_logged, wanted_tables
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import DecodeError, Unsupported
from tests.differential.columns import EVERYTHING, Dialect
from tests.differential.comparison import (
    Compared,
    Log,
    assert_same,
    compare_events,
    compare_tables,
    connected,
    logged,
    unlogged,
    variables,
)
from tests.differential.replica import Replica
from tests.differential.workload import Connection, create, dialect_of, some_kinds, write
from tests.fix_servers import Servers
from tests.services.servers import SERVERS

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

SEED = int(os.environ.get("STRATALOG_SEED") or ("1" if os.environ.get("CI") else SystemRandom().randrange(10**6)))
RUNS = int(os.environ.get("STRATALOG_RUNS", "1"))
SOAK = float(os.environ.get("STRATALOG_SOAK", "0"))
_FULL: dict[str, object] = {"binlog_row_metadata": "FULL"}


def _since(mysql: tuple[int, ...] | None, mariadb: tuple[int, ...] | None) -> Callable[[Dialect], bool]:
    return lambda dialect: dialect.since(mysql, mariadb)


def _before_metadata(dialect: Dialect) -> bool:
    return dialect.vendor == "mysql" and not dialect.since((8, 0, 1), None)


_metadata = _since((8, 0, 1), (10, 5))


_may_leave_generated_out = _since(None, (11, 5))
"""True if updates and deletes are logged without the values of generated columns."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Global variables. knows: what a log then tells of columns, see EVERYTHING. refused: why not without a server."""

    variables: dict[str, object]
    here: Callable[[Dialect], bool] = _metadata
    knows: frozenset[str] = EVERYTHING
    refused: str | None = None


SETTINGS: dict[str, Setting] = {
    "full metadata": Setting(_FULL),
    "no checksums": Setting(_FULL | {"binlog_checksum": "NONE"}),
    "minimal metadata": Setting({"binlog_row_metadata": "MINIMAL"}, knows=frozenset({"signs", "charsets"})),
    "MySQL before metadata": Setting({}, _before_metadata, frozenset()),
    "MariaDB without metadata": Setting({"binlog_row_metadata": "NO_LOG"}, _since(None, (10, 5)), frozenset()),
    "minimal row images": Setting(_FULL | {"binlog_row_image": "MINIMAL"}),
    "row images without blobs": Setting(_FULL | {"binlog_row_image": "NOBLOB"}),
    "compressed events": Setting(
        _FULL | {"log_bin_compress": "ON", "log_bin_compress_min_len": 10}, _since(None, (10, 5))
    ),
    "compressed transactions": Setting(_FULL | {"binlog_transaction_compression": "ON"}, _since((8, 0, 20), None)),
    "partial JSON": Setting(_FULL | {"binlog_row_value_options": "PARTIAL_JSON"}, _since((8, 0, 3), None)),
    "old temporal formats": Setting(
        _FULL | {"mysql56_temporal_format": "OFF"}, _since(None, (10, 5)), refused="the log does not tell its digits"
    ),
}

_BOTH = [(server, setting) for server in SERVERS for setting in SETTINGS]


@pytest.fixture(scope="session")
def dialects() -> dict[str, Dialect]:
    """What each server is, asked once."""
    return {}


def dialect(name: str, connection: Connection, dialects: dict[str, Dialect]) -> Dialect:
    if name not in dialects:
        dialects[name] = dialect_of(connection)
    return dialects[name]


@pytest.mark.thorough
@pytest.mark.parametrize("name, setting", _BOTH, ids=["-".join(parts) for parts in _BOTH])
def test_changes_of_random_tables(
    name: str,
    setting: str,
    servers: Servers,
    dialects: dict[str, Dialect],
    summary: list[str],
) -> None:
    server, server_setting = servers.get(name), SETTINGS[setting]
    with connected(server) as connection:
        server_dialect = dialect(name, connection, dialects)
        if not server_setting.here(server_dialect):
            pytest.skip(f"{name} has no setting of that kind")
        total, until, runs = Compared(), time.monotonic() + SOAK, 0
        while runs < RUNS or time.monotonic() < until:
            total.add(one_run(SEED + runs, server, connection, server_dialect, server_setting))
            runs += 1
    summary.append(f"{name}, {setting}, seed {SEED}, {runs} runs: {total}")


def one_run(
    seed: int, server: MySQLServer, connection: Connection, server_dialect: Dialect, setting: Setting
) -> Compared:
    """Fails naming its seed."""
    random, schema = Random(seed), f"random_{seed}"
    try:
        with variables(connection, setting.variables), connected(server) as session, logged(server, session) as log:
            tables = create(
                random, session, server_dialect, schema, [some_kinds(random, server_dialect) for _ in range(4)]
            )
            write(random, session, tables, 20)
        compared = Compared(statements=session.statements, refused=session.refused)
        knows = setting.knows - unlogged(server_dialect)
        compared.add(compare_tables(server, connection, log, tables, knows, setting.refused is None))
        compared.add(compare_events(connection, log))
    except (AssertionError, DecodeError) as error:
        error.add_note(f"STRATALOG_SEED={seed} STRATALOG_RUNS=1")
        raise
    finally:
        connection.execute(f"DROP DATABASE IF EXISTS {schema}")
    return compared


@dataclass(frozen=True, slots=True)
class Case:
    """Statements about a table ``t`` of whole numbers, and what of it to compare. refused: why it is not read."""

    statements: tuple[str, ...]
    columns: str = "id, a"
    here: Callable[[Dialect], bool] = lambda _: True
    refused: str | None = None


_T = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
_M = "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM"
_ROWS = (
    "INSERT INTO t (id, a) VALUES (1, 1), (2, NULL), (3, 3)",
    "UPDATE t SET a = 7 WHERE id < 3",
    "DELETE FROM t WHERE id = 2",
)

CASES: dict[str, Case] = {
    "a hidden column of a functional index": Case(
        ("CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY f ((a + 1)), b VARCHAR(9))", *_ROWS),
        "id, a, b",
        _since((8, 0, 13), None),
    ),
    "an invisible column": Case(
        ("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT INVISIBLE DEFAULT 5)", *_ROWS),
        "id, a, b",
        _since((8, 0, 23), (10, 3)),
    ),
    "partitions": Case(("CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 2", *_ROWS)),
    "a table made of a query": Case(
        (_T, *_ROWS, "CREATE TABLE u AS SELECT * FROM t", "UPDATE t SET id = id + 9"), here=_since((8, 0, 21), (10, 5))
    ),
    "generated columns": Case(
        (
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT AS (a + 1) VIRTUAL, c INT AS (id * 2) STORED)",
            *(*_ROWS, "UPDATE t SET id = id + 9, a = 8"),
        ),
        "id, a, b, c",
        lambda dialect: _metadata(dialect) and not _may_leave_generated_out(dialect),
    ),
    "a failed statement": Case((_T, *_ROWS, "!INSERT INTO t VALUES (8, 8), (1, 1)", "INSERT INTO t VALUES (9, 9)")),
    "rows undone up to a savepoint": Case(
        (
            *(_T, _M, "BEGIN", "INSERT INTO t VALUES (1, 1)", "SAVEPOINT s", "INSERT INTO t VALUES (2, 2)"),
            *("INSERT INTO m VALUES (1)", "ROLLBACK TO s", "INSERT INTO t VALUES (3, 3)", "COMMIT"),
        ),
        here=_since(None, (10, 5)),
        refused="a ROLLBACK past",
    ),
    "a transaction undone but for MyISAM": Case(
        (_T, _M, "BEGIN", "INSERT INTO t VALUES (1, 1)", "INSERT INTO m VALUES (1)", "ROLLBACK", *_ROWS),
        here=_since(None, (10, 5)),
    ),
    "XA, committed": Case((_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")),
    "XA, rolled back": Case((_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'")),
    "XA in one phase": Case(
        (_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"), here=_since((5, 7), None)
    ),
    "XA in one phase (MariaDB)": Case(
        (_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"), here=_since(None, (10, 5))
    ),
}


@contextmanager
def log_of(server: MySQLServer, connection: Connection, statements: Sequence[str]) -> Iterator[Log]:
    """The log of statements in a schema of their own; those behind a ``!`` fail."""
    connection.execute("CREATE DATABASE cases")
    try:
        with connected(server) as session, logged(server, session) as log:
            session.execute("USE cases")
            for statement in statements:
                session.attempt(statement[1:]) if statement.startswith("!") else session.execute(statement)
        yield log
    finally:
        connection.execute("DROP DATABASE cases")


def _cases_by_server() -> Iterator[ParameterSet]:
    """Each case with each server; the one that takes longest with one of them by every session of tests."""
    for server, case in itertools.product(SERVERS, CASES):
        is_thorough = case == "a hidden column of a functional index" and server != "mysql-8.0"
        yield pytest.param(server, case, id=f"{server}-{case}", marks=pytest.mark.thorough if is_thorough else [])


@pytest.mark.parametrize("name, case", [*_cases_by_server()])
def test_changes_of(name: str, case: str, servers: Servers, dialects: dict[str, Dialect]) -> None:
    server, test_case = servers.get(name), CASES[case]
    with connected(server) as connection:
        server_dialect = dialect(name, connection, dialects)
        if not test_case.here(server_dialect):
            pytest.skip(f"{name} has no such case")
        with log_of(server, connection, test_case.statements) as log:
            rows = connection.execute(f"SELECT {test_case.columns} FROM cases.t")
    changes = changes_of_files(log.chunks(), wanted_tables(["cases.t"]))
    if test_case.refused:
        with pytest.raises(Unsupported, match=test_case.refused):
            list(changes)
        return
    replica = Replica()
    replica.apply(changes)
    names = test_case.columns.split(", ")
    expected = [{n: None if v is None else int(v) for n, v in zip(names, row, strict=True)} for row in rows]
    assert_same(case, replica.table("cases", "t"), expected)


@pytest.mark.parametrize("name", SERVERS)
def test_generated_columns_come_with_their_values_or_are_absent(
    name: str, servers: Servers, dialects: dict[str, Dialect], summary: list[str]
) -> None:
    server = servers.get(name)
    with connected(server) as connection:
        server_dialect = dialect(name, connection, dialects)
        create = "CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED)"
        changes = ("INSERT INTO t (id, a) VALUES (1, 5)", "UPDATE t SET a = 7", "DELETE FROM t")
        with log_of(server, connection, (create, *changes)) as log:
            lines = [json.loads(line) for line in changes_of_files(log.chunks(), wanted_tables(["cases.t"]))]
    images = [(line["before"], line["after"]) for line in lines]
    old, new = {"id": 1, "a": 5}, {"id": 1, "a": 7}
    whole_old, whole_new = old | {"v": 6, "s": 10}, new | {"v": 8, "s": 14}
    if images[1] == (old, new):
        assert _may_leave_generated_out(server_dialect)
        assert images == [(None, whole_old), (old, new), (new, None)]
        summary.append(f"{name}: updates and deletes leave generated columns out")
    else:
        assert images == [(None, whole_old), (whole_old, whole_new), (whole_new, None)]


@pytest.mark.parametrize("name", SERVERS)
def test_what_only_a_definition_tells_is_refused_without_one_and_read_by_a_statement(
    name: str, servers: Servers, dialects: dict[str, Dialect]
) -> None:
    setting = SETTINGS["old temporal formats"]
    server = servers.get(name)
    with connected(server) as connection:
        if not setting.here(dialect(name, connection, dialects)):
            pytest.skip(f"{name} has no such setting")
        statements = ("CREATE TABLE t (id INT PRIMARY KEY, a TIME(2))", "INSERT INTO t VALUES (1, '10:00:00.5')")
        with variables(connection, setting.variables), log_of(server, connection, statements) as log:
            pass
    with pytest.raises(Unsupported, match=rf"cases.t.a: .*{setting.refused}"):
        list(changes_of_files(log.chunks(), wanted_tables(["cases.t"]), as_logged))
    (line,) = changes_of_files(log.chunks(), wanted_tables(["cases.t"]))
    assert json.loads(line)["after"] == {"id": 1, "a": "10:00:00.50"}
