"""Rows that are loaded beside the same rows read from the log, of every type, as they are downstream.

Put here: whole pipelines over servers other than the run's own. Not here: values one by one
(tests/spark_jobs/pipeline/initial_load/test_row_encoder.py).
"""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import merge_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.load import load_source
from tests.differential.columns import Dialect
from tests.differential.comparison import connected
from tests.differential.kinds import KINDS
from tests.differential.workload import Numbers, RandomTable, Writer, dialect_of, table_of
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

TABLES = 4
ROWS = 40


@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-8.0", "mariadb-11.4"])
def test_loaded_rows_are_those_of_the_log(
    name: str, servers: Servers, spark: SparkSession, tmp_path: Path, summary: list[str]
) -> None:
    server, random = servers.get(name), Random(11)
    with connected(server) as connection, server.connect() as own:
        dialect = dialect_of(connection)
        kinds = [kind for kind, known in KINDS.items() if known.here(dialect)]
        names = [f"t{nth}" for nth in range(TABLES)]
        connection.execute("DROP DATABASE IF EXISTS typed")
        connection.execute("CREATE DATABASE typed CHARACTER SET utf8mb4")
        connection.execute("FLUSH BINARY LOGS")
        database = Database("typed", server, own)
        before = Shop(spark, database, tmp_path, Position("", 0)).end()
        connection.execute("SET SESSION sql_mode = '', innodb_strict_mode = OFF")
        for nth, table_name in enumerate(names):
            table = keyed(random, dialect, table_name, kinds[nth::TABLES])
            connection.execute(table.create)
            writer = Writer(random, table, Numbers())
            for at in range(ROWS):
                writer.odd = at > ROWS // 3
                connection.attempt(writer.insert())
        connection.execute("FLUSH BINARY LOGS")
        after = Shop(spark, database, tmp_path, before).end()
        found: list[dict[str, list[str]]] = []
        for folder, start in ("logged", before), ("loaded", after):
            (tmp_path / folder).mkdir()
            shop = Shop(spark, database, tmp_path / folder, start)
            pipeline = shop.pipeline(live=True)
            assert shop.run(pipeline)[1].stopped == {}
            if start == after:
                assert load_source(spark, pipeline, SOURCE, chunk_rows=30).stopped == {}
            found.append({table: downstream(shop, pipeline, table) for table in names})
        connection.execute("DROP DATABASE typed")
    logged, loaded = found
    for table_name in names:
        assert len(logged[table_name]) > ROWS // 2
        assert loaded[table_name] == logged[table_name]
    rows = sum(map(len, logged.values()))
    summary.append(f"{name}: {rows} rows of {len(kinds)} kinds of columns, loaded as they are logged")


def keyed(random: Random, dialect: Dialect, name: str, kinds: list[str]) -> RandomTable:
    """A table that can be loaded."""
    while "PRIMARY KEY" not in (table := table_of(random, dialect, ("typed", name), "InnoDB", kinds)).create:
        pass
    return table


def downstream(shop: Shop, pipeline: Pipeline, table: str) -> list[str]:
    """Rows with their exact texts, bytes and signs of zero to be seen."""
    frame = lake_of(pipeline).downstream(shop.database.name, table).read(shop.spark)
    names = [name for name in frame.columns if name not in merge_job.ADDED] + ["_raw"]
    return sorted(repr(tuple(row)) for row in frame.select(*(f"`{name}`" for name in names)).collect())
