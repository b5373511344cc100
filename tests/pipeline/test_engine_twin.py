"""Random DDL and DML through the engine and through Spark SQL: silver and downstream are equal, row by row."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.engine import downstream_job, silver_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.by_spark_sql import by_spark_sql, content, twin_cases
from tests.ddl_stream import stream_for
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers, telling
from tests.schema_dumps import dump_position

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


@pytest.fixture
def engine_tables(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many commits the engine has made, by layer."""
    counts = {"silver": 0, "downstream": 0}
    for layer, module in (("silver", silver_job), ("downstream", downstream_job)):

        def counted(layer: str, commit: Any, *arguments: Any) -> Any:
            counts[layer] += 1
            return commit(*arguments)

        monkeypatch.setattr(module, "commit", partial(counted, layer, module.commit))
    return counts


@pytest.fixture
def database(server: str, servers: Servers) -> Iterator[Database]:
    running = servers.get(server)
    with telling(running, "FULL"), database_of(running) as database:
        yield database


@pytest.mark.parametrize("server, seed, steps", twin_cases(4))
def test_the_engine_and_spark_sql_leave_the_same_tables(
    server: str,
    seed: int,
    steps: int,
    database: Database,
    spark: SparkSession,
    tmp_path: Path,
    engine_tables: dict[str, int],
    summary: list[str],
) -> None:
    start = Position.parse(dump_position(database.server))
    shops: list[Shop] = []
    for name in ("engine", "sql"):
        (tmp_path / name).mkdir()
        shops.append(Shop(spark, database, tmp_path / name, start))
    pipelines: list[Pipeline] = [shop.pipeline() for shop in shops]
    tables = ["t", "u", "v"]
    stream = stream_for(server, "FULL", seed, tables)
    shops[0].execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    last = f"REPLACE INTO {tables[-1]} (id) VALUES (1)"
    compared = rows = 0
    for statement in [*stream.statements(steps), last]:
        shops[0].execute(statement)
        if not (stream.generator.random() < 0.1 or statement is last):
            continue
        _, outcome = shops[0].run(pipelines[0])
        with by_spark_sql():
            _, twin = shops[1].run(pipelines[1])
        assert outcome.stopped == twin.stopped == {}, f"seed {seed}, behind {statement}"
        for entry in outcome.entries:
            for layer in ("silver", "downstream"):
                engine_table, sql_table = (
                    lake.silver(SOURCE, *entry.name) if layer == "silver" else lake.downstream(*entry.name)
                    for lake in map(lake_of, pipelines)
                )
                actual, expected = content(engine_table, spark), content(sql_table, spark)
                assert actual == expected, f"seed {seed}, {layer} {entry.name}, behind {statement}"
                rows += len(actual[1])
                compared += 1
    assert engine_tables["silver"]
    assert engine_tables["downstream"]
    summary.append(
        f"engine and Spark SQL, {server}, seed {seed}: {compared} tables, {rows} rows equal; engine: {engine_tables}"
    )
