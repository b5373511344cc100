"""Tables with mode append and history, by many runs and by one: equal, row by row, whatever the log has."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import Shop
from tests.fix_servers import Servers, telling
from tests.services.schema_dumps import dump_position
from tests.twins.ddl_stream import stream_for
from tests.twins.mode_stream import Stream
from tests.twins.twin_cases import FIRST_SEED, content, twin_cases

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.thorough]

MODES = ("append", "history")


@pytest.fixture
def database(server: str, servers: Servers) -> Iterator[Database]:
    running = servers.get(server)
    with telling(running, "FULL"), database_of(running) as database:
        yield database


class Twins:
    """Two lakes of one database: each of its tables as it is, and by every change in both modes."""

    def __init__(self, spark: SparkSession, database: Database, folder: Path) -> None:
        start = Position.parse(dump_position(database.server))
        self.spark, self.shops, self.pipelines = spark, list[Shop](), list[Pipeline]()
        self.database = database
        name = database.name
        routes = [{"from": f"{name}.*", "to": [f"{name}.{{1}}", *(f"{mode}.{{1}}" for mode in MODES)]}]
        for method in ("often", "once"):
            (folder / method).mkdir()
            shop = Shop(spark, database, folder / method, start)
            self.shops.append(shop)
            modes = [{"tables": f"{mode}.*", "mode": mode} for mode in MODES]
            self.pipelines.append(shop.pipeline(routes=routes, downstream=modes))

    def run(self, behind: str) -> None:
        """A run of the first lake."""
        _, outcome = self.shops[0].run(self.pipelines[0])
        assert outcome.stopped == {}, behind

    def compare(self, behind: str) -> tuple[int, int]:
        """The only run of the second lake, and how many tables and rows were compared."""
        _, outcome = self.shops[1].run(self.pipelines[1])
        assert outcome.stopped == {}, behind
        tables = rows = 0
        for entry in outcome.entries:
            for mode in MODES:
                actual, expected = (
                    content(lake_of(pipeline).downstream(mode, entry.table), self.spark) for pipeline in self.pipelines
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
    for statement in [*stream.statements(steps), last]:
        twins.database.execute(statement)
        if stream.generator.random() < 0.1 or statement is last:
            twins.run(f"seed {seed}, {statement}")
    compared, rows = twins.compare(f"seed {seed}")
    summary.append(f"modes, one run and many, {server}, seed {seed}: {compared} tables, {rows} rows equal")


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
        twins.run(f"seed {seed}, run {nth}")
    compared, rows = twins.compare(f"seed {seed}")
    summary.append(f"modes, one run and many, {server}, seed {seed}: {compared} tables, {rows} rows equal")
