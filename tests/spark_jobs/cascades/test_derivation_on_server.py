"""Child rows computed from the log alone are those that a server has, after each of many random transactions."""

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest
from _pytest.mark.structures import ParameterSet

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.cascades.derivation import Derivation, ImagePair, Key, Reference, Row, RowLookups, Weights
from spark_jobs.cascades.weights import weigher_of
from spark_jobs.ddl.foreign_keys import declared_keys
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import TableStopped
from tests.fix_mysql import database_of
from tests.fix_servers import OPTIONS, Servers, build_or_skip, telling
from tests.soaks.cascading import FEW, After, LoggedChange, RandomTables, logged
from tests.twins.twin_cases import FIRST_SEED

pytestmark = pytest.mark.mysql

COLLATIONS = {
    "mysql-8.0": ("utf8mb4_0900_ai_ci", "latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_bin"),
    "mysql-5.7": ("utf8mb4_unicode_ci", "latin1_general_ci"),
    "mysql-9.7": ("utf8mb4_0900_ai_ci",),
    "mariadb-10.11": ("latin1_swedish_ci",),
    "mariadb-11.4": ("utf8mb4_uca1400_ai_ci", "utf8mb4_general_ci", "latin1_swedish_ci", "utf8mb4_bin"),
}
IDS = {"utf8mb4_unicode_ci": 224, "latin1_general_ci": 48}
"""Of collations that a log does not tell."""
Changes = list[tuple[TableDefinition, LoggedChange]]
"""Of a log, in its order."""


def cases() -> list[ParameterSet]:
    """Server, collation, seed, transactions and size: a short one of each server, long ones, and large ones."""
    seeds = range(FIRST_SEED + 1, FIRST_SEED + 1 + int(os.environ.get("STRATALOG_RUNS", "20")))
    short = [
        pytest.param(server, collations[0], FIRST_SEED, 40, FEW, id=f"{server}-{collations[0]}")
        for server, collations in COLLATIONS.items()
    ]
    sizes = {"": (300, FEW), "-large": (100, 600)}
    return short + [
        pytest.param(server, collation, seed, *size, id=f"{server}-{collation}-{seed}{name}", marks=pytest.mark.long)
        for server, collations in COLLATIONS.items()
        for collation in collations
        for seed in seeds
        for name, size in sizes.items()
    ]


@dataclass(slots=True)
class Lake:
    """What the log tells of tables, with what is derived from it."""

    definitions: dict[TableName, TableDefinition]
    derivation: Derivation
    rows: dict[TableName, dict[Key, Row]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, change: ImagePair, *, cascades: bool) -> None:
        self._apply_change(change)
        for derived in self.derivation.follow(change, cascades=cascades):
            verb = "set" if derived.after else "deleted"
            self.counts[f"{derived.reference.key.name}: {verb}"] += 1
            assert self.rows[derived.table][identity(derived.table, derived.before)] == derived.before
            self._apply_change(ImagePair(derived.table, derived.before, derived.after))

    def _apply_change(self, change: ImagePair) -> None:
        rows = self.rows.setdefault(change.table, {})
        if change.before is not None:
            rows.pop(identity(change.table, change.before), None)
        if change.after is not None:
            rows[identity(change.table, change.after)] = change.after

    def of(self, table: TableName) -> set[tuple[Any, ...]]:
        return {tuple(row.values()) for row in self.rows.get(table, {}).values()}


def identity(_table: TableName, row: Row) -> Key:
    return (row["id"] if "id" in row else row["x"],)


def ties(
    definitions: dict[TableName, TableDefinition], weigher_of_column: Callable[[Column], Callable[[Any], Hashable]]
) -> RowLookups:
    """Those of tables that begin in the log."""

    @cache
    def weigher(table: TableName, column: str) -> Any:
        definition = definitions[table]
        return weigher_of_column(definition.columns[definition.column_names().index(column)])

    def weights(table: TableName, columns: Sequence[str], row: Row) -> Weights | None:
        values = [row[column] for column in columns]
        if None in values:
            return None
        return tuple(weigher(table, column)(value) for column, value in zip(columns, values, strict=True))

    def located(_reference: Reference, _weights: Weights) -> Iterable[Row]:
        return ()

    return RowLookups(identity, weights, located)


@pytest.mark.parametrize("server, collation, seed, transactions, size", cases())
def test_rows_computed_from_the_log_are_the_servers(
    server: str, collation: str, seed: int, transactions: int, size: int, servers: Servers, summary: list[str]
) -> None:
    running = servers.get(server)
    with telling(running, None if server == "mysql-5.7" else "FULL"), database_of(running) as database:
        database.execute("SET NAMES utf8mb4")
        text = f"VARCHAR(8) CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}"
        chance = Random(f"{server} {collation} {seed}")
        tables = RandomTables(database, chance, text, size=size, shares=chance.random() < 0.3)
        tables.create()
        states: list[After] = []
        for number in range(transactions):
            tables.transaction()
            if not tables.is_large or number % 5 == 4:
                states.append(tables.after())

        derived = require_same(
            running, tables, states, IDS.get(collation), f"{server}, {collation}, seed {seed}", summary
        )
    assert bool(derived) == (server != "mysql-9.7"), "keys that refuse most statements show nothing"


@pytest.mark.long
@pytest.mark.parametrize("settings", [("ON",), ("ON", "OFF", "ON", "OFF")], ids="-".join)
def test_cascades_of_a_server_that_begins_to_log_them(
    settings: Sequence[str], tmp_path: Path, summary: list[str]
) -> None:
    """As of a failover to a server that logs them, and back: one log, of a server that was started with each."""
    build, states = build_or_skip("mysql-9.7"), list[After]()
    tables: RandomTables | None = None
    last: MySQLServer | None = None
    for native in settings:
        options = OPTIONS | {"innodb_native_foreign_keys": native, "binlog_row_metadata": "FULL"}
        with MySQLServer(tmp_path, options, build) as server, database_of(server) as opened:
            database = opened if tables is None else replace(opened, name=tables.database.name)
            database.connection.select_db(database.name)
            database.execute("SET NAMES utf8mb4")
            if tables is None:
                database.execute("CREATE DATABASE kept")
                database.connection.select_db("kept")
                text = "VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
                tables = RandomTables(replace(database, name="kept"), Random("9.7"), text, size=100)
                tables.create()
            else:
                tables.database = database
            for _ in range(60):
                tables.transaction()
                states.append(tables.after())
            last = server
    assert tables is not None
    assert last is not None
    derived = require_same(last, tables, states, None, f"mysql-9.7, {' '.join(settings)}", summary)
    assert derived


def require_same(
    server: MySQLServer,
    tables: RandomTables,
    states: Sequence[After],
    collation: int | None,
    label: str,
    summary: list[str],
    *,
    changed: Callable[[Changes], Changes] = list,
    weigher: Callable[[Column], Callable[[Any], Hashable]] = weigher_of,
) -> int:
    """The tables are the server's after each transaction; how many changes were derived.

    changed: what is read of the log, as it is followed. weigher: when values are equal.
    """
    start, name = tables.start, tables.database.name
    assert start
    files = sorted({state.end[0] for state in (start, *states)})
    changes = changed(list(logged(server.data, files, start.end, name, collation)))
    definitions = {definition.name: definition for definition, _ in changes}
    lake = Lake(definitions, Derivation(tables.references, ties(definitions, weigher)))
    remaining = iter(changes)
    pending = next(remaining, None)
    for state in states:
        try:
            while pending and pending[1].position[:2] < state.end:
                lake.take(pending[1].change, cascades=pending[1].cascades)
                pending = next(remaining, None)
        except TableStopped as error:
            if not tables.shares:
                raise
            summary.append(f"cascades, {label}: stopped at {state.end}: {error}")
            break
        for table, rows in state.rows.items():
            assert lake.of(TableName(name, table)) == rows, f"{table} at {state.end}"
    derived = sum(lake.counts.values())
    parents = {reference.key.parent for reference in tables.references if reference.key.is_cascading}
    of_parents = sum(logged.change.table in parents and logged.change.before is not None for _, logged in changes)
    summary.append(f"cascades, {label}: {of_parents} updates and deletes of parents, {derived} derived")
    return derived


TRANSACTIONS = (
    ["INSERT INTO p VALUES ('a'), ('b')", "INSERT INTO c VALUES (1, 'A'), (2, 'b')"],
    ["SET foreign_key_checks = 0", "DELETE FROM p WHERE x = 'b'", "SET foreign_key_checks = 1"],
    ["DELETE FROM p WHERE x = 'a'", "INSERT INTO p VALUES ('a')", "INSERT INTO c VALUES (3, 'a')"],
)
"""Statements of transactions: one of another collation's letters, one without checks, one whose order counts."""


def by_table(changes: Changes) -> Changes:
    """The last transaction's changes table by table."""
    return [*changes[:-3], *sorted(changes[-3:], key=lambda pair: pair[1].change.table)]


def without_flag(changes: Changes) -> Changes:
    return [(definition, replace(change, cascades=True)) for definition, change in changes]


def test_without_the_flag_the_order_or_the_collation_rows_differ(servers: Servers, summary: list[str]) -> None:
    states: list[After] = []
    running = servers.get("mysql-8.0")
    key = "FOREIGN KEY (s) REFERENCES p (x) ON DELETE CASCADE"
    with telling(running, "FULL"), database_of(running) as database:
        tables = RandomTables(database, Random(), "", columns={"p": ["x"], "c": ["id", "s"]})
        kind = "VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
        database.execute(f"CREATE TABLE p (x {kind} PRIMARY KEY)")
        database.execute(f"CREATE TABLE c (id INT PRIMARY KEY, s {kind}, CONSTRAINT f {key})")
        tables.references = [
            Reference(TableName(database.name, "c"), known)
            for known in declared_keys(f"ALTER TABLE c ADD CONSTRAINT f {key}", database.name)
        ]
        tables.start = tables.after()
        for statements in TRANSACTIONS:
            for statement in ("BEGIN", *statements, "COMMIT"):
                database.execute(statement)
            states.append(tables.after())
    assert states[-1].rows == {"p": {("a",)}, "c": {(2, "b"), (3, "a")}}
    assert require_same(running, tables, states, None, "one by one", summary) == 1
    wrong: list[dict[str, Any]] = [
        {"changed": without_flag},
        {"changed": by_table},
        {"weigher": lambda _column: lambda value: value},
    ]
    for mistake in wrong:
        with pytest.raises(AssertionError, match="c at"):
            require_same(running, tables, states, None, "one by one", summary, **mistake)


def test_a_refused_key_leaves_others_out_of_force_in_mysql_8_0(servers: Servers) -> None:
    # Nothing of it is in the log, so that the lake deletes what the server keeps (docs/cascades.md).
    with database_of(servers.get("mysql-8.0")) as database:
        database.execute("CREATE TABLE p (id INT PRIMARY KEY, x INT, UNIQUE (x))")
        database.execute("CREATE TABLE c (pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)")
        with pytest.raises(pymysql.Error, match="doesn't exist"):
            database.execute("ALTER TABLE p ADD FOREIGN KEY (x) REFERENCES p (x) ON UPDATE CASCADE")
        for statements in (["INSERT INTO p VALUES (1, 0)", "INSERT INTO c VALUES (1)"], ["DELETE FROM p"]):
            for statement in statements:
                database.execute(statement)
        assert database.execute("SELECT pid FROM c") == ((1,),)
