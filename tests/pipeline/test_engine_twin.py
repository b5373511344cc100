"""Random DDL and DML: downstream is what the server has after each run, and what one run of the whole log makes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.silver import silver_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from tests.fix_mysql import Database, database_of
from tests.fix_pipeline import Shop, require_same
from tests.fix_servers import Servers, telling
from tests.services.schema_dumps import dump_position
from tests.twins.ddl_stream import stream_for
from tests.twins.twin_cases import content, twin_cases

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


@pytest.fixture
def engine_tables(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Number of commits that the engine has made, by layer."""
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
def test_tables_are_what_the_server_has_whatever_the_runs_are(
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
    for name in ("often", "once"):
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
        assert outcome.stopped == {}, f"seed {seed}, behind {statement}"
        for entry in outcome.entries:
            require_same(shops[0], pipelines[0], entry.table)
    # Another lake takes the whole log in one run.
    _, outcome = shops[1].run(pipelines[1])
    assert outcome.stopped == {}, f"seed {seed}"
    for entry in outcome.entries:
        actual, expected = (content(lake_of(pipeline).downstream(*entry.name), spark) for pipeline in pipelines)
        assert actual == expected, f"seed {seed}, {entry.name}"
        rows += len(actual[1])
        compared += 1
    assert engine_tables["silver"]
    assert engine_tables["downstream"]
    summary.append(
        f"one run and many, {server}, seed {seed}: {compared} tables, {rows} rows equal; commits: {engine_tables}"
    )
