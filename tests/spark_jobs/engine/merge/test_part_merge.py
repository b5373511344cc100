"""Parts of one table, planned side by side and committed one after the other: the rows of each are those of a dict."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import TableName
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import Owner, PartTable, holding_both, parts_of
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.merge.downstream_task import DownstreamUnit
from spark_jobs.engine.merge.part_merge import PlannedTables, files_of_part
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import LostRace, TableStopped
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.changed_parts import ChangedPart, as_union, copied, random_statement, widening
from tests.spark_jobs.engine.lake_rows import Row, newest, rows_of
from tests.spark_jobs.engine.merge.test_downstream_job import COLUMNS, Lake

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
        for offset, key in enumerate(chance.sample(range(8), chance.randint(1, 5)), 1):
            value = chance.randrange(1000)
            if key in self.expected and chance.random() < 0.4:
                del self.expected[key]
                rows.append(Row((key,), None, offset, "delete"))
            else:
                rows.append(Row((key,), value, offset, "update" if key in self.expected else "insert"))
                self.expected[key] = value
        self.window(*rows)


def planned(shards: Sequence[Shard]) -> list[tuple[PreparedMerge, list[MergedFiles]]]:
    """What a job makes of all of them."""
    tables: PlannedTables = {}
    units = [downstream_job.prepared(number, shard.work, tables) for number, shard in enumerate(shards)]
    results = []
    for unit in units:
        assert isinstance(unit, PreparedMerge)
        assert isinstance(unit.unit, DownstreamUnit)
        results.append((unit, [*downstream_job.work((unit.unit,))]))
    return results


def rearrange(path: str) -> None:
    """All rows of a table in one file, as maintenance leaves it."""
    snapshot, head = newest(path), Table(path, plain=False).head()
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
        part_rows = [row for row in rows if all(row[name] == value for name, value in shard.target.provenance.items())]
        assert len(part_rows) == len(shard.expected)
        assert {row["id"]: row["v"] for row in part_rows} == shard.expected
    assert len(rows) == sum(len(shard.expected) for shard in shards)


def test_each_part_has_its_own_rows_in_whatever_order_parts_are_committed(tmp_path: Path) -> None:
    conflicts = 0

    @examples(36)
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
                    rearrange(shards[0].target.path)
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
    assert [len(files_of_part(snapshot, shard.target.provenance.items())) for shard in shards] == [1, 1, 1]
    rearrange(shards[0].target.path)
    assert len(files_of_part(newest(snapshot.path), shards[1].target.provenance.items())) == 1


MARKED = ("_source", "_schema", "_table")
KINDS = [
    {"id": "INT", "a": "INT", "b": "STRING"},
    {"id": "INT", "A": "BIGINT", "c": "FLOAT"},
    {"id": "BIGINT", "a": "INT", "b": "STRING", "d": "DECIMAL(9,2)"},
]


def merged_parts(parts: Sequence[ChangedPart], chance: Random) -> Iterator[tuple[ChangedPart, bool]]:
    """Parts planned side by side and committed in some order; those that are there then, and whether one stopped."""
    tables: PlannedTables = {}
    plans = []
    for number, part in enumerate(parts):
        try:
            plans.append((part, part.work, downstream_job.prepared(number, part.work, tables)))
        except TableStopped:
            yield part, True
    for part, work, plan in chance.sample(plans, len(plans)):
        unit: PreparedMerge | str | None = plan
        while unit is not None:
            assert isinstance(unit, PreparedMerge)
            tasks = downstream_job.tasks_of([unit], Capacity(1, 1500))
            results = [result for task in tasks for result in downstream_job.work(task)]
            assert not any(result.error or result.stopped for result in results)
            try:
                downstream_job.commit(unit, results)
            except LostRace:  # another part has changed the columns: planned again
                try:
                    unit = downstream_job.prepared(0, work)
                except TableStopped:
                    yield part, True
                    break
                continue
            except TableStopped:
                yield part, True
                break
            yield part, False
            break


def is_contradicted(types: Mapping[str, str], types_of_others: Iterable[Mapping[str, str]]) -> bool:
    """True if a column has a type that no type holds together with another part's."""
    folded = {name.casefold(): kind for name, kind in types.items()}
    of_others = [(name.casefold(), kind) for column_types in types_of_others for name, kind in column_types.items()]
    return any(name in folded and holding_both(folded[name], kind) is None for name, kind in of_others)


def require_union(folder: Path, merged: Mapping[Owner, tuple[Mapping[str, str], Sequence[dict[str, Any]]]]) -> None:
    """The table has the columns and rows of all parts as they were merged."""
    columns, expected = as_union(merged)
    snapshot = newest(str(folder / "all"))
    added = {*MARKED, "_position", "_committed_at", "_raw"}
    if snapshot.has_deletion_vectors:  # compat: plain cannot drop a column
        assert {name.casefold() for name in snapshot.schema.names if name not in added} == columns
    rows = [
        {name.casefold(): row[name] for name in row if (name not in added or name in MARKED) and row[name] is not None}
        for row in rows_of(snapshot)
    ]
    assert sorted(rows, key=repr_of) == sorted(expected, key=repr_of)


def repr_of(row: Mapping[str, Any]) -> str:
    numbers = (int, float, Decimal)
    cells = ((name, str(float(value)) if isinstance(value, numbers) else str(value)) for name, value in row.items())
    return repr(sorted(cells))


@pytest.mark.parametrize("key", [("id",), pytest.param((), marks=pytest.mark.thorough)], ids=["keys", "copies"])
def test_parts_whose_columns_change_are_their_union(
    key: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream_job, "_LEAST_TASK_BYTES", 1)
    outcomes: Counter[str] = Counter()

    @examples(20)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        chance, folder = Random(seed), tmp_path / str(next(NUMBERS))
        parts = [ChangedPart(folder, ("eu", "shop", f"t{at}"), types, key) for at, types in enumerate(KINDS)]
        merged: dict[Owner, tuple[dict[str, str], list[dict[str, Any]]]] = {}
        for _ in range(6):
            selected = chance.sample(parts, chance.randint(1, 3))
            for part in selected:
                for _ in range(chance.randint(1, 2)):
                    part.change(chance)
                    if chance.random() < 0.4:
                        random_statement(chance, part)
            if merged and chance.random() < 0.5:
                rearrange(str(folder / "all"))
            for part, is_stopped in merged_parts(selected, chance):
                types_of_others = [types for owner, (types, _) in merged.items() if owner != part.owner]
                assert is_stopped == is_contradicted(part.columns, types_of_others)
                outcomes["stopped" if is_stopped else "merged"] += 1
                if not is_stopped:
                    merged[part.owner] = copied(part)
                require_union(folder, merged)

    check()
    assert outcomes["stopped"], "no column was contradicted"


def test_tables_without_column_mapping_get_columns_and_keep_those_that_nobody_has(tmp_path: Path) -> None:
    first, second = (
        ChangedPart(tmp_path, ("eu", "shop", f"t{at}"), types, ("id",), plain=True)
        for at, types in enumerate(({"id": "INT", "a": "INT"}, {"id": "INT", "b": "STRING"}))
    )
    chance = Random(3)
    for part in (first, second) * 3:
        part.change(chance)
    assert [is_stopped for _, is_stopped in merged_parts([first, second], chance)] == [False, False]
    require_union(tmp_path, {part.owner: copied(part) for part in (first, second)})
    rearrange(str(tmp_path / "all"))
    for _ in range(5):  # rows of it are written again, in one file with those of the other
        second.change(chance)
    assert [is_stopped for _, is_stopped in merged_parts([second], chance)] == [False]
    require_union(tmp_path, {part.owner: copied(part) for part in (first, second)})
    assert any(row["a"] is not None for row in first.rows)
    first.alter(["DROP COLUMN `a`"], {"id": "INT"})
    second.change(chance)
    second.truncate()
    second.change(chance)
    assert [is_stopped for _, is_stopped in merged_parts([first, second], chance)] == [False, False]
    require_union(tmp_path, {part.owner: copied(part) for part in (first, second)})
    assert "a" in newest(str(tmp_path / "all")).schema.names
    second.alter([widening(), "ALTER COLUMN `id` TYPE BIGINT"], {"id": "BIGINT", "b": "STRING"})
    with pytest.raises(TableStopped, match="needs a feature of Delta that tables with compat: plain do not have"):
        downstream_job.prepared(0, second.work)


def test_what_a_table_of_several_cannot_have_stops_its_part(tmp_path: Path) -> None:
    shard = Shard(tmp_path, 0)
    shard.window(Row((1,), 1, 1))
    collision = replace(shard.work, columns=Columns({"id": "INT", "_Table": "INT"}, ("id",)))
    with pytest.raises(TableStopped, match="its column _Table has the name of one that is added"):
        downstream_job.prepared(0, collision)
    commit = SilverCommit.of_head(shard.work.pinned)
    assert commit
    numbered = replace(shard.work, pinned=replace(shard.work.pinned, checkpoint=replace(commit, is_numbered=True)))
    with pytest.raises(TableStopped, match="its columns have no names"):
        downstream_job.prepared(0, numbered)
