"""Rules over images that leave columns out, in windows of several runs and by XA transactions, beside plain rows."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.bronze.xa import read_effective
from spark_jobs.config.filters import ColumnRule, RowFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import PartTable
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job, downstream_task
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.partial_changes import NAMES, SHAPE, TABLE
from tests.binlogs.segment_spec import Change, Commit, RawEvent, SegmentSpec, Statement
from tests.binlogs.segment_spec import Table as LoggedTable
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_of, bronze_rows
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import FILE, XID
from tests.spark_jobs.engine.partial_logs import NAME, logged_change, random_changes
from tests.twins.plain_layers import Image, Key, NetRow, RowChange, TableShape, current_rows, silver_rows

_ANY = Scope.parse(("shop.*",))
XA_START = Statement("", "XA START X'61',X'',1")
XA_PREPARE = RawEvent(38, struct.pack("<BIII", 0, 1, 1, 0) + b"a", ends=True)
QUERY = 2
XA_COMMIT = "XA COMMIT X'61',X'',1"
folders = count()


def rules(excluded: Sequence[str]) -> TableFilters:
    """A row filter by b, and a computed column of both columns."""
    condition = Condition.parse("b > 50")
    computed = (Computed.parse("c", "a + b", "BIGINT"),)
    return TableFilters(
        rows=(RowFilter("r", _ANY, insert=condition, update_new=condition, delete=condition),),
        columns=ColumnRule("c", _ANY, exclude=frozenset(excluded), computed=computed),
    )


@dataclass(frozen=True)
class Logged:
    """A file of transactions: its bytes, where each takes effect, and the changes of each, in that order."""

    content: bytes
    ends: list[int]
    transactions: list[list[RowChange]]

    @classmethod
    def of(cls, chance: Random, count: int) -> "Logged":
        changes = iter([*random_changes(chance, 4 * count, older_keys=0)])
        transactions = [[next(changes) for _ in range(chance.randrange(1, 4))] for _ in range(count)]
        # One transaction may be prepared before others, and committed in its place.
        prepared = chance.randrange(1, count) if chance.random() < 0.7 else None
        begin = chance.randrange(prepared) if prepared is not None else None
        logged: list[Change] = []
        for number, transaction in enumerate(transactions):
            if number == begin and prepared is not None:
                logged += [XA_START, *map(logged_change, transactions[prepared]), XA_PREPARE]
            if number == prepared:
                logged.append(Statement("", XA_COMMIT))
            else:
                logged += [*map(logged_change, transaction), Commit()]
        spec = SegmentSpec(tables=[LoggedTable(str(NAME), key=["id"], id=INT.NOT_NULL, a=INT, b=INT)], changes=logged)
        offsets, events = spec.offsets(), spec.events()
        ends = [
            offsets[at + 1]
            for at, event in enumerate(events)
            if event[4] == XID or (event[4] == QUERY and XA_COMMIT.encode() in event)
        ]
        return cls(spec.to_bytes(), ends, transactions)

    def range(self, first: int, stop: int) -> Range:
        starts = [0, *self.ends]
        return Range(Position(FILE, starts[first]), Position(FILE, starts[stop]))


class Server:
    """The server's rows, and each change as silver is to have it: None where the rules filter it."""

    def __init__(self, excluded: Sequence[str]) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self._excluded = excluded

    def step(self, change: RowChange) -> RowChange | None:
        row = {} if change.before is None else self.rows.pop(change.before["id"])
        row = (SHAPE.default_row() if change.before is None else row) | dict(change.after or {})
        if change.after is not None:
            self.rows[row["id"]] = row
        if row["b"] is not None and row["b"] > 50:
            return None
        total = None if None in (row["a"], row["b"]) else row["a"] + row["b"]
        before, after = change.before, change.after
        if after is None:
            assert before is not None
            return RowChange(self._seen(before, total, is_held={"a", "b"} <= {*before}), None)
        is_held = before is None or bool({"a", "b"} & {*before, *after})
        seen_before = None if before is None else self._seen(before, total, is_held=False)
        return RowChange(seen_before, self._seen(after, total, is_held=is_held))

    def _seen(self, image: Image, total: int | None, *, is_held: bool) -> Image:
        cells = {name: value for name, value in image.items() if name not in self._excluded}
        return cells | ({"c": total} if is_held else {})


@dataclass
class RuledLake:
    """Silver of the table by several runs, and the table that it is merged into."""

    logged: Logged
    excluded: tuple[str, ...]
    folder: Path
    is_part: bool
    target_bytes: int

    def __post_init__(self) -> None:
        rows = bronze_rows(FILE, self.logged.content, target=self.target_bytes)
        self.bronze, self.version = bronze_of(self.folder / "bronze", [rows], group=3)
        self.silver, target = (Table(str(self.folder / name), plain=False) for name in ("silver", "target"))
        self.target = PartTable(target, ("shop", NAME.schema, NAME.table)) if self.is_part else target

    def run(self, within: Range) -> None:
        """A window, and its merge."""
        oldest, cuts = Position(FILE, 0), [within.start, within.stop]
        work = CompactionJob(
            source="shop",
            name=NAME,
            window=Window(self.bronze, self.version, (within,), oldest=oldest, cuts=frozenset(cuts)),
            steps=(DataRange(within, TableState(TABLE)),),
            table=self.silver,
            head=self.silver.head(),
            size=len(self.logged.content),
            filters=rules(self.excluded),
        )
        index = read_effective(self.bronze, self.version, within, oldest, cuts)
        preparation = silver_plan.prepared([work], index)
        assert preparation.errors == {}
        completed, refused = silver_job.run_until_stopped(
            TASKS_HERE, index, self.bronze.path, preparation.units, Capacity(2)
        )
        assert refused == []
        for unit, results in completed:
            assert silver_job.commit(unit, results).stopped is None
        self._merge()

    def _merge(self) -> None:
        head = self.silver.head()
        assert head is not None
        columns = silver.stored_columns(self.silver, head)
        unit = downstream_job.prepared(0, MergeJob("shop", NAME, columns, self.silver, head, self.target))
        if unit is None:
            return
        assert isinstance(unit, PreparedMerge)
        tasks = downstream_job.tasks_of([unit], Capacity(1, 1 << 11))
        results = [result for task in tasks for result in downstream_task.work(task)]
        assert [result.error for result in results if result.error] == []
        downstream_job.commit(unit, results)

    def windows(self) -> dict[int, dict[Key, NetRow]]:
        """By the offset where each begins the rows that silver has of it; positions and changes are not compared."""
        windows: dict[int, dict[Key, NetRow]] = {}
        names = [name for name in (*NAMES, "c") if name not in self.excluded]
        for row in rows_of(newest(self.silver.path)):
            values = {name: row[name] for name in names if name not in (row.get("_absent") or ())}
            moved = row.get("_moved_from")
            origin = None if moved is None else tuple(int(text.removeprefix("v")) for text in moved)
            window = windows.setdefault(row["_window_start"]["offset"], {})
            assert (row["id"],) not in window
            window[row["id"],] = NetRow(row["_existed"], row["_op"] != "delete", values, 0, 0, origin=origin)
        return windows


def bounds_of(chance: Random, count: int) -> Iterator[tuple[int, int]]:
    """Of each run the numbers of the transactions between which its window lies."""
    return pairwise(sorted({0, count, *(chance.randrange(1, count) for _ in range(chance.randrange(5)))}))


@pytest.mark.parametrize("is_part", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_rows_are_those_that_rules_leave_of_the_server_s(*, is_part: bool, tmp_path: Path) -> None:
    @examples(10)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        chance = Random(seed)
        logged, excluded = Logged.of(chance, 14), chance.choice([(), ("b",), ("a", "b")])
        shape = TableShape(tuple(name for name in (*NAMES, "c") if name not in excluded), ("id",))
        folder = tmp_path / str(next(folders))
        lake = RuledLake(logged, excluded, folder, is_part, chance.choice([60, 200, 1 << 20]))
        server, expected = Server(excluded), dict[int, dict[Key, NetRow]]()
        for first, stop in bounds_of(chance, len(logged.transactions)):
            within = logged.range(first, stop)
            lake.run(within)
            steps = [server.step(change) for changes in logged.transactions[first:stop] for change in changes]
            expected[within.start.offset] = silver_rows(enumerate(step for step in steps if step), shape)
            uncounted = {
                offset: {key: replace(row, position=0, changes=0) for key, row in net.items()}
                for offset, net in expected.items()
                if net
            }
            assert lake.windows() == uncounted
            rows, _ = current_rows([*expected.values()], shape)
            merged = {(row["id"],): {name: row[name] for name in shape.columns} for row in rows_of_target(lake)}
            assert merged == rows

    check()


def rows_of_target(lake: RuledLake) -> list[dict[str, Any]]:
    table = lake.target
    return rows_of(newest(table.path)) if table.head() else []
