"""What ``stratalog changes`` and ``events`` read from a log, against the servers that wrote it.

Random tables get random statements; then the log's changes, applied in order to nothing, must be what the server's own
SELECT shows, value for value. A failure tells its seed; STRATALOG_SEED sets the first one, STRATALOG_RUNS how many
there are for each server and setting, and STRATALOG_SOAK for how many seconds to go on with more.

Put here: servers, settings and cases. Not here: tables and statements (workload.py), values (kinds.py), comparing
(comparison.py).
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom

import pytest

from spark_jobs.changes import changes_of_files, wanted_tables
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import DecodeError, Unsupported
from tests.differential.comparison import (
    Compared,
    assert_same,
    compare_events,
    compare_rows,
    compare_tables,
    connected,
    logged,
    signs,
    unlogged,
    variables,
)
from tests.differential.kinds import EVERYTHING, KINDS, Dialect
from tests.differential.replica import Replica
from tests.differential.workload import Connection, create, dialect_of, some_kinds, write
from tests.fix_servers import Servers
from tests.servers import SERVERS

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

SEED = int(os.environ.get("STRATALOG_SEED") or ("1" if os.environ.get("CI") else SystemRandom().randrange(10**6)))
RUNS = int(os.environ.get("STRATALOG_RUNS", "2"))
SOAK = float(os.environ.get("STRATALOG_SOAK", "0"))
_FULL: dict[str, object] = {"binlog_row_metadata": "FULL"}


def _since(mysql: tuple[int, ...] | None, mariadb: tuple[int, ...] | None) -> Callable[[Dialect], bool]:
    return lambda dialect: dialect.since(mysql, mariadb)


def _before_metadata(dialect: Dialect) -> bool:
    return dialect.vendor == "mysql" and not dialect.since((8, 0, 1), None)


_NOT_YET = (Unsupported, AssertionError)
"""What is refused by name, and what the log does not tell as it is."""
_metadata = _since((8, 0, 1), (10, 5))


@dataclass(frozen=True, slots=True)
class Setting:
    """Global variables. knows: what a log then tells of columns, see EVERYTHING. pending: why it is not read yet."""

    variables: dict[str, object]
    here: Callable[[Dialect], bool] = _metadata
    knows: frozenset[str] = EVERYTHING
    pending: str | None = None


SETTINGS: dict[str, Setting] = {
    "full metadata": Setting(_FULL),
    "no checksums": Setting(_FULL | {"binlog_checksum": "NONE"}),
    "minimal metadata": Setting({"binlog_row_metadata": "MINIMAL"}, knows=frozenset({"signs", "charsets"})),
    "MySQL before metadata": Setting({}, _before_metadata, frozenset()),
    "MariaDB without metadata": Setting({"binlog_row_metadata": "NO_LOG"}, _since(None, (10, 5)), frozenset()),
    "minimal row images": Setting(_FULL | {"binlog_row_image": "MINIMAL"}, pending="partial row images"),
    "row images without blobs": Setting(_FULL | {"binlog_row_image": "NOBLOB"}, pending="partial row images"),
    "compressed events": Setting(
        _FULL | {"log_bin_compress": "ON", "log_bin_compress_min_len": 10},
        _since(None, (10, 5)),
        pending="MariaDB's compressed row events",
    ),
    "compressed transactions": Setting(
        _FULL | {"binlog_transaction_compression": "ON"},
        _since((8, 0, 20), None),
        pending="compressed transactions: their rows are left out without a word",
    ),
    "partial JSON": Setting(
        _FULL | {"binlog_row_value_options": "PARTIAL_JSON"}, _since((8, 0, 3), None), pending="PARTIAL_UPDATE_ROWS"
    ),
    "old temporal formats": Setting(
        _FULL | {"mysql56_temporal_format": "OFF"}, _since(None, (10, 5)), pending="temporal types before MySQL 5.6"
    ),
}
"""A setting that the decoder learns loses its ``pending``."""

_UCA = "collations that MariaDB's information_schema names otherwise than its COLLATIONS: text is taken for bytes"
PENDING: dict[tuple[str, str], str] = {
    ("mariadb-11.8", "minimal metadata"): _UCA,
    ("mariadb-11.8", "MariaDB without metadata"): _UCA,
    ("mariadb-11.8", "generated columns"): "columns that MariaDB 11.8 leaves out of updates and deletes",
}
"""What is not read yet on one server only."""

_BOTH = [(server, setting) for server in SERVERS for setting in SETTINGS]


@pytest.fixture(scope="session")
def dialects() -> dict[str, Dialect]:
    """What each server is, asked once."""
    return {}


def dialect(name: str, connection: Connection, known: dict[str, Dialect]) -> Dialect:
    if name not in known:
        known[name] = dialect_of(connection)
    return known[name]


@pytest.mark.parametrize("name, setting", _BOTH, ids=["-".join(one) for one in _BOTH])
def test_changes_of_random_tables(
    name: str,
    setting: str,
    servers: Servers,
    dialects: dict[str, Dialect],
    summary: list[str],
    request: pytest.FixtureRequest,
) -> None:
    server, chosen = servers.get(name), SETTINGS[setting]
    with connected(server) as connection:
        what = dialect(name, connection, dialects)
        if not chosen.here(what):
            pytest.skip(f"{name} has no setting of that kind")
        if why := chosen.pending or PENDING.get((name, setting)):
            request.applymarker(pytest.mark.xfail(raises=(*_NOT_YET, DecodeError), reason=why, strict=True))
        total, until, runs = Compared(), time.monotonic() + SOAK, 0
        while runs < RUNS or time.monotonic() < until:
            total.add(one_run(SEED + runs, server, connection, what, chosen))
            runs += 1
    summary.append(f"{name}, {setting}, seed {SEED}, {runs} runs: {total}")


def one_run(seed: int, server: MySQLServer, connection: Connection, what: Dialect, setting: Setting) -> Compared:
    """Fails naming its seed."""
    random, schema = Random(seed), f"random_{seed}"
    try:
        with variables(connection, setting.variables), connected(server) as session, logged(server, session) as log:
            tables = create(random, session, what, schema, [some_kinds(random, what) for _ in range(4)])
            write(random, session, tables, 20)
        compared = Compared(statements=session.statements, refused=session.refused)
        compared.add(compare_tables(server, connection, log, tables, setting.knows - unlogged(what)))
        compared.add(compare_events(connection, log))
    except (AssertionError, DecodeError) as error:
        error.add_note(f"STRATALOG_SEED={seed} STRATALOG_RUNS=1")
        raise
    finally:
        connection.execute(f"DROP DATABASE IF EXISTS {schema}")
    return compared


_KINDS = [(server, kind) for server in SERVERS for kind in KINDS if KINDS[kind].pending]


@pytest.mark.parametrize("name, kind", _KINDS, ids=["-".join(one) for one in _KINDS])
def test_a_type_that_is_not_read_yet(
    name: str, kind: str, servers: Servers, dialects: dict[str, Dialect], request: pytest.FixtureRequest
) -> None:
    """A type that is read loses its ``pending`` in KINDS and takes part in the random tables."""
    server = servers.get(name)
    with connected(server) as connection:
        what = dialect(name, connection, dialects)
        if not KINDS[kind].here(what):
            pytest.skip(f"{name} has no {kind}")
        request.applymarker(pytest.mark.xfail(raises=_NOT_YET, reason=KINDS[kind].pending or "", strict=True))
        try:
            with connected(server) as session, logged(server, session) as log:
                tables = create(Random(1), session, what, "pending", [[kind]])
                write(Random(1), session, tables, 10)
            compare_rows(connection, log, tables, EVERYTHING, signs(tables))
        finally:
            connection.execute("DROP DATABASE IF EXISTS pending")


@dataclass(frozen=True, slots=True)
class Case:
    """Statements about a table ``t`` of whole numbers and text, and what of it to compare."""

    statements: tuple[str, ...]
    columns: str = "id, a"
    here: Callable[[Dialect], bool] = lambda _: True
    pending: str | None = None


_T = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
_M = "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM"
_ROWS = (
    "INSERT INTO t (id, a) VALUES (1, 1), (2, NULL), (3, 3)",
    "UPDATE t SET a = 7 WHERE id < 3",
    "DELETE FROM t WHERE id = 2",
)

_XA = "rows between XA PREPARE and its end"

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
        _since((8, 0), (10, 5)),
    ),
    "a failed statement": Case((_T, *_ROWS, "!INSERT INTO t VALUES (8, 8), (1, 1)", "INSERT INTO t VALUES (9, 9)")),
    "rows undone up to a savepoint": Case(
        (
            *(_T, _M, "BEGIN", "INSERT INTO t VALUES (1, 1)", "SAVEPOINT s", "INSERT INTO t VALUES (2, 2)"),
            *("INSERT INTO m VALUES (1)", "ROLLBACK TO s", "INSERT INTO t VALUES (3, 3)", "COMMIT"),
        ),
        here=_since(None, (10, 5)),
        pending="ROLLBACK past logged rows",
    ),
    "a transaction undone but for MyISAM": Case(
        (_T, _M, "BEGIN", "INSERT INTO t VALUES (1, 1)", "INSERT INTO m VALUES (1)", "ROLLBACK", *_ROWS),
        here=_since(None, (10, 5)),
    ),
    "XA, committed": Case((_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"), pending=_XA),
    "XA, rolled back": Case(
        (_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'"), pending=_XA
    ),
    "XA in one phase": Case(
        (_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"), here=_since((5, 7), None), pending=_XA
    ),
    "XA in one phase (MariaDB)": Case(
        (_T, "XA START 'x'", *_ROWS, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"), here=_since(None, (10, 5))
    ),
}
_EACH = [(server, case) for server in SERVERS for case in CASES]


@pytest.mark.parametrize("name, case", _EACH, ids=["-".join(one) for one in _EACH])
def test_changes_of(
    name: str, case: str, servers: Servers, dialects: dict[str, Dialect], request: pytest.FixtureRequest
) -> None:
    server, chosen = servers.get(name), CASES[case]
    with connected(server) as connection:
        what = dialect(name, connection, dialects)
        if not chosen.here(what):
            pytest.skip(f"{name} has no such case")
        if not _metadata(what):
            pytest.skip(f"{name} logs no names and no signs")
        if why := chosen.pending or PENDING.get((name, case)):
            request.applymarker(pytest.mark.xfail(raises=_NOT_YET, reason=why, strict=True))
        replica = Replica()
        connection.execute("CREATE DATABASE cases")
        try:
            with connected(server) as session, logged(server, session) as log:
                session.execute("USE cases")
                for statement in chosen.statements:
                    session.attempt(statement[1:]) if statement.startswith("!") else session.execute(statement)
            replica.apply(changes_of_files(log.chunks(), wanted_tables(["cases.t"])))
            rows = connection.execute(f"SELECT {chosen.columns} FROM cases.t")
        finally:
            connection.execute("DROP DATABASE cases")
    names = chosen.columns.split(", ")
    expected = [{n: None if v is None else int(v) for n, v in zip(names, row, strict=True)} for row in rows]
    assert_same(case, replica.table("cases", "t"), expected)
