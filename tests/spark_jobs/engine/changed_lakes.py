"""Random changes of two tables, and targets that are made of each of them, without Spark. Put here: the lake, its
merges in this process, and what the targets have by a loop over the changes. Not here: what tests ask of them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, schema_changes
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.engine.changes import change_job
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity, ShuffleBlock
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.rows import fills
from spark_jobs.engine.silver import silver_job
from spark_jobs.lake.commit import APPLICATION, CommitKind, Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import LoadedRows, SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.positions import LOADED_ROW, STATEMENT_ROW
from spark_jobs.silver.schema_evolution import OF_EXACT
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.segment_spec import Delete, Insert, Update
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import FILE, NAMES, carried_out, definition, log_of, units_of, works_of

Cells = tuple[Any, ...]


@dataclass
class ChangedLake:
    """A log in bronze, its windows in silver, and a target of each table with a mode."""

    folder: Path
    mode: Mode
    cuts: Sequence[int]
    seed: int = 0
    count: int = 12
    rules: TableFilters = field(default_factory=TableFilters)
    plain: bool = False
    """True if targets are without deletion vectors."""
    has_feed: bool = False
    """True if targets have a change data feed."""
    loads: dict[TableName, tuple[int, Sequence[Cells]]] = field(default_factory=dict)
    """What was loaded last, and after how many transactions."""

    def __post_init__(self) -> None:
        self.log = log_of(Random(self.seed), self.count)
        works, index = works_of(self.log, self.folder, self.cuts)
        bronze = works[0].window.table
        results, _ = carried_out(bronze.path, units := units_of(works, index), Capacity(2))
        for unit in units:
            silver_job.commit(unit, results[unit.unit.number])
        self.silver = {work.name: work.table for work in works}
        self.columns = {name: silver.columns(definition(name)) for name in NAMES}
        end = Position(FILE, len(self.log.content))
        commit = BronzeCommit(end, "b", begin=Position(FILE, 0))
        snapshot = BronzeSnapshot("shop", bronze, Head(works[0].window.version, 1, commit), commit)
        self.changed_log = ChangedLog(snapshot, lambda _: self.rules, self.replayed)

    def target(self, name: TableName) -> Table:
        return Table(str(self.folder / "downstream" / name.table), plain=self.plain)

    def work(self, name: TableName, commits: int) -> MergeJob:
        """The merge of what silver has after so many commits: windows, and statements after them."""
        origin = self.silver[name]
        ((version, checkpoint),) = [entry for entry in origin.since(-1) if entry[0] == commits - 1]
        pinned = Head(version, version + 1, checkpoint)
        target = self.target(name)
        return MergeJob(
            "shop", name, self.columns[name], origin, pinned, target, mode=self.mode, has_feed=self.has_feed
        )

    def truncate(self, name: TableName, **filled: Any) -> None:
        """TRUNCATE after all windows: the commit has a row that says so. filled: what later statements filled in."""
        self._emptied(name, [filled])

    def rename(self, name: TableName, rows: Sequence[Cells]) -> None:
        """After all windows another table takes the name, with its rows."""
        types = self.columns[name].types
        inherited = [dict(zip(types, row, strict=True)) | {"_op": "rename", "_committed_at": None} for row in rows]
        self._emptied(name, [{}], inherited, inherited_from="shop.other")

    def _emptied(self, name: TableName, *files: Sequence[dict[str, Any]], **answers: Any) -> None:
        """A statement after all windows that empties the table. files: what rows of its commit have besides."""
        table = newest(self.silver[name].path)
        end = Position(FILE, self.log.ends[-1])
        position = {"stretch": 1, "number": 1, "offset": end.offset}
        cells: dict[str, Any] = {"_op": "truncate", "_committed_at": datetime.fromtimestamp(9, UTC)}
        cells |= {"_window_start": position, "_window_stop": position}
        schema, added = table.schema.arrow(physical=False), list[DataFile]()
        for rows in files:
            of_rows = [cells | row for row in rows]
            positions = [position | {"row": STATEMENT_ROW if row["_op"] == "truncate" else 0} for row in of_rows]
            all_cells = [row | {"_position": at} for row, at in zip(of_rows, positions, strict=True)]
            records = [{column: row.get(column) for column in schema.names} for row in all_cells]
            added.append(
                data_files.write(table.path, pa.Table.from_pylist(records, schema), table.schema, table.configuration)
            )
        self.statement(name, (), self.columns[name], files=added, emptied_at=end, **answers)

    def statement(
        self,
        name: TableName,
        steps: Sequence[str],
        columns: silver.Columns,
        *,
        files: Sequence[DataFile] = (),
        **answers: Any,
    ) -> None:
        """A statement on a table after all windows. files: what its commit adds."""
        table = newest(self.silver[name].path)
        plain, _ = fills.split(step for step in steps if not step.endswith(OF_EXACT))
        design = schema_changes.apply(table, plain)
        head = self.silver[name].head()
        assert head
        assert head.checkpoint
        before = SilverCommit.of(head.checkpoint)
        behind = replace(before.position, offset=before.position.offset + 50)
        answers |= {
            "ranges": (),
            "kind": CommitKind.CHANGE,
            "steps": tuple(steps),
            "start": before.position,
            "position": behind,
        }
        commit = replace(before, **answers)
        commits.commit(
            table,
            adds=files,
            metadata=design.metadata,
            protocol=design.protocol,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=replace(commit, batch=new_batch()).to_json(),
        )
        self.columns[name] = columns

    def load(self, name: TableName, after: int, rows: Sequence[Cells]) -> None:
        """Rows that a load read after some transactions."""
        table = newest(self.silver[name].path)
        position = {"stretch": 1, "number": 1, "offset": self.log.starts[after]}
        cells: dict[str, Any] = {"_op": "load", "_committed_at": datetime.fromtimestamp(1, UTC)}
        cells |= {"_position": position | {"row": LOADED_ROW}, "_window_start": position, "_window_stop": position}
        loaded = [cells | dict(zip(self.columns[name].types, row, strict=True)) for row in rows]
        schema = table.schema.arrow(physical=False)
        all_cells = [{column: row.get(column) for column in schema.names} for row in loaded]
        file = data_files.write(table.path, pa.Table.from_pylist(all_cells, schema), table.schema, table.configuration)
        begin = Position(FILE, self.log.starts[after])
        answers: dict[str, Any] = {"kind": CommitKind.LOAD, "steps": None, "log_bytes": None}
        self._commit_silver(name, files=(file,), loaded=LoadedRows(len(rows), begin, begin), **answers)
        self.loads[name] = after, rows

    def redo(self, name: TableName, first: int, stop: int) -> None:
        """Windows that a backfill replaced, between some of the cuts."""
        bounds = [0, *self.cuts, len(self.log.ends)]
        ranges = tuple(self.log.range(*pair) for pair in pairwise(bounds[first : stop + 1]))
        self._commit_silver(name, kind=CommitKind.REDO, ranges=ranges, steps=None)

    def _commit_silver(
        self, name: TableName, files: Sequence[DataFile] = (), *, removes: Sequence[DataFile] = (), **answers: Any
    ) -> None:
        """A commit of silver at the position that it has."""
        table, head = newest(self.silver[name].path), self.silver[name].head()
        assert head
        assert head.checkpoint
        fresh: dict[str, Any] = {"ranges": (), "loaded": None}
        commit = replace(SilverCommit.of(head.checkpoint), **(fresh | answers), batch=new_batch())
        commits.commit(
            table,
            adds=files,
            removes=removes,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=commit.to_json(),
        )

    def replayed(self, work: MergeJob, log_range: Range | None) -> CompactionJob | None:
        """As the pipeline plans it from the log: windows in a range, and the statements after all of them."""
        bounds = [0, *self.cuts, len(self.log.ends)]
        windows = [self.log.range(*pair) for pair in pairwise(bounds)]
        touched = tuple(window for window in windows if log_range is None or window.overlaps(log_range))
        steps = [DataRange(window, TableState(definition(work.name))) for window in windows]
        snapshot = self.changed_log.snapshot
        window = Window(snapshot.table, snapshot.version, touched)
        return CompactionJob("shop", work.name, window, steps, work.origin, work.pinned, 9, self.rules)

    def prepared(self, windows: int, names: Sequence[TableName] = NAMES) -> list[PreparedMerge]:
        units = list[PreparedMerge]()
        for name in names:
            unit = downstream_job.prepared(len(units), self.work(name, windows), None, self.changed_log)
            assert unit is None or isinstance(unit, PreparedMerge), unit
            units += [unit] if unit else []
        return units

    def merge(self, windows: int, capacity: Capacity, names: Sequence[TableName] = NAMES) -> tuple[list[Merged], int]:
        """Merges tables; what came of it, and in how many tasks. windows: commits of silver that are merged."""
        units = self.prepared(windows, names)
        counts: list[int] = []

        def run(_spark: Any, tasks: Sequence[Any], work: Any, finish: Any = None, buckets: int = 0) -> list[Any]:
            counts.append(len(tasks))
            return in_this_process(tasks, work, finish, buckets)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(spark_job, "run", run)
            patched.setattr(fills, "values_by_expression", lambda texts: dict.fromkeys(texts, pa.scalar(7, pa.int32())))
            results = downstream_job.run(None, units, capacity, self.changed_log)  # type: ignore[arg-type]
        for result in (result for unit_results in results.values() for result in unit_results):
            assert (result.error, result.stopped) == (None, None)
        return [downstream_job.commit(unit, results[unit.unit.number]) for unit in units], counts[0]

    def rows(self, name: TableName) -> list[tuple[Any, ...]]:
        """In the log's order operation, cells, and of versions whether they are current."""
        rows = rows_of(newest(self.target(name).path))
        rows.sort(key=lambda row: (*row["_position"].values(), row["_op"] != "delete", row["id"] or 0))
        return [
            (row["_op"], (row["id"], row["v"]), *([row["_is_current"]] if "_is_current" in row else [])) for row in rows
        ]

    def expected(
        self, name: TableName, windows: int, ignored: Callable[[int], Collection[str]] | None = None
    ) -> list[tuple[Any, ...]]:
        """The same by a loop over the changes. ignored: kinds that rules filter, by the number of the transaction."""
        stop = [*self.cuts, len(self.log.ends)][windows - 1]
        by_rules = [("insert", "update", "delete")[number - 1] for number in self.rules.ignored_kinds()]
        events: list[tuple[str, Cells]] = []
        current: dict[int, int] = {}
        after, loaded = self.loads.get(name, (0, ()))
        for number in range(stop + 1):
            for row in loaded if number == after else ():
                current[row[0]] = len(events)
                events.append(("load", row))
            for change in self.log.changes(name, number, number + 1) if number < stop else ():
                op = "insert" if isinstance(change, Insert) else "update" if isinstance(change, Update) else "delete"
                if op not in (ignored(number) if ignored else by_rules):
                    self._add_change(events, current, change)
        if self.mode is not Mode.HISTORY:
            return list(events)
        return [(*event, nth in current.values()) for nth, event in enumerate(events)]

    def _add_change(
        self, events: list[tuple[str, Cells]], current: dict[int, int], change: Insert | Update | Delete
    ) -> None:
        """A change, as rows of the target. current: the number of the current version of each key."""
        is_history = self.mode is Mode.HISTORY
        op, before, after = "delete", None, None
        if isinstance(change, Insert):
            op, after = "insert", tuple(change.row)
        elif isinstance(change, Update):
            op, before, after = "update", tuple(change.before), tuple(change.after)
        else:
            before = tuple(change.row)
        if before and is_history:
            current.pop(before[0], None)
            if after and before[0] != after[0]:
                events.append(("delete", before))
        if after:
            current[after[0]] = len(events)
        events.append((op, after or before or ()))

    def deleted_count(self, name: TableName) -> int:
        """Rows of the target that deletion vectors mark."""
        files = newest(self.target(name).path).files
        return int(np.sum([file.deletion_vector.cardinality for file in files if file.deletion_vector]))


def in_this_process(tasks: Sequence[Any], work: Any, finish: Any, buckets: int) -> list[Any]:
    """As ``spark_job.run``: the results of tasks, and of the second step over the blocks that they send."""
    results: list[Any] = []
    blocks: dict[int, list[ShuffleBlock]] = {bucket: [] for bucket in range(buckets)}
    for outcome in (outcome for task in tasks for outcome in work(task)):
        if isinstance(outcome, ShuffleBlock):
            blocks[outcome.bucket].append(outcome)
        else:
            results.append(outcome)
    return [*results, *(result for pieces in blocks.values() for result in finish(iter(pieces)))]


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are several tasks', and versions several buckets', however little there is."""
    monkeypatch.setattr(change_job, "_VERSIONS_BYTES", 1_000)
    monkeypatch.setattr(change_job, "_LEAST_TASK_BYTES", 500)
    monkeypatch.setattr(change_job, "_UNIT_BYTES", 0)
