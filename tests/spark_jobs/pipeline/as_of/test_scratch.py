from pathlib import Path

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.data_files import read_columns
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.as_of.scratch import ScratchLake

ORDERS = TableName("shop", "orders")


def test_tables_that_are_asked_for_are_the_folder_s_own(pipeline: Pipeline, tmp_path: Path) -> None:
    lake = lake_of(pipeline)
    scratch = ScratchLake(lake, tmp_path / "scratch", [ORDERS])
    assert scratch.bronze("shop").path == lake.bronze("shop").path
    assert scratch.silver("shop", "shop", "clicks").path == lake.silver("shop", "shop", "clicks").path
    assert scratch.silver("shop", "shop", "orders").head() is None
    version = snapshot_of(lake.silver("shop", "shop", "orders").path)
    assert version
    scratch.copy_silver(ORDERS, version)
    assert scratch.silver("shop", "shop", "orders").head() == lake.silver("shop", "shop", "orders").head()


def test_some_rows_of_a_version_with_what_its_commit_says(pipeline: Pipeline, tmp_path: Path) -> None:
    table = lake_of(pipeline).downstream("shop", "orders")
    version = snapshot_of(table.path)
    assert version
    rows = read_columns(version.path, version.files[0], version.schema.names, version.schema).slice(0, 1)
    for number, part in enumerate((rows, rows.slice(0, 0))):
        scratch = ScratchLake(lake_of(pipeline), tmp_path / str(number), [ORDERS])
        scratch.put_merged(ORDERS, version, part)
        head, before = scratch.merged(ORDERS).head(), table.head()
        assert head
        assert before
        assert (DownstreamCommit.of_head(head), head.counter) == (DownstreamCommit.of_head(before), before.counter)
        copied = snapshot_of(scratch.merged(ORDERS).path)
        assert copied
        assert sum(file.num_records or 0 for file in copied.files) == len(part)
