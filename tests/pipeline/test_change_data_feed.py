"""Delta's change data feed of downstream tables: what Spark's readers of it see is what the server changed."""

from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from tests.fix_pipeline import Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql]
FEED = "delta.enableChangeDataFeed"


def pipeline_of(shop: Shop, **rule: Any) -> Pipeline:
    return shop.pipeline(downstream=[{"tables": "*.*", **rule}] if rule else [])


def version(shop: Shop, pipeline: Pipeline) -> int:
    head = lake_of(pipeline).downstream(shop.database.name, "t").head()
    assert head
    return head.version


def feed(shop: Shop, pipeline: Pipeline, since: int) -> list[tuple[str, int, str | None]]:
    path = lake_of(pipeline).downstream(shop.database.name, "t").path
    reader = shop.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since)
    rows = reader.load(path).collect()
    return sorted((row["_change_type"], row["id"], row["v"]) for row in rows)


def ways(shop: Shop, pipeline: Pipeline) -> list[str]:
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    return [merged.way for merged in outcome.merged]


@pytest.mark.thorough
def test_a_feed_has_what_each_merge_changed(shop: Shop) -> None:
    pipeline = pipeline_of(shop, change_data_feed=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    assert ways(shop, pipeline) == ["Spark SQL: its change data feed is on"]
    # Delta makes no table with column mapping, rows and a feed in one commit: the next merge turns it on first.
    since = version(shop, pipeline) + 1
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 'd')")
    ways(shop, pipeline)
    assert feed(shop, pipeline, since) == [
        ("delete", 2, "b"),
        ("insert", 3, "d"),
        ("update_postimage", 1, "c"),
        ("update_preimage", 1, "a"),
    ]


@pytest.mark.thorough
def test_a_feed_begins_and_ends_with_the_configuration(shop: Shop) -> None:
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a')")
    assert ways(shop, pipeline_of(shop)) == ["engine"]
    table = lake_of(pipeline_of(shop)).downstream(shop.database.name, "t")
    assert table.property_of(FEED) == ""
    # Turned on before the merge that it is to have, with a statement that changes the columns beside it.
    pipeline = pipeline_of(shop, change_data_feed=True)
    since = version(shop, pipeline)
    shop.execute("ALTER TABLE t ADD COLUMN w INT", "UPDATE t SET v = 'b' WHERE id = 1")
    assert ways(shop, pipeline) == ["Spark SQL: its change data feed is on"]
    assert table.property_of(FEED) == "true"
    assert ("update_postimage", 1, "b") in feed(shop, pipeline, version(shop, pipeline))
    assert version(shop, pipeline) > since
    # Turned off: this merge by Spark SQL, the next one by the engine again.
    shop.execute("INSERT INTO t VALUES (2, 'c', 1)")
    (way,) = ways(shop, pipeline_of(shop, mode="mirror"))
    assert way.startswith("Spark SQL: ")
    assert table.property_of(FEED) == "false"
    shop.execute("INSERT INTO t VALUES (3, 'd', 1)")
    assert ways(shop, pipeline_of(shop)) == ["engine"]


@pytest.mark.thorough
def test_a_feed_outlives_a_commit_of_all_rows(shop: Shop) -> None:
    pipeline = pipeline_of(shop, change_data_feed=True, mode="soft_delete")
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    shop.run(pipeline)
    table = lake_of(pipeline).downstream(shop.database.name, "t")
    for statement, is_on in (
        ("INSERT INTO t VALUES (3, 'c')", "true"),
        ("TRUNCATE t", "false"),
        ("INSERT INTO t VALUES (4, 'd')", "true"),
    ):
        shop.execute(statement)
        _, outcome = shop.run(pipeline)
        assert (outcome.stopped, table.property_of(FEED)) == ({}, is_on), statement
    assert feed(shop, pipeline, version(shop, pipeline)) == [("insert", 4, "d")]
    rows = table.read(shop.spark).select("id", "_deleted").collect()
    assert sorted((row["id"], row["_deleted"]) for row in rows) == [(1, True), (2, True), (3, True), (4, False)]
