"""Crashes, races and damage: no table is ever between two states, and no position moves without its data."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.extract import land, plan
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline, Spark
from spark_jobs.downstream import publication
from spark_jobs.engine.silver import silver_job
from spark_jobs.errors import ChecksumMismatch, DecodeError, LakeError, LostRace, SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.pipeline.planner import Planner
from spark_jobs.pipeline.run import extract_source, publish, run_source, silver_units
from spark_jobs.source.open import open_source
from tests.fix_pipeline import SOURCE, Shop, killed_at
from tests.lakes.lake_tables import no_rows, table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.by_spark]

TABLES = ("orders", "lines")


def write_rows(shop: Shop) -> None:
    """A log with two tables and every kind of change."""
    shop.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(10))",
        "CREATE TABLE `lines` (orders INT, n INT, sku VARCHAR(10), PRIMARY KEY (orders, n))",
        "INSERT INTO orders VALUES (1,'new'),(2,'new'),(3,'new')",
        "INSERT INTO `lines` VALUES (1,1,'a'),(1,2,'b'),(2,1,'c')",
        "UPDATE orders SET state = 'paid' WHERE id < 3",
        "UPDATE `lines` SET n = 7 WHERE n = 2",
        "DELETE FROM orders WHERE id = 3",
    )


def contents(shop: Shop, pipeline: Pipeline) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every layer, added columns and all, without what names a commit."""
    lake = lake_of(pipeline)
    tables = {"bronze": lake.bronze(SOURCE)}
    for name in TABLES:
        tables[f"silver/{name}"] = lake.silver(SOURCE, shop.database.name, name)
        tables[f"downstream/{name}"] = lake.downstream(shop.database.name, name)
    return {name: all_rows(table) for name, table in tables.items()}


def all_rows(table: Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in table_rows(table)), key=repr)


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([("bronze", "after"), ("downstream", "before")], id="two", marks=pytest.mark.thorough),
        pytest.param(
            [(layer, moment) for layer in ("bronze", "silver", "downstream") for moment in ("before", "after")],
            id="every",
            marks=pytest.mark.long,
        ),
    ],
)
def test_killed_at_commits_and_run_again_the_tables_are_those_of_an_undisturbed_run(
    kills: list[tuple[str, str]], shop: Shop, tmp_path: Path
) -> None:
    write_rows(shop)
    shop.execute("FLUSH BINARY LOGS")
    undisturbed = shop.pipeline(lake=str(tmp_path / "undisturbed"))
    shop.run(undisturbed)
    brief = {"spark.driver.memory": "1g"}
    shaken = shop.pipeline(lake=str(tmp_path / "shaken"), spark={"master": "local[2]", "conf": brief})
    for layer, moment in kills:
        assert killed_at(shaken.path, layer, moment)
    shop.run(shaken)
    assert contents(shop, shaken) == contents(shop, undisturbed)
    assert shop.merged(shaken, "orders") == shop.truth("orders")


def test_a_late_racer_changes_nothing_and_says_that_it_lost(shop: Shop) -> None:
    pipeline = shop.pipeline()
    write_rows(shop)
    lake, source = lake_of(pipeline), open_source(SOURCE, pipeline.sources[SOURCE])
    bronze = lake.bronze(SOURCE)
    late = plan(bronze, source, str(shop.start))
    shop.execute("INSERT INTO orders VALUES (50,'x')")  # the winner sees more than the racer planned
    extract_source(shop.spark, pipeline, SOURCE)
    before = all_rows(bronze)
    with pytest.raises(LostRace, match="another writer committed first"):
        land(shop.spark, bronze, late, source.reading(), 0.0)
    assert all_rows(bronze) == before


def test_a_late_compaction_and_a_late_merge_lose_too(shop: Shop) -> None:
    pipeline = shop.pipeline()
    write_rows(shop)
    shop.run(pipeline)
    shop.execute("UPDATE orders SET state = 'sent'")
    extract_source(shop.spark, pipeline, SOURCE)
    lake = lake_of(pipeline)
    snapshot = BronzeSnapshot.of(lake, SOURCE)
    planner = Planner(pipeline, lake, snapshot)
    (late,) = silver_units(
        shop.spark, planner.plan(publication.read(lake, SOURCE)), snapshot.table, Spark()
    ).results.values()
    run_source(shop.spark, pipeline, SOURCE)
    before = contents(shop, pipeline)
    with pytest.raises(LostRace):
        silver_job.commit(*late)
    target = lake.downstream(shop.database.name, "orders")
    old = target.head()
    assert old is not None
    stale = replace(old, version=old.version - 1, counter=old.counter - 1)
    assert old.checkpoint is not None
    with pytest.raises(LostRace):
        target.replace_rows(no_rows(target), {}, stale, replace(old.checkpoint, batch="late"))
    assert contents(shop, pipeline) == before


def test_a_run_that_slept_while_another_went_on_sets_nothing_back(shop: Shop) -> None:
    pipeline = shop.pipeline()
    write_rows(shop)
    _, slept = shop.run(pipeline)
    lake = lake_of(pipeline)
    snapshot = BronzeSnapshot.of(lake, SOURCE)
    entries = publication.read(lake, SOURCE)
    shop.execute("UPDATE orders SET state = 'sent'")
    shop.run(pipeline)
    now = heads(pipeline, shop)
    with pytest.raises(LostRace, match="another writer has gone on"):
        Planner(pipeline, lake, snapshot).plan(entries)
    with pytest.raises(LostRace, match="and another writer up to"):
        publish(pipeline, SOURCE, slept)
    assert heads(pipeline, shop) == now


def copied(shop: Shop, folder: Path) -> list[Path]:
    """The closed binlog files since the test began, in a folder of their own."""
    shop.execute("FLUSH BINARY LOGS")
    folder.mkdir()
    files = sorted(shop.database.server.data.glob("mysql-bin.0*"))
    paths = [file for file in files if shop.start.number <= int(file.suffix[1:]) < shop.end().number]
    return [Path(shutil.copy(file, folder)) for file in paths]


def heads(pipeline: Pipeline, shop: Shop) -> list[object]:
    lake = lake_of(pipeline)
    tables: list[Table] = [lake.bronze(SOURCE), lake.published()]
    tables += [lake.silver(SOURCE, shop.database.name, name) for name in TABLES]
    return [table.head() for table in tables]


def flipped(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


Damage = tuple[Callable[[bytes], bytes], type[Exception], str]
DAMAGES: list[Damage] = [
    (flipped, ChecksumMismatch, r"shop: mysql-bin\.\d+:\d+: "),
    (lambda content: content[:-7], DecodeError, r"shop: mysql-bin\.\d+:\d+: the file ends inside"),
    (lambda _: b"#!/bin/sh\n" * 100, DecodeError, r"shop: mysql-bin\.\d+: .*not a binlog"),
]


def test_a_damaged_file_is_one_message_and_leaves_every_table_as_it_was(shop: Shop, tmp_path: Path) -> None:
    shop.execute("FLUSH BINARY LOGS")
    fresh = Shop(shop.spark, shop.database, shop.folder, shop.end())
    write_rows(fresh)
    (good,) = copied(fresh, tmp_path / "logs")
    pipeline = fresh.pipeline(sources={SOURCE: {"files": str(tmp_path / "logs")}})
    fresh.run(pipeline)
    later_shop = Shop(shop.spark, shop.database, shop.folder, shop.end())
    later_shop.execute("INSERT INTO orders VALUES (77,'later')")
    (new,) = copied(later_shop, tmp_path / "more")
    before = heads(pipeline, shop)
    for damage, error, message in DAMAGES:
        (good.parent / new.name).write_bytes(damage(new.read_bytes()))
        with pytest.raises(error, match=message):
            fresh.run(pipeline)
        assert heads(pipeline, shop) == before
    shutil.copy(new, good.parent)
    fresh.run(pipeline)
    assert (77, "later") in fresh.merged(pipeline, "orders")


def test_a_missing_file_and_a_log_that_became_shorter_are_told_apart(shop: Shop, tmp_path: Path) -> None:
    shop.execute("FLUSH BINARY LOGS")
    fresh = Shop(shop.spark, shop.database, shop.folder, shop.end())
    write_rows(fresh)
    copied(fresh, tmp_path / "logs")
    fresh.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    files = copied(fresh, tmp_path / "all")
    pipeline = fresh.pipeline(sources={SOURCE: {"files": str(tmp_path / "all")}})
    fresh.run(pipeline)
    files[1].unlink()
    with pytest.raises(SourceError, match="a file is missing between"):
        fresh.run(pipeline)
    for file in files[1:]:
        file.unlink(missing_ok=True)
    with pytest.raises(SourceError, match="has no file"):
        fresh.run(pipeline)


def test_a_lake_that_cannot_be_written_is_one_message(shop: Shop, tmp_path: Path) -> None:
    write_rows(shop)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "bronze").write_text("a file where a layer should be")
    pipeline = shop.pipeline(lake=str(blocked))
    with pytest.raises(LakeError, match=r"blocked/bronze/shop"):
        extract_source(shop.spark, pipeline, SOURCE)


def test_tables_named_in_the_outcome_are_those_that_moved(shop: Shop) -> None:
    pipeline = shop.pipeline()
    write_rows(shop)
    shop.run(pipeline)
    shop.execute("DELETE FROM `lines` WHERE orders = 2")
    _, outcome = shop.run(pipeline)
    assert [merge.name for merge in outcome.merged] == [TableName(shop.database.name, "lines")]
    entries = {entry.table: entry for entry in publication.read(lake_of(pipeline), SOURCE)}
    assert {entry.position for name, entry in entries.items() if name in TABLES} == {str(shop.end())}
