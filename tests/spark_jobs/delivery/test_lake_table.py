import pytest

from spark_jobs.delivery import lake_table
from spark_jobs.delivery.deliver import deliver
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import run_source
from tests.fix_pipeline import SOURCE
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_shards_are_delivered_as_one_table(copy: Copy) -> None:
    shop = copy.shop
    for number in (1, 2):
        shop.execute(
            f"CREATE TABLE o_{number} (id INT PRIMARY KEY, n INT)", f"INSERT INTO o_{number} VALUES (1, {number})"
        )
    pipeline = copy.pipeline(routes=[{"from": f"{shop.database.name}.o_*", "to": f"{copy.schema}.o"}])
    assert copy.run(pipeline).stopped == {}
    assert copy.rows("o", "_source, _table, id, n") == [(SOURCE, "o_1", 1, 1), (SOURCE, "o_2", 1, 2)]
    shop.execute("DELETE FROM o_1", "UPDATE o_2 SET n = 3", "INSERT INTO o_1 VALUES (2, 2)")
    assert copy.run(pipeline).stopped == {}
    assert copy.rows("o", "_table, id, n") == [("o_1", 2, 2), ("o_2", 1, 3)]
    [table] = lake_table.published(pipeline, lake_of(pipeline))
    snapshot = snapshot_of(table.table.path)
    assert snapshot
    shape = lake_table.shape_of(lake_of(pipeline), table, snapshot)
    assert shape.key == ("_source", "_schema", "_table", "id")
    assert shape.position.count("mysql-bin.") == 2
    assert {column.name for column in shape.columns if column.column is None} == {"_source", "_schema", "_table"}


def test_what_is_published_is_delivered(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline = copy.pipeline(tables=["nothing.*"])
    assert lake_table.published(pipeline, lake_of(pipeline)) == []
    run_source(copy.shop.spark, pipeline, SOURCE)
    [table] = lake_table.published(pipeline, lake_of(pipeline))
    assert (str(table), table.origins[0][0]) == (f"{copy.schema}.t", SOURCE)
    assert deliver(pipeline, "copy").tables == [], "the delivery is of other tables"
