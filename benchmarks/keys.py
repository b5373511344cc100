"""A thousand random keys merged into tables of millions of rows: what finding them costs, by the size of the table.

Each data file of a target has keys of the whole range, so that statistics leave no file out. The first merge builds the
files' indexes; the ones after it use them. Spark is left out: planning, a task's work and the commit are measured, in
this process.

Put here: what is measured. Not here: how keys are found (spark_jobs/engine/rows/locate.py).
"""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, metered
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED, MergeJob
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job, downstream_task
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns, Op
from tests.binlogs.timelines import NAME, OLD

CHANGES = 1_000
_FILE_ROWS = 2_000_000
_MERGES = 4
_PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
_KINDS: dict[str, tuple[str, Callable[[NDArray[np.int64]], pa.Array]]] = {
    "BIGINT": ("BIGINT", pa.array),
    "UUID as text": (
        "STRING",
        lambda numbers: pa.array([str(uuid.UUID(int=_mixed(int(number)))) for number in numbers]),
    ),
}


def measure(folder: Path, sizes: Sequence[int]) -> None:
    """Prints a table: by kind of key and rows of the target, the first merge and the best of those after it."""
    print(f"| {CHANGES:,} random keys into | rows | first merge, s | later merges, s | processor, s |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for kind in _KINDS:
        for rows in sizes:
            print_progress(f"writing {rows:,} rows, {kind}")
            target = _Target(folder / f"{rows}-{kind.split()[0].lower()}", kind, rows)
            first, *later = (target.merged(nth) for nth in range(_MERGES))
            best = min(later, key=lambda usage: usage.seconds)
            cells = (f"{first.seconds:.2f}", f"{best.seconds:.2f}", f"{best.processor:.2f}")
            print(f"| {kind} | {rows:,} | {' | '.join(cells)} |", flush=True)


def _mixed(number: int) -> int:
    """128 bits of a number: the same ones each time, in no order."""
    return (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 + 0x2545F4914F6CDD1D) % (1 << 128)


class _Target:
    """A downstream table of so many rows and the silver table that it is merged from."""

    def __init__(self, folder: Path, kind: str, rows: int) -> None:
        self.kind, self.rows = kind, rows
        self.columns = Columns({"id": _KINDS[kind][0], "v": "INT"}, ("id",))
        self.silver, self.target = (Table(str(folder / name), plain=False) for name in ("silver", "target"))
        self._fill()

    def _fill(self) -> None:
        origin = new_table(self.silver.path, self.columns.stored, _PROPERTIES)
        commit = SilverCommit(_position_of(1), new_batch(), CommitKind.LIVE, start=_position_of(0), definition=OLD)
        commits.commit(origin, transaction=(APPLICATION, 1), user_metadata=commit.to_json())
        target = new_table(self.target.path, self.columns.types | ADDED, _PROPERTIES)
        count = -(-self.rows // _FILE_ROWS)
        files = [self._file(target, np.arange(nth, self.rows, count, dtype=np.int64)) for nth in range(count)]
        merged = DownstreamCommit(
            _position_of(1), new_batch(), source="shop", table=str(NAME), silver_version=0, start=_position_of(0)
        )
        commits.commit(target, adds=files, transaction=(APPLICATION, 1), user_metadata=merged.to_json())

    def _file(self, target: Snapshot, numbers: NDArray[np.int64]) -> DataFile:
        """Rows of every so manyth key, sorted by key, as the engine writes them."""
        rows = self._rows_of_window(target.schema, numbers, 0)
        return data_files.write(
            target.path, rows.take(pc.sort_indices(rows.column("id"))), target.schema, target.configuration
        )

    def _rows_of_window(self, schema: TableSchema, numbers: NDArray[np.int64], window: int) -> pa.Table:
        count = len(numbers)
        begin = np.full(count, 4, np.int64)
        cells: dict[str, Any] = {
            "id": _KINDS[self.kind][1](numbers),
            "v": pa.array(np.full(count, window, np.int32)),
            "_op": pa.repeat(pa.scalar(str(Op.UPDATE)), count),
            "_existed": pa.repeat(pa.scalar(True), count),
            "_position": _stored_positions(1 + window, begin + np.arange(count), row=np.zeros(count, np.int32)),
            "_committed_at": pa.array(np.full(count, 1_767_000_000_000_000), pa.timestamp("us", "UTC")),
            "_window_start": _stored_positions(1 + window, begin),
            "_window_stop": _stored_positions(2 + window, begin),
        }
        fields = schema.arrow(physical=False)
        return pa.table(
            [cells[item.name].cast(item.type) if item.name in cells else pa.nulls(count, item.type) for item in fields],
            schema=fields,
        )

    def merged(self, nth: int) -> Usage:
        """Appends a window of updates of random keys to silver, and measures its merge."""
        chance, window = np.random.default_rng(nth), nth + 1
        numbers = np.sort(chance.choice(self.rows, CHANGES, replace=False)).astype(np.int64)
        origin = snapshot_of(self.silver.path)
        assert origin is not None
        file = data_files.write(
            origin.path, self._rows_of_window(origin.schema, numbers, window), origin.schema, origin.configuration
        )
        commit = SilverCommit(
            _position_of(window + 1), new_batch(), CommitKind.LIVE, start=_position_of(window), definition=OLD
        )
        commits.commit(
            origin, adds=[file], transaction=(APPLICATION, origin.version + 2), user_metadata=commit.to_json()
        )
        with metered() as usage:
            head = self.silver.head()
            assert head is not None
            unit = downstream_job.prepared(0, MergeJob("shop", NAME, self.columns, self.silver, head, self.target))
            assert isinstance(unit, PreparedMerge), unit
            results = [
                merged for task in downstream_job.tasks_of([unit], Capacity(2)) for merged in downstream_task.work(task)
            ]
            merged = downstream_job.commit(unit, results)
        assert merged.updated == CHANGES, f"{merged.updated} of {CHANGES} rows were updated"
        return usage


def _stored_positions(number: int, offsets: NDArray[np.int64], **columns: NDArray[Any]) -> pa.Array:
    """Positions in one file of the log, as they are stored."""
    count = len(offsets)
    cells = {
        "stretch": np.ones(count, np.int32),
        "number": np.full(count, number, np.int64),
        "offset": offsets,
    } | columns
    return pa.StructArray.from_arrays([pa.array(cell) for cell in cells.values()], list(cells))


def _position_of(number: int) -> Position:
    return Position(f"b.{1 + number:06d}", 4)
