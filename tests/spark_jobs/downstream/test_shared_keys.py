"""What is merged where sources write the same keys, against a dict that all changes are applied to in order."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.commit_clock import Clock
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.downstream.multi_source import Owner, Part
from spark_jobs.downstream.shared_keys import Fold, Side, _changed, _require_one_key
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit

STEPS = int(os.environ.get("STRATALOG_SHARED_STEPS", "40"))
"""Merges of the long run."""
FILE = "mysql-bin.000001"
TYPES = {"id": "INT", "v": "INT"}
OWNERS: list[Owner] = [("eu", "shop_1", "t"), ("eu", "shop_2", "t"), ("us", "shop_1", "t")]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_PLACE = pa.struct([("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64())])
_CHANGE_PLACE = pa.struct([*_PLACE, ("row", pa.int32())])
SILVER = pa.schema(
    [
        *(("id", pa.int32()), ("v", pa.int32()), ("_op", pa.string()), ("_existed", pa.bool_())),
        *(("_position", _CHANGE_PLACE), ("_committed_at", pa.timestamp("us", "UTC"))),
        *(("_window_start", _PLACE), ("_window_stop", _PLACE), ("_raw", pa.map_(pa.string(), pa.string()))),
    ]
)
LATE = pa.schema(
    [
        ("stretch", pa.int32()),
        *((name, pa.int64()) for name in ("number", "start", "stop")),
        ("order_at", pa.timestamp("us", "UTC")),
    ]
)


class Given(Table):
    """A table whose versions are given."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__("given", plain=False)
        self.schema = schema
        self.versions: list[list[dict[str, Any]]] = []

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        rows = self.versions[-1 if version is None else version]
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema=self.schema))


@dataclass(frozen=True, slots=True)
class Change:
    """One in a source's log. order: the greatest second up to it, of the source."""

    owner: Owner
    offset: int
    second: int
    order: int
    op: str
    key: int = 0
    value: int = 0


def log_of(some: random.Random, source: str, length: int) -> list[Change]:
    """Changes of few keys, by a clock that goes back now and then."""
    own = [one for one in OWNERS if one[0] == source]
    found, second, order = [], some.randrange(20), -1
    for nth in range(1, length + 1):
        second = max(second + some.choice([0, 1, 1, 2, 5, -7]), 0)
        order = max(order, second)
        op = some.choices(["put", "delete", "truncate"], [12, 5, 1])[0]
        key, value = some.randrange(6), some.randrange(1000)
        found.append(Change(some.choice(own), 100 * nth, second, order, op, key, value))
    return found


def truth(changes: list[Change]) -> dict[int, tuple[Any, ...]]:
    """By key the value and whose it is: every change applied in the order of (order time, source, position)."""
    found: dict[int, tuple[Any, ...]] = {}
    own: dict[Owner, set[int]] = {one: set() for one in OWNERS}
    for one in sorted(changes, key=lambda change: (change.order, change.owner[0], change.offset)):
        gone = own[one.owner] if one.op == "truncate" else {one.key}
        for key in sorted(gone):
            found.pop(key, None)
        own[one.owner] -= gone
        if one.op == "put":
            found[one.key] = (one.value, *one.owner)
            own[one.owner].add(one.key)
    return found


def place(offset: int, **row: int) -> dict[str, int]:
    return {"stretch": 1, "number": 1, "offset": offset} | row


def rows_of(changes: list[Change], start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Silver rows of one window, cut where the table is emptied: the last change of every key."""
    for is_cut, part in groupby(changes, lambda one: one.op == "truncate" and one.offset):
        found = list(part)
        if is_cut:
            yield row(found[0], "truncate", found[0].offset, found[0].offset + 50, -1)
            start = found[0].offset + 50
            continue
        end = min([one.offset for one in changes if one.op == "truncate" and one.offset > found[-1].offset] or [stop])
        for one in {change.key: change for change in found}.values():
            yield row(one, "delete" if one.op == "delete" else "update", start, end, 0)


def row(one: Change, op: str, start: int, stop: int, nth: int) -> dict[str, Any]:
    told = {"id": one.key, "v": one.value if op == "update" else None} if op != "truncate" else {}
    at = {"_position": place(one.offset, row=nth), "_committed_at": EPOCH + timedelta(seconds=one.second)}
    return told | at | {"_op": op, "_existed": True, "_window_start": place(start), "_window_stop": place(stop)}


@dataclass
class Merging:
    """A source table on its way: what silver has of it by window, and what was merged."""

    owner: Owner
    clock: Clock
    changes: list[Change]
    """All that silver may take."""
    windows: dict[tuple[int, int], list[Change]] = field(default_factory=dict)
    table: Given = field(default_factory=lambda: Given(SILVER))
    merged: int | None = None
    reached: int = 4
    taken: list[Change] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return max((stop for _, stop in self.windows), default=4)

    def without(self, window: tuple[int, int], key: int) -> list[Change]:
        """A window's changes but those of a key."""
        return [one for one in self.windows[window] if one.op == "truncate" or one.key != key]

    def redo(self, window: tuple[int, int], key: int) -> Range:
        """Leaves a key out of a window."""
        self.windows[window] = self.without(window, key)
        return Range(*map(position, window))

    def commit(self) -> None:
        """A version of silver."""
        self.table.versions.append(
            [one for (start, stop), part in sorted(self.windows.items()) for one in rows_of(part, start, stop)]
        )

    def side(self, version: int) -> Side:
        is_emptied = any(one["_op"] == "truncate" for one in self.table.versions[version])
        return Side(self.owner, self.table, version, TYPES, self.clock, is_emptied)


def position(offset: int) -> Position:
    return Position(FILE, offset)


def hiding(sides: list[Merging]) -> Iterator[tuple[Merging, tuple[int, int], int]]:
    """Windows and keys whose changes hide what another source table has of the key."""
    now = truth([change for side in sides for change in side.taken])
    for one in sides:
        for window in sorted(one.windows) if one.merged is not None else []:
            for key in range(6):
                left = [change for change in one.taken if change not in one.windows[window]]
                others = [change for side in sides if side is not one for change in side.taken]
                then = truth([*others, *left, *one.without(window, key)])
                if key in then and then[key][1:] != one.owner and now.get(key) != then[key]:
                    yield one, window, key


def work_of(one: Merging) -> tuple[MergeJob, Head]:
    version = len(one.table.versions) - 1
    cuts = [change.offset for part in one.windows.values() for change in part if change.op == "truncate"]
    emptied_at = position(max(cuts)) if cuts else None
    pinned = Head(version, version, SilverCommit(position(one.stop), "b", emptied_at=emptied_at))
    before = None
    if one.merged is not None:
        before = DownstreamCommit(position(one.reached), "b", silver_version=one.merged)
    head = Head(1, 1, before)
    columns = silver.Columns(TYPES, ("id",))
    name = TableName(*one.owner[1:])
    return MergeJob(one.owner[0], name, columns, one.table, pinned, Table("t", plain=False)), head


@pytest.mark.spark
@pytest.mark.parametrize("steps", [6, pytest.param(STEPS, marks=pytest.mark.long)])
def test_in_whatever_order_sources_are_merged_a_key_is_as_it_was_written_last(spark: SparkSession, steps: int) -> None:
    some = random.Random(steps)
    logs = {source: log_of(some, source, 8 * steps) for source in ("eu", "us")}
    clocks = {}
    for source, changes in logs.items():
        late = Given(LATE)
        told = [one for one in changes if one.order > one.second]
        assert told
        at = {one.offset: EPOCH + timedelta(seconds=one.order) for one in told}
        late.versions.append([place(0) | {"start": o, "stop": o + 50, "order_at": t} for o, t in at.items()])
        clocks[source] = Clock(source, late, 0, position(4), position(1 << 30), None, has_late=True)
    sides = [
        Merging(owner, clocks[owner[0]], [one for one in logs[owner[0]] if one.owner == owner]) for owner in OWNERS
    ]
    table: dict[int, tuple[Any, ...]] = {}
    fold = Fold(spark, TYPES, ("id",))
    for nth in range(steps + 1):
        one = some.choice(sides)
        again: list[Range] = []
        if nth == steps:  # a rule leaves out what hid another one's row, which comes back
            hidden = next(hiding(sides), None)
            if hidden is None:
                assert steps == STEPS, "the short run has one"
                break
            one, window, key = hidden
            again = [one.redo(window, key)]
        elif one.merged is not None and some.random() < 0.4:  # a rule changed, and a window is done again
            again = [one.redo(some.choice(sorted(one.windows)), some.randrange(6))]
        if not again or (nth < steps and some.random() < 0.5):
            start = one.stop
            stop = start + 100 * some.randrange(3, 15)
            one.windows[start, stop] = [change for change in one.changes if start <= change.offset < stop]
        one.commit()
        work, head = work_of(one)
        delta = SilverDelta(windows=1, steps=[], redone=again, size=0)
        version = work.pinned.version
        others = [other.side(other.merged) for other in sides if other is not one and other.merged is not None]
        found = _changed(fold, work, head, delta, [one.side(version), *others])
        for changed in found.collect():
            key = changed["_identity_0"]
            table.pop(key, None)
            if not changed["_gone"]:
                table[key] = (changed["v"], changed["_source"], changed["_schema"], changed["_table"])
        one.merged, one.reached = version, one.stop
        one.taken = [change for part in one.windows.values() for change in part]
        assert table == truth([change for side in sides for change in side.taken])


@pytest.mark.spark
@pytest.mark.parametrize(
    "op, begin, why",
    [
        ("load", 4, "it has rows that were loaded"),
        ("rename", 4, "it has rows that came with its name, or with a change of its key"),
        ("update", 200, r"known from mysql-bin.000001:200 on \(given\), and it has rows from before that"),
    ],
)
def test_a_row_that_no_time_is_known_of_stops_its_table(spark: SparkSession, op: str, begin: int, why: str) -> None:
    given = Given(SILVER)
    given.versions.append([row(Change(OWNERS[0], 100, 1, 1, "put", 1, 1), op, 4, 500, 0)])
    known = Clock("eu", given, 0, position(begin), position(500), None, has_late=False)
    rows = Fold(spark, TYPES, ("id",)).last(Side(OWNERS[0], given, 0, TYPES, known, is_emptied=False), None)
    with pytest.raises(TableStopped, match=f"^eu: shop_1.t: .*{why}.*, and keys: shared has to know when"):
        Table("t", plain=False).collect(rows)


def test_every_column_is_written_and_only_what_differs() -> None:
    text = Fold(None, TYPES | {"{x": "STRING"}, ("id",)).statement(Table("a/b", plain=False))  # type: ignore[arg-type]
    said = text.format(source="rows")
    assert said.startswith("MERGE INTO delta.`a/b` t USING rows s ON t.`id` = s._identity_0 WHEN MATCHED AND s._gone")
    for name in ("id", "v", "{x", "_position", "_committed_at", "_source", "_schema", "_table"):
        assert f"t.`{name}` <=> s.`{name}`" in said
        assert f"t.`{name}` = s.`{name}`" in said
    assert "map_entries(t._raw) <=> map_entries(s._raw)" in said
    assert "t._source = '" not in said, "the rows of all parts are looked for"


@pytest.mark.parametrize(
    "own, other, why",
    [
        (silver.Columns(TYPES, ()), TYPES, "has no key that it could share"),
        (silver.Columns(TYPES, ("id",), has_partial=True), TYPES, "has row images that leave columns out"),
        (silver.Columns(TYPES, ("v", "id")), TYPES, r"its key is \(v INT, id INT\), and that of .* is \(id INT\)"),
        (silver.Columns({"id": "FLOAT"}, ("id",)), {"id": "DOUBLE"}, r"\(id FLOAT\).*\(id DOUBLE\)"),
        (silver.Columns(TYPES | {"_Order": "INT"}, ("id",)), TYPES, "its column _Order has the name of one"),
        (silver.Columns({"id": "BIGINT"}, ("id",)), TYPES, None),
    ],
)
def test_tables_that_cannot_share_keys_are_told(own: silver.Columns, other: dict[str, str], why: str | None) -> None:
    work = MergeJob("eu", TableName("s", "t"), own, Table("o", plain=False), Head(1, 1, None), Table("t", plain=False))
    part = Part(OWNERS[2], position(4), 1, True, other, key=("id",))
    if why is None:
        _require_one_key(work, [part])
        return
    with pytest.raises(TableStopped, match=why):
        _require_one_key(work, [part])
