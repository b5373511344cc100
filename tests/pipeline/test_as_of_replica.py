"""Tables as they were, beside a second server: it replicates the first and is stopped at random transactions.

At each of them the tables of its schema, all at one moment, are those that are shown there.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import ER
from pyspark.sql import SparkSession

from spark_jobs.demo.server import MySQLServer
from spark_jobs.log.position import Position
from spark_jobs.pipeline.as_of.tables_at import tables_at
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import build_or_skip
from tests.pipeline.test_partial_json import with_telling_image
from tests.services.waiting import wait_for
from tests.twins.ddl_stream import Stream
from tests.twins.tables_then import contents, server_tables

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = ("t", "u", "v")


@dataclass(frozen=True)
class Replica:
    """A server that replicates another one by GTID, transaction by transaction, as far as it is told to."""

    server: MySQLServer
    primary: MySQLServer
    is_mariadb: bool
    is_renamed: bool
    """True if the statements have the names that MySQL 8.4 leaves them alone."""

    def connect(self) -> None:
        of = self.primary
        words = {"HOST": f"'{of.host}'", "PORT": of.port, "USER": f"'{of.user}'", "PASSWORD": f"'{of.password}'"}
        words |= {"USE_GTID": "slave_pos", "SSL": 0} if self.is_mariadb else {"AUTO_POSITION": 1, "SSL": 1}
        role = "SOURCE" if self.is_renamed else "MASTER"
        listed = ", ".join(f"{role}_{name}={value}" for name, value in words.items())
        self.execute(f"CHANGE {'REPLICATION SOURCE' if self.is_renamed else 'MASTER'} TO {listed}")

    def go_on_to(self, gtids: str) -> None:
        """Applies transactions up to those of a set, and no other."""
        noun = "REPLICA" if self.is_renamed else "SLAVE"
        until = "master_gtid_pos" if self.is_mariadb else "SQL_AFTER_GTIDS"
        self.execute(f"START {noun} UNTIL {until} = '{gtids}'")
        wait_for(f"the replica is at {gtids}", lambda: not self._is_applying(noun), 60, pause=0.05)
        variable = "gtid_slave_pos" if self.is_mariadb else "gtid_executed"
        ((executed,),) = self.execute(f"SELECT @@GLOBAL.{variable}")
        assert executed.replace("\n", "") == gtids
        if not self.is_mariadb:
            self.execute(f"STOP {noun}")

    def _is_applying(self, noun: str) -> bool:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW {noun} STATUS")
            names = [column[0].replace("Replica_", "Slave_") for column in cursor.description or ()]
            (cells,) = cursor.fetchall()
        status = dict(zip(names, cells, strict=True))
        assert not status["Last_SQL_Error"], status["Last_SQL_Error"]
        assert not status["Last_IO_Error"], status["Last_IO_Error"]
        return bool(status["Slave_SQL_Running"] == "Yes")

    def execute(self, statement: str) -> tuple[tuple[str, ...], ...]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            rows: tuple[tuple[str, ...], ...] = cursor.fetchall()
            return rows


@contextmanager
def replicated(name: str, folder: Path) -> Iterator[tuple[Database, Replica]]:
    """A schema of a new server, and a second one that has nothing of it yet."""
    build, is_mariadb = build_or_skip(name), name.startswith("mariadb")
    options: dict[str, object] = {"binlog_row_event_max_size": 2048}
    options |= {"ssl": "OFF", "log_slave_updates": "ON"} if is_mariadb else {}
    with ExitStack() as stack:
        primary = stack.enter_context(MySQLServer(folder / "primary", options, build))
        server = stack.enter_context(MySQLServer(folder / "replica", {"server_id": 2, **options}, build))
        database = stack.enter_context(database_of(primary))
        replica = Replica(server, primary, is_mariadb, name == "mysql-9.7")
        replica.connect()
        yield database, replica


@dataclass
class Writer:
    """Statements of a stream, in transactions of all kinds, whose row images and documents are in the log in part."""

    database: Database
    name: str
    choose: random.Random
    counts: dict[str, int] = field(default_factory=dict)
    """Number of times that the log has what is to be proven."""
    _prepared: list[int] = field(default_factory=list)
    _xa: int = 0

    @property
    def is_mariadb(self) -> bool:
        return self.name.startswith("mariadb")

    def begin(self) -> None:
        self._do("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
        if not self.is_mariadb:
            self._do("SET SESSION binlog_row_value_options = PARTIAL_JSON")
        self._do("CREATE TABLE bag (v INT)", "CREATE TABLE xa (id INT PRIMARY KEY, v INT)")

    def execute(self, statement: str, rows_query_event: str) -> None:
        """A statement, by itself or with others in its transaction; XA transactions begin and end around it."""
        image, statement = with_telling_image(statement, rows_query_event, self.choose)
        if self.is_mariadb and (rows_query_event != "PRIMARY" or statement.startswith("UPDATE")):
            image = "FULL"  # it leaves generated columns out, and not all definitions tell which these are
        self._do(f"SET SESSION binlog_row_image = {image}")
        self._count(image)
        if self.name == "mysql-9.7":
            packed = self.choose.random() < 0.5
            self._do(f"SET SESSION binlog_transaction_compression = {'ON' if packed else 'OFF'}")
            self._count("compressed", packed)
        self._count("partial documents", "JSON_" in statement and not self.is_mariadb)
        is_dml = statement.split()[0] in ("INSERT", "REPLACE", "UPDATE", "DELETE")
        if is_dml and self.choose.random() < 0.5:
            self._do("BEGIN", statement, self._keyless_statement(), "COMMIT")
            self._count("transactions of several tables")
        else:
            self._do(statement)
            self._count("DDL", not is_dml)
        if self.choose.random() < 0.2:
            self._prepare()
        if self._prepared and self.choose.random() < 0.3:
            self._end(self._prepared.pop(self.choose.randrange(len(self._prepared))))

    def end(self) -> None:
        while self._prepared:
            self._end(self._prepared.pop())

    def _keyless_statement(self) -> str:
        value = self.choose.randrange(5)
        decoded = [f"INSERT INTO bag VALUES ({value}), ({value})", f"DELETE FROM bag WHERE v = {value} LIMIT 1"]
        self._count("keyless")
        return self.choose.choice([*decoded, f"UPDATE bag SET v = v + 1 WHERE v = {value}"])

    def _prepare(self) -> None:
        """An XA transaction of another session, prepared: it locks rows of a table that no other statement changes."""
        self._xa += 1
        number = self._xa
        with self.database.server.connect(database=self.database.name) as session, session.cursor() as cursor:
            for statement in (
                f"XA START '{number}'",
                f"INSERT INTO xa VALUES ({number}, 1)",
                f"UPDATE xa SET v = {number} WHERE id = {number}",
                f"XA END '{number}'",
                f"XA PREPARE '{number}'",
            ):
                cursor.execute(statement)
        self._prepared.append(number)

    def _end(self, number: int) -> None:
        method = self.choose.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        # MariaDB knows it as another session's for a moment after that one has ended.
        wait_for(f"XA transaction {number} is free", lambda: self._has_ended(f"XA {method} '{number}'"), 60, pause=0.05)
        self._count(f"XA {method}")

    def _has_ended(self, statement: str) -> bool:
        try:
            self._do(statement)
        except pymysql.OperationalError as error:
            if error.args[0] != ER.XAER_NOTA:
                raise
            return False
        return True

    def _do(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(statement)

    def _count(self, subject: str, happened: bool = True) -> None:
        self.counts[subject] = self.counts.get(subject, 0) + happened


def gtid_sets(database: Database, *, is_mariadb: bool) -> list[str]:
    """What a server had executed behind each of its transactions."""
    if is_mariadb:
        domain, server, last = database.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0].split("-")
        return [f"{domain}-{server}-{number}" for number in range(1, int(last) + 1)]
    uuid, _, numbers = database.execute("SELECT @@GLOBAL.gtid_executed")[0][0].partition(":")
    last = numbers.rpartition("-")[2]
    return [f"{uuid}:1" if number == 1 else f"{uuid}:1-{number}" for number in range(1, int(last) + 1)]


@pytest.mark.usefixtures("tasks_here")
@pytest.mark.parametrize(
    "name, steps, moments, seed",
    [
        pytest.param("mysql-8.0", 25, 8, 1, marks=pytest.mark.thorough),
        pytest.param("mysql-8.0", 150, 70, 2, marks=pytest.mark.long),
        pytest.param("mysql-9.7", 150, 70, 3, marks=pytest.mark.long),
        pytest.param("mariadb-11.4", 150, 60, 4, marks=pytest.mark.long),
    ],
)
def test_random_moments_are_those_of_a_replica_that_is_stopped_there(
    spark: SparkSession, tmp_path: Path, name: str, steps: int, moments: int, seed: int, summary: list[str]
) -> None:
    with replicated(name, tmp_path) as (database, replica):
        shop = Shop(spark, database, tmp_path, Position("mysql-bin.000001", 4))
        pipeline, choose = shop.pipeline(), random.Random(seed)
        stream = Stream(seed, keys=True, tables=TABLES, documents=not replica.is_mariadb)
        writer = Writer(database, name, choose)
        writer.begin()
        # Runs at random moments: a moment between them has log to be decoded, and a version to begin with.
        runs = 0
        for statement in stream.statements(steps):
            writer.execute(statement, stream.at.rows_query_event)
            if choose.random() < 4 / steps:
                _, outcome = shop.run(pipeline)
                assert outcome.stopped == {}, f"seed {seed}, behind {statement}"
                runs += 1
        writer.end()
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}, f"seed {seed}, at the end"

        # The replica goes forwards, from one moment to the next.
        sets = gtid_sets(database, is_mariadb=replica.is_mariadb)
        tables = rows = 0
        for number in sorted(choose.sample(range(3, len(sets)), moments)):
            replica.go_on_to(sets[number])
            with replica.server.connect(database=database.name) as connection:
                truth = server_tables(Database(database.name, replica.server, connection))
            with tables_at(pipeline, SOURCE, [f"{database.name}.*"], sets[number]) as source_at:
                lake_tables = {table.name.table: contents(table) for table in source_at.tables}
            assert lake_tables == truth, f"seed {seed}, {sets[number]}, {source_at.at}, {source_at.absent}"
            tables, rows = tables + len(truth), rows + sum(len(of) for _, of in truth.values())
    counts = ", ".join(f"{subject}: {count}" for subject, count in sorted(writer.counts.items()))
    summary.append(
        f"{name}, seed {seed}: {moments} moments of {len(sets)} transactions, {runs + 1} runs; {tables} tables and "
        f"{rows} rows equal those of the replica; {counts}"
    )
