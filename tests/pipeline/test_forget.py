"""Rows that are forgotten: no file of the lake has their values, and every other row is as it was."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import FileDecoder, TableName, list_events
from spark_jobs.bronze.export import export
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.forgetting.forget import Forgotten, forget
from spark_jobs.operations.repair import plan_reset
from spark_jobs.pipeline.backfill.request import BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop, killed_at, require_same, rows
from tests.fix_servers import Servers
from tests.lake_tables import table_rows
from tests.servers import tool_of

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MYSQL, MARIADB, PACKED = "mysql-8.0", "mariadb-11.4", "mysql-9.7"
WORD = "Person-4711-hush"
KEY = 471_108_151
PEOPLE = (
    "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(80), note TEXT)",
    f"INSERT INTO people VALUES (1, 'one', 'n'), ({KEY}, '{WORD}', REPEAT('{WORD}', 20)), (3, 'three', NULL)",
    "INSERT INTO people VALUES (4, 'four', 'm')",
)
LATER = (
    f"UPDATE people SET note = CONCAT(name, '!') WHERE id IN (1, {KEY})",
    "UPDATE people SET note = 'x' WHERE id = 4",
)


@pytest.fixture
def shop(request: pytest.FixtureRequest, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    """A fresh schema in a server of either kind, and a pipeline whose source begins at the log's end."""
    with database_of(servers.get(getattr(request, "param", MYSQL))) as database:
        yield Shop(spark, database, tmp_path, Shop.end(Shop(spark, database, tmp_path, Position("", 0))))


def on(*servers: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shop", servers, indirect=True)


def with_texts(shop: Shop, *statements: str) -> None:
    """Statements whose texts are in the log beside their rows."""
    is_mariadb = "mariadb" in shop.database.server.build.name
    shop.execute(f"SET SESSION {'binlog_annotate_row_events' if is_mariadb else 'binlog_rows_query_log_events'} = ON")
    shop.execute(*statements)


def forgotten(shop: Shop, pipeline: Pipeline, *keys: str, is_applied: bool = True, table: str = "people") -> Forgotten:
    texts = keys or (f"id={KEY}",)
    return forget(shop.spark, pipeline, SOURCE, TableName(shop.database.name, table), texts, is_applied=is_applied)


def needles() -> list[bytes]:
    """The values as files have them."""
    return [WORD.encode(), str(KEY).encode(), KEY.to_bytes(4, "little")]


def holders(folder: Path) -> Iterator[str]:
    """The files of a lake that have a value, as it is or in what Parquet and events pack."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        parts = [content]
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            parts += [bytes_of(table.column(name).to_pylist()) for name in table.column_names]
            if "payload" in table.column_names:
                parts += [bytes_of(packed(record)) for record in table.to_pylist()]
        if any(needle in part for needle in needles() for part in parts):
            yield str(file.relative_to(folder))


def packed(record: dict[str, Any]) -> list[str]:
    """What the events of a slice say, those inside compressed ones too."""
    head = b"" if record["start"] == 0 else b"\xfebin" + (record["context"] or b"")
    return [repr(event) for event in list_events(iter([head + record["payload"]]), record["file"])]


def bytes_of(value: Any) -> bytes:
    """All that a column's values hold."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"\0".join(map(bytes_of, value.values()))
    if isinstance(value, list | tuple):
        return b"\0".join(map(bytes_of, value))
    return repr(value).encode()


@dataclass(frozen=True)
class Rows:
    """The rows of all layers, but for those of the key."""

    silver: list[str]
    downstream: list[str]

    @classmethod
    def of(cls, shop: Shop, pipeline: Pipeline, table: str = "people") -> "Rows":
        lake, name = lake_of(pipeline), shop.database.name
        parts = [
            sorted(repr(row) for row in table_rows(place) if row["id"] != KEY)
            for place in (lake.silver(SOURCE, name, table), lake.downstream(name, table))
        ]
        return cls(*parts)


def lived(shop: Shop, **keys: Any) -> Pipeline:
    """A lake in which the key was inserted, updated and deleted, in several versions."""
    pipeline = shop.pipeline(**keys)
    with_texts(shop, *PEOPLE)
    shop.run(pipeline)
    with_texts(shop, *LATER)
    shop.run(pipeline)
    shop.execute(f"DELETE FROM people WHERE id IN ({KEY}, 3)")
    shop.run(pipeline)
    return pipeline


@on(MYSQL, MARIADB)
def test_no_file_has_the_values_and_all_else_is_as_it_was(shop: Shop) -> None:
    pipeline = lived(shop)
    folder, before = Path(pipeline.lake), Rows.of(shop, pipeline)
    held = [*holders(folder)]
    assert {name.split("/", 1)[0] for name in held} == {"bronze", "silver", "downstream"}
    planned = forgotten(shop, pipeline, is_applied=False)
    assert [*holders(folder)] == held, "nothing is erased without consent"
    done = forgotten(shop, pipeline)
    assert done == planned
    assert [*holders(folder)] == []
    assert Rows.of(shop, pipeline) == before
    require_same(shop, pipeline, "people")
    assert all(place.is_empty for place in forgotten(shop, pipeline).places), "again there is nothing"
    # What is done later has the rows no more.
    shop.execute("INSERT INTO people VALUES (7, 'seven', NULL)", "UPDATE people SET note = 'y' WHERE id = 1")
    shop.run(pipeline)
    require_same(shop, pipeline, "people")
    assert [*holders(folder)] == []
