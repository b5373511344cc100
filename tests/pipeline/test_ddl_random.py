"""Random DDL and DML on each server, with runs at random places: downstream has the server's columns and rows.

Keys change among it: other columns, a unique index, none at all. Tables take each other's names.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.fix_mysql import database_of
from tests.fix_pipeline import Shop, require_same
from tests.fix_servers import TELLING, Servers, telling
from tests.services.schema_dumps import dump_position
from tests.twins.ddl_stream import stream_for

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("STRATALOG_RUNS", "1")))
STEPS = int(os.environ.get("STRATALOG_STEPS", "30"))


@pytest.fixture
def shop(server: str, metadata: str | None, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    running = servers.get(server)
    with telling(running, metadata), database_of(running) as database:
        yield Shop(spark, database, tmp_path, Position.parse(dump_position(running)))


def require_same_rows(shop: Shop, pipeline: Pipeline, table: str) -> int:
    """How many; without a row, the columns of a table that was made anew are still those from before."""
    ((count,),) = shop.database.execute(f"SELECT COUNT(*) FROM {table}")
    if count or lake_of(pipeline).downstream(shop.database.name, table).head() is None:
        return require_same(shop, pipeline, table)
    assert shop.merged(pipeline, table) == []
    return 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tables", [["t"], ["t", "u", "v"]], ids=len)
@pytest.mark.parametrize("server, metadata", TELLING)
def test_downstream_is_the_server_s_tables_at_every_pause(
    server: str, metadata: str | None, tables: list[str], seed: int, shop: Shop, summary: list[str]
) -> None:
    pipeline, stream = shop.pipeline(), stream_for(server, metadata, seed, tables)
    shop.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    statements = runs = compared = rows = 0
    last = [f"REPLACE INTO {table} (id) VALUES (1)" for table in tables]
    for statement in [*stream.statements(STEPS), *last]:
        shop.execute(statement)
        statements += 1
        if stream.generator.random() < 0.08 or statement is last[-1]:
            _, outcome = shop.run(pipeline)
            runs += 1
            assert outcome.stopped == {}, f"seed {seed}, behind {statement}"
            for (table,) in shop.database.execute("SHOW TABLES"):  # the rows of one dropped stay, next to nothing
                rows += require_same_rows(shop, pipeline, table)
                compared += 1
    label = f"{server}, {metadata or 'no metadata'}, {len(tables)} tables, seed {seed}"
    summary.append(
        f"{label}: {statements} statements, {runs} runs, {compared} tables compared, {rows} rows, no difference"
    )
