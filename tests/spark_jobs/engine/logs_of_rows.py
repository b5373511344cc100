"""Random changes of two tables as bronze holds them, and silver's work on them. Put here: both. Not here: what is
expected of units, which the tests say."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.engine.jobs.spark_job import Capacity, ShuffleBlock
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.engine.silver.silver_plan import PreparedCompaction, stopped_before_failures
from spark_jobs.engine.silver.silver_task import WindowResult, finish, work
from spark_jobs.errors import PartialWindow
from spark_jobs.lake.table import Table as LakeTable
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Raw, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_of, bronze_rows

FILE = "b.000001"
NAMES = [TableName("shop", name) for name in ("t", "u")]
KEYS = 6
XID = 16
Net = dict[int, tuple[str, int | None]]
"""By key what became of it in a window, and its value where it is there."""


def definition(name: TableName, *, is_keyless: bool = False) -> TableDefinition:
    return TableDefinition(name, (Column("id", 3, nullable=False), Column("v", 3)), () if is_keyless else (0,))


@dataclass(frozen=True)
class Log:
    """A file of changes: bytes, ends of its transactions, and the changes of each transaction."""

    content: bytes
    ends: list[int]
    transactions: list[list[Change]]

    @property
    def starts(self) -> list[int]:
        """Position where the file begins, and each transaction ends."""
        return [0, *self.ends]

    def range(self, first: int, stop: int) -> Range:
        return Range(Position(FILE, self.starts[first]), Position(FILE, self.starts[stop]))

    def changes(self, name: TableName, first: int, stop: int) -> Iterator[Insert | Update | Delete]:
        """Those of a table in some transactions."""
        for change in (logged_change for changes in self.transactions[first:stop] for logged_change in changes):
            if isinstance(change, Insert | Update | Delete) and change.table == str(name):
                yield change

    def net(self, name: TableName, first: int, stop: int, ignored: Collection[type] = ()) -> Net:
        """The net change of some transactions, one change after the other. ignored: kinds that rules filter."""
        existed: dict[int, bool] = {}
        values: dict[int, tuple[int | None] | None] = {}
        for change in self.changes(name, first, stop):
            if type(change) in ignored:
                continue
            before = change.before if isinstance(change, Update) else change.row if isinstance(change, Delete) else None
            after = change.after if isinstance(change, Update) else change.row if isinstance(change, Insert) else None
            if before is not None and (after is None or before[0] != after[0]):
                existed.setdefault(before[0], True)
                values[before[0]] = None
            if after is not None:
                existed.setdefault(after[0], before is not None and before[0] == after[0])
                values[after[0]] = (after[1],)
        return {
            key: ("delete", None) if value is None else ("update" if existed[key] else "insert", value[0])
            for key, value in values.items()
        }

    def copies(self, name: TableName, first: int, stop: int) -> Counter[Any]:
        """Of each row how many more or fewer copies there are after some transactions, which touched it."""
        copies: Counter[Any] = Counter()
        for change in self.changes(name, first, stop):
            if not isinstance(change, Insert):
                copies[change.before if isinstance(change, Update) else change.row] -= 1
            if not isinstance(change, Delete):
                copies[change.after if isinstance(change, Update) else change.row] += 1
        return copies


def log_of(chance: Random, count: int = 12, broken: str | None = None) -> Log:
    """Transactions with some changes of either table. broken: a table whose last change has a row that is cut."""
    rows: dict[str, dict[int, int | None]] = {str(name): {} for name in NAMES}
    transactions: list[list[Change]] = [
        [_change(chance, *chance.choice([*rows.items()])) for _ in range(chance.randrange(1, 6))] for _ in range(count)
    ]
    if broken:
        transactions[-1].append(Insert(broken, (Raw(b"\1"), None)))
    return _logged(transactions, ["id"])


def keyless_log_of(chance: Random, count: int = 12) -> Log:
    """Transactions with some changes of either table, of which neither has a key: few rows, in many copies."""
    rows: dict[str, list[tuple[int, int | None]]] = {str(name): [] for name in NAMES}
    transactions: list[list[Change]] = [
        [_keyless_change(chance, *chance.choice([*rows.items()])) for _ in range(chance.randrange(1, 6))]
        for _ in range(count)
    ]
    return _logged(transactions, [])


def _keyless_change(chance: Random, name: str, rows: list[tuple[int, int | None]]) -> Change:
    row = chance.randrange(2), chance.choice([None, 0, 1])
    if not rows or chance.random() < 0.4:
        rows.append(row)
        return Insert(name, row)
    before = rows.pop(chance.randrange(len(rows)))
    if chance.random() < 0.4:
        return Delete(name, before)
    rows.append(row)
    return Update(name, before, row)


def _logged(transactions: list[list[Change]], key: list[str]) -> Log:
    tables = [Table(str(name), key=key, id=INT.NOT_NULL, v=INT) for name in NAMES]
    spec = SegmentSpec(
        tables=tables, changes=[change for transaction in transactions for change in (*transaction, Commit())]
    )
    offsets, events = spec.offsets(), spec.events()
    ends = [offsets[at + 1] for at, event in enumerate(events) if event[4] == XID]
    return Log(spec.to_bytes(), ends, transactions)


def _change(chance: Random, name: str, rows: dict[int, int | None]) -> Change:
    key, value = chance.randrange(KEYS), chance.choice([None, chance.randrange(1000)])
    if key not in rows:
        rows[key] = value
        return Insert(name, (key, value))
    before = (key, rows.pop(key))
    if chance.random() < 0.3:
        return Delete(name, before)
    free = [key_value for key_value in range(KEYS) if key_value not in rows]
    into = chance.choice(free) if chance.random() < 0.3 else key
    rows[into] = value
    return Update(name, before, (into, value))


def works_of(
    log: Log, folder: Path, cuts: Sequence[int], target: int = 300, *, is_keyless: bool = False
) -> tuple[list[CompactionJob], SliceIndex]:
    """Silver's work on both tables, in windows between these transactions; bronze in slices of about so many bytes."""
    bronze, version = bronze_of(folder / "bronze", [bronze_rows(FILE, log.content, target=target)], group=3)
    bounds = [0, *cuts, len(log.ends)]
    ranges = [log.range(first, stop) for first, stop in pairwise(bounds)]
    index = read_index(bronze, version).cut([log_range.stop for log_range in ranges])
    works = [
        CompactionJob(
            source="shop",
            name=name,
            window=Window(bronze, version, (Range(ranges[0].start, ranges[-1].stop),)),
            steps=tuple(
                DataRange(log_range, TableState(definition(name, is_keyless=is_keyless))) for log_range in ranges
            ),
            table=LakeTable(str(folder / "silver" / name.table), plain=False),
            head=None,
            size=len(log.content),
        )
        for name in NAMES
    ]
    return works, index


def units_of(works: Sequence[CompactionJob], index: SliceIndex) -> list[PreparedCompaction]:
    preparation = silver_plan.prepared(works, index)
    assert preparation.errors == {}
    return preparation.units


def carried_out_undivided(
    bronze: str, unit: PreparedCompaction, index: SliceIndex, capacity: Capacity
) -> tuple[PreparedCompaction, list[WindowResult]]:
    """A unit with what tasks write of it: one task, where several say that they would have to see all rows."""
    results = carried_out(bronze, [unit], capacity)[0][unit.unit.number]
    if any(isinstance(result.error, PartialWindow) for result in results):
        unit = stopped_before_failures(unit, results, index)
        results = carried_out(bronze, [unit], capacity)[0][unit.unit.number]
    return unit, results


def carried_out(
    bronze: str, units: Sequence[PreparedCompaction], capacity: Capacity
) -> tuple[dict[int, list[WindowResult]], int]:
    """What a job writes, in this process, by unit; and how many tasks its first step has."""
    tasks, buckets, assigned = silver_job.tasks_of(bronze, units, capacity)
    by_unit: dict[int, list[WindowResult]] = defaultdict(list)
    pieces: dict[int, list[ShuffleBlock]] = defaultdict(list)
    outcomes: list[Any] = [outcome for task in tasks for outcome in work(task)]
    for outcome in outcomes:
        if isinstance(outcome, ShuffleBlock):
            pieces[outcome.bucket].append(outcome)
            assert outcome.bucket < buckets
    finish_bucket = finish({unit.number: unit for unit in assigned})
    outcomes += [
        task_outcome for bucket_pieces in pieces.values() for task_outcome in finish_bucket(iter(bucket_pieces))
    ]
    for outcome in outcomes:
        if isinstance(outcome, WindowResult):
            by_unit[outcome.unit].append(outcome)
    return by_unit, len(tasks)
