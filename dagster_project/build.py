"""Assembly: a code location from a configuration.

Put here: what it is put together from. Not here: anything that decides, or which configuration Dagster loads
(definitions.py).

The graph comes from pipeline.yaml and the list of tables seen so far beside it, so that it loads without the lake.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from assets.backfill import backfill_asset
from assets.chain import origin_asset, pool, source_assets
from assets.checks.equals_source import verify_checks
from assets.checks.integrity import audit_checks
from assets.keys import lineages
from assets.selection import HANDED_ON
from dagster_project.jobs import all_sources, audit, backfill_range, load_tables, maintenance, one_source, verification
from dagster_project.resources import GivenSparkSessions, HandedOn, SparkSessions
from dagster_project.schedules import audit_schedule, maintenance_schedule, schedules, verify_schedule
from dagster_project.sensors import binlog_sensor
from spark_jobs.config import known_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline


def build_defs(
    config: Path | Pipeline,
    resources: Mapping[str, Any] | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,  # one process a run, and so one Spark session
) -> dg.Definitions:
    """Dagster definitions of a pipeline: assets, checks, jobs, sensors, schedules and resources. Raises ConfigError.

    Args:
        config: The path of a pipeline.yaml, or a Pipeline.
        resources: Replace those of the same name, ``spark`` and ``handed_on``.
        executor: Of the code location; None leaves it to the other definitions that these are merged with.
    """
    pipeline = config if isinstance(config, Pipeline) else load(config)
    graph = lineages(pipeline, known_tables.read(pipeline.tables_file))
    definitions, by_source = all_sources(graph), [one_source(lineage) for lineage in graph]
    upkeep = maintenance(pipeline, graph)
    loads = [load_tables(pipeline, lineage) for lineage in graph if pipeline.sources[lineage.source].mysql]
    checks = [check for lineage in graph if (check := verify_checks(pipeline, lineage, pool(lineage.source)))]
    verifying = verification(pipeline, graph) if checks else None
    auditing = audit(pipeline, graph)
    is_made = isinstance(config, Pipeline)
    spark = GivenSparkSessions(pipeline.spark) if is_made else SparkSessions(configuration=str(pipeline.path))
    own_resources = {"spark": spark, HANDED_ON: HandedOn()}
    return dg.Definitions(
        assets=[
            *(origin_asset(pipeline, lineage) for lineage in graph),
            *(source_assets(pipeline, lineage) for lineage in graph),
            *(backfill_asset(pipeline, lineage, pool(lineage.source)) for lineage in graph),
        ],
        asset_checks=[*checks, *(audit_checks(pipeline, lineage) for lineage in graph)],
        jobs=[
            definitions,
            *by_source,
            *loads,
            backfill_range(pipeline, graph),
            upkeep,
            auditing,
            *([verifying] if verifying else []),
        ],
        sensors=[binlog_sensor(pipeline, lineage, job) for lineage, job in zip(graph, by_source, strict=True)],
        schedules=[
            *schedules(graph, definitions),
            maintenance_schedule(graph, upkeep),
            audit_schedule(auditing),
            *([verify_schedule(graph, verifying)] if verifying else []),
        ],
        resources={**own_resources, **(resources or {})},
        executor=executor,
    )
