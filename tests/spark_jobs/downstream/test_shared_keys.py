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


class FixedTable(Table):
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


def log_of(generator: random.Random, source: str, length: int) -> list[Change]:
    """Changes of few keys, by a clock that goes back now and then."""
    own_tables = [owner for owner in OWNERS if owner[0] == source]
    changes, second, order = [], generator.randrange(20), -1
    for nth in range(1, length + 1):
        second = max(second + generator.choice([0, 1, 1, 2, 5, -7]), 0)
        order = max(order, second)
        op = generator.choices(["put", "delete", "truncate"], [12, 5, 1])[0]
        key, value = generator.randrange(6), generator.randrange(1000)
        changes.append(Change(generator.choice(own_tables), 100 * nth, second, order, op, key, value))
    return changes


def truth(changes: list[Change]) -> dict[int, tuple[Any, ...]]:
    """By key the value and whose it is: every change applied in the order of (order time, source, position)."""
    rows_: dict[int, tuple[Any, ...]] = {}
    keys_of: dict[Owner, set[int]] = {owner: set() for owner in OWNERS}
    for change in sorted(changes, key=lambda change: (change.order, change.owner[0], change.offset)):
        deleted = keys_of[change.owner] if change.op == "truncate" else {change.key}
        for key in sorted(deleted):
            rows_.pop(key, None)
        keys_of[change.owner] -= deleted
        if change.op == "put":
            rows_[change.key] = (change.value, *change.owner)
            keys_of[change.owner].add(change.key)
    return rows_


def place(offset: int, **row: int) -> dict[str, int]:
    return {"stretch": 1, "number": 1, "offset": offset} | row


def rows_of(changes: list[Change], start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Silver rows of one window, cut where the table is emptied: the last change of every key."""
    for is_cut, part in groupby(changes, lambda change: change.op == "truncate" and change.offset):
        part_changes = list(part)
        if is_cut:
            yield row(part_changes[0], "truncate", part_changes[0].offset, part_changes[0].offset + 50, -1)
            start = part_changes[0].offset + 50
            continue
        end = min(
            [change.offset for change in changes if change.op == "truncate" and change.offset > part_changes[-1].offset]
            or [stop]
        )
        for change_ in {change.key: change for change in part_changes}.values():
            yield row(change_, "delete" if change_.op == "delete" else "update", start, end, 0)


def row(change: Change, op: str, start: int, stop: int, nth: int) -> dict[str, Any]:
    values = {"id": change.key, "v": change.value if op == "update" else None} if op != "truncate" else {}
    at = {"_position": place(change.offset, row=nth), "_committed_at": EPOCH + timedelta(seconds=change.second)}
    return values | at | {"_op": op, "_existed": True, "_window_start": place(start), "_window_stop": place(stop)}


@dataclass
class Merging:
    """A source table on its way: what silver has of it by window, and what was merged."""

    owner: Owner
    clock: Clock
    changes: list[Change]
    """All that silver may take."""
    windows: dict[tuple[int, int], list[Change]] = field(default_factory=dict)
    table: FixedTable = field(default_factory=lambda: FixedTable(SILVER))
    merged: int | None = None
    reached: int = 4
    merged_changes: list[Change] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return max((stop for _, stop in self.windows), default=4)

    def without(self, window: tuple[int, int], key: int) -> list[Change]:
        """A window's changes but those of a key."""
        return [change for change in self.windows[window] if change.op == "truncate" or change.key != key]

    def redo(self, window: tuple[int, int], key: int) -> Range:
        """Leaves a key out of a window."""
        self.windows[window] = self.without(window, key)
        return Range(*map(position, window))

    def commit(self) -> None:
        """A version of silver."""
        self.table.versions.append(
            [row_ for (start, stop), part in sorted(self.windows.items()) for row_ in rows_of(part, start, stop)]
        )

    def side(self, version: int) -> Side:
        is_emptied = any(row_["_op"] == "truncate" for row_ in self.table.versions[version])
        return Side(self.owner, self.table, version, TYPES, self.clock, is_emptied)


def position(offset: int) -> Position:
    return Position(FILE, offset)


def hiding(sides: list[Merging]) -> Iterator[tuple[Merging, tuple[int, int], int]]:
    """Windows and keys whose changes hide what another source table has of the key."""
    now = truth([change for side in sides for change in side.merged_changes])
    for merging in sides:
        for window in sorted(merging.windows) if merging.merged is not None else []:
            for key in range(6):
                remaining = [change for change in merging.merged_changes if change not in merging.windows[window]]
                other_changes = [change for side in sides if side is not merging for change in side.merged_changes]
                then = truth([*other_changes, *remaining, *merging.without(window, key)])
                if key in then and then[key][1:] != merging.owner and now.get(key) != then[key]:
                    yield merging, window, key


def work_of(merging: Merging) -> tuple[MergeJob, Head]:
    version = len(merging.table.versions) - 1
    cuts = [change.offset for part in merging.windows.values() for change in part if change.op == "truncate"]
    emptied_at = position(max(cuts)) if cuts else None
    pinned = Head(version, version, SilverCommit(position(merging.stop), "b", emptied_at=emptied_at))
    before = None
    if merging.merged is not None:
        before = DownstreamCommit(position(merging.reached), "b", silver_version=merging.merged)
    head = Head(1, 1, before)
    columns = silver.Columns(TYPES, ("id",))
    name = TableName(*merging.owner[1:])
    return MergeJob(merging.owner[0], name, columns, merging.table, pinned, Table("t", plain=False)), head


@pytest.mark.spark
@pytest.mark.parametrize("steps", [6, pytest.param(STEPS, marks=pytest.mark.long)])
def test_in_whatever_order_sources_are_merged_a_key_is_as_it_was_written_last(spark: SparkSession, steps: int) -> None:
    generator = random.Random(steps)
    logs = {source: log_of(generator, source, 8 * steps) for source in ("eu", "us")}
    clocks = {}
    for source, changes in logs.items():
        late = FixedTable(LATE)
        timed = [change for change in changes if change.order > change.second]
        assert timed
        at = {change.offset: EPOCH + timedelta(seconds=change.order) for change in timed}
        late.versions.append([place(0) | {"start": o, "stop": o + 50, "order_at": t} for o, t in at.items()])
        clocks[source] = Clock(source, late, 0, position(4), position(1 << 30), None, has_late=True)
    sides = [
        Merging(owner, clocks[owner[0]], [change for change in logs[owner[0]] if change.owner == owner])
        for owner in OWNERS
    ]
    table: dict[int, tuple[Any, ...]] = {}
    fold = Fold(spark, TYPES, ("id",))
    for nth in range(steps + 1):
        merging = generator.choice(sides)
        ranges: list[Range] = []
        if nth == steps:  # a rule leaves out what hid another one's row, which comes back
            hidden = next(hiding(sides), None)
            if hidden is None:
                assert steps == STEPS, "the short run has one"
                break
            merging, window, key = hidden
            ranges = [merging.redo(window, key)]
        elif merging.merged is not None and generator.random() < 0.4:  # a rule changed, and a window is done again
            ranges = [merging.redo(generator.choice(sorted(merging.windows)), generator.randrange(6))]
        if not ranges or (nth < steps and generator.random() < 0.5):
            start = merging.stop
            stop = start + 100 * generator.randrange(3, 15)
            merging.windows[start, stop] = [change for change in merging.changes if start <= change.offset < stop]
        merging.commit()
        work, head = work_of(merging)
        delta = SilverDelta(windows=1, steps=[], redone=ranges, size=0)
        version = work.pinned.version
        other_sides = [
            merging_.side(merging_.merged)
            for merging_ in sides
            if merging_ is not merging and merging_.merged is not None
        ]
        rows = _changed(fold, work, head, delta, [merging.side(version), *other_sides])
        for changed in rows.collect():
            key = changed["_identity_0"]
            table.pop(key, None)
            if not changed["_gone"]:
                table[key] = (changed["v"], changed["_source"], changed["_schema"], changed["_table"])
        merging.merged, merging.reached = version, merging.stop
        merging.merged_changes = [change for part in merging.windows.values() for change in part]
        assert table == truth([change for side in sides for change in side.merged_changes])


@pytest.mark.spark
@pytest.mark.parametrize(
    "op, begin, reason",
    [
        ("load", 4, "it has rows that were loaded"),
        ("rename", 4, "it has rows that came with its name, or with a change of its key"),
        ("update", 200, r"known from mysql-bin.000001:200 on \(given\), and it has rows from before that"),
    ],
)
def test_a_row_that_no_time_is_known_of_stops_its_table(spark: SparkSession, op: str, begin: int, reason: str) -> None:
    table = FixedTable(SILVER)
    table.versions.append([row(Change(OWNERS[0], 100, 1, 1, "put", 1, 1), op, 4, 500, 0)])
    clock = Clock("eu", table, 0, position(begin), position(500), None, has_late=False)
    rows = Fold(spark, TYPES, ("id",)).last(Side(OWNERS[0], table, 0, TYPES, clock, is_emptied=False), None)
    with pytest.raises(TableStopped, match=f"^eu: shop_1.t: .*{reason}.*, and keys: shared has to know when"):
        Table("t", plain=False).collect(rows)


def test_every_column_is_written_and_only_what_differs() -> None:
    text = Fold(None, TYPES | {"{x": "STRING"}, ("id",)).statement(Table("a/b", plain=False))  # type: ignore[arg-type]
    text_ = text.format(source="rows")
    assert text_.startswith("MERGE INTO delta.`a/b` t USING rows s ON t.`id` = s._identity_0 WHEN MATCHED AND s._gone")
    for name in ("id", "v", "{x", "_position", "_committed_at", "_source", "_schema", "_table"):
        assert f"t.`{name}` <=> s.`{name}`" in text_
        assert f"t.`{name}` = s.`{name}`" in text_
    assert "map_entries(t._raw) <=> map_entries(s._raw)" in text_
    assert "t._source = '" not in text_, "the rows of all parts are looked for"


@pytest.mark.parametrize(
    "columns, other_columns, reason",
    [
        (silver.Columns(TYPES, ()), TYPES, "has no key that it could share"),
        (silver.Columns(TYPES, ("id",), has_partial=True), TYPES, "has row images that leave columns out"),
        (silver.Columns(TYPES, ("v", "id")), TYPES, r"its key is \(v INT, id INT\), and that of .* is \(id INT\)"),
        (silver.Columns({"id": "FLOAT"}, ("id",)), {"id": "DOUBLE"}, r"\(id FLOAT\).*\(id DOUBLE\)"),
        (silver.Columns(TYPES | {"_Order": "INT"}, ("id",)), TYPES, "its column _Order has the name of one"),
        (silver.Columns({"id": "BIGINT"}, ("id",)), TYPES, None),
    ],
)
def test_tables_that_cannot_share_keys_are_told(
    columns: silver.Columns, other_columns: dict[str, str], reason: str | None
) -> None:
    work = MergeJob(
        "eu", TableName("s", "t"), columns, Table("o", plain=False), Head(1, 1, None), Table("t", plain=False)
    )
    part = Part(OWNERS[2], position(4), 1, True, other_columns, key=("id",))
    if reason is None:
        _require_one_key(work, [part])
        return
    with pytest.raises(TableStopped, match=reason):
        _require_one_key(work, [part])
