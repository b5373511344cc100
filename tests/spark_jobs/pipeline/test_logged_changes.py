"""The windows of a table's log, planned again; what tables have of them is in tests/pipeline/test_mode_tables.py."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.modes import Mode
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.pipeline.logged_changes import LoggedChanges
from spark_jobs.silver import table as silver
from spark_jobs.silver.replayed_parts import parts_of
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_windows_of_a_range_have_the_definition_of_their_time(shop: Shop) -> None:
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
    work = MergeJob(SOURCE, name, columns, origin, pinned, lake.downstream("x", "t"), mode=Mode.APPEND)
    log = LoggedChanges(pipeline, SOURCE).log()

    def definitions(log_range: Range | None) -> list[list[str]]:
        job = log.replayed(work, log_range)
        assert job
        parts = parts_of(job, columns)
        return [[str(column.name) for column in part.state.definition.columns] for part in parts]  # type: ignore[union-attr]

    assert definitions(None) == [["id", "v"], ["id", "v", "w"]]
    assert definitions(Range(shop.start, middle)) == [["id", "v"]]
    assert definitions(Range(middle, shop.end())) == [["id", "v", "w"]]
    assert log.replayed(work, Range(shop.end(), shop.end())) is None
