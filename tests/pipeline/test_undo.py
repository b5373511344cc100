"""SQL that takes changes back, run on the server that they were made on."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.cascades.unlogged_changes import unlogged_changes_of
from spark_jobs.row_history.trace import Selection
from spark_jobs.row_history.undo import Undo
from spark_jobs.row_history.undo_check import GuardCheck
from spark_jobs.row_history.undo_steps import SESSION
from spark_jobs.source.files import Files
from tests.binlogs.gtid_logs import land
from tests.fix_cli import Stratalog
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import Shop
from tests.fix_servers import Servers
from tests.pipeline.test_row_history import beginning_of, pipeline_of

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


def keys_of(pipeline: Pipeline) -> Sequence[UnloggedChanges]:
    """The foreign keys of the log that cascade."""
    return unlogged_changes_of(pipeline, lake_of(pipeline), "shop").changes


def end_of(database: Database) -> str:
    """Position where the log ends now, in a new file."""
    return beginning_of(database)


def undo_of(pipeline: Pipeline, database: Database, tables: Sequence[str], **choice: Any) -> Undo:
    land(lake_of(pipeline).bronze("shop"), Files("shop", database.server.data))
    return Undo.of(
        pipeline, "shop", [TableName(database.name, table) for table in tables], Selection(**choice), keys_of(pipeline)
    )


def executed(database: Database, undo: Undo) -> list[str]:
    """The positions of the conflicts that the script prints when it is run."""
    conflicts: list[str] = []
    with database.server.connect() as connection, connection.cursor() as cursor:
        for statement in "".join(undo.script()).split(";\n"):
            lines = [line for line in statement.splitlines() if line and not line.startswith("--")]
            if lines:
                cursor.execute("\n".join(lines))
                conflicts += [row[0] for row in cursor.fetchall()]
    return conflicts


def predicted(database: Database, undo: Undo) -> list[str]:
    """The positions of the conflicts that the check names."""
    with database.server.connect() as connection, connection.cursor() as cursor:

        def ask(query: str) -> list[tuple[object, ...]]:
            cursor.execute(query)
            return list(cursor.fetchall())

        for statement in SESSION:
            cursor.execute(statement)
        return [step.location for step, _ in GuardCheck(ask).conflicts(undo.steps)]


def rows(database: Database, table: str) -> list[tuple[Any, ...]]:
    return sorted(database.execute(f"SELECT * FROM {table}"), key=repr)


TYPES = {
    "e": ("ENUM('a','b','it''s')", ["'a'", "'it''s'", "NULL"]),
    "s": ("SET('x','y','z')", ["'x,z'", "''"]),
    "b": ("BIT(33)", ["b'101'", "8589934591"]),
    "j": ("JSON", ["""'{"a": [1, 2.5, "ä\\\\n\\'x"], "b": null}'""", "'[]'", "NULL"]),
    "g": ("GEOMETRY", ["ST_GeomFromText('POINT(1 2)')", "NULL"]),
    "raw_": ("VARBINARY(20)", ["x'00ff27'", "''"]),
    "fixed": ("BINARY(4)", ["x'0a00'", "x'00000000'"]),
    "day": ("DATE", ["'0000-00-00'", "'2026-02-03'", "'2026-00-00'"]),
    "at": ("TIMESTAMP(6) NULL", ["'2026-02-03 04:05:06.789012'", "NULL"]),
    "moment": ("DATETIME(3)", ["'1000-01-01 00:00:00.001'", "'0000-00-00 00:00:00'"]),
    "time_": ("TIME(2)", ["'-838:59:59.00'", "'12:00:00.25'"]),
    "year_": ("YEAR", ["0", "2026"]),
    "n": ("DECIMAL(30,12)", ["-123456789012345678.000000000001", "0.000000000001", "NULL"]),
    "f": ("FLOAT", ["1.1", "3.402823466e38", "-0.1"]),
    "d": ("DOUBLE", ["1.1e-300", "0.1"]),
    "u": ("BIGINT UNSIGNED", ["18446744073709551615", "0"]),
    "latin": ("VARCHAR(20) CHARACTER SET latin1", ["'äöü'", "'A'", "'a'"]),
    "utf": ("TEXT CHARACTER SET utf8mb4", ["'\\\\ \\0 \\n \\r\\n 😀'", "''", "'DELIMITER ;'"]),
    "bytes_": ("BLOB", ["x'5c27000a'", "NULL"]),
}


def table_of_types(database: Database) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    database.execute("SET SESSION sql_mode = ''")
    database.execute(f"CREATE TABLE t (id INT, k VARCHAR(10), {columns}, PRIMARY KEY (k, id))")
    database.execute(f"CREATE TABLE bag (id INT, k VARCHAR(10), {columns})")


def filled(database: Database, dice: random.Random, table: str, key: tuple[int, str]) -> None:
    values = ", ".join(dice.choice(values) for _, values in TYPES.values())
    database.execute(f"INSERT INTO {table} VALUES ({key[0]}, '{key[1]}', {values})")


def changed(database: Database, dice: random.Random, table: str, key: tuple[int, str]) -> None:
    names = dice.sample(list(TYPES), 5)
    values = ", ".join(f"{name} = {dice.choice(TYPES[name][1])}" for name in names)
    database.execute(f"UPDATE {table} SET {values} WHERE id = {key[0]} AND k = '{key[1]}'")


def every_type_comes_back(server: MySQLServer, folder: Path, seed: int, count: int) -> None:
    dice = random.Random(seed)
    with database_of(server) as database:
        start = beginning_of(database)
        table_of_types(database)
        keys = [(number, dice.choice(("a", "A", "ä", "it''s"))) for number in range(count)]
        for key in keys:
            filled(database, dice, "t", key)
            filled(database, dice, "bag", key)
        before = rows(database, "t"), rows(database, "bag")
        middle = end_of(database)
        # Several changes of a row, a key that moves and is taken by another row, rows that go and come.
        for key in (*keys, *keys[:3]):
            for table in ("t", "bag"):
                changed(database, dice, table, key)
        database.execute("UPDATE t SET id = id + 1000 WHERE id % 3 = 0")
        filled(database, dice, "t", (0, "new"))
        for table in ("t", "bag"):
            database.execute(f"DELETE FROM {table} WHERE id % 3 = 1")
            filled(database, dice, table, (1, "b"))
        database.execute("BEGIN")
        database.execute("UPDATE t SET e = 'a', k = 'moved' WHERE id % 3 = 2")
        database.execute("DELETE FROM t WHERE id = 2")
        database.execute("COMMIT")
        end_of(database)
        pipeline = pipeline_of(database, folder, start)
        undo = undo_of(pipeline, database, ["t", "bag"], start=middle)
        assert len(undo.steps) > 2 * count
        assert predicted(database, undo) == []
        assert executed(database, undo) == []
        assert (rows(database, "t"), rows(database, "bag")) == before, seed


def test_every_type_comes_back(mysql: MySQLServer, tmp_path: Path) -> None:
    every_type_comes_back(mysql, tmp_path, 1, 9)


@pytest.mark.thorough
def test_every_type_of_mariadb_comes_back(servers: Servers, tmp_path: Path) -> None:
    every_type_comes_back(servers.get("mariadb-11.4"), tmp_path, 2, 9)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_values_come_back(any_server: tuple[str, MySQLServer], tmp_path: Path, seed: int) -> None:
    every_type_comes_back(any_server[1], tmp_path, seed, 60)


def conflicts_are_predicted(server: MySQLServer, folder: Path, seed: int, count: int) -> None:
    """One accident for all rows, then other changes: a model says which rows cannot be taken back."""
    dice = random.Random(seed)
    with database_of(server) as database:
        start = beginning_of(database)
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT)")
        database.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, {n}, {n}, {n})" for n in range(count)))
        middle = end_of(database)
        database.execute("UPDATE t SET a = -1, b = -1 WHERE id % 2 = 0")
        database.execute("DELETE FROM t WHERE id % 4 = 1")
        database.execute("INSERT INTO t VALUES " + ", ".join(f"({count + n}, 0, 0, 0)" for n in range(count)))
        stop = end_of(database)
        # What else happens to a row, and whether its change can be taken back then.
        expected: dict[int, tuple[int, ...]] = {n: (n, n, n) for n in range(count)}
        blocked = 0
        for n in range(2 * count):
            is_updated, is_deleted, is_new = n < count and n % 2 == 0, n < count and n % 4 == 1, n >= count
            match dice.choice(("none", "none", "b", "c", "gone")):
                case "b" if not is_deleted:
                    database.execute(f"UPDATE t SET b = 99 WHERE id = {n}")
                    blocked += is_updated or is_new
                    a, c = (-1, n) if is_updated else (0, 0) if is_new else (n, n)
                    expected[n] = (a, 99, c)
                case "c" if not is_deleted:
                    database.execute(f"UPDATE t SET c = 99 WHERE id = {n}")
                    blocked += is_new
                    expected[n] = (0, 0, 99) if is_new else (n, n, 99)
                case "gone" if not is_deleted:
                    database.execute(f"DELETE FROM t WHERE id = {n}")
                    blocked += is_updated or is_new
                    expected.pop(n, None)
                case "gone":
                    database.execute(f"INSERT INTO t VALUES ({n}, 7, 7, 7)")
                    blocked += 1
                    expected[n] = (7, 7, 7)
        end_of(database)
        pipeline = pipeline_of(database, folder, start)
        undo = undo_of(pipeline, database, ["t"], start=middle, stop=stop)
        conflicts = predicted(database, undo)
        assert len(conflicts) == blocked
        assert executed(database, undo) == conflicts
        assert rows(database, "t") == sorted(((n, *row) for n, row in expected.items()), key=repr)


class Family:
    """Random transactions about parents and their children, which a foreign key ties to them."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self.database, self.dice = database, dice
        self.parents, self.children = dict[int, int](), dict[int, int]()
        """Parents with how many children they have, and children with their parents."""
        self.born = 0
        database.execute("SET SESSION sql_mode = ''")
        database.execute("CREATE TABLE parents (id INT PRIMARY KEY, e ENUM('a','b') NOT NULL, b BIT(3), d DATE)")
        database.execute(
            "CREATE TABLE children (id INT PRIMARY KEY, parent INT NOT NULL, raw_ VARBINARY(4), "
            "FOREIGN KEY (parent) REFERENCES parents (id)) "
        )

    def run(self, transactions: int) -> None:
        for _ in range(transactions):
            self.database.execute("BEGIN")
            for _ in range(self.dice.randint(1, 5)):
                self._statement()
            self.database.execute("COMMIT")

    def _statement(self) -> None:
        alone = [parent for parent, count in self.parents.items() if not count]
        self.born += 1
        values = self.dice.choice(("'a'", "'b'")), self.dice.choice(("b'101'", "NULL")), "'0000-00-00'"
        match self.dice.choice(("parent", "child", "child", "update", "move", "orphan", "last child", "adopt")):
            case "parent":
                self.database.execute(f"INSERT INTO parents VALUES ({self.born}, {', '.join(values)})")
                self.parents[self.born] = 0
            case "child" if self.parents:
                parent = self.dice.choice([*self.parents])
                self.database.execute(f"INSERT INTO children VALUES ({self.born}, {parent}, x'00ff')")
                self.children[self.born] = parent
                self.parents[parent] += 1
            case "update":
                self.database.execute(f"UPDATE parents SET e = {values[0]}, b = {values[1]} WHERE id % 3 = 0")
            case "move" if alone:
                self.database.execute(f"UPDATE parents SET id = {self.born} WHERE id = {alone[0]}")
                self.parents[self.born] = self.parents.pop(alone[0])
            case "orphan" if alone:
                self.database.execute(f"DELETE FROM parents WHERE id = {alone[0]}")
                del self.parents[alone[0]]
            case "last child" if self.children:
                # The parent goes behind its children, and comes back before them.
                parent = self.dice.choice([*self.children.values()])
                self.database.execute(f"DELETE FROM children WHERE parent = {parent}")
                self.database.execute(f"DELETE FROM parents WHERE id = {parent}")
                self.children = {child: owner for child, owner in self.children.items() if owner != parent}
                del self.parents[parent]
            case "adopt" if self.children:
                child, parent = self.dice.choice([*self.children]), self.dice.choice([*self.parents])
                self.database.execute(f"UPDATE children SET parent = {parent}, raw_ = NULL WHERE id = {child}")
                self.parents[self.children[child]] -= 1
                self.parents[parent] += 1
                self.children[child] = parent


def a_suffix_is_taken_back(server: MySQLServer, folder: Path, seed: int, transactions: int) -> None:
    """All that transactions did after some place: the rows are those that were there."""
    dice = random.Random(seed)
    with database_of(server) as database:
        start = beginning_of(database)
        family = Family(database, dice)
        family.run(transactions)
        middle = end_of(database)
        before = rows(database, "parents"), rows(database, "children")
        family.run(dice.randint(transactions // 2, transactions))
        after = rows(database, "parents"), rows(database, "children")
        end_of(database)
        pipeline = pipeline_of(database, folder, start)
        undo = undo_of(pipeline, database, ["parents", "children"], start=middle)
        assert undo.steps or before == after
        assert predicted(database, undo) == []
        assert executed(database, undo) == []
        assert (rows(database, "parents"), rows(database, "children")) == before, seed


def test_parents_come_back_before_their_children(mysql: MySQLServer, tmp_path: Path) -> None:
    a_suffix_is_taken_back(mysql, tmp_path, 3, 25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_suffixes_are_taken_back(any_server: tuple[str, MySQLServer], tmp_path: Path, seed: int) -> None:
    a_suffix_is_taken_back(any_server[1], tmp_path, seed, 60)


@pytest.mark.thorough
@pytest.mark.spark
def test_generated_columns_are_left_out(shop: Shop) -> None:
    """The lake's schema history tells which they are, and that columns are as they were."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, twice INT AS (a * 2) STORED, more INT AS (a + 1) VIRTUAL)")
    shop.execute("INSERT INTO t (id, a) VALUES (1, 1), (2, 2)")
    pipeline = shop.pipeline()
    shop.run(pipeline)
    before, middle = shop.truth("t"), shop.end()
    shop.execute("UPDATE t SET a = 5", "DELETE FROM t WHERE id = 2", "INSERT INTO t (id, a) VALUES (3, 3)")
    shop.execute("ALTER TABLE t ADD b INT DEFAULT 7")
    shop.run(pipeline)
    undo = Undo.of(
        pipeline, "shop", [TableName(shop.database.name, "t")], Selection(start=str(middle)), keys_of(pipeline)
    )
    assert predicted(shop.database, undo) == []
    assert executed(shop.database, undo) == []
    assert [row[:4] for row in shop.truth("t")] == before


def test_the_command_asks_the_server(mysql: MySQLServer, tmp_path: Path, stratalog: Stratalog) -> None:
    with database_of(mysql) as database:
        start = beginning_of(database)
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        database.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        middle = end_of(database)
        database.execute("UPDATE t SET a = 0")
        stop = end_of(database)
        database.execute("UPDATE t SET a = 7 WHERE id = 2")
        pipeline_of(database, tmp_path, start)
        login = f"host: {mysql.host}, port: {mysql.port}, user: {mysql.user}, password: '{mysql.password}'"
        path = tmp_path / "live.yaml"
        path.write_text(f"lake: ./lake\nsources:\n  shop: {{mysql: {{{login}}}}}\n", encoding="utf-8")
        arguments = ("undo", f"{database.name}.t", "-c", path, "--from", middle, "--to", stop)
        ran = stratalog(*arguments, "--check")
        conflict, *rest = ran.out.splitlines()[1:]
        assert conflict.split("  ")[-1] == "the row was changed since"
        assert (ran.status, rest) == (1, ["2 of 3 changes can be taken back"])
        assert database.execute("SELECT a FROM t ORDER BY id") == ((0,), (7,), (0,))
        database.execute("UPDATE t SET a = 0 WHERE id = 2")
        ran = stratalog(*arguments, "--check")
        assert (ran.status, ran.out) == (0, "3 of 3 changes can be taken back\n")


def test_conflicts_are_those_that_the_check_names(mysql: MySQLServer, tmp_path: Path) -> None:
    conflicts_are_predicted(mysql, tmp_path, 1, 40)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_conflicts(any_server: tuple[str, MySQLServer], tmp_path: Path, seed: int) -> None:
    conflicts_are_predicted(any_server[1], tmp_path, seed, 200)
