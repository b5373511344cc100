"""Jobs: verbs over the assets.

Put here: which assets a job takes in, and its tags. Not here: when it runs (sensors.py, schedules.py).

Checks are left out: a run that has them in its plan blanks the results of those that it has nothing to say about.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.chain import pool
from assets.checks.equals_source import check_keys
from assets.checks.integrity import audit_keys
from assets.keys import Lineage
from assets.steps import SOURCE_TAG
from dagster_project.ops.backfill_range import branch, check_step, range_step
from dagster_project.ops.load import load_step
from dagster_project.ops.maintenance import maintain_step
from spark_jobs.config.model import Pipeline

if TYPE_CHECKING:  # Dagster has no public name for what define_asset_job returns
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

ALL = "sync"
MAINTENANCE = "maintenance"
VERIFY = "verify"
AUDIT = "audit"
BACKFILL = "backfill_range"


def sync_name(source: str) -> str:
    return f"{ALL}_{source}"


def all_sources(lineages: Sequence[Lineage]) -> "UnresolvedAssetJobDefinition":
    """Everything, in one process and one Spark session."""
    keys = [key for lineage in lineages for key in lineage.keys]
    return dg.define_asset_job(
        ALL,
        selection=dg.AssetSelection.assets(*keys).without_checks(),
        description="Extracts, compacts and merges every source up to its log's end as it is at the start.",
    )


def one_source(lineage: Lineage) -> "UnresolvedAssetJobDefinition":
    """One source, from its log to its downstream tables."""
    return dg.define_asset_job(
        sync_name(lineage.source),
        selection=dg.AssetSelection.assets(*lineage.keys).without_checks(),
        tags={SOURCE_TAG: lineage.source},
        description=f"Extracts, compacts and merges {lineage.source} up to its log's end as it is at the start.",
    )


def load_name(source: str) -> str:
    return f"load_{source}_tables"


def load_tables(pipeline: Pipeline, lineage: Lineage) -> dg.JobDefinition:
    """The tables of one source that are older than its log; for sources that are servers."""
    step = load_step(pipeline, lineage)

    @dg.job(
        name=load_name(lineage.source),
        tags={SOURCE_TAG: lineage.source},
        description=f"Completes tables of {lineage.source} that are older than its log. Its configuration names them; "
        "without names, all that are not complete.",
    )
    def job() -> None:
        step()

    return job


def maintenance(pipeline: Pipeline, lineages: Sequence[Lineage]) -> dg.JobDefinition:
    """Every table of every source, one source after the other; each waits for its source's pool."""
    steps = [maintain_step(pipeline, lineage, pool(lineage.source)) for lineage in lineages]

    @dg.job(
        name=MAINTENANCE,
        description="Removes what retention allows from bronze, writes small files together, removes unneeded files.",
    )
    def job() -> None:
        for step in steps:
            step()

    return job


def verification(pipeline: Pipeline, lineages: Sequence[Lineage]) -> "UnresolvedAssetJobDefinition":
    """The checks that compare downstream tables with their sources, and nothing else."""
    keys = [key for lineage in lineages for key in check_keys(pipeline, lineage)]
    return dg.define_asset_job(
        VERIFY,
        selection=dg.AssetSelection.checks(*keys),
        description="Compares every downstream table of live sources with the source's own rows, while writes go on.",
    )


def backfill_range(pipeline: Pipeline, lineages: Sequence[Lineage]) -> dg.JobDefinition:
    """A range of one source's log to replay, by places; the form names the source, and its step waits in its pool."""
    check = check_step(pipeline, lineages)
    steps = {lineage.source: range_step(pipeline, lineage, pool(lineage.source)) for lineage in lineages}

    @dg.job(
        name=BACKFILL,
        description="Does a range of a source's log again from bronze, through silver and downstream, for all tables "
        "or some: what `stratalog backfill` does. Other runs of the source take turns with it.",
    )
    def job() -> None:
        checked = check()
        for source, step in steps.items():
            step(checked if len(steps) == 1 else getattr(checked, branch(source)))

    return job


def audit(pipeline: Pipeline, lineages: Sequence[Lineage]) -> "UnresolvedAssetJobDefinition":
    """The cheap checks of all sources, and nothing else."""
    keys = [key for lineage in lineages for key in audit_keys(pipeline, lineage)]
    return dg.define_asset_job(
        AUDIT,
        selection=dg.AssetSelection.checks(*keys),
        description="Checks that positions touch, keys are unique, columns are those that servers declare, and lag and "
        "retention margin are within limits.",
    )
