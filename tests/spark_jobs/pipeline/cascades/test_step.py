"""Commits of derived changes; what is derived with servers is in tests/pipeline/test_cascades_applied.py."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.binlog.slices.listing import list_events
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.walk import Derived, Walk
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.request import SILVER, BackfillOptions
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.cascades.step import AppliedCascades, CascadeStep
from spark_jobs.pipeline.cascades.unlogged_changes import unlogged_changes_of
from spark_jobs.pipeline.replay_windows import windows
from spark_jobs.schema.history import follow
from spark_jobs.silver import quarantine
from spark_jobs.silver.commit import MendedRows, SilverCommit
from spark_jobs.silver.quarantine import Skip
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import FILE, bronze_rows
from tests.faults import runs
from tests.faults.campaign import Log
from tests.faults.changes import SOURCE, bronze_tables

pytestmark = pytest.mark.slow


CHILD = TableName("shop", "c")
TABLES = (
    Table("shop.p", key=["id"], id=INT.NOT_NULL),
    Table("shop.c", key=["id"], id=INT.NOT_NULL, pid=INT),
)
FAMILY: tuple[Change, ...] = (
    Statement("shop", "CREATE TABLE p (id INT NOT NULL PRIMARY KEY)"),
    Statement(
        "shop",
        "CREATE TABLE c (id INT NOT NULL PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)",
    ),
    *(Insert("shop.p", (number,)) for number in range(4)),
    *(Insert("shop.c", (number, number)) for number in range(4)),
    Commit(),
)
DELETES = [change for number in range(4) for change in (Delete("shop.p", (number,)), Commit())]


@contextmanager
def growing_lake(folder: Path, bronze: Sequence[tuple[Path, int]]) -> Iterator[tuple[Pipeline, Iterator[Position]]]:
    """A pipeline over tables that foreign keys join, and the ends of bronze as it grows."""
    pipeline = runs.pipeline_in(folder, runs.CASCADES)
    link = Path(lake_of(pipeline).bronze(SOURCE).path)
    link.parent.mkdir(parents=True)

    def ends() -> Iterator[Position]:
        for path, offset in bronze:
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            yield Position(FILE, offset)

    with runs.without_spark():
        yield pipeline, ends()


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Pipeline, Iterator[Position]]]:
    with growing_lake(tmp_path, Log(37, tmp_path / "log", runs.CASCADES).bronze) as grown:
        yield grown


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[Pipeline, Iterator[Position]]]:
    """The same, once a run has merged parents and children; then each transaction deletes a parent."""
    content, merged = (SegmentSpec(TABLES, changes).to_bytes() for changes in ([*FAMILY, *DELETES], FAMILY))
    steps = len(bronze_rows(FILE, content, target=1))
    bronze = bronze_tables(content, tmp_path / "log", steps, slice_bytes=1)
    with growing_lake(tmp_path, [table for table in bronze if table[1] >= len(merged)]) as grown:
        pipeline, ends = grown
        next(ends)
        runs.run_until_current(pipeline, 0, publishes=True)
        yield pipeline, ends


def rows_downstream(pipeline: Pipeline) -> list[tuple[int, int]]:
    rows = lake_of(pipeline).downstream("shop", "c").rows(columns=["id", "pid"])
    return sorted((row["id"], row["pid"]) for row in rows)


def put(pipeline: Pipeline, kind: CommitKind) -> None:
    """A row (9, 1) of the child in silver alone: mended, of a window that was replayed, or of a rebuilt table."""
    table = lake_of(pipeline).silver(SOURCE, "shop", "c")
    head = table.head()
    commit = SilverCommit.of_head(head)
    assert head
    assert commit
    snapshot = snapshot_of(table.path, head.version)
    assert snapshot
    schema = snapshot.schema
    stored = [data_files.read_living(table.path, file, schema.names, schema) for file in snapshot.files]
    first, *more_rows = pa.concat_tables(stored).to_pylist()
    row = {**first, "id": 9, "pid": 1, "_position": first["_position"] | {"row": 100}}
    new = replace(commit, batch=new_batch(), kind=kind)
    rows, removed = [row], snapshot.files[:0]
    match kind:
        case CommitKind.MEND:
            position = commit.position
            at = {"stretch": position.stretch, "number": position.number, "offset": position.offset - 1}
            row |= {"_op": "mend", "_position": at | {"row": 0}, "_window_start": at, "_window_stop": at}
            new = replace(new, mended=MendedRows(position, 1, 0, 0))
        case CommitKind.REDO:
            new = replace(new, ranges=tuple(windows(table, head, Range(Position(FILE, 4), commit.position))))
        case CommitKind.LIVE:
            new = replace(new, is_overwrite=True, start=Position(FILE, 4))
            rows, removed = [first, row, *more_rows], snapshot.files
    cells = pa.Table.from_pylist(rows, schema.arrow(physical=False))
    file = data_files.write(table.path, cells, schema, snapshot.configuration)
    table.land(snapshot, head, new, **driver_commit.commit_of_files([file], removed))


def derive(pipeline: Pipeline, oldest: Position | None = None) -> AppliedCascades:
    """The step alone, of a run that ends after it. oldest: where bronze begins, once gc has removed log."""
    lake = lake_of(pipeline)
    follow(lake, SOURCE)
    snapshot = BronzeSnapshot.of(lake, SOURCE)
    if oldest:
        snapshot = replace(snapshot, checkpoint=replace(snapshot.checkpoint, oldest=oldest))
    gaps = unlogged_changes_of(pipeline, lake, SOURCE)
    return CascadeStep(pipeline, lake, snapshot, publication.read(lake, SOURCE), gaps).run()


def test_changes_are_derived_once_and_up_to_the_end_of_the_log(growing: tuple[Pipeline, Iterator[Position]]) -> None:
    pipeline, ends = growing
    counts = []
    for seed, end in enumerate(ends):
        runs.run_until_current(pipeline, seed, publishes=True)
        head = lake_of(pipeline).cascades(SOURCE).head()
        commit = CascadesCommit.of_head(head)
        if commit:
            assert {*commit.positions.values()} == {str(end)}
            counts.append(commit.changes)
        # Another run of the same log has nothing to derive.
        runs.run_until_current(pipeline, seed, publishes=True)
        assert lake_of(pipeline).cascades(SOURCE).head() == head
    assert sum(counts) > 0


def test_runs_that_end_after_the_step_derive_each_change_once(family: tuple[Pipeline, Iterator[Position]]) -> None:
    pipeline, ends = family
    assert sum(derive(pipeline).derived.get(CHILD, 0) for _ in ends) == 4
    stored = lake_of(pipeline).cascades(SOURCE).rows()
    assert len({row["start"] for row in stored}) == len(stored) == 4


@pytest.mark.parametrize("kind", [CommitKind.MEND, CommitKind.REDO, CommitKind.LIVE])
def test_rows_that_silver_alone_has_are_merged_before_changes_are_derived(
    family: tuple[Pipeline, Iterator[Position]], kind: CommitKind
) -> None:
    pipeline, ends = family
    put(pipeline, kind)
    list(ends)
    runs.run_until_current(pipeline, 2, publishes=True)
    assert rows_downstream(pipeline) == []


@pytest.mark.parametrize("kind", [CommitKind.MEND, CommitKind.REDO, CommitKind.LIVE])
def test_rows_that_silver_gets_while_changes_are_derived_are_merged_before(
    family: tuple[Pipeline, Iterator[Position]], monkeypatch: pytest.MonkeyPatch, kind: CommitKind
) -> None:
    pipeline, ends = family
    walked = Walk.derive

    def derived_with_another_writer(walk: Walk) -> Derived:
        derived = walked(walk)
        monkeypatch.undo()
        put(pipeline, kind)
        return derived

    monkeypatch.setattr(Walk, "derive", derived_with_another_writer)
    list(ends)
    runs.run_until_current(pipeline, 2, publishes=True)
    assert rows_downstream(pipeline) == []


def test_rows_of_a_backfill_of_silver_are_merged_before_changes_are_derived(tmp_path: Path) -> None:
    content, merged = (SegmentSpec(TABLES, changes).to_bytes() for changes in ([*FAMILY, *DELETES], FAMILY))
    bronze = bronze_tables(content, tmp_path / "log", len(bronze_rows(FILE, content, target=1)), slice_bytes=1)
    inserts = [event for event in list_events(iter([content]), FILE) if event.type == "Write_rows"]
    at = Position(FILE, [event.offset for event in inserts if event.table == "shop.c"][1])
    with growing_lake(tmp_path, [table for table in bronze if table[1] >= len(merged)]) as (pipeline, ends):
        lake = lake_of(pipeline)
        quarantine.edit(lake, SOURCE, lambda _: [Skip("shop", "c", str(at), "Write_rows")])
        next(ends)
        runs.run_until_current(pipeline, 0, publishes=True)
        assert rows_downstream(pipeline) == [(0, 0), (2, 2), (3, 3)]
        # The quarantine is taken back, and the windows are replayed into silver.
        quarantine.edit(lake, SOURCE, lambda _: [])
        head = lake.silver(SOURCE, "shop", "c").head()
        assert head
        assert head.position
        options = BackfillOptions((SILVER,))
        with runs.scheduled(1):
            log_range = Range(at, head.position)
            backfill_source(runs.SPARK, pipeline, SOURCE, log_range, lambda name: name == CHILD, options=options)
        list(ends)
        runs.run_until_current(pipeline, 2, publishes=True)
        assert rows_downstream(pipeline) == []


def test_nothing_is_derived_where_gc_removed_log_that_tells_rows(family: tuple[Pipeline, Iterator[Position]]) -> None:
    pipeline, ends = family
    oldest, *_ = ends
    applied = derive(pipeline, oldest=oldest)
    (limit,) = applied.limits.values()
    assert (limit.end, applied.derived) == (oldest, {})
    assert f"and bronze begins at {oldest}" in (limit.reason or "")
