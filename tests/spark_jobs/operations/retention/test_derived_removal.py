"""Derived changes removed with their log. With a server and Spark: tests/pipeline/test_cascades_applied.py."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Range
from spark_jobs.operations.retention.derived_removal import remove_derived_before
from tests.spark_jobs.bronze.test_derived_slices import NAME, at, part_of, stored
from tests.spark_jobs.cascades.test_parent_changes import log

NO_SPARK = cast("SparkSession", None)


def test_changes_of_files_that_bronze_let_go_are_removed_and_others_stay(tmp_path: Path) -> None:
    bronze = stored(tmp_path, part_of(at(500), 1, 2))
    stored(tmp_path, part_of(at(50, 2), 4))
    lake = Lake(str(tmp_path))
    before = lake.cascades("s").head()
    remove_derived_before(NO_SPARK, lake, "s", at(4), 1 << 20)
    assert lake.cascades("s").head() == before
    remove_derived_before(NO_SPARK, lake, "s", at(4, 2), 1 << 20)
    assert derived_slices.read(bronze, Range(at(4), at(99, 9))).column("start").to_pylist() == [50]
    commit = CascadesCommit.of_head(lake.cascades("s").head())
    assert commit
    assert (commit.kind, commit.positions, commit.removed) == (
        CommitKind.GC,
        {"shop.c": str(at(9))},
        {"shop.c": str(at(4, 2))},
    )
    after = lake.cascades("s").head()
    remove_derived_before(NO_SPARK, lake, "s", at(4, 2), 1 << 20)
    assert lake.cascades("s").head() == after


def test_a_source_without_derived_changes_gets_no_table(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    remove_derived_before(NO_SPARK, lake, "s", at(4, 2), 1 << 20)
    assert lake.cascades("s").head() is None


def test_log_whose_derived_changes_are_gone_is_not_decoded_for_their_table(tmp_path: Path) -> None:
    bronze = stored(tmp_path / "lake", part_of(at(500), 1, 2))
    remove_derived_before(NO_SPARK, Lake(str(tmp_path / "lake")), "s", at(4, 2), 1 << 20)
    index = derived_slices.with_derived(log(tmp_path / "log", []), bronze, Range(at(4), at(99, 9)))
    message = r"shop\.c: changes that foreign keys made to its rows before b\.000002:4 were removed with that log"
    with pytest.raises(TableStopped, match=message):
        index.slices_of_table(NAME, [Range(at(500), at(9, 3))])
    assert len(index.slices_of_table(NAME, [Range(at(4, 2), at(9, 3)), Range(at(4), at(4))])) == 0
    assert len(index.slices_of_table(TableName("shop", "other"), [Range(at(4), at(9, 3))])) == 0
