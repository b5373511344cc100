"""The same transactions at a server that logs what foreign keys do, and at one that does not: the same tables."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers, telling
from tests.lakes.lake_tables import table_rows
from tests.soaks.cascade_campaign import run
from tests.soaks.cascading import RandomTables
from tests.twins.twin_cases import FIRST_SEED

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TEXT = "VARCHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
SERVERS = ("mysql-8.0", "mysql-9.7")
POSITION_COLUMNS = {"_position", "_committed_at", "_window_start", "_window_stop"}
"""Columns that say where a change is in its log."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def content(table: Table) -> list[Any]:
    """All rows, and of each what is not about a place in a log."""
    if table.head() is None:
        return []
    rows = [
        {name: cell for name, cell in row.asDict(recursive=True).items() if name not in POSITION_COLUMNS}
        for row in table_rows(table)
    ]
    return sorted(rows, key=repr)


@pytest.mark.parametrize(
    "seed, size, runs",
    [(FIRST_SEED, 100, 4), *[pytest.param(seed, 300, 8, marks=pytest.mark.long) for seed in range(2, 6)]],
)
def test_a_log_that_has_cascades_gives_the_rows_of_one_that_lacks_them(
    seed: int,
    size: int,
    runs: int,
    spark: SparkSession,
    servers: Servers,
    stack: ExitStack,
    tmp_path: Path,
    tasks_here: None,
    summary: list[str],
) -> None:
    shops: list[tuple[Shop, RandomTables, Pipeline]] = []
    for name in SERVERS:
        server = servers.get(name)
        stack.enter_context(telling(server, "FULL"))
        database = stack.enter_context(database_of(server))
        database.execute("SET NAMES utf8mb4")
        # The same seed has the same statements.
        tables = RandomTables(database, Random(seed), TEXT, size=size)
        (tmp_path / name).mkdir()
        shop = Shop(spark, database, tmp_path / name, Position(*tables.after().end))
        tables.declare()
        shops.append((shop, tables, shop.pipeline(on_cascade="apply")))
    (derived, unlogged), (logged, _) = [(pipeline, tables) for _, tables, pipeline in shops]
    compared = 0
    for _ in range(runs):
        for _ in range(8):
            for _, tables, _ in shops:
                tables.begin()
            # Where versions differ in what they refuse (IGNORE), neither keeps it.
            rows = [tables.after().rows for _, tables, _ in shops]
            for _, tables, _ in shops:
                tables.end(is_kept=rows[0] == rows[1])
        for shop, tables, pipeline in shops:
            run(shop, pipeline, tables.columns)
        for table in unlogged.columns:
            layers = [
                [lake_of(pipeline).silver(SOURCE, shop.database.name, table) for shop, _, pipeline in shops],
                [lake_of(pipeline).downstream(shop.database.name, table) for shop, _, pipeline in shops],
            ]
            for tables_of_layer in layers:
                contents = [*map(content, tables_of_layer)]
                assert contents[0] == contents[1], f"{table}, {tables_of_layer[0].path}"
                compared += len(contents[0])
    changes = sum(row["changes"] for row in lake_of(derived).cascades(SOURCE).rows(columns=["changes"]))
    assert changes
    assert not any(row["changes"] for row in lake_of(logged).cascades(SOURCE).rows(columns=["changes"]))
    summary.append(f"cascades derived and logged, seed {seed}: {changes} derived changes, {compared} rows compared")
