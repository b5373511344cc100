"""The sensor of the lake: runs of the command line, and of other schedulers, appear in Dagster.

Put here: when the lake is looked at. Not here: what is compared and reported (assets/adoption.py).
"""

import json
from collections.abc import Iterable

import dagster as dg

from assets.adoption import ReportedEvent, adopt, confirm
from assets.lineage import Lineage
from assets.partitions import register_files
from dagster_project.jobs import Jobs
from dagster_project.run_history import active_run
from spark_jobs.errors import StratalogError

_INTERVAL = 30


def lake_sensor(jobs: Jobs) -> dg.SensorDefinition:
    """The sensor of the lake, on from the beginning: starts no run, writes only events. Its cursor is what it saw."""

    @dg.sensor(
        name=jobs.name("lake_sensor"),
        minimum_interval_seconds=_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Records what the command line or another scheduler wrote to the lake. Starts no run.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        events: list[ReportedEvent] = []
        states, problems = json.loads(context.cursor or "{}"), []
        for lineage in jobs.graph:
            source = lineage.source
            # A run reports what it does by itself.
            if active_run(context.instance, jobs.job_names(source)):
                continue
            try:
                state = _state(lineage)
                if states.get(source) != state:
                    events += adopt(context.instance, lineage)
                    register_files(context.instance, lineage)
                    states[source] = state
                events += confirm(context.instance, lineage)
            except StratalogError as error:
                problems.append(str(error))
        context.update_cursor(json.dumps(states))
        if events:
            return dg.SensorResult(asset_events=events)
        return dg.SkipReason("\n".join(problems) or "Dagster has what the lake has")

    return sensor


def _state(lineage: Lineage) -> list[int]:
    """State that changes with every run: versions of bronze and of the publication, and the number of shown tables."""
    from spark_jobs.lake.layout import lake_of

    lake = lake_of(lineage.catalog.pipeline)
    versions: Iterable[int] = (
        head.version if (head := table.head()) else -1 for table in (lake.bronze(lineage.source), lake.published())
    )
    return [*versions, len(lineage.silver) + len(lineage.downstream)]
