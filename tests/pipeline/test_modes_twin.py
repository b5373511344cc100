"""Tables with mode append and history, of many runs and of one: equal, row by row, whatever the log has."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.by_spark_sql import FIRST_SEED, content, twin_cases
from tests.ddl_stream import stream_for
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import Shop
from tests.fix_servers import Servers, telling
from tests.mode_stream import Stream
from tests.schema_dumps import dump_position

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.thorough]

MODES = ("append", "history")


@pytest.fixture
def database(server: str, servers: Servers) -> Iterator[Database]:
    running = servers.get(server)
    with telling(running, "FULL"), database_of(running) as database:
        yield database


class Twins:
    """Lakes of one database: one that a run after another brings further, and ever new ones that one run fills.

    Each table is there as it is, and by every change in both modes.
    """

    def __init__(self, spark: SparkSession, database: Database, folder: Path) -> None:
        self.spark, self.database, self.folder = spark, database, folder
        self.start = Position.parse(dump_position(database.server))
        self.shop, self.pipeline = self._lake("grown")
        self._count = 0

    def _lake(self, name: str) -> tuple[Shop, Pipeline]:
        (self.folder / name).mkdir()
        shop, schema = Shop(self.spark, self.database, self.folder / name, self.start), self.database.name
        routes = [{"from": f"{schema}.*", "to": [f"{schema}.{{1}}", *(f"{mode}.{{1}}" for mode in MODES)]}]
        return shop, shop.pipeline(routes=routes, downstream=[{"tables": f"{m}.*", "mode": m} for m in MODES])

    def compare(self, behind: str) -> tuple[int, int]:
        """A run of each, and how many tables and rows were compared."""
        self._count += 1
        _, outcome = self.shop.run(self.pipeline)
        shop, pipeline = self._lake(f"new{self._count}")
        _, twin = shop.run(pipeline)
        assert outcome.stopped == twin.stopped == {}, behind
        tables = rows = 0
        for entry in outcome.entries:
            for mode in MODES:
                actual, expected = (
                    content(lake_of(pipeline_).downstream(mode, entry.table), self.spark)
                    for pipeline_ in (self.pipeline, pipeline)
                )
                assert actual == expected, f"{mode} of {entry.table}, behind {behind}"
                tables, rows = tables + 1, rows + len(actual[1])
        return tables, rows


@pytest.fixture
def twins(database: Database, spark: SparkSession, tmp_path: Path) -> Twins:
    return Twins(spark, database, tmp_path)


@pytest.mark.parametrize("server, seed, steps", twin_cases(3))
def test_random_ddl_leaves_the_same_changes_and_versions(
    server: str, seed: int, steps: int, twins: Twins, summary: list[str]
) -> None:
    tables = ["t", "u", "v"]
    stream = stream_for(server, "FULL", seed, tables)
    twins.database.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    last = f"REPLACE INTO {tables[-1]} (id) VALUES (1)"
    compared = rows = 0
    for statement in [*stream.statements(steps), last]:
        twins.database.execute(statement)
        if stream.generator.random() < 0.1 or statement is last:
            counts = twins.compare(f"seed {seed}, {statement}")
            compared, rows = compared + counts[0], rows + counts[1]
    summary.append(f"modes, many runs and one, {server}, seed {seed}: {compared} tables, {rows} rows equal")


@pytest.mark.parametrize(
    "server, seed, runs",
    [
        pytest.param("mysql-8.0", FIRST_SEED, 3, id="short"),
        pytest.param("mysql-8.0", FIRST_SEED + 1, 9, id="mysql-8.0", marks=pytest.mark.long),
        pytest.param("mariadb-11.4", FIRST_SEED + 2, 9, id="mariadb-11.4", marks=pytest.mark.long),
    ],
)
def test_keys_that_move_come_back_and_change_often_have_the_same_versions(
    server: str, seed: int, runs: int, twins: Twins, summary: list[str]
) -> None:
    choose = random.Random(seed)
    stream = Stream(twins.database.execute, choose)
    stream.begin()
    compared = rows = 0
    for nth in range(runs):
        for _ in range(choose.randrange(1, 12)):
            stream.step()
        # The row of a statement gets the default of a column that is added after it, as others do.
        if nth in (2, 5):
            stream.truncate()
            stream.step()
        if nth in (1, 2, 6):
            stream.add_column()
            stream.step()
        counts = twins.compare(f"seed {seed}, run {nth}")
        compared, rows = compared + counts[0], rows + counts[1]
    summary.append(f"modes, many runs and one, {server}, seed {seed}: {compared} tables, {rows} rows equal")
