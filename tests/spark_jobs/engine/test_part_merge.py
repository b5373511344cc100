"""Parts of one table, planned side by side and committed one after the other: the rows of each are those of a dict."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import TableName
from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import PartTable, SharedPart, parts_of
from spark_jobs.engine import downstream_job, part_merge
from spark_jobs.engine.downstream_job import PreparedMerge
from spark_jobs.engine.downstream_task import DownstreamUnit, MergedFiles
from spark_jobs.engine.part_merge import NewTables, files_of_part
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.silver.table import Columns
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import Row, newest, rows_of
from tests.spark_jobs.engine.test_downstream_job import COLUMNS, Lake

NUMBERS = count()


class Shard(Lake):
    """A silver table, and its part of a table of several; what the part has to be."""

    def __init__(self, folder: Path, number: int, columns: Columns = COLUMNS) -> None:
        super().__init__(folder / f"shard{number}")
        self.name = TableName("shop", f"orders_{number}")
        self.target: PartTable = PartTable(
            Table(str(folder / "all"), plain=False), ("shop", self.name.schema, self.name.table)
        )
        self.columns = columns
        self.expected: dict[int, int] = {}

    @property
    def work(self) -> MergeJob:
        return replace(super().work, name=self.name, target=self.target)

    def change(self, chance: Random) -> None:
        """A window of random changes, each key once."""
        rows = []
        for place, key in enumerate(chance.sample(range(8), chance.randint(1, 5)), 1):
            value = chance.randrange(1000)
            if key in self.expected and chance.random() < 0.4:
                del self.expected[key]
                rows.append(Row((key,), None, place, "delete"))
            else:
                rows.append(Row((key,), value, place, "update" if key in self.expected else "insert"))
                self.expected[key] = value
        self.window(*rows)


def planned(shards: Sequence[Shard]) -> list[tuple[PreparedMerge, list[MergedFiles]]]:
    """What a job makes of all of them."""
    tables: NewTables = {}
    units = [downstream_job.prepared(number, shard.work, tables) for number, shard in enumerate(shards)]
    results = []
    for unit in units:
        assert isinstance(unit, PreparedMerge)
        assert isinstance(unit.unit, DownstreamUnit)
        results.append((unit, [*downstream_job.work((unit.unit,))]))
    return results


def rearrange(shard: Shard) -> None:
    """All rows of the table in one file, as maintenance leaves it."""
    snapshot, head = newest(shard.target.path), Table(shard.target.path, plain=False).head()
    assert head
    assert head.checkpoint
    rows = rows_of(snapshot)
    fields = snapshot.schema.arrow(physical=False)
    files: list[DataFile] = []
    if rows:
        table = fields.empty_table().from_pylist(rows, fields)
        files = [data_files.write(snapshot.path, table, snapshot.schema, snapshot.configuration)]
    upkeep = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
    commits.commit(
        snapshot,
        adds=files,
        removes=snapshot.files,
        transaction=(APPLICATION, head.counter + 1),
        user_metadata=upkeep.to_json(),
    )


def require_right(shards: Sequence[Shard]) -> None:
    rows = rows_of(newest(shards[0].target.path))
    for shard in shards:
        part_rows = [row for row in rows if all(row[name] == value for name, value in shard.target.marks.items())]
        assert len(part_rows) == len(shard.expected)
        assert {row["id"]: row["v"] for row in part_rows} == shard.expected
    assert len(rows) == sum(len(shard.expected) for shard in shards)


def test_each_part_has_its_own_rows_in_whatever_order_parts_are_committed(tmp_path: Path) -> None:
    conflicts = 0

    @examples(25)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        nonlocal conflicts
        chance, folder = Random(seed), tmp_path / str(next(NUMBERS))
        shards = [Shard(folder, number) for number in range(3)]
        # The last one has a narrower key than the table, and lacks a column of it.
        shards[2].columns = Columns({"id": "SMALLINT", "v": "INT"}, ("id",))
        for step in range(4):
            changing = chance.sample(shards, chance.randint(1, 3)) if step else shards
            for shard in changing:
                shard.change(chance)
            plans = planned(changing)
            assert len(plans) == len(changing)
            chance.shuffle(plans)
            for unit, results in plans:
                if step and chance.random() < 0.2:
                    rearrange(shards[0])
                try:
                    downstream_job.commit(unit, results)
                except LostRace:  # a file with rows to mark has gone: planned again
                    conflicts += 1
                    (new_plan,) = planned([shard for shard in changing if shard.name == unit.work.name])
                    downstream_job.commit(*new_plan)
            require_right(shards)
        head = Table(shards[0].target.path, plain=False).head()
        assert {part.owner[2]: part.position for part in parts_of(head.checkpoint if head else None)} == {
            shard.name.table: shard.work.pinned.position for shard in shards
        }

    check()
    assert conflicts, "no commit has met a rearranged file"


def test_a_part_that_another_run_has_moved_is_not_moved_again(tmp_path: Path) -> None:
    shard, second_shard = Shard(tmp_path, 0), Shard(tmp_path, 1)
    shard.change(Random(1))
    second_shard.change(Random(2))
    first, second = planned([shard]), planned([shard])
    downstream_job.commit(*first[0])
    with pytest.raises(LostRace):
        downstream_job.commit(*second[0])
    downstream_job.commit(*planned([second_shard])[0])
    require_right([shard, second_shard])


def test_files_of_other_parts_are_not_read(tmp_path: Path) -> None:
    shards = [Shard(tmp_path, number) for number in range(3)]
    for shard in shards:
        shard.change(Random(1))
    for unit, results in planned(shards):
        downstream_job.commit(unit, results)
    snapshot = newest(shards[0].target.path)
    assert len(snapshot.files) == 3
    assert [len(files_of_part(snapshot, shard.target.marks.items())) for shard in shards] == [1, 1, 1]
    rearrange(shards[0])
    assert len(files_of_part(newest(snapshot.path), shards[1].target.marks.items())) == 1


def test_what_does_not_fit_goes_by_spark_sql(tmp_path: Path) -> None:
    first, wider, dated = (
        Shard(tmp_path, number, Columns({"id": "INT", "v": kind}, ("id",)))
        for number, kind in enumerate(("INT", "BIGINT", "DATE"))
    )
    for shard in (first, wider, dated):
        shard.window(*([Row((1,), 1, 1)] if shard is not dated else []))
    downstream_job.commit(*planned([first])[0])
    shared = SharedPart(Table(first.target.path, plain=False), first.target.owner)
    for work, reason in (
        (wider.work, "several tables are merged into one, and its columns are others than the table's"),
        (dated.work, "several tables are merged into one, and its columns are others than the table's"),
        (replace(first.work, target=shared), "source tables have keys in common"),
        (replace(first.work, mode=Mode.SOFT_DELETE), "several tables are merged into one, in which deleted rows stay"),
        (
            replace(first.work, columns=Columns({"id": "INT", "_Table": "INT"}, ("id",))),
            "several tables are merged into one, and its columns do not fit",
        ),
    ):
        assert downstream_job.prepared(0, work) == reason
    assert part_merge.why_not_part(first.work) is None
