"""Rows that are loaded beside the same rows read from the log, of every type, as they are downstream and at the server.

Put here: whole pipelines over servers other than the run's own. Not here: values one by one
(tests/spark_jobs/pipeline/initial_load/test_selecting.py).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.verify.tables import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import merge_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.load import load_source
from tests.differential.columns import Dialect
from tests.differential.comparison import connected
from tests.differential.kinds import KINDS
from tests.differential.workload import Connection, Numbers, RandomTable, Writer, dialect_of, table_of
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers
from tests.services.servers import SERVERS

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

TABLES = 4
ROWS = 40
UPDATES = 15
"""Statements about the rows of each table after they were loaded."""


@pytest.mark.parametrize("name", SERVERS)
def test_loaded_rows_are_those_of_the_log(
    name: str, servers: Servers, spark: SparkSession, tmp_path: Path, summary: list[str]
) -> None:
    server, random = servers.get(name), Random(11)
    with connected(server) as connection, server.connect() as own_connection:
        dialect = dialect_of(connection)
        kinds = [kind for kind, support in KINDS.items() if support.here(dialect)]
        connection.execute("DROP DATABASE IF EXISTS typed")
        connection.execute("CREATE DATABASE typed CHARACTER SET utf8mb4")
        connection.execute("FLUSH BINARY LOGS")
        database = Database("typed", server, own_connection)
        before = Shop(spark, database, tmp_path, Position("", 0)).end()
        connection.execute("SET SESSION sql_mode = '', innodb_strict_mode = OFF")
        writers = []
        for nth in range(TABLES):
            writers.append(Writer(random, keyed(random, dialect, f"t{nth}", kinds[nth::TABLES]), Numbers()))
            connection.execute(writers[-1].table.create)
            write(connection, writers[-1], [writers[-1].insert] * ROWS)
        connection.execute("FLUSH BINARY LOGS")
        after = Shop(spark, database, tmp_path, before).end()
        lakes: list[tuple[Shop, Pipeline]] = []
        for folder, start in ("logged", before), ("loaded", after):
            (tmp_path / folder).mkdir()
            shop = Shop(spark, database, tmp_path / folder, start)
            lakes.append((shop, shop.pipeline(live=True)))
            assert shop.run(lakes[-1][1])[1].stopped == {}
        assert load_source(spark, lakes[1][1], SOURCE, chunk_rows=30).stopped == {}
        rows = require_alike(lakes, minimum=ROWS // 2)
        # Images before an update must be those that were loaded: keys of all types are found by them.
        for writer in writers:
            kinds_of_statements = (writer.update, writer.update_all, writer.move, writer.upsert)
            write(connection, writer, [random.choice(kinds_of_statements) for _ in range(UPDATES)])
        for shop, pipeline in lakes:
            assert shop.run(pipeline)[1].stopped == {}
        changed = require_alike(lakes, minimum=1)
        for _, pipeline in lakes:
            states = {str(verdict.table): verdict.state for verdict in verify_source(spark, pipeline, SOURCE)}
            assert states == {f"typed.t{nth}": "equal" for nth in range(TABLES)}
        connection.execute("DROP DATABASE typed")
    counts = f"{rows} rows of {len(kinds)} kinds of columns loaded as logged, {changed} after updates"
    summary.append(f"{name}: {counts}, as at the server")


def write(connection: Connection, writer: Writer, statements: Sequence[Callable[[], str]]) -> None:
    """Statements, the last two thirds of them with values that no strict server takes."""
    for at, statement in enumerate(statements):
        writer.odd = at > len(statements) // 3
        connection.attempt(statement())


def require_alike(lakes: Sequence[tuple[Shop, Pipeline]], minimum: int) -> int:
    """Each table has the same rows in both lakes, with their exact texts; how many rows that are."""
    count = 0
    for nth in range(TABLES):
        logged, loaded = (downstream(shop, pipeline, f"t{nth}") for shop, pipeline in lakes)
        assert len(logged) >= minimum
        assert loaded == logged
        count += len(logged)
    return count


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
