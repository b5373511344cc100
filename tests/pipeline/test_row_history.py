"""The life of rows against what a server's own SELECT says of them before and after each statement."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import Cursor

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.row_history.trace import Selection, TableTrace
from spark_jobs.row_history.trace_lines import TraceView
from spark_jobs.source.files import Files
from tests.binlogs.gtid_logs import land
from tests.fix_mysql import Database, database_of
from tests.fix_servers import Servers

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

KEYS = 12
Row = dict[str, Any]


def json_of(value: Any) -> Any:
    return f"{value:f}" if isinstance(value, Decimal) else value


def in_order(change: dict[str, Any]) -> str:
    return json.dumps(change, sort_keys=True)


@dataclass
class Writer:
    """Random statements of two connections about one table, and what each did to rows, by an id that never changes."""

    database: Database
    seed: int
    dice: random.Random = field(init=False)
    lives: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    owners: dict[int, set[int]] = field(default_factory=dict)
    """By key the rows that ever had it."""
    born: int = 0
    statements: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def run(self, transactions: int, image: str) -> None:
        with self.database.server.connect() as first, self.database.server.connect() as second:
            cursors = [connection.cursor() for connection in (first, second)]
            for cursor in cursors:
                cursor.execute(f"USE {self.database.name}")
                cursor.execute(f"SET SESSION binlog_row_image = {image}")
                is_mariadb = "mariadb" in self.database.server.build.name
                texts = "binlog_annotate_row_events" if is_mariadb else "binlog_rows_query_log_events"
                cursor.execute(f"SET SESSION {texts} = ON")
            cursors[0].execute(
                "CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20), d DECIMAL(8,2), uid INT NOT NULL)"
            )
            for _ in range(transactions):
                self._transaction(self.dice.choice(cursors))

    def _transaction(self, cursor: Cursor) -> None:
        cursor.execute("BEGIN")
        changes = [change for _ in range(self.dice.randint(1, 4)) for change in self._execute_statement(cursor)]
        if self.dice.random() < 0.1:
            cursor.execute("ROLLBACK")
            return
        cursor.execute("COMMIT")
        for uid, change in changes:
            self.lives.setdefault(uid, []).append(change)
            for row in (change["before"], change["after"]):
                if row:
                    self.owners.setdefault(row["id"], set()).add(uid)

    def _execute_statement(self, cursor: Cursor) -> Iterator[tuple[int, dict[str, Any]]]:
        before = self._current_rows(cursor)
        self.statements += 1
        text = f"{self._random_statement(sorted(row['id'] for row in before.values()))} /* {self.statements} */"
        cursor.execute(text)
        after = self._current_rows(cursor)
        cursor.execute("SELECT CONNECTION_ID()")
        ((connection,),) = cursor.fetchall()
        for uid in before.keys() | after.keys():
            old, new = before.get(uid), after.get(uid)
            if old != new:
                op = "insert" if old is None else "delete" if new is None else "update"
                yield uid, {"op": op, "before": old, "after": new, "statement": text, "connection": connection}

    def _current_rows(self, cursor: Cursor) -> dict[int, Row]:
        cursor.execute("SELECT uid, id, a, s, d FROM t")
        names = ("uid", "id", "a", "s", "d")
        return {row[0]: dict(zip(names, map(json_of, row), strict=True)) for row in cursor.fetchall()}

    def _random_statement(self, keys_in_use: list[int]) -> str:
        # Some keys are free and some used, so that rows meet the keys of others.
        free = [key for key in range(KEYS) if key not in keys_in_use]
        key = self.dice.choice(keys_in_use or [0])
        number = self.dice.randint(0, 99)
        kinds = ["update", "update", "several", *(["insert", "insert", "move"] if free else []), "delete"]
        match self.dice.choice(kinds if keys_in_use else ["insert"]):
            case "insert":
                keys = self.dice.sample(free, min(len(free), self.dice.randint(1, 3)))
                uids = range(self.born + 1, self.born + len(keys) + 1)
                self.born += len(keys)
                rows = (f"({key}, {number}, 'ä{uid}', {number}.5, {uid})" for key, uid in zip(keys, uids, strict=True))
                return f"INSERT INTO t (id, a, s, d, uid) VALUES {', '.join(rows)}"
            case "move":
                return f"UPDATE t SET id = {self.dice.choice(free)} WHERE id = {key}"
            case "update":
                return f"UPDATE t SET a = a + 1, s = NULL WHERE id = {key}"
            case "several":
                return f"UPDATE t SET d = d + {number} WHERE a < {number}"
            case _:
                return f"DELETE FROM t WHERE id = {key}"

    def life(self, key: int, image: str) -> list[list[dict[str, Any]]]:
        """The entries of each row that ever had a key, as the log tells them."""
        uids = sorted(self.owners.get(key, ()))
        return [[self._as_logged(change, image) for change in self.lives[uid]] for uid in uids]

    def _as_logged(self, change: dict[str, Any], image: str) -> dict[str, Any]:
        before, after = change["before"], change["after"]
        if change["op"] == "update":
            names = [name for name in before if before[name] != after[name]]
            # The key is in every image before; what else was set MINIMAL has in the row after alone, changed or not.
            if image == "MINIMAL" and "s = NULL" in change["statement"]:
                names = ["a", "s"]
            logged = [name for name in names if image == "FULL" or name == "id"]
            before, after = ({name: before[name] for name in logged}, {name: after[name] for name in names})
        elif change["op"] == "delete" and image == "MINIMAL":
            before = {"id": before["id"]}
        return change | {"before": before, "after": after}


def pipeline_of(database: Database, folder: Path, start: str) -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text(f"lake: ./lake\nsources:\n  shop: {{files: {database.server.data}}}\n", encoding="utf-8")
    pipeline = load(path)
    land(lake_of(pipeline).bronze("shop"), Files("shop", database.server.data), start)
    return pipeline


def beginning_of(database: Database) -> str:
    """Position where the log that the test writes begins: in a new file."""
    database.execute("FLUSH BINARY LOGS")
    files = [row[0] for row in database.execute("SHOW BINARY LOGS")]
    return f"{files[-1]}:4"


def entries(pipeline: Pipeline, name: TableName, key: int) -> list[dict[str, Any]]:
    trace = TableTrace.of(pipeline, "shop", name, Selection(keys=(str(key),)))
    lines = [json.loads(TraceView("shop").line(entry)) for entry in trace.changes()]
    return [{name: line[name] for name in ("op", "before", "after", "statement", "connection")} for line in lines]


def compare(server: MySQLServer, folder: Path, transactions: int, image: str, seed: int) -> int:
    """Number of changes that were compared. Rows of different life mix in the log; each row's own are in order."""
    with database_of(server) as database:
        start = beginning_of(database)
        writer = Writer(database, seed)
        writer.run(transactions, image)
        database.execute("FLUSH BINARY LOGS")
        pipeline = pipeline_of(database, folder, start)
        count = 0
        for key in range(KEYS):
            logged = entries(pipeline, TableName(database.name, "t"), key)
            expected = writer.life(key, image)
            if "mariadb" in server.build.name:  # its GTID events begin transactions, and have no connection
                expected = [[change | {"connection": None} for change in life] for life in expected]
            flat = [change for life in expected for change in life]
            assert sorted(logged, key=in_order) == sorted(flat, key=in_order), (seed, key)
            for life in expected:
                positions = [logged.index(change) for change in life]
                assert positions == sorted({*positions}), (seed, key)
            count += len(logged)
        return count


@pytest.mark.parametrize("image", ["FULL", pytest.param("MINIMAL", marks=pytest.mark.thorough)])
def test_a_row_s_life_is_what_the_server_did(mysql: MySQLServer, tmp_path: Path, image: str) -> None:
    assert compare(mysql, tmp_path, 40, image, seed=1) > 100


@pytest.mark.thorough
def test_mariadb_s_annotations_are_the_statements(servers: Servers, tmp_path: Path) -> None:
    assert compare(servers.get("mariadb-11.4"), tmp_path, 30, "FULL", seed=2) > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_lives_of_many_rows(any_server: tuple[str, MySQLServer], tmp_path: Path, seed: int, image: str) -> None:
    assert compare(any_server[1], tmp_path, 300, image, seed) > 500
