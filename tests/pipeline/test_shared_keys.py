"""Two servers that write the same keys into one table: it is as a dict that all of it was applied to in order."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream import commit_clock
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status
from spark_jobs.pipeline.backfill.request import BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from spark_jobs.pipeline.run import run_source
from tests.fix_mysql import Database

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

CREATE = "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20))"
KEYS = range(1, 6)


@dataclass
class Region:
    """A server, the schema of its table, and what was done to it: number, operation, key, name."""

    source: str
    database: Database
    start: str
    operations: list[tuple[int, str, int, str]] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)

    def apply(self, nth: int, op: str, key: int) -> None:
        """One statement, which commits by itself; its time is that of the same machine's clock."""
        name = f"{self.source}{nth}"
        statements = {
            "put": f"INSERT INTO people VALUES ({key}, '{name}') ON DUPLICATE KEY UPDATE name = '{name}'",
            "delete": f"DELETE FROM people WHERE id = {key}",
            "truncate": "TRUNCATE TABLE people",
        }
        self.database.execute(statements[op])
        self.operations.append((nth, op, key, name))


def truth(operations: list[tuple[str, int, str, int, str]], left_out: tuple[str, int] | None = None) -> dict[int, Any]:
    """Operations in order, as (source, number, operation, key, name). left_out: a source, and a key of its inserts."""
    owners: dict[int, Any] = {}
    keys: dict[str, set[int]] = {"eu": set(), "us": set()}
    hidden: set[tuple[str, int]] = set()
    for source, _, op, key, name in sorted(operations, key=lambda operation: operation[1]):
        if op == "put":
            is_insert = key not in keys[source] and (source, key) not in hidden
            if is_insert and left_out == (source, key):
                hidden.add((source, key))
                continue
            hidden.discard((source, key))
            keys[source].add(key)
            owners[key] = (source, name)
            continue
        unseen = {key_value for owner, key_value in hidden if owner == source}
        collected = keys[source] if op == "truncate" else (keys[source] | unseen) & {key}
        hidden -= {(source, key_value) for key_value in (unseen if op == "truncate" else {key})}
        for key_value in sorted(collected):
            owners.pop(key_value, None)
        keys[source] -= collected
    return owners


@dataclass
class World:
    """Both regions, and the lake that they are merged into."""

    spark: SparkSession
    folder: Path
    regions: list[Region]
    merged: dict[str, int] = field(default_factory=dict)

    def pipeline(self, lake: str = "lake", **keys: Any) -> Pipeline:
        sources, routes = {}, []
        for region in self.regions:
            server = region.database.server
            login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
            sources[region.source] = {"mysql": login, "start": region.start}
            into = {"to": "world.people", "sources": [region.source], "keys": "shared"}
            routes.append({"from": f"{region.database.name}.people"} | into)
        path = self.folder / f"{lake}.yaml"
        settings = {"lake": f"./{lake}", "sources": sources, "routes": routes} | keys
        settings["tables"] = [f"{region.database.name}.people" for region in self.regions]
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return load(path, {})

    def run(self, pipeline: Pipeline, *sources: str) -> None:
        for source in sources:
            assert run_source(self.spark, pipeline, source)[1].stopped == {}
            self.merged[source] = len(next(region.operations for region in self.regions if region.source == source))

    def expected(self, left_out: tuple[str, int] | None = None) -> dict[int, Any]:
        """Of what was merged by now."""
        operations = [
            (region.source, *operation)
            for region in self.regions
            for operation in region.operations[: self.merged.get(region.source, 0)]
        ]
        return truth(operations, left_out)

    def rows(self, pipeline: Pipeline) -> dict[int, Any]:
        records = lake_of(pipeline).downstream("world", "people").read(self.spark).collect()
        assert len({row["id"] for row in records}) == len(records)
        return {row["id"]: (row["_source"], row["name"]) for row in records}


def write(generator: random.Random, regions: list[Region], first: int, count: int) -> None:
    for nth in range(first, first + count):
        op = generator.choices(["put", "delete", "truncate"], [12, 5, 1])[0]
        generator.choice(regions).apply(nth, op, generator.choice(KEYS))


def test_two_servers_that_write_the_same_keys(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(7)
    with MySQLServer(tmp_path / "us", {"server_id": 2}) as server, server.connect() as connection:
        america = Database("america", server, connection)
        america.execute("CREATE DATABASE america")
        connection.select_db("america")
        regions = [
            Region(source, schema, _end_database(schema)) for source, schema in (("eu", database), ("us", america))
        ]
        world = World(spark, tmp_path, regions)
        pipeline = world.pipeline()
        for region in regions:
            region.database.execute(CREATE)
        # One runs ahead of the other, then the other brings what is older and what is newer.
        write(generator, regions, 0, 30)
        world.run(pipeline, "us")
        assert world.rows(pipeline) == world.expected()
        write(generator, regions, 30, 30)
        world.run(pipeline, "eu")
        assert world.rows(pipeline) == world.expected()
        regions[0].apply(60, "truncate", 0)
        write(generator, regions, 61, 20)
        for nth, region in enumerate(regions):
            region.apply(90 + nth, "put", 2)
        world.run(pipeline, "us", "eu")
        assert world.rows(pipeline) == world.expected()

        # Idle servers move the watermark on, and nothing else.
        before = _versions(pipeline)
        (idle,) = status(pipeline, lake_of(pipeline), "eu").tables
        assert idle.watermark
        monkeypatch.setattr(commit_clock, "_IDLE", timedelta(0))
        world.run(pipeline, "eu")
        (held_back,) = status(pipeline, lake_of(pipeline), "eu").tables
        world.run(pipeline, "us")
        (moved,) = status(pipeline, lake_of(pipeline), "eu").tables
        assert held_back.watermark
        assert moved.watermark
        assert idle.watermark <= held_back.watermark < moved.watermark
        assert _versions(pipeline) == before

        # A backfill changes nothing; by another rule it gives what a fresh run does, with rows that were hidden.
        assert backfill(spark, pipeline, BackfillRequest("eu", regions[0].start, _end_database(database))).stopped == {}
        assert _versions(pipeline) == before
        rule = {"tables": [f"{database.name}.people"], "insert-value-expr": "id = 2"}
        ruled = world.pipeline(row_filters={"no2": rule})
        outcome = backfill(spark, ruled, BackfillRequest("eu", regions[0].start, _end_database(database)))
        assert outcome.stopped == {}
        fresh = world.pipeline("fresh", row_filters={"no2": rule})
        world.run(fresh, "eu", "us")
        assert world.rows(ruled) == world.rows(fresh) == world.expected(("eu", 2))


def _end_database(database: Database) -> str:
    file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
    return f"{file}:{offset}"


def _versions(pipeline: Pipeline) -> list[int]:
    lake = lake_of(pipeline)
    entries = [lake.bronze(source) for source in pipeline.sources] + [lake.downstream("world", "people")]
    heads = [entry.head() for entry in entries]
    return [head.version for head in heads if head]
