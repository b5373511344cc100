"""Windows decoded again without Spark: nothing differs, and what was damaged is as the log has it afterwards."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.replay import replay
from spark_jobs.pipeline.backfill.request import ReplayedTable
from spark_jobs.pipeline.replay_plan import plan_table
from tests.binlogs.slicing import FILE
from tests.faults import runs
from tests.faults.changes import SCHEMA, SOURCE, bronze_tables, name_of
from tests.faults.renames import NAMES, RenamedChanges
from tests.faults.states import StateChecks


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    with runs.without_spark():
        yield


def at(offset: int) -> Position:
    return Position(FILE, offset, 1)


class Lake:
    """A lake of a log of tables that change names and keys, with a run behind each part of it."""

    def __init__(self, folder: Path, seed: int, *, steps: int, plain: bool = False) -> None:
        changes = RenamedChanges(seed, 15, is_partial=seed % 3 == 0)
        (folder / "bronze").mkdir(parents=True)
        (folder / "home").mkdir()
        self.seed, self.checks = seed, StateChecks(changes.states)
        self.pipeline: Pipeline = runs.pipeline_in(folder / "home")
        link = folder / "home" / "lake" / "bronze" / SOURCE
        link.parent.mkdir(parents=True)
        for path, until in bronze_tables(changes.content, folder / "bronze", steps):
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            assert runs.run(self.pipeline, seed) == {}
            self.log_range = Range(at(0), at(until))

    def silver(self, name: str) -> Table:
        return lake_of(self.pipeline).silver(SOURCE, SCHEMA, name)

    def heads(self) -> list[Head | None]:
        return [self.silver(name).head() for name in NAMES]

    def replay(self, log_range: Range) -> dict[str, ReplayedTable]:
        """A range done again of all tables that have windows in it."""
        bronze = BronzeSnapshot.of(lake_of(self.pipeline), SOURCE)
        replayed = {}
        with runs.scheduled(self.seed):
            for name in NAMES:
                head = self.silver(name).head()
                work = plan_table(self.pipeline, bronze, name_of(name), head, log_range=log_range)
                if work:
                    replayed[name] = replay(runs.SPARK, work, Capacity(2, 2_500))
        return replayed

    def damage(self, name: str, chance: Random) -> bool:
        """Gives rows of a file of silver another value, and removes one or none; whether there were some."""
        table = self.silver(name)
        head, snapshot = table.head(), snapshot_of(table.path)
        if head is None or snapshot is None or head.checkpoint is None:
            return False
        file = chance.choice(snapshot.files)
        rows = data_files.read_columns(table.path, file, snapshot.schema.names, snapshot.schema)
        rows = rows.filter(pa.array(deletion_vectors.living_rows_mask(table.path, file.deletion_vector, len(rows))))
        is_marker = pc.equal(rows.column("_op"), "truncate")
        changed = rows.filter(pc.invert(is_marker))
        if not len(changed):
            return False
        at_position, kind = changed.schema.get_field_index("v"), changed.schema.field("v").type
        changed = changed.set_column(at_position, "v", pa.repeat(pa.scalar(99).cast(kind), len(changed)))
        changed = changed.slice(0, max(1, len(changed) - chance.randrange(2)))
        added = pa.concat_tables([rows.filter(is_marker), changed])
        checkpoint = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
        new_file = data_files.write(table.path, added, snapshot.schema, snapshot.configuration)
        table.land(snapshot, head, checkpoint, adds=[new_file], removes=[file])
        return True


def compare(folder: Path, seed: int) -> int:
    """Ranges done again before and after a damage; how many tables were mended."""
    lake, chance = Lake(folder, seed, steps=1 + seed % 4), Random(seed)
    before = lake.heads()
    positions = sorted(chance.sample(range(lake.log_range.stop.offset), 2))
    for log_range in (lake.log_range, Range(at(positions[0]), lake.log_range.stop)):
        for name, table in lake.replay(log_range).items():
            assert (table.compacted, str(table.difference)) == (None, "nothing differs"), (seed, name)
    assert lake.heads() == before, "nothing is written where nothing differs"
    # What is damaged is as the log has it, and nothing differs after that.
    damaged = [name for name in NAMES if lake.damage(name, chance)]
    mended = [name for name, table in lake.replay(lake.log_range).items() if table.compacted]
    assert {*mended} <= {*damaged}
    lake.checks.require_silver(lake.pipeline)
    assert not any(table.compacted for table in lake.replay(lake.log_range).values())
    return len(mended)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(9, marks=pytest.mark.thorough), *(pytest.param(seed, marks=pytest.mark.long) for seed in (4, 15))],
)
def test_a_range_done_again_is_what_the_log_has(tmp_path: Path, seed: int) -> None:
    assert compare(tmp_path / f"{seed}", seed) > 2


@pytest.mark.long
def test_ranges_of_many_logs_done_again_are_what_the_logs_have(tmp_path: Path, summary: list[str]) -> None:
    seeds = range(2000, 2040)
    mended = sum(compare(tmp_path / f"{seed}", seed) for seed in seeds)
    summary.append(f"replays without Spark: {len(seeds)} logs, {mended} damaged tables mended")


def test_a_file_with_other_windows_keeps_their_rows(tmp_path: Path) -> None:
    """Files that maintenance wrote together have windows inside a range and outside of it."""
    lake = Lake(tmp_path, 4, steps=4)
    for name in NAMES:
        table = lake.silver(name)
        head, snapshot = table.head(), snapshot_of(table.path)
        if head is None or snapshot is None or head.checkpoint is None or len(snapshot.files) < 2:
            continue
        rows = pa.concat_tables(
            data_files.read_columns(table.path, file, snapshot.schema.names, snapshot.schema) for file in snapshot.files
        )
        joined = data_files.write(table.path, rows, snapshot.schema, snapshot.configuration)
        checkpoint = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
        table.land(snapshot, head, checkpoint, adds=[joined], removes=snapshot.files)
        lake.damage(name, Random(1))
    middle = at(lake.log_range.stop.offset // 2)
    lake.replay(Range(middle, lake.log_range.stop))
    lake.replay(lake.log_range)
    lake.checks.require_silver(lake.pipeline)
    snapshots = [snapshot for name in NAMES if (snapshot := snapshot_of(lake.silver(name).path))]
    assert any(file.deletion_vector for snapshot in snapshots for file in snapshot.files)
