"""A silver table whose commits tests write: windows done again, loads, renewals; and the table it is merged into.

Put here: those, and what the target is to be of the rows. Not here: what tests do with them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyroaring import BitMap64

from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.engine import downstream_job
from spark_jobs.engine.downstream_job import PreparedMerge
from spark_jobs.engine.downstream_task import DownstreamUnit, work
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns, Op
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, newest, rows_of, table_of
from tests.timelines import NAME, OLD

COLUMNS = Columns({"id": "INT", "v": "INT"}, ("id",))
KEY = ("id",)
State = dict[int, tuple[int | None, int, bool]]
"""By key its value and position, and whether it is marked as deleted."""


@dataclass
class Silver:
    """A silver table whose commits are written here, its rows beside it, and the table that it is merged into."""

    folder: Path
    rows: list[Row] = field(default_factory=list)
    stop: int = 100
    mode: Mode = Mode.MIRROR
    has_feed: bool = False
    parts: int = 1
    """Into how many tasks a merge is divided."""

    def __post_init__(self) -> None:
        self.table, self.target = (Table(str(self.folder / name), plain=False) for name in ("silver", "target"))

    def window(self, rows: list[Row]) -> None:
        start, self.stop = self.stop, self.stop + 100
        window_rows = [replace(row, window=start, place=start + row.place) for row in rows]
        self.rows += window_rows
        self._commit(CommitKind.LIVE, window_rows, start=start)

    def load(self, rows: list[Row]) -> None:
        """Rows that count as older than all windows; a second load of a key is of the same state or a later one."""
        loaded = [replace(row, op=Op.LOAD, window=50, place=50) for row in rows]
        loaded_keys = {row.key for row in self.rows if row.op == Op.LOAD}
        loaded = [row for row in loaded if row.key not in loaded_keys]
        self.rows += loaded
        self._commit(CommitKind.LOAD, loaded, start=self.stop)

    def redo(self, start: int, rows: list[Row], *, by_vector: bool) -> None:
        """A window's rows are replaced; of files that hold others too they are marked, or these are written again."""
        replayed = [replace(row, window=start, place=start + row.place) for row in rows]
        self.rows = [row for row in self.rows if row.op == Op.LOAD or row.window != start] + replayed
        ranges = (Range(at(start), at(start + 100)),)
        self._commit(
            CommitKind.REDO, replayed, ranges=ranges, is_removed=lambda row: in_window(row, start), by_vector=by_vector
        )

    def renew(self, rows: list[Row]) -> None:
        """All rows are replaced, those of an earlier window."""
        self.rows = [replace(row, window=100, place=100 + row.place) for row in rows]
        self._commit(CommitKind.RESET, self.rows, is_removed=lambda _: True, is_overwrite=True)

    def compact(self) -> None:
        """All files become one, as maintenance writes them."""
        self._commit(CommitKind.MAINTENANCE, [], is_removed=lambda _: False, rewrites=True)

    def _commit(
        self,
        kind: CommitKind,
        rows: list[Row],
        *,
        start: int | None = None,
        ranges: tuple[Range, ...] = (),
        is_removed: Callable[[dict[str, Any]], bool] | None = None,
        by_vector: bool = False,
        rewrites: bool = False,
        is_overwrite: bool = False,
    ) -> None:
        snapshot = snapshot_of(self.table.path) or new_table(self.table.path, COLUMNS.stored, MAPPED)
        added = [self._write(snapshot, table_of(rows, KEY, snapshot.schema))] if rows else []
        removed, marked, kept_rows = list[DataFile](), [], list[pa.Table]()
        for file in snapshot.files if is_removed else ():
            columns_ = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
            dead = set(map(int, deletion_vectors.row_numbers(snapshot.path, file.deletion_vector)))
            hit = {at for at, row in enumerate(columns_.to_pylist()) if is_removed and is_removed(row)} - dead
            if not (hit or rewrites):
                continue
            alive = [at for at in range(len(columns_)) if at not in hit | dead]
            if by_vector and alive:
                vectors = deletion_vectors.write(snapshot.path, [BitMap64(hit | dead)], snapshot.configuration)
                marked += [(file, vectors[0])]
            else:
                removed.append(file)
                kept_rows.append(columns_.take(pa.array(alive, pa.int64())))
        remaining = pa.concat_tables(kept_rows) if kept_rows else None
        if remaining is not None and len(remaining):
            added.append(self._write(snapshot, remaining))
        commit = SilverCommit(
            at(self.stop),
            new_batch(),
            kind,
            start=None if start is None else at(start),
            ranges=ranges,
            is_overwrite=is_overwrite,
            definition=OLD,
        )
        commits.commit(
            snapshot,
            adds=added,
            removes=removed,
            dv_updates=marked,
            transaction=(APPLICATION, snapshot.version + 2),
            user_metadata=commit.to_json(),
        )

    def _write(self, snapshot: Snapshot, rows: pa.Table) -> DataFile:
        return data_files.write(snapshot.path, rows, snapshot.schema, snapshot.configuration)

    def work(self, replays: tuple[Range, ...] = ()) -> MergeJob:
        head = self.table.head()
        assert head is not None
        return MergeJob(
            "shop", NAME, COLUMNS, self.table, head, self.target, replays, mode=self.mode, has_feed=self.has_feed
        )

    def merge(self, replays: tuple[Range, ...] = ()) -> Merged | None:
        prepared = downstream_job.prepared(0, self.work(replays))
        if prepared is None:
            return None
        assert isinstance(prepared, PreparedMerge), prepared
        unit = prepared.unit
        assert isinstance(unit, DownstreamUnit)
        parts = 1 if unit.rewrites or unit.restatement else self.parts
        tasks = [replace(unit, part=part, parts=parts) for part in range(parts)]
        return downstream_job.commit(prepared, [*work(tasks)])

    def take(self, step: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Range, ...]:
        """Something that happens to silver; windows that are to be merged again."""
        start = draw(st.sampled_from([*range(100, max(200, self.stop), 100)]))
        match step:
            case "window":
                self.window(draw(windows()))
            case "load":
                self.load([replace(row, op=Op.LOAD) for row in draw(windows())])
            case "redo" | "vector" if start < self.stop:
                self.redo(start, draw(windows()), by_vector=step == "vector")
            case "compact":
                self.compact()
            case "renew":
                self.renew(draw(windows()))
            case "again":
                return (Range(at(start), at(start + 100)),)
        return ()

    @property
    def expected(self) -> State:
        by_key: dict[Any, Row] = {}
        for row in sorted(self.rows, key=lambda row: row.place):
            by_key[row.key] = row
        keeps = self.mode is Mode.SOFT_DELETE
        return {
            key[0]: (row.value, row.place, row.op == Op.DELETE)
            for key, row in by_key.items()
            if keeps or row.op != Op.DELETE
        }

    @property
    def target_state(self) -> State:
        rows = rows_of(newest(self.target.path))
        state = {row["id"]: (row["v"], row["_position"]["offset"], row.get("_deleted", False)) for row in rows}
        assert len(state) == len(rows), "a key is there twice"
        return state


def in_window(row: dict[str, Any], start: int) -> bool:
    return bool(row["_op"] != Op.LOAD and row["_window_start"]["offset"] == start)


@st.composite
def windows(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=5))
    ops = st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE])
    return [Row((key,), draw(st.integers(0, 99)), place, draw(ops)) for place, key in enumerate(keys)]


STEPS = st.sampled_from(["window", "window", "load", "redo", "vector", "compact", "renew", "merge", "again"])
