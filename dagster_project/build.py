"""Assembly: a code location from a configuration.

Put here: what it is put together from. Not here: anything that decides, or which configuration Dagster loads
(definitions.py, component.py).

The graph comes from pipeline.yaml and the list of tables seen so far beside it, so that it loads without the lake.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import dagster as dg

from assets.backfill import backfill_asset
from assets.catalog import AssetCatalog, Translation
from assets.chain import origin_asset, source_assets
from assets.checks.equals_source import check_keys, verify_checks
from assets.checks.integrity import audit_checks, audit_keys
from assets.delivery import delivery_assets
from assets.lineage import lineages
from assets.selection import HANDED_ON
from assets.steps import Execute
from assets.table_at import table_at_asset
from dagster_project.alerts import Notify, alert_sensor
from dagster_project.jobs import Jobs
from dagster_project.lake_sensor import lake_sensor
from dagster_project.resources import HANDED_ON_IO, GivenSparkSessions, SparkSessions
from dagster_project.schedules import audit_schedule, maintenance_schedule, schedules, verify_schedule
from dagster_project.sensors import binlog_sensor, delivery_sensor
from spark_jobs.config import known_tables
from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError

Automation = Literal["off", "sensor", "every_5_minutes", "daily"]
_SCHEDULES = {"every_5_minutes": "sync_every_5_minutes", "daily": "sync_daily"}


class PlacementOptions(TypedDict, total=False):
    """Options that fit a pipeline's definitions in among others.

    key_prefix: before each asset key. group: of all assets; by default a group per source and layer. job_prefix:
    before the names of jobs, sensors, schedules, steps and pools; two pipelines in one code location need two.
    resource_key: of the Spark sessions; by default ``spark`` after job_prefix. translation: a function from an asset's
    spec, and what it stands for, to another spec. execute: runs a step. include_metadata: patterns of the
    metadata keys that materializations have; all by default. on_alert: a function that is called with each
    alert, or the address of a webhook. automation: what is on from the beginning: ``off``, ``sensor``,
    ``every_5_minutes`` or ``daily``. tables: shown besides those that runs have seen, as (source, schema, table).
    """

    key_prefix: str | Sequence[str]
    group: str | None
    job_prefix: str
    resource_key: str | None
    translation: Translation | None
    execute: Execute | None
    include_metadata: Sequence[str]
    on_alert: Notify | str | None
    automation: Automation
    tables: Iterable[SeenTable]


def build_defs(
    config: Path | Pipeline,
    resources: Mapping[str, Any] | None = None,
    executor: dg.ExecutorDefinition | None = None,
    **options: Unpack[PlacementOptions],
) -> dg.Definitions:
    """Dagster definitions of a pipeline: assets, checks, jobs, sensors, schedules and resources. Raises ConfigError.

    Args:
        config: The path of a pipeline.yaml, or a Pipeline.
        resources: Replace those of the same key, ``spark`` and ``handed_on``.
        executor: Of the code location and of all jobs. Without it, the steps of a job share one process, and so a Spark
            session, and the code location has the executor that it has.
        options: How the definitions fit in among others.
    """
    # The graph: tables that runs have seen, and those that the caller knows besides.
    pipeline = config if isinstance(config, Pipeline) else load(config)
    tables = {*known_tables.read(pipeline.tables_file), *options.get("tables", ())}
    catalog = _catalog(pipeline, options, tables)
    jobs = Jobs(lineages(pipeline, tables, catalog), catalog, executor or dg.in_process_executor)
    # Each part is definitions of its own, and the whole is what they are merged to.
    resources = {catalog.spark: _sessions(config, pipeline), HANDED_ON: HANDED_ON_IO, **(resources or {})}
    definitions = dg.Definitions(assets=_assets(jobs), resources=resources, executor=executor)
    return dg.Definitions.merge(definitions, _syncing(jobs, options), _upkeep(jobs, options), _deliveries(jobs))


def _assets(jobs: Jobs) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    pipeline = jobs.catalog.pipeline
    return [
        *(origin_asset(pipeline, lineage) for lineage in jobs.graph),
        *(source_assets(pipeline, lineage) for lineage in jobs.graph),
        *(backfill_asset(pipeline, lineage) for lineage in jobs.graph),
        *(table_at_asset(lineage) for lineage in jobs.graph),
    ]


def _syncing(jobs: Jobs, options: PlacementOptions) -> dg.Definitions:
    """Definitions that carry log into tables: jobs, and what starts them."""
    automation = options.get("automation", "off")
    sync, by_source = jobs.all_sources(), {lineage.source: jobs.one_source(lineage) for lineage in jobs.graph}
    # Rows are read from servers alone: files have none.
    servers = [lineage for lineage in jobs.graph if jobs.catalog.pipeline.sources[lineage.source].mysql]
    return dg.Definitions(
        jobs=[
            sync,
            *by_source.values(),
            jobs.backfill_range(),
            jobs.table_at(),
            *(jobs.load(lineage) for lineage in servers),
            *(jobs.mend(lineage) for lineage in servers),
        ],
        sensors=[
            binlog_sensor(jobs, lineage, by_source[lineage.source], is_running=automation == "sensor")
            for lineage in jobs.graph
        ],
        schedules=schedules(jobs, sync, _SCHEDULES.get(automation, "")),
    )


def _upkeep(jobs: Jobs, options: PlacementOptions) -> dg.Definitions:
    """Definitions that look after tables: checks, maintenance, and the sensors that start no run."""
    pipeline = jobs.catalog.pipeline
    verifying = [check for lineage in jobs.graph if (check := verify_checks(pipeline, lineage))]
    maintenance, audit, verify = jobs.maintenance(), jobs.audit(), [jobs.verification()] if verifying else []
    notify = options.get("on_alert")
    return dg.Definitions(
        asset_checks=[*verifying, *(audit_checks(pipeline, lineage) for lineage in jobs.graph)],
        jobs=[maintenance, audit, *verify],
        sensors=[lake_sensor(jobs), *([alert_sensor(jobs, _watched(jobs), notify)] if notify else [])],
        schedules=[
            maintenance_schedule(jobs, maintenance),
            audit_schedule(jobs, audit),
            *(verify_schedule(jobs, job) for job in verify),
        ],
    )


def _watched(jobs: Jobs) -> list[dg.AssetCheckKey]:
    """The checks that alerts are about. A table that stopped in silver fails downstream too."""
    pipeline = jobs.catalog.pipeline
    replicating = [asset.check.key for lineage in jobs.graph for asset in lineage.downstream if asset.check]
    audits = [key for lineage in jobs.graph for key in audit_keys(pipeline, lineage)]
    return [*replicating, *audits, *(key for lineage in jobs.graph for key in check_keys(pipeline, lineage))]


def _catalog(pipeline: Pipeline, options: PlacementOptions, tables: Iterable[SeenTable]) -> AssetCatalog:
    """The names and placement of the assets by the options. Raises ConfigError, also for an unknown option."""
    # A misspelt option would do nothing without a word.
    unknown = options.keys() - PlacementOptions.__annotations__.keys()
    if unknown:
        raise ConfigError(
            f"build_defs has no option {min(unknown)}; it has {', '.join(PlacementOptions.__annotations__)}"
        )
    automation = options.get("automation", "off")
    if automation not in ("off", "sensor", *_SCHEDULES):
        raise ConfigError(f"automation: must be off, sensor, every_5_minutes or daily, and is {automation!r}")
    return AssetCatalog(
        pipeline,
        key_prefix=options.get("key_prefix", ()),
        group=options.get("group"),
        job_prefix=options.get("job_prefix", ""),
        resource_key=options.get("resource_key"),
        translation=options.get("translation"),
        execute=options.get("execute"),
        include_metadata=options.get("include_metadata", ("*",)),
        servers=known_tables.servers(pipeline.tables_file),
        tables=tables,
    )


def _deliveries(jobs: Jobs) -> dg.Definitions:
    """Assets, a job and a sensor for each delivery."""
    pipeline = jobs.catalog.pipeline
    assets = {name: tables for name in pipeline.deliveries if (tables := delivery_assets(pipeline, name, jobs.graph))}
    by_name = {name: jobs.deliver(name, tables) for name, tables in assets.items()}
    sensors = [delivery_sensor(jobs.catalog, name, job) for name, job in by_name.items()]
    return dg.Definitions(assets=[*assets.values()], jobs=[*by_name.values()], sensors=sensors)


def _sessions(config: Path | Pipeline, pipeline: Pipeline) -> GivenSparkSessions | SparkSessions:
    """The resource ``spark``: of settings that are given, or of those that pipeline.yaml has when a run begins."""
    # A Pipeline that was given has no file that a worker could read again.
    if isinstance(config, Pipeline):
        return GivenSparkSessions(pipeline.spark)
    return SparkSessions(configuration=str(pipeline.path))
