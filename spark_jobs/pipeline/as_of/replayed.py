"""Tables compacted and merged up to a position in a scratch lake, as after a run that ended there.

Put here: the work on a scratch lake, by the engine's own functions in this process. Not here: which state it begins
with (bases.py), reading the result (table_rows.py), or which tables are asked for (request.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.publication import Entry
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.errors import LakeError, StratalogError, TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position
from spark_jobs.pipeline.as_of.bases import Base
from spark_jobs.pipeline.as_of.scratch import ScratchLake
from spark_jobs.pipeline.planner import Plan, Planner
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.table_timeline import DataRange
from spark_jobs.text.codes import uncoded

_CAPACITY = Capacity(slots=1, task_bytes=256 << 20)
"""One task after the other: a range of keys that several would share is read once."""


@dataclass(frozen=True, slots=True)
class CompactedTable:
    """Silver of a table at the position, in the scratch lake. head: None where it has no row and no statement.

    has_one_shape: whether the log between its base and the position has rows alone, and all of their columns.
    """

    name: TableName
    head: Head | None
    has_one_shape: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """The work on tables of a source up to a position."""

    pipeline: Pipeline
    lake: ScratchLake
    snapshot: BronzeSnapshot
    at: Position

    def compacted(self, bases: Mapping[TableName, Base | None]) -> Iterator[CompactedTable | tuple[TableName, str]]:
        """Compact tables upon their bases; of a table that cannot be, its name and the reason."""
        # One plan and one job for all tables, as in a run; a table that fails does not stop the others.
        planned = self._plan(bases)
        jobs = {work.name: work for work in planned.work}
        index = planned.index.cut({cut for work in planned.work for cut in work.window.cuts}) if planned.index else None
        preparation = silver_plan.prepared(planned.work, index) if index else silver_plan.Preparation()
        errors: dict[TableName, StratalogError] = dict(preparation.errors)
        if index and preparation.units:
            completed, refused = silver_job.run_until_stopped(
                TASKS_HERE, index, self.snapshot.table.path, preparation.units, _CAPACITY
            )
            errors |= {unit.work.name: error for unit, error in refused}
            for unit, results in completed:
                try:
                    compacted = silver_job.commit(unit, results)
                except TableStopped as error:
                    errors[unit.work.name] = error
                    continue
                if compacted.stopped:
                    errors[unit.work.name] = TableStopped(compacted.stopped.reason)
        for name in bases:
            if name in planned.stopped or name in errors:
                yield name, uncoded(planned.stopped.get(name) or str(errors[name]))
                continue
            table = self.lake.silver(self.snapshot.source, name.schema, name.table)
            has_one_shape = _has_rows_alone(jobs.get(name)) and silver.ABSENT not in table.columns()
            yield CompactedTable(name, table.head(), has_one_shape)

    def merge(self, tables: Sequence[CompactedTable]) -> None:
        """Merge silver of tables into their current rows. Raises TableStopped, LakeError."""
        # Always as a mirror of the source's table, whatever its downstream tables keep.
        units = []
        for number, table in enumerate(tables):
            origin = self.lake.silver(self.snapshot.source, table.name.schema, table.name.table)
            assert table.head
            work = MergeJob(
                source=self.snapshot.source,
                name=table.name,
                columns=silver.stored_columns(origin, table.head),
                origin=origin,
                pinned=table.head,
                target=self.lake.merged(table.name),
            )
            unit = downstream_job.prepared(number, work)
            units += [unit] if unit else []
        results = downstream_job.run(TASKS_HERE, units, _CAPACITY)
        for unit in units:
            merged = results[unit.unit.number]
            stopped = next((result.stopped for result in merged if result.stopped), None)
            error = next((result.error for result in merged if result.error), None)
            if stopped or error:
                raise stopped or LakeError(error)
            downstream_job.commit(unit, merged)

    def _plan(self, bases: Mapping[TableName, Base | None]) -> Plan:
        """Plan of the log between the bases and the position. Without a base, from the beginning of bronze."""
        end = replace(self.snapshot, checkpoint=replace(self.snapshot.checkpoint, position=self.at))
        is_anew = any(base is None for base in bases.values())
        positions = [base.commit.position for base in bases.values() if base]
        surveyed = self.snapshot.oldest if is_anew else min(positions)
        planner = Planner(self.pipeline, self.lake, end, frozenset(bases), surveyed)
        return planner.plan([self._entry(name, base) for name, base in bases.items()], frozenset({self.at}))

    def _entry(self, name: TableName, base: Base | None) -> Entry:
        entry = Entry(self.snapshot.source, name.schema, name.table, "current")
        if base is None:
            return entry
        position = str(base.commit.position)
        return replace(
            entry, position=position, surveyed=position, silver_version=base.version, resets=base.commit.resets
        )


def _has_rows_alone(work: CompactionJob | None) -> bool:
    return work is None or all(isinstance(step, DataRange) for step in work.steps)
