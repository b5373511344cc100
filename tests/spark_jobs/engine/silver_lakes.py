"""A silver table whose commits tests write: windows done again, loads, renewals; and the table it is merged into.

Put here: those, and what the target is to be of the rows. Not here: what tests do with them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import strategies as st
from pyroaring import BitMap64

from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, deletion_vectors, schema_changes
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.fills import ColumnFill, rewritten_with_fills
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import FROM_SERVER, Columns, Op
from tests.binlogs.timelines import NAME, OLD
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, newest, rows_of, table_of

KEY = ("id",)
State = dict[int, tuple[int | None, int, bool, tuple[tuple[str, int], ...]]]
"""By key its value and position, whether it is marked as deleted, and values of added columns."""


@dataclass
class Silver:
    """A silver table whose commits are written here, its rows beside it, and the table that it is merged into."""

    folder: Path
    rows: list[Row] = field(default_factory=list)
    stop: int = 100
    mode: Mode = Mode.MIRROR
    has_feed: bool = False
    task_bytes: int = 32 << 20
    """Bytes of files from which on a merge is several tasks."""
    floor: int | None = None
    truncations: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [100])
    """Of the windows that can be done again: those of rows."""
    value: str = "v"
    """What the value's column is called."""
    added_columns: int = 0
    plain: bool = False

    def __post_init__(self) -> None:
        self.table = Table(str(self.folder / "silver"), plain=False)
        self.target = Table(str(self.folder / "target"), plain=self.plain)

    def window(self, rows: list[Row]) -> None:
        start, self.stop = self.stop, self.stop + 100
        self.starts = sorted({*self.starts, start})
        window_rows = [replace(row, window=start, position=start + row.position) for row in rows]
        self.rows += window_rows
        self._commit_rows(CommitKind.LIVE, window_rows, start=start)

    def truncate(self) -> None:
        """A statement that empties the table: a row and a window of its own."""
        start, self.stop = self.stop, self.stop + 100
        self.floor = start
        self.truncations.append(start)
        marker = Row((None,), None, start, Op.TRUNCATE, start)
        self._commit_rows(CommitKind.CHANGE, [marker], start=start)

    def statement(self, steps: list[str], fill: tuple[str, int] | None = None) -> None:
        """A statement that changes columns; rows that are there get a value where it fills one."""
        start, self.stop = self.stop, self.stop + 100
        snapshot = newest(self.table.path)
        design = schema_changes.apply(snapshot, steps)
        added, removed = list[DataFile](), list[DataFile]()
        if fill:
            name, number = fill
            self.rows = [replace(row, further=(*row.further, fill)) for row in self.rows]
            filled = ColumnFill(design.schema.column(name), f"{number}", pa.scalar(number, pa.int32()))
            removed = [*snapshot.files]
            for file in removed:
                added += rewritten_with_fills(snapshot.path, file, snapshot.schema, snapshot.configuration, [filled])
            steps = [*steps, f"UPDATE SET `{name}` = CAST({number} AS INT)"]
        commits.commit(
            snapshot,
            adds=added,
            removes=removed,
            metadata=design.metadata,
            protocol=design.protocol,
            transaction=(APPLICATION, snapshot.version + 2),
            user_metadata=replace(self._commit_of(CommitKind.CHANGE, start), steps=tuple(steps)).to_json(),
        )

    def rename(self) -> None:
        old, self.value = self.value, "x" if self.value == "v" else "v"
        self.statement([f"RENAME COLUMN `{old}` TO `{self.value}`"])

    def add_column(self) -> None:
        self.added_columns += 1
        name = f"f{self.added_columns}"
        self.statement([f"ADD COLUMN (`{name}` INT AFTER `{self.value}`)"], (name, self.added_columns))

    def load(self, rows: list[Row]) -> None:
        """Rows that count as older than all windows; a second load of a key is of the same state or a later one."""
        loaded = [replace(row, op=Op.LOAD, window=50, position=50) for row in rows]
        loaded_keys = {row.key for row in self.rows if row.op == Op.LOAD}
        loaded = [row for row in loaded if row.key not in loaded_keys]
        self.rows += loaded
        self._commit_rows(CommitKind.LOAD, loaded, start=self.stop)

    def mend(self, rows: list[Row]) -> None:
        """Rows that count as newer than all windows, and as older than all that follow."""
        offset = self.stop - 1
        ops = {Op.DELETE: Op.MEND_DELETE}
        mended_keys = {row.key for row in self.rows if row.position == offset}
        mended = [
            replace(row, op=ops.get(Op(row.op), Op.MEND), window=offset, position=offset)
            for row in rows
            if row.key not in mended_keys
        ]
        self.rows += mended
        self._commit_rows(CommitKind.MEND, mended, start=self.stop)

    def redo(self, start: int, rows: list[Row], *, by_vector: bool) -> None:
        """A window's rows are replaced; of files that hold others too they are marked, or these are written again."""
        replayed = [replace(row, window=start, position=start + row.position) for row in rows]
        self.rows = [row for row in self.rows if row.op in FROM_SERVER or row.window != start] + replayed
        ranges = (Range(at(start), at(start + 100)),)
        self._commit_rows(
            CommitKind.REDO, replayed, ranges=ranges, is_removed=lambda row: in_window(row, start), by_vector=by_vector
        )

    def renew(self, rows: list[Row]) -> None:
        """All rows are replaced, those of an earlier window."""
        self.floor, self.truncations, self.starts = None, [], [100]
        self.rows = [replace(row, window=100, position=100 + row.position) for row in rows]
        self._commit_rows(CommitKind.RESET, self.rows, is_removed=lambda _: True, is_overwrite=True)

    def compact(self) -> None:
        """All files become one, as maintenance writes them."""
        self._commit_rows(CommitKind.MAINTENANCE, [], is_removed=lambda _: False, rewrites=True)

    def _commit_rows(
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
        snapshot = snapshot_of(self.table.path) or new_table(self.table.path, self.columns.stored, MAPPED)
        added = [self._write_rows(snapshot, table_of(rows, KEY, snapshot.schema, self.value))] if rows else []
        removed, marked, kept_rows = list[DataFile](), [], list[pa.Table]()
        for file in snapshot.files if is_removed else ():
            table_columns = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
            dead = set(map(int, deletion_vectors.row_numbers(snapshot.path, file.deletion_vector)))
            hit = {at for at, row in enumerate(table_columns.to_pylist()) if is_removed and is_removed(row)} - dead
            if not (hit or rewrites):
                continue
            alive = [at for at in range(len(table_columns)) if at not in hit | dead]
            if by_vector and alive:
                vectors = deletion_vectors.write(snapshot.path, [BitMap64(hit | dead)], snapshot.configuration)
                marked += [(file, vectors[0])]
            else:
                removed.append(file)
                kept_rows.append(table_columns.take(pa.array(alive, pa.int64())))
        remaining = pa.concat_tables(kept_rows) if kept_rows else None
        if remaining is not None and len(remaining):
            added.append(self._write_rows(snapshot, remaining))
        commit = replace(self._commit_of(kind, start), ranges=ranges, is_overwrite=is_overwrite)
        commits.commit(
            snapshot,
            adds=added,
            removes=removed,
            dv_updates=marked,
            transaction=(APPLICATION, snapshot.version + 2),
            user_metadata=commit.to_json(),
        )

    def _commit_of(self, kind: CommitKind, start: int | None) -> SilverCommit:
        return SilverCommit(
            at(self.stop),
            new_batch(),
            kind,
            start=None if start is None else at(start),
            definition=OLD,
            emptied_at=None if self.floor is None else at(self.floor),
        )

    @property
    def columns(self) -> Columns:
        further = {f"f{number}": "INT" for number in range(self.added_columns, 0, -1)}
        return Columns({"id": "INT", self.value: "INT"} | further, KEY)

    def _write_rows(self, snapshot: Snapshot, rows: pa.Table) -> DataFile:
        return data_files.write(snapshot.path, rows, snapshot.schema, snapshot.configuration)

    def work(self, replays: tuple[Range, ...] = ()) -> MergeJob:
        head = self.table.head()
        assert head is not None
        return MergeJob(
            "shop", NAME, self.columns, self.table, head, self.target, replays, mode=self.mode, has_feed=self.has_feed
        )

    def merge(self, replays: tuple[Range, ...] = ()) -> Merged | None:
        prepared = downstream_job.prepared(0, self.work(replays))
        if prepared is None:
            return None
        assert isinstance(prepared, PreparedMerge), prepared
        results = in_this_process([prepared], Capacity(1, self.task_bytes))[0]
        assert not [result for result in results if result.error or result.stopped]
        return downstream_job.commit(prepared, results)

    def take(self, step: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Range, ...]:
        """Something that happens to silver; windows that are to be merged again."""
        start = draw(st.sampled_from(self.starts))
        match step:
            case "window":
                self.window(draw(windows()))
            case "load" | "mend":
                {"load": self.load, "mend": self.mend}[step](draw(windows()))
            case "redo" | "vector" if start < self.stop:
                self.redo(start, draw(windows()), by_vector=step == "vector")
            case "compact":
                self.compact()
            case "renew":
                self.renew(draw(windows()))
            case "truncate":
                self.truncate()
            case "rename":
                self.rename()
            case "add":
                self.add_column()
            case "again":
                return (Range(at(start), at(start + 100)),)
        return ()

    @property
    def expected(self) -> State:
        """The newest row of each key since the last TRUNCATE; where deleted rows stay, what deleted them last."""
        keeps = self.mode is Mode.SOFT_DELETE
        state: State = {}
        for row in sorted(self.rows, key=lambda row: row.position):
            ends = [offset for offset in self.truncations if offset > row.position]
            is_delete = row.op in (Op.DELETE, Op.MEND_DELETE)
            is_deleted = is_delete or bool(ends)
            offset = ends[0] if ends and not is_delete else row.position
            state[row.key[0]] = (row.value, offset, is_deleted, row.further)
        return {key: cells for key, cells in state.items() if keeps or not cells[2]}

    @property
    def target_state(self) -> State:
        rows = rows_of(newest(self.target.path))
        names = [f"f{number + 1}" for number in range(self.added_columns)]
        state: State = {}
        for row in rows:
            further = tuple((name, row[name]) for name in names if row[name] is not None)
            state[row["id"]] = (row[self.value], row["_position"]["offset"], row.get("_deleted", False), further)
        assert len(state) == len(rows), "a key is there twice"
        return state


def in_this_process(units: list[PreparedMerge], capacity: Capacity) -> dict[int, list[MergedFiles]]:
    """What the job's tasks do, one after the other."""

    def run(_: Any, tasks: Sequence[Any], work: Callable[[Any], Any], *_rest: Any) -> list[Any]:
        return [result for task in tasks for result in work(task)]

    with (
        patch.object(spark_job, "run", run),
        patch.object(fills, "values_by_expression", evaluated),
        patch.object(downstream_job, "_LEAST_TASK_BYTES", 1),
    ):
        return downstream_job.run(None, units, capacity)  # type: ignore[arg-type]


def evaluated(expressions: Iterable[str]) -> dict[str, pa.Scalar]:
    """Values of the literals that statements fill columns with."""
    numbers = {sql: int("".join(letter for letter in sql if letter.isdigit())) for sql in expressions}
    return {sql: pa.scalar(number, pa.int32()) for sql, number in numbers.items()}


def in_window(row: dict[str, Any], start: int) -> bool:
    return bool(row["_op"] not in FROM_SERVER and row["_window_start"]["offset"] == start)


@st.composite
def windows(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=5))
    ops = st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE])
    return [Row((key,), draw(st.integers(0, 99)), offset, draw(ops)) for offset, key in enumerate(keys)]


STEPS = st.sampled_from(
    [
        *("window", "window", "load", "mend", "redo", "vector", "compact", "renew", "truncate", "rename", "add"),
        *("merge", "again"),
    ]
)
