"""Tables whose columns and rows statements change: downstream stays what the server has, at every pause."""

import pytest

from spark_jobs.config import Pipeline
from spark_jobs.pipeline import lake_of
from tests.fix_pipeline import Shop, rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def require_same(shop: Shop, pipeline: Pipeline, table: str) -> None:
    """Columns, in order, and rows of a downstream table are the server's."""
    frame = lake_of(pipeline).downstream(shop.database.name, table).read(shop.spark)
    listed = shop.database.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "ORDER BY ordinal_position",
        (shop.database.name, table),
    )
    assert [name for name in frame.columns if not name.startswith("_")] == [name for (name,) in listed]
    assert rows(frame) == shop.truth(table)


def test_a_truncate_empties_the_table_at_its_place(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")
    shop.run(pipeline)
    shop.execute("INSERT INTO t VALUES (3,3)", "TRUNCATE t", "INSERT INTO t VALUES (2,20),(4,40)")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    shop.execute("TRUNCATE TABLE t")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")


def test_columns_come_and_go(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")
    shop.run(pipeline)
    shop.execute(
        "INSERT INTO t VALUES (3,3)",
        "ALTER TABLE t ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'new' AFTER id, ADD price DECIMAL(10,2)",
        "INSERT INTO t VALUES (4,'x',4,1.25)",
        "ALTER TABLE t DROP COLUMN v",
        "UPDATE t SET note = 'changed' WHERE id = 1",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    shop.execute("ALTER TABLE t ADD (a INT DEFAULT -5, b DATE DEFAULT '2024-02-29') , RENAME COLUMN note TO label")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
