"""Logs of changes whose images leave columns out, as bronze holds them, and silver's work on them. Put here: both. Not
here: what is expected, which plain_layers.py says."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

from spark_jobs.binlog import TableName
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.lake.table import Table as LakeTable
from spark_jobs.log.position import Range
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.partial_changes import NAMES, SHAPE, TABLE
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_of, bronze_rows
from tests.spark_jobs.engine.logs_of_rows import FILE, XID, Log
from tests.twins.plain_layers import Image, RowChange

NAME = TableName("shop", "t")
KEYS = 5
OLDER: list[dict[str, int]] = [{"id": key, "a": 1, "b": 2} for key in range(2)]
"""Rows that are older than the log."""


def random_changes(chance: Random, count: int, older_keys: int = 2, lost: float = 0) -> Iterator[RowChange]:
    """Changes as a server logs them that changes its row image between statements.

    older_keys: how many rows are older than the log. lost: of how many INSERTs each the log has none, as where they are
    in quarantine.
    """
    rows: dict[int, dict[str, int | None]] = {row["id"]: dict(row) for row in OLDER[:older_keys]}
    for _ in range(count):
        key = chance.randrange(KEYS)
        parts = {name: chance.choice([None, chance.randrange(100)]) for name in NAMES[1:] if chance.random() < 0.6}
        is_minimal = chance.random() < 0.7
        before = rows.get(key)
        if before is None:
            row = {"id": key} | parts
            rows[key] = SHAPE.default_row() | row
            if lost and chance.random() < lost:
                continue
            yield RowChange(None, row if is_minimal else rows[key])
        elif chance.random() < 0.25:
            yield RowChange({"id": key} if is_minimal else before, None)
            del rows[key]
        else:
            free = [key_value for key_value in range(KEYS) if key_value not in rows]
            into = chance.choice([*free, key]) if chance.random() < 0.4 and free else key
            rows.pop(key)
            rows[into] = before | {"id": into} | parts
            moved = {"id": into} if into != key else {}
            yield RowChange({"id": key} if is_minimal else before, moved | parts if is_minimal else rows[into])


def log_of(transactions: Sequence[Sequence[RowChange]]) -> Log:
    """A file of changes of NAME."""
    table = Table(str(NAME), key=["id"], id=INT.NOT_NULL, a=INT, b=INT)
    logged = [logged_change(change) for transaction in transactions for change in (*transaction, None)]
    spec = SegmentSpec(tables=[table], changes=logged)
    offsets, events = spec.offsets(), spec.events()
    ends = [offsets[at + 1] for at, event in enumerate(events) if event[4] == XID]
    return Log(spec.to_bytes(), ends, [])


def logged_change(change: RowChange | None) -> Change:
    """A change, or a commit, of a log."""
    if change is None:
        return Commit()
    if change.before is None:
        assert change.after is not None
        return Insert(str(NAME), _image_cells(change.after))
    if change.after is None:
        return Delete(str(NAME), _image_cells(change.before))
    return Update(str(NAME), _image_cells(change.before), _image_cells(change.after))


def _image_cells(image: Image) -> list[object]:
    return [image.get(name, ...) for name in NAMES]


def work_of(log: Log, folder: Path, cuts: Sequence[int], target: int = 300) -> tuple[CompactionJob, SliceIndex]:
    """Silver's work, in windows between these transactions; bronze in slices of about so many bytes."""
    bronze, version = bronze_of(folder / "bronze", [bronze_rows(FILE, log.content, target=target)], group=3)
    ranges = [log.range(first, stop) for first, stop in pairwise([0, *cuts, len(log.ends)])]
    work = CompactionJob(
        source="shop",
        name=NAME,
        window=Window(bronze, version, (Range(ranges[0].start, ranges[-1].stop),)),
        steps=tuple(DataRange(log_range, TableState(TABLE)) for log_range in ranges),
        table=LakeTable(str(folder / "silver"), plain=False),
        head=None,
        size=len(log.content),
    )
    return work, read_index(bronze, version).cut([log_range.stop for log_range in ranges])
