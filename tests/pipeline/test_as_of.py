"""Tables as they were: at positions between and inside of windows they equal what the server had there."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.log.position import FIRST_EVENT, Position
from spark_jobs.pipeline.as_of.table_rows import RowQuery
from spark_jobs.pipeline.as_of.tables_at import NotKnown, tables_at
from spark_jobs.pipeline.initial_load.load import load_source
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers, telling
from tests.services.schema_dumps import dump_position
from tests.twins.ddl_stream import stream_for
from tests.twins.tables_then import Contents, contents, server_tables

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("STRATALOG_RUNS", "1")))
STEPS = int(os.environ.get("STRATALOG_STEPS", "60"))


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the server had behind a transaction. tables: by name the columns and rows; None of one that is not there."""

    at: Position
    gtid: str
    behind: str
    tables: dict[str, Contents]


@dataclass(frozen=True, slots=True)
class Memory:
    """Statements executed one by one, and what the server had after each."""

    shop: Shop
    moments: list[Remembered] = field(default_factory=list)

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.shop.execute(statement)
            tables = server_tables(self.shop.database)
            self.moments.append(Remembered(self.shop.end(), self._gtid(), statement, tables))

    def _gtid(self) -> str:
        is_mariadb = "MariaDB" in self.shop.database.execute("SELECT VERSION()")[0][0]
        variable = "gtid_binlog_pos" if is_mariadb else "gtid_executed"
        return str(self.shop.database.execute(f"SELECT @@GLOBAL.{variable}")[0][0]).replace("\n", "")


def rows_at(pipeline: Pipeline, table: str, at: Position | str, **choice: Any) -> list[tuple[Any, ...]]:
    with tables_at(pipeline, SOURCE, [table], at, **choice) as source_at:
        rows = source_at.tables[0].selection().table()
        return sorted(zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True))


def test_rows_between_windows_and_inside_of_them(shop: Shop) -> None:
    pipeline, memory = shop.pipeline(), Memory(shop)
    name = f"{shop.database.name}.t"
    memory.do("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)", "UPDATE t SET v = 3")
    shop.run(pipeline)
    memory.do(
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (4,4)",
        "ALTER TABLE t ADD COLUMN note VARCHAR(9) DEFAULT 'x'",
        "UPDATE t SET id = 9 WHERE id = 4",
    )
    shop.run(pipeline)
    memory.do("TRUNCATE t", "INSERT INTO t VALUES (1,1,'a')", "DROP TABLE t")
    shop.run(pipeline)
    for moment in memory.moments[:-1]:
        with tables_at(pipeline, SOURCE, [name], moment.at) as source_at:
            assert contents(source_at.tables[0]) == moment.tables["t"], moment
    # Created again it is there before it has a row.
    shop.execute("CREATE TABLE u (name VARCHAR(9) PRIMARY KEY)")
    memory.do("CREATE TABLE t LIKE u")
    shop.run(pipeline)
    memory.do("INSERT INTO u VALUES ('a')", "INSERT INTO t VALUES ('a')", "DROP TABLE t")
    shop.run(pipeline)
    for moment in memory.moments[-4:-2]:
        with tables_at(pipeline, SOURCE, [name], moment.at) as source_at:
            assert contents(source_at.tables[0]) == moment.tables["t"] == (["name"], []), moment
    # Behind a DROP and before a CREATE there is no table.
    with pytest.raises(NotKnown, match="was not there"), tables_at(pipeline, SOURCE, [name], memory.moments[-1].at):
        pass
    with pytest.raises(NotKnown, match="was not there"), tables_at(pipeline, SOURCE, [name], shop.start):
        pass


@pytest.mark.thorough
def test_incomplete_images_copies_and_prepared_transactions(shop: Shop) -> None:
    pipeline, memory = shop.pipeline(), Memory(shop)
    memory.do(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, note TEXT)",
        "CREATE TABLE bag (v INT)",
        "INSERT INTO t VALUES (1,1,'a'),(2,2,'b'),(3,3,'c')",
        "INSERT INTO bag VALUES (1),(1),(2)",
    )
    shop.run(pipeline)
    shop.execute("SET SESSION binlog_row_image = 'MINIMAL'")
    memory.do("UPDATE t SET v = 10 WHERE id = 1", "UPDATE t SET note = NULL WHERE id = 2")
    memory.do("DELETE FROM bag WHERE v = 1 LIMIT 1", "DELETE FROM t WHERE id = 3")
    shop.execute("SET SESSION binlog_row_image = 'FULL'")
    with shop.database.server.connect() as session, session.cursor() as cursor:
        row = f"INSERT INTO {shop.database.name}.t VALUES (7,7,'x')"
        for statement in ("XA START 'x'", row, "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
    memory.do("INSERT INTO bag VALUES (9)")
    memory.do("XA COMMIT 'x'", "UPDATE bag SET v = 8 WHERE v = 9")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    moments = [moment for moment in memory.moments if len(moment.tables) > 1]
    for moment in moments:
        with tables_at(pipeline, SOURCE, [f"{shop.database.name}.*"], moment.at) as source_at:
            assert {table.name.table: contents(table) for table in source_at.tables} == moment.tables, moment.behind
        # A row by its key is the row among all.
        for key in (1, 2, 3, 7):
            choice = RowQuery.of([str(key)])
            with tables_at(pipeline, SOURCE, [f"{shop.database.name}.t"], moment.at, choice=choice) as source_at:
                rows = [row for row in moment.tables["t"][1] if row.startswith(f"({key},")]
                assert contents(source_at.tables[0])[1] == rows, (moment.behind, key)


def test_rows_from_before_the_log_are_known_since_they_were_loaded(shop: Shop) -> None:
    memory = Memory(shop)
    memory.do("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")
    later = Shop(shop.spark, shop.database, shop.folder, shop.end())
    pipeline, name = later.pipeline(live=True), f"{shop.database.name}.t"
    memory.do("UPDATE t SET v = 5 WHERE id = 1", "UPDATE t SET v = 4 WHERE id = 1")
    before, at_load = memory.moments[-2:]
    later.run(pipeline)
    with pytest.raises(NotKnown, match="rows from before the log are missing; it is known at no position"):
        rows_at(pipeline, name, before.at)
    outcome = load_source(shop.spark, pipeline, SOURCE, tables=(name,)).outcome
    assert outcome.stopped == {}
    memory.do("UPDATE t SET v = 6 WHERE id = 2")
    behind = memory.moments[-1]
    memory.do("DELETE FROM t")
    later.run(pipeline)
    for moment in (at_load, behind):
        with tables_at(pipeline, SOURCE, [name], moment.at) as source_at:
            assert contents(source_at.tables[0]) == moment.tables["t"]
    with pytest.raises(NotKnown, match=f"missing; the oldest position at which it is known is {at_load.at};"):
        rows_at(pipeline, name, before.at)


@pytest.fixture
def other_shop(
    server: str, metadata: str | None, servers: Servers, spark: SparkSession, tmp_path: Path
) -> Iterator[Shop]:
    running = servers.get(server)
    with telling(running, metadata), database_of(running) as database:
        database.execute("FLUSH BINARY LOGS")  # GTID sets are looked for in files that bronze has from their beginning
        yield Shop(spark, database, tmp_path, replace(Position.parse(dump_position(running)), offset=FIRST_EVENT))


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("server, metadata", [("mysql-8.0", "FULL"), ("mariadb-11.4", "FULL"), ("mysql-9.7", "FULL")])
@pytest.mark.parametrize("tables", [["t"], ["t", "u", "v"]], ids=len)
def test_random_moments_equal_the_server_s_tables(
    server: str, metadata: str | None, tables: list[str], seed: int, other_shop: Shop, summary: list[str]
) -> None:
    shop = other_shop
    pipeline, stream, memory = shop.pipeline(), stream_for(server, metadata, seed, tables), Memory(shop)
    choose = random.Random(seed)
    shop.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    for statement in stream.statements(STEPS):
        memory.do(statement)
        if choose.random() < 0.1:
            _, outcome = shop.run(pipeline)
            assert outcome.stopped == {}, f"seed {seed}, behind {statement}"
    memory.do(*(f"REPLACE INTO {table} (id) VALUES (1)" for table in tables))
    shop.run(pipeline)
    questions = refused = rows = 0
    for moment in choose.sample(memory.moments, min(40, len(memory.moments))):
        for table, truth in moment.tables.items():
            location: Position | str = choose.choice([moment.at, moment.gtid or moment.at])
            questions += 1
            try:
                with tables_at(pipeline, SOURCE, [f"{shop.database.name}.{table}"], location) as source_at:
                    assert contents(source_at.tables[0]) == truth, f"seed {seed}, {table}, {moment.at}, {moment.behind}"
                    rows += len(truth[1])
            except NotKnown as error:
                refused += 1
                summary.append(str(error))
    assert refused < questions / 10
    summary.append(
        f"{server}, {len(tables)} tables, seed {seed}: {questions} questions, {refused} refused, {rows} rows equal"
    )
