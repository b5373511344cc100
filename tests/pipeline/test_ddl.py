"""Tables whose columns and rows statements change: downstream stays what the server has, at every pause."""

import pytest

from tests.fix_pipeline import Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


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
