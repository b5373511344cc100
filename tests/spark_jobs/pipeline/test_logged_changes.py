"""Every change of a range, decoded again; tables of all kinds are in tests/pipeline/test_mode_tables.py."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.modes import Mode
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.pipeline.logged_changes import LoggedChanges
from spark_jobs.silver import table as silver
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_changes_of_a_range_have_the_columns_that_silver_has_now(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)", "UPDATE t SET v = 2")
    shop.run(pipeline)
    middle = shop.end()
    shop.execute("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 7", "UPDATE t SET id = 5, w = 8")
    shop.run(pipeline)
    lake, name = lake_of(pipeline), TableName(shop.database.name, "t")
    origin = lake.silver(SOURCE, shop.database.name, "t")
    pinned = origin.head()
    assert pinned is not None
    columns = silver.stored_columns(origin, pinned)

    def changes(mode: Mode, range_: Range | None) -> list[tuple[object, ...]]:
        work = MergeJob(SOURCE, name, columns, origin, pinned, lake.downstream("x", "t"), mode=mode)
        rows = LoggedChanges(pipeline, SOURCE).of(shop.spark, work, range_)(shop.spark)
        rows = rows.orderBy("_position", "_op").select("_op", "id", "v", "w")
        return [tuple(row) for row in rows.collect()]

    first = [("insert", 1, 1, 7), ("update", 1, 2, 7)]
    assert changes(Mode.APPEND, None) == [*first, ("update", 5, 2, 8)]
    assert changes(Mode.HISTORY, None) == [*first, ("delete", 1, 2, 7), ("update", 5, 2, 8)]
    assert changes(Mode.APPEND, Range(shop.start, middle)) == first
    assert changes(Mode.APPEND, Range(middle, shop.end())) == [("update", 5, 2, 8)]
