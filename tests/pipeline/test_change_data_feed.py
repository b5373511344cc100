"""Delta's change data feed of downstream tables: what Spark's readers of it see is what the server changed."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.retention.maintenance import maintain_source
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.spark_jobs.engine.lake_rows import newest

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


def run(shop: Shop, pipeline: Pipeline) -> None:
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")


@pytest.mark.thorough
def test_a_feed_has_what_each_merge_changed(shop: Shop) -> None:
    pipeline = pipeline_of(shop, change_data_feed=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run(shop, pipeline)
    assert feed(shop, pipeline, 0) == [("insert", 1, "a"), ("insert", 2, "b")]
    since = version(shop, pipeline) + 1
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 'd')")
    run(shop, pipeline)
    assert feed(shop, pipeline, since) == [
        ("delete", 2, "b"),
        ("insert", 3, "d"),
        ("update_postimage", 1, "c"),
        ("update_preimage", 1, "a"),
    ]


@pytest.mark.thorough
def test_a_feed_begins_and_ends_with_the_configuration(shop: Shop) -> None:
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a')")
    run(shop, pipeline_of(shop))
    table = lake_of(pipeline_of(shop)).downstream(shop.database.name, "t")
    assert FEED not in newest(table.path).configuration
    # Turned on before the merge that it is to have, with a statement that changes the columns beside it.
    pipeline = pipeline_of(shop, change_data_feed=True)
    since = version(shop, pipeline)
    shop.execute("ALTER TABLE t ADD COLUMN w INT", "UPDATE t SET v = 'b' WHERE id = 1")
    run(shop, pipeline)
    assert newest(table.path).configuration[FEED] == "true"
    assert version(shop, pipeline) == since + 1
    assert feed(shop, pipeline, since + 1) == [("update_postimage", 1, "b"), ("update_preimage", 1, "a")]
    # A default of a new column changes each row.
    shop.execute("ALTER TABLE t ADD COLUMN x INT NOT NULL DEFAULT 7", "INSERT INTO t VALUES (2, 'c', 1, 8)")
    run(shop, pipeline)
    changes = [("insert", 2, "c"), ("update_postimage", 1, "b"), ("update_preimage", 1, "b")]
    assert feed(shop, pipeline, since + 2) == changes
    # Turned off by the next merge.
    shop.execute("INSERT INTO t VALUES (3, 'd', 1, 9)")
    run(shop, pipeline_of(shop, mode="mirror"))
    assert newest(table.path).configuration[FEED] == "false"


@pytest.mark.thorough
def test_a_stream_reads_a_feed(shop: Shop, tmp_path: Path) -> None:
    """Deletion vectors, a rename and rows in one commit, TRUNCATE, and a file that maintenance wrote again."""
    pipeline = pipeline_of(shop, change_data_feed=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run(shop, pipeline)
    shop.execute("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 'd')")
    run(shop, pipeline)
    maintain_source(shop.spark, pipeline, SOURCE)
    shop.execute("INSERT INTO t VALUES (4, 'e')", "TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 'f')")
    run(shop, pipeline)
    path = lake_of(pipeline).downstream(shop.database.name, "t").path
    reader = shop.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    writer = reader.load(path).writeStream.format("memory").queryName("fed").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "stream")).start()
    assert query.awaitTermination(120)
    rows = shop.spark.table("fed").collect()
    changes = sorted((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in rows)
    last = version(shop, pipeline)
    assert changes == [
        (0, "insert", 1, "a"),
        (0, "insert", 2, "b"),
        (1, "delete", 2, "b"),
        (1, "insert", 3, "d"),
        (1, "update_postimage", 1, "c"),
        (1, "update_preimage", 1, "a"),
        (last, "delete", 1, "c"),
        (last, "delete", 3, "d"),
        (last, "insert", 1, "f"),
    ]
    shop.spark.catalog.dropTempView("fed")
    changed = shop.spark.sql(f"SELECT * FROM table_changes_by_path('{path}', 1, 1)").collect()
    expected = [(kind, key) for _, kind, key, _ in changes[2:6]]
    assert sorted((row["_change_type"], row["id"]) for row in changed) == expected


@pytest.mark.thorough
def test_a_feed_of_versions_has_those_that_end_as_updates(shop: Shop) -> None:
    """Changes, a replay that changes nothing, and a statement that ends all versions."""
    pipeline = pipeline_of(shop, mode="history", change_data_feed=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    positions = []
    for statement in ("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "TRUNCATE TABLE t"):
        shop.run(pipeline)
        positions.append(version(shop, pipeline) + 1)
        shop.execute(statement)
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    ended_a = [("insert", 1, "c"), ("update_postimage", 1, "a"), ("update_preimage", 1, "a")]
    ended_b = [("insert", 2, "b"), ("update_postimage", 2, "b"), ("update_preimage", 2, "b")]
    ended_c = [("update_postimage", 1, "c"), ("update_preimage", 1, "c")]
    path = lake_of(pipeline).downstream(shop.database.name, "t").path
    rows = shop.spark.sql(f"SELECT * FROM table_changes_by_path('{path}', {positions[0]})").collect()
    changes = [
        [(row["_change_type"], row["id"], row["v"]) for row in rows if row["_commit_version"] == offset]
        for offset in positions
    ]
    assert [sorted(kind_rows, key=repr) for kind_rows in changes] == [
        ended_a,
        ended_b,
        sorted([("insert", None, None), *ended_c], key=repr),
    ]
