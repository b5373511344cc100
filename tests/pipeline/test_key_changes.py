"""Statements that change what tells a table's rows apart, on servers. Not here: keys that stay (test_keys.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.silver import table as silver
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = {
    "mysql-8.0": ("other", "apart", "bag"),
    "mariadb-11.4": ("wider", "shaped", "gone"),
    "mysql-5.7": ("dropped", "nullable"),
}
"""Of which servers' logs tables are followed; that of the last one does not name columns."""
MADE = {
    "other": "id INT NOT NULL, b VARCHAR(9) CHARACTER SET latin1 NOT NULL, v INT, PRIMARY KEY (id)",
    "wider": "id INT NOT NULL, b INT NOT NULL, v INT, PRIMARY KEY (id)",
    "apart": "id INT NOT NULL, b INT NOT NULL, v INT, PRIMARY KEY (id)",
    "dropped": "a INT NOT NULL, b INT NOT NULL, v INT, UNIQUE u (a), UNIQUE w (b)",
    "nullable": "a INT NOT NULL, v INT, UNIQUE u (a)",
    "bag": "id INT NOT NULL, v INT, PRIMARY KEY (id)",
    "shaped": "id INT NOT NULL, b INT NOT NULL, v INT, PRIMARY KEY (id)",
    "gone": "id INT NOT NULL, b INT NOT NULL, v INT, UNIQUE u (id)",
}
KEYS: dict[str, tuple[str, ...]] = {
    "other": ("id", "b"),
    "wider": ("id", "b"),
    "apart": ("b",),
    "dropped": (),
    "nullable": (),
    "bag": (),
    "shaped": ("b",),
    "gone": (),
}
"""By what rows are told apart in the end."""
FIRST = (
    "INSERT INTO other VALUES (1,'x',1),(2,'y',2),(3,'z',3)",
    "UPDATE other SET id = 9 WHERE b = 'z'",
    "INSERT INTO wider VALUES (1,1,1),(2,2,2),(3,3,3)",
    "DELETE FROM wider WHERE id = 3",
    "INSERT INTO apart VALUES (1,10,1),(2,20,2),(3,30,3)",
    "INSERT INTO dropped VALUES (1,10,1),(2,20,2),(3,30,3)",
    "UPDATE dropped SET a = 4 WHERE a = 3",
    "INSERT INTO nullable VALUES (1,1),(2,2),(3,3)",
    "INSERT INTO bag VALUES (1,7),(2,7),(3,8)",
    "UPDATE bag SET id = 5 WHERE id = 1",
    "INSERT INTO shaped VALUES (1,10,1),(2,20,2),(3,30,NULL)",
    "INSERT INTO gone VALUES (1,10,1),(2,20,2)",
)
SECOND = (
    "UPDATE other SET v = 20 WHERE id = 2",
    "DELETE FROM other WHERE id = 1",
    "ALTER TABLE other DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
    "INSERT INTO other VALUES (2,'w',5)",
    "UPDATE other SET b = 'yy' WHERE b = 'y'",
    "ALTER TABLE wider DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",
    "INSERT INTO wider VALUES (1,2,3),(2,1,4)",
    "UPDATE wider SET b = 7 WHERE id = 2 AND b = 2",
    "ALTER TABLE apart DROP PRIMARY KEY",
    "INSERT INTO apart VALUES (1,40,1),(1,50,1)",
    "UPDATE apart SET v = 9 WHERE id = 1",
    "ALTER TABLE apart ADD PRIMARY KEY (b)",
    "UPDATE apart SET b = b + 1 WHERE id = 1",
    "DROP INDEX u ON dropped",
    "INSERT INTO dropped VALUES (1,60,1)",
    "UPDATE dropped SET b = 61 WHERE b = 60",
    "ALTER TABLE nullable MODIFY a INT",
    "INSERT INTO nullable VALUES (NULL,1),(NULL,1)",
    "ALTER TABLE bag DROP PRIMARY KEY",
    "INSERT INTO bag VALUES (2,7),(2,7)",
    "ALTER TABLE shaped DROP PRIMARY KEY, CHANGE id was BIGINT, ADD c INT NOT NULL DEFAULT 7 FIRST, ADD PRIMARY KEY(b)",
    "UPDATE shaped SET c = 8, b = 21 WHERE was = 2",
    "ALTER TABLE gone DROP INDEX u",
)
THIRD = (
    "DELETE FROM other WHERE b = 'z'",
    "INSERT INTO other VALUES (1,'y',8)",
    "UPDATE wider SET v = 0 WHERE id = 1",
    "DELETE FROM wider WHERE id = 2 AND b = 1",
    "DELETE FROM apart WHERE b = 20",
    "UPDATE dropped SET v = v + 1",
    "UPDATE nullable SET v = 5 WHERE a IS NULL LIMIT 1",
    "DELETE FROM bag WHERE id = 2 LIMIT 2",
    "ALTER TABLE shaped DROP COLUMN was",
    "INSERT INTO shaped VALUES (1,1,1)",
    "INSERT INTO gone VALUES (1,10,1)",
    "ALTER TABLE other DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",
    "INSERT INTO other VALUES (2,'y',8)",
)


@dataclass(frozen=True, slots=True)
class Tables:
    """Some of the tables, in a fresh schema of a server, and a pipeline for them that has nothing yet."""

    shop: Shop
    pipeline: Pipeline
    names: tuple[str, ...]

    def execute(self, statements: tuple[str, ...]) -> None:
        """Those of the statements that are about these tables."""
        self.shop.execute(
            *(statement for statement in statements if any(name in statement.split() for name in self.names))
        )

    def run(self) -> Position:
        """A run, behind which the lake is as the server; where the log then ends."""
        _, outcome = self.shop.run(self.pipeline)
        assert outcome.stopped == {}
        self._require_same()
        return self.shop.end()

    def redo(self, start: Position, stop: Position) -> set[str]:
        """A range done again, behind which the lake is as the server; the tables whose silver was written."""
        outcome = backfill_source(self.shop.spark, self.pipeline, SOURCE, Range(start, stop), lambda _: True)
        assert outcome.stopped == {}
        self._require_same()
        return {job.name.table for job in outcome.compacted}

    def _require_same(self) -> None:
        for name in self.names:
            require_same(self.shop, self.pipeline, name)

    def silver(self, name: str) -> Table:
        return lake_of(self.pipeline).silver(SOURCE, self.shop.database.name, name)

    def heads(self) -> list[Head | None]:
        lake, schema = lake_of(self.pipeline), self.shop.database.name
        return [table.head() for name in self.names for table in (self.silver(name), lake.downstream(schema, name))]

    def keys(self) -> dict[str, tuple[str, ...]]:
        """By what rows are told apart in silver."""
        heads = {name: self.silver(name).head() for name in self.names}
        return {name: silver.stored_columns(self.silver(name), head).key for name, head in heads.items() if head}


@pytest.fixture(params=TABLES)
def tables(request: pytest.FixtureRequest, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Tables]:
    server, names = servers.get(request.param), TABLES[request.param]
    with server.connect() as connection:
        database = Database("rekeyed", server, connection)
        database.execute("DROP DATABASE IF EXISTS rekeyed")
        database.execute("CREATE DATABASE rekeyed")
        connection.select_db("rekeyed")
        shop = Shop(spark, database, tmp_path, Position(*database.execute("SHOW MASTER STATUS")[0][:2]))
        shop.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
        for name in names:
            shop.execute(f"CREATE TABLE {name} ({MADE[name]})")
        yield Tables(shop, shop.pipeline(live=True), names)
        database.execute("DROP DATABASE rekeyed")


def in_three_runs(tables: Tables) -> list[Position]:
    """All statements, with runs between them; where the log begins, and where it ended behind each run."""
    positions = [tables.shop.start]
    for statements in (FIRST, SECOND, THIRD):
        tables.execute(statements)
        positions.append(tables.run())
    assert tables.keys() == {name: KEYS[name] for name in tables.names}
    return positions


@pytest.mark.long
@pytest.mark.parametrize("tables", ["mysql-5.7"], indirect=True)
def test_rows_go_on_behind_every_change_of_a_key(tables: Tables) -> None:
    in_three_runs(tables)


@pytest.mark.long
@pytest.mark.parametrize("tables", ["mysql-8.0", "mariadb-11.4"], indirect=True)
def test_a_range_on_both_sides_is_done_again(tables: Tables) -> None:
    positions = in_three_runs(tables)
    before = tables.heads()
    assert not tables.redo(positions[0], positions[-1])
    assert not tables.redo(positions[2], positions[3])
    assert tables.heads() == before, "done again, nothing differs"
    for name in tables.names:
        sql = tables.silver(name).sql
        tables.shop.spark.sql(f"UPDATE {sql} SET v = 1000 WHERE _op = 'rename'")
    assert tables.redo(positions[0], positions[-1]) == set(tables.names), "rows that were inherited are replayed"
    verdicts = verify_source(tables.shop.spark, tables.pipeline, SOURCE)
    assert {verdict.table.table: verdict.state for verdict in verdicts} == dict.fromkeys(tables.names, "equal")


@pytest.mark.long
@pytest.mark.parametrize("tables", ["mysql-8.0"], indirect=True)
def test_all_of_it_in_one_run(tables: Tables) -> None:
    tables.execute((*FIRST, *SECOND, *THIRD))
    tables.run()
    tables.execute(("INSERT INTO other VALUES (3,'y',8)", "UPDATE apart SET v = 1", "DELETE FROM bag LIMIT 1"))
    stop = tables.run()
    assert not tables.redo(tables.shop.start, stop)
