"""What needs no Spark of a load. Whole loads: tests/pipeline/test_load.py."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.ddl.classify import classify
from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.commit import READ, STOPPED, LoadCommit, progress
from spark_jobs.pipeline.initial_load.landing import _changes_rows, _landed_files, _target
from spark_jobs.pipeline.initial_load.range_files import as_silver
from spark_jobs.pipeline.initial_load.staging import StagedTable, design_of
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT
from tests.binlogs.timelines import OLD, at
from tests.faults import runs
from tests.faults.changes import SOURCE, bronze_tables
from tests.spark_jobs.pipeline.cascades.test_step import growing_lake

NAME = TableName("shop", "t")
KEYED_BY_DAY = TableDefinition(NAME, (Column("day", 10), Column("v", 3)), (0,))


@pytest.mark.parametrize(
    "statement, after, changes",
    [
        ("TRUNCATE t", KEYED_BY_DAY, False),
        ("ALTER TABLE t ADD INDEX (v)", KEYED_BY_DAY, False),
        ("ALTER TABLE t ADD w INT", TableDefinition(NAME, (*KEYED_BY_DAY.columns, Column("w", 3)), (0,)), True),
        ("DROP TABLE t", None, True),
    ],
)
def test_what_a_statement_means_to_rows_that_were_read(
    statement: str, after: TableDefinition | None, changes: bool
) -> None:
    extent = Range(Position("b.000001", 5), Position("b.000001", 9))
    logged = LoggedStatement(extent.start, classify(statement, "shop"), extent.stop)
    assert _changes_rows(SchemaChange(extent, TableState(after), logged), KEYED_BY_DAY) is changes


COLUMNS = silver.columns(OLD)
RECREATED = SchemaChange(Range(at(5), at(6)), TableState(OLD), origins={"id": "id", "v": None})
"""A column that was dropped, and another one of its name."""


class Staged:
    """Two rows that wait, by a load that began with silver as it was. statements: what came after them."""

    def __init__(self, folder: Path) -> None:
        lake = Lake(str(folder))
        self.origin, table = lake.silver("shop", "shop", "t"), lake.load("shop", "shop", "t")
        design = design_of(table, self.origin, COLUMNS)
        progress = LoadCommit(at(4), "batch", state=READ, read_from=at(4), definition=OLD, chunk_rows=10)
        head = table.unwritten_head(design.schema.spark_types, {})
        self.stage = StagedTable(OLD.name, table, head, progress)
        self.stage.begin(design)
        rows = pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([10, 20], pa.int32())})
        upon = self.waiting
        files = [
            data_files.write_parts(upon.path, as_silver([rows], at(4), upon.schema), upon.schema, upon.configuration)
        ]
        self.stage.append(upon, files, progress)
        window = Window(lake.bronze("shop"), 0, (Range(at(4), at(9)),))
        self.work = CompactionJob("shop", OLD.name, window, (), self.origin, None, 0)

    @property
    def waiting(self) -> Snapshot:
        return self.stage.snapshot()

    def landed(self, later: Sequence[SchemaChange] = ()) -> tuple[Snapshot, list[DataFile]]:
        """Silver as it is to be, and the files that it gets."""
        work = replace(self.work, head=self.origin.head())
        target = _target(work, COLUMNS, self.waiting, is_replaced=False)
        load = cast("Any", SimpleNamespace(spark=TASKS_HERE))
        files = _landed_files(load, self.stage.progress, work, (self.waiting, target), later)
        return target.design, files

    def is_same(self, file: DataFile) -> bool:
        path = Path(self.waiting.path, file.path)
        return path.exists() and path.samefile(Path(self.origin.path, file.path))


def rows_of(silver_table: Snapshot, files: Sequence[DataFile]) -> list[tuple[int, int | None, str]]:
    (file,) = files
    rows = data_files.read_columns(silver_table.path, file, ["id", "v", "_op"], silver_table.schema).to_pylist()
    return [(row["id"], row["v"], row["_op"]) for row in rows]


def make_silver(folder: Path) -> None:
    """A head of another tool's has no checkpoint, which nobody asks for here."""
    path = Lake(str(folder)).silver("shop", "shop", "t").path
    commits.commit(new_table(path, COLUMNS.stored | {"retired": "INT"}, silver.PROPERTIES))


@pytest.mark.parametrize("has_silver", [False, True])
def test_files_of_a_load_are_silvers_as_they_are(tmp_path: Path, has_silver: bool) -> None:
    if has_silver:
        make_silver(tmp_path)
    staged = Staged(tmp_path)
    design, files = staged.landed()
    assert rows_of(design, files) == [(1, 10, "load"), (2, 20, "load")]
    assert staged.is_same(files[0])
    if not has_silver:
        assert design.schema == staged.waiting.schema
        assert design.metadata.id != staged.waiting.metadata.id


def test_files_are_written_again_in_a_table_that_was_made_meanwhile(tmp_path: Path) -> None:
    staged = Staged(tmp_path)
    make_silver(tmp_path)
    design, files = staged.landed()
    assert rows_of(design, files) == [(1, 10, "load"), (2, 20, "load")]
    assert not staged.is_same(files[0])


def test_files_are_written_again_behind_a_statement_that_leaves_equal_columns(tmp_path: Path) -> None:
    staged = Staged(tmp_path)
    design, files = staged.landed([RECREATED])
    assert design.schema == staged.waiting.schema
    assert rows_of(design, files) == [(1, None, "load"), (2, None, "load")]


def test_files_with_rows_marked_as_deleted_are_written_again(tmp_path: Path) -> None:
    staged = Staged(tmp_path)
    waiting = staged.waiting
    (file,) = waiting.files
    (vector,) = deletion_vectors.write(waiting.path, [BitMap64([0])])
    commits.commit(waiting, dv_updates=[(file, vector)])
    staged.stage.head = replace(staged.stage.head, version=waiting.version + 1)
    design, files = staged.landed()
    assert rows_of(design, files) == [(2, 20, "load")]
    assert not staged.is_same(files[0])


@pytest.mark.slow
def test_a_load_whose_log_is_removed_before_it_lands_is_given_up(tmp_path: Path) -> None:
    table = Table("shop.t", key=["id"], id=INT.NOT_NULL)
    content = SegmentSpec([table], [Insert("shop.t", (1,)), Commit(), Insert("shop.t", (2,)), Commit()]).to_bytes()
    with growing_lake(tmp_path, bronze_tables(content, tmp_path / "log", 2, slice_bytes=1)) as (pipeline, ends):
        lake = lake_of(pipeline)
        read_from = next(ends)
        runs.run_until_current(pipeline, 0, publishes=True)
        read_table = runs.staged(pipeline, NAME, [{"id": 1}], read_from)
        end = next(ends)
        runs.run_until_current(pipeline, 1, publishes=True)
        bronze = lake.bronze(SOURCE)
        head, snapshot = bronze.head(), snapshot_of(bronze.path)
        commit = BronzeCommit.of_head(head)
        assert head
        assert snapshot
        assert commit
        removal = replace(commit, batch=new_batch(), kind=CommitKind.GC, oldest=end, removed_to=end)
        bronze.land(snapshot, head, removal)
        with pytest.raises(TableStopped, match=f"gc has removed log up to {end} since; load it again"):
            runs.run(pipeline, 3, staged=[read_table])
        given_up = progress(lake, SOURCE, NAME)
        assert given_up
        assert given_up.state == STOPPED
