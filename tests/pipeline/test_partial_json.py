"""Random DDL and DML whose row images and documents are in the log in part: the server's rows, or a stop that says why.

Keys change among it, and tables take each other's names.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.log.position import Position
from tests.fix_mysql import database_of
from tests.fix_pipeline import Shop
from tests.fix_servers import Servers
from tests.pipeline.test_ddl_random import require_same_rows
from tests.services.schema_dumps import dump_position
from tests.twins.ddl_stream import Stream

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("STRATALOG_RUNS", "1")))
STEPS = int(os.environ.get("STRATALOG_STEPS", "60"))
TABLES = ("t", "u", "v")
REASONS = (
    "a partial update of JSON, and the row before does not hold the document",
    "an update of the key whose row image leaves out",
    "the row was inserted with the column's default, and neither",
    "the table has no key, and its rows are identified by all columns",
)
"""Of stops where a MINIMAL image leaves out what nothing else tells."""


@pytest.fixture(params=["mysql-8.0", "mysql-9.7"])
def shop(request: pytest.FixtureRequest, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    running = servers.get(request.param)
    with database_of(running) as database:
        yield Shop(spark, database, tmp_path, Position.parse(dump_position(running)))


def with_telling_image(statement: str, rows_query_event: str, choose: random.Random) -> tuple[str, str]:
    """A row image that tells what a statement does, and the statement.

    MINIMAL does not where the key changes, or a part of a document, or where REPLACE leaves a document as it was, which
    is a change of no part of it; nor where an ALTER has put a unique index in a primary key's place: the server
    takes it for the key, while its statements do not tell whether another unique index is before it.
    """
    if rows_query_event == "UNIQUE" or "UPDATE IGNORE" in statement or "JSON_" in statement:
        return "FULL", statement
    if not statement.startswith("REPLACE"):
        return "MINIMAL", statement
    is_whole = " (id) " in statement or choose.random() < 0.5
    return ("FULL", statement) if is_whole else ("MINIMAL", statement.replace("REPLACE", "INSERT IGNORE", 1))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_named", [True, False], ids=["told", "left out"])
def test_downstream_is_the_server_s_tables_or_they_have_stopped(
    shop: Shop, is_named: bool, seed: int, summary: list[str]
) -> None:
    pipeline, stream = shop.pipeline(), Stream(seed, keys=True, tables=TABLES, documents=True)
    shop.execute("SET sql_mode = 'STRICT_ALL_TABLES'", "SET binlog_row_value_options = PARTIAL_JSON")
    runs = compared = rows = 0
    stopped: dict[str, str] = {}
    # With each statement by what the rows of its table are told apart when it is executed.
    statements = [(statement, stream.at.rows_query_event) for statement in stream.statements(STEPS)]
    statements += [(f"REPLACE INTO {table} (id) VALUES (1)", stream.shapes[table].rows_query_event) for table in TABLES]
    for number, (statement, rows_query_event) in enumerate(statements, 1):
        image, executed = (
            with_telling_image(statement, rows_query_event, stream.generator) if is_named else ("MINIMAL", statement)
        )
        shop.execute(f"SET binlog_row_image = {image}", executed)
        if number < len(statements) and stream.generator.random() > 0.08:
            continue
        _, outcome = shop.run(pipeline)
        runs += 1
        stopped = {name.table: reason for name, reason in outcome.stopped.items()}
        assert not (stopped and is_named), f"seed {seed}, behind {statement}"
        assert [reason for reason in stopped.values() if not any(text in reason for text in REASONS)] == []
        for (table,) in shop.database.execute("SHOW TABLES"):
            if table not in stopped:
                rows += require_same_rows(shop, pipeline, table)
                compared += 1
    label = f"MINIMAL and PARTIAL_JSON, {shop.database.execute('SELECT VERSION()')[0][0]}, seed {seed}"
    summary.append(
        f"{label}: {len(statements)} statements, {runs} runs, {compared} tables compared, {rows} rows, no difference; "
        f"stopped in the end: {len(stopped)}"
    )
