"""Random changes of two tables, and targets that are made of each of them, without Spark. Put here: the lake, its
merges in this process, and what the targets have by a loop over the changes. Not here: what tests ask of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, schema_changes
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.engine import change_job, downstream_job, fills, silver_job
from spark_jobs.engine.change_job import ChangedLog
from spark_jobs.engine.change_task import ChangeUnit
from spark_jobs.engine.downstream_job import PreparedMerge
from spark_jobs.engine.downstream_task import MergedFiles
from spark_jobs.engine.spark_job import Capacity
from spark_jobs.lake.commit import APPLICATION, CommitKind, Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.schema_evolution import OF_EXACT
from tests.segment_spec import Insert, Update
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
    """Whether targets are without deletion vectors."""

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
        self.changed_log = ChangedLog(snapshot, lambda _: self.rules)

    def target(self, name: TableName) -> Table:
        return Table(str(self.folder / "downstream" / name.table), plain=self.plain)

    def work(self, name: TableName, commits: int) -> MergeJob:
        """The merge of what silver has after so many commits: windows, and statements after them."""
        origin = self.silver[name]
        ((version, checkpoint),) = [entry for entry in origin.since(-1) if entry[0] == commits - 1]
        pinned = Head(version, version + 1, checkpoint)
        return MergeJob("shop", name, self.columns[name], origin, pinned, self.target(name), mode=self.mode)

    def truncate(self, name: TableName, **filled: Any) -> None:
        """TRUNCATE after all windows: the commit has a row that says so. filled: what later statements filled in."""
        table = newest(self.silver[name].path)
        end = Position(FILE, self.log.ends[-1])
        place = {"stretch": 1, "number": 1, "offset": end.offset}
        cells: dict[str, Any] = {"_op": "truncate", "_committed_at": datetime.fromtimestamp(9, UTC)}
        cells |= {"_position": place | {"row": -1}, "_window_start": place, "_window_stop": place} | filled
        rows = pa.Table.from_pylist(
            [{column: cells.get(column) for column in table.schema.names}], table.schema.arrow(physical=False)
        )
        file = data_files.write(table.path, rows, table.schema, table.configuration)
        self.statement(name, (), self.columns[name], files=(file,), emptied_at=end)

    def statement(
        self,
        name: TableName,
        steps: Sequence[str],
        columns: silver.Columns,
        *,
        files: Sequence[DataFile] = (),
        **says: Any,
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
        says |= {"kind": CommitKind.CHANGE, "steps": tuple(steps), "start": before.position, "position": behind}
        commit = replace(before, **says)
        commits.commit(
            table,
            adds=files,
            metadata=design.metadata,
            protocol=design.protocol,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=replace(commit, batch=new_batch()).to_json(),
        )
        self.columns[name] = columns

    def prepared(self, windows: int) -> list[PreparedMerge]:
        units = list[PreparedMerge]()
        for name in NAMES:
            unit = downstream_job.prepared(len(units), self.work(name, windows), None, self.changed_log)
            assert unit is None or isinstance(unit, PreparedMerge), unit
            units += [unit] if unit else []
        return units

    def merge(self, windows: int, capacity: Capacity) -> tuple[list[Merged], int]:
        """Merges both tables; what came of it, and in how many tasks."""
        units = [self.valued(unit) for unit in self.prepared(windows)]
        changes = [(unit.work.name, unit.unit) for unit in units if isinstance(unit.unit, ChangeUnit)]
        tasks = change_job.tasks_of(changes, self.changed_log, capacity)
        results: dict[int, list[MergedFiles]] = {number: [] for number in range(len(units))}
        for result in (result for task in tasks for result in downstream_job.work(task)):
            assert result.error is None
            results[result.unit].append(result)
        return [downstream_job.commit(unit, results[unit.unit.number]) for unit in units], len(tasks)

    def valued(self, unit: PreparedMerge) -> PreparedMerge:
        """The unit with 7 in the columns that statements fill."""
        values = dict.fromkeys((fill.sql for fill in unit.unit.fills), pa.scalar(7, pa.int32()))
        return replace(unit, unit=replace(unit.unit, fills=fills.valued(unit.unit.fills, values)))

    def rows(self, name: TableName) -> list[tuple[Any, ...]]:
        """In the log's order operation, cells, and of versions whether they are current."""
        rows = rows_of(newest(self.target(name).path))
        rows.sort(key=lambda row: (*row["_position"].values(), row["_op"] != "delete"))
        return [
            (row["_op"], (row["id"], row["v"]), *([row["_is_current"]] if "_is_current" in row else [])) for row in rows
        ]

    def expected(self, name: TableName, windows: int) -> list[tuple[Any, ...]]:
        """The same by a loop over the changes."""
        bounds = [*self.cuts, len(self.log.ends)]
        ignored = self.rules.ignored_kinds()
        events: list[tuple[str, Cells]] = []
        current: dict[int, int] = {}
        is_history = self.mode is Mode.HISTORY
        for change in self.log.changes(name, 0, bounds[windows - 1]):
            op = "insert" if isinstance(change, Insert) else "update" if isinstance(change, Update) else "delete"
            if {"insert": 1, "update": 2, "delete": 3}[op] in ignored:
                continue
            before = (
                None
                if isinstance(change, Insert)
                else tuple(change.before if isinstance(change, Update) else change.row)
            )
            after = tuple(change.after) if isinstance(change, Update) else tuple(change.row)
            if before and is_history:
                current.pop(before[0], None)
                if isinstance(change, Update) and before[0] != after[0]:
                    events.append(("delete", before))
            if op != "delete":
                current[after[0]] = len(events)
            events.append((op, after))
        if not is_history:
            return list(events)
        return [(*event, nth in current.values()) for nth, event in enumerate(events)]

    def marked(self, name: TableName) -> int:
        """Rows of the target that deletion vectors mark."""
        files = newest(self.target(name).path).files
        return int(np.sum([file.deletion_vector.cardinality for file in files if file.deletion_vector]))
