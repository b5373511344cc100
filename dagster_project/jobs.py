"""Jobs of the code location, each a verb for a selection of assets.

Put here: which assets a job takes in, and its tags. Not here: when it runs (sensors.py, schedules.py).

Checks are left out: a run that has them in its plan blanks the results of those that it has nothing to say about.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.catalog import AssetCatalog
from assets.checks.equals_source import check_keys
from assets.checks.integrity import audit_keys
from assets.lineage import Lineage
from assets.steps import SOURCE_TAG
from dagster_project.ops.backfill_range import FORM, branch, check_step, range_step
from dagster_project.ops.forms import form_of
from dagster_project.ops.load import load_step
from dagster_project.ops.maintenance import maintain_step
from dagster_project.ops.mend import mend_step
from dagster_project.ops.table_at import STEP, table_at_step

if TYPE_CHECKING:  # Dagster has no public name for what define_asset_job returns
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

ALL = "sync"
MAINTENANCE = "maintenance"
VERIFY = "verify"
AUDIT = "audit"
BACKFILL = "backfill_range"
TABLE_AT = "table_at"

# run_monitoring cannot tell a run whose host died from one that works, and ends both after its limit of hours.
_NO_LIMIT = {dg.MAX_RUNTIME_SECONDS_TAG: "0"}
"""Tag of runs that are in no pool and keep nothing else from running."""
_A_DAY = {dg.MAX_RUNTIME_SECONDS_TAG: "86400"}
"""Tag of runs that may take long in their source's pool, in which runs of the source wait for them."""


class Jobs:
    """The jobs of a pipeline: their names in its code location, and the executor of their runs.

    executor: ``in_process_executor`` has the steps of a run share a process, and so a Spark session; None takes the
    code location's.
    """

    def __init__(self, graph: Sequence[Lineage], catalog: AssetCatalog, executor: dg.ExecutorDefinition | None) -> None:
        self.graph = graph
        self.catalog = catalog
        self._pipeline = catalog.pipeline
        self._executor = executor

    def name(self, job: str) -> str:
        return self.catalog.name(job)

    def sync_name(self, source: str) -> str:
        return self.name(f"{ALL}_{source}")

    def job_names(self, source: str) -> list[str]:
        """The names of the jobs that work on a source."""
        return [self.sync_name(source), self.name(ALL)]

    def syncing(self) -> list[str]:
        """The names of the jobs that sync a source, or all."""
        return sorted({name for lineage in self.graph for name in self.job_names(lineage.source)})

    def all_sources(self) -> "UnresolvedAssetJobDefinition":
        """Everything, in one process and one Spark session."""
        keys = [key for lineage in self.graph for key in lineage.keys]
        return dg.define_asset_job(
            self.name(ALL),
            selection=dg.AssetSelection.assets(*keys).without_checks(),
            description="All sources: extract, compact, merge and publish, up to the end of each log.",
            executor_def=self._executor,
        )

    def one_source(self, lineage: Lineage) -> "UnresolvedAssetJobDefinition":
        """One source, from its log to its downstream tables."""
        return dg.define_asset_job(
            self.sync_name(lineage.source),
            selection=dg.AssetSelection.assets(*lineage.keys).without_checks(),
            tags={SOURCE_TAG: lineage.source},
            description=f"{lineage.source}: extract, compact, merge and publish, up to the end of its log.",
            executor_def=self._executor,
        )

    def load(self, lineage: Lineage) -> dg.JobDefinition:
        """The tables of one source that are older than its log; for sources that are servers.

        Without the source's tag, of which the queue starts one run at a time: runs of the source continue meanwhile.
        """
        description = (
            f"Initial load: reads the rows of {lineage.source} from before its log. tables: names or patterns; none "
            "means all tables that are not complete."
        )
        return self._table_job("load", load_step(self._pipeline, lineage), lineage, description, _NO_LIMIT)

    def mend(self, lineage: Lineage) -> dg.JobDefinition:
        """The rows of one source that are not its server's; for sources that are servers."""
        description = (
            f"Puts the rows of {lineage.source} in the place of those that differ. Without apply: true it only says "
            "which."
        )
        tags = {SOURCE_TAG: lineage.source} | _A_DAY
        return self._table_job("mend", mend_step(self._pipeline, lineage), lineage, description, tags)

    def _table_job(
        self, verb: str, op: dg.OpDefinition, lineage: Lineage, description: str, tags: Mapping[str, str]
    ) -> dg.JobDefinition:
        """A job of one step, whose configuration names tables of a source.

        The step is called by the verb in its run alone: a code location has each name once, and a source may be called
        as another one's job is, ``shop_tables``.
        """
        name = f"{verb}_{lineage.source}"
        step = op.alias(name)

        @dg.job(
            name=self.name(f"{name}_tables"),
            tags=tags,
            config=form_of(op, name),
            description=description,
            executor_def=self._executor,
        )
        def job() -> None:
            step()

        return job

    def deliver(self, name: str, assets: dg.AssetsDefinition) -> "UnresolvedAssetJobDefinition":
        """The tables of one delivery."""
        return dg.define_asset_job(
            self.name(f"deliver_{name}"),
            selection=dg.AssetSelection.assets(*assets.keys),
            description=f"Writes to the target of {name} what it lacks, up to what is published.",
            executor_def=self._executor,
        )

    def maintenance(self) -> dg.JobDefinition:
        """Every table of every source, one source after the other; each waits for its source's pool."""
        steps = [maintain_step(self._pipeline, lineage).alias(f"maintain_{lineage.source}") for lineage in self.graph]

        @dg.job(
            name=self.name(MAINTENANCE),
            tags=_A_DAY,
            description="Removes log that retention allows, rewrites small files, removes unneeded files.",
            executor_def=self._executor,
        )
        def job() -> None:
            for step in steps:
                step()

        return job

    def verification(self) -> "UnresolvedAssetJobDefinition":
        """The checks that compare downstream tables with their sources, and nothing else."""
        keys = [key for lineage in self.graph for key in check_keys(self._pipeline, lineage)]
        return dg.define_asset_job(
            self.name(VERIFY),
            tags=_A_DAY,
            selection=dg.AssetSelection.checks(*keys),
            description="Compares downstream tables with the rows of their servers, while writes continue.",
            executor_def=self._executor,
        )

    def backfill_range(self) -> dg.JobDefinition:
        """A range of one source's log to replay; the form names the source, and its step waits in its pool."""
        # Aliases: a step's name has the prefix, its key has not.
        form = check_step(self._pipeline, self.graph)
        check = form.alias(FORM)
        steps = {
            lineage.source: range_step(self._pipeline, lineage).alias(f"backfill_{lineage.source}_range")
            for lineage in self.graph
        }

        @dg.job(
            name=self.name(BACKFILL),
            tags=_A_DAY,
            config=form_of(form, FORM),
            description="Replays a range of a source's log through silver and downstream, for all tables or some.",
            executor_def=self._executor,
        )
        def job() -> None:
            checked = check()
            for source, step in steps.items():
                step(checked if len(steps) == 1 else getattr(checked, branch(source)))

        return job

    def table_at(self) -> dg.JobDefinition:
        """Tables of one source as they were, to a folder outside of the lake; the form names the source."""
        # An alias: a step's name has the prefix, its key has not.
        form = table_at_step(self._pipeline, self.graph)
        step = form.alias(STEP)

        @dg.job(
            name=self.name(TABLE_AT),
            tags=_NO_LIMIT,
            config=form_of(form, STEP),
            description="Writes tables as they were at a position, GTID set or time to a folder outside of the lake.",
            executor_def=self._executor,
        )
        def job() -> None:
            step()

        return job

    def audit(self) -> "UnresolvedAssetJobDefinition":
        """The cheap checks of all sources, and nothing else."""
        keys = [key for lineage in self.graph for key in audit_keys(self._pipeline, lineage)]
        return dg.define_asset_job(
            self.name(AUDIT),
            selection=dg.AssetSelection.checks(*keys),
            description="Checks positions, keys, columns, lag and retention margin of all sources.",
            executor_def=self._executor,
        )
