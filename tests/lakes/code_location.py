"""A code location over a directory of described binlogs.

Put here: building it, running its jobs, reading what they left. Not here: what a test expects of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from pyspark.sql import SparkSession

from assets.lineage import Lineage, lineages
from dagster_project.build import build_defs
from spark_jobs.config import known_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from tests.binlogs.segment_spec import Change, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

ORDERS = Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40))
LINES = Table("shop.lines", key=["id"], id=INT.NOT_NULL, quantity=INT)
LATER = Table("shop.later", key=["id"], id=INT.NOT_NULL)


@dataclass(frozen=True)
class GivenSession:
    """The resource ``spark`` over the test run's session."""

    spark: SparkSession | None

    def session(self) -> SparkSession:
        assert self.spark, "a step started Spark although there was nothing to do"
        return self.spark


@dataclass
class JobResult:
    """What one run left in Dagster's event log."""

    success: bool
    run: dg.DagsterRun
    materialized: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metadata by asset, in the order of the events."""
    versions: dict[str, str | None] = field(default_factory=dict)
    observed: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: dict[str, tuple[bool, str | None]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """What failed steps said."""


@dataclass
class CodeLocation:
    """pipeline.yaml, binlogs and lake in one folder, and the instance that its runs are recorded in."""

    folder: Path
    instance: dg.DagsterInstance
    spark: SparkSession | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    """Further keys of pipeline.yaml."""

    @property
    def pipeline(self) -> Pipeline:
        document = {"lake": "./lake", "sources": {"shop": {"files": "./binlogs"}}} | self.keys
        path = self.folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return load(path)

    @property
    def lineage(self) -> Lineage:
        """The graph of the source ``shop``, with the tables seen so far."""
        graph = lineages(self.pipeline, known_tables.read(self.pipeline.tables_file))
        return next(lineage for lineage in graph if lineage.source == "shop")

    def write(self, number: int, *changes: Change) -> None:
        """One closed binlog file."""
        tables: Sequence[Table] = (ORDERS, LINES, LATER)
        spec = SegmentSpec(tables, changes, rotate_to=f"mysql-bin.{number + 1:06d}", first_number=number * 100)
        (self.folder / "binlogs").mkdir(exist_ok=True)
        (self.folder / "binlogs" / f"mysql-bin.{number:06d}").write_bytes(spec.to_bytes())

    def defs(self) -> dg.Definitions:
        """As loaded now."""
        return build_defs(self.pipeline, {"spark": GivenSession(self.spark)})

    def run(
        self, job: str = "sync", assets: Sequence[str] | None = None, defs: dg.Definitions | None = None
    ) -> JobResult:
        definition = (defs or self.defs()).resolve_job_def(job)
        selection = [dg.AssetKey.from_user_string(asset) for asset in assets] if assets else None
        result = definition.execute_in_process(
            instance=self.instance, asset_selection=selection, raise_on_error=False, run_id=None
        )
        return ran_of(result, self.instance)

    def run_config(self, job: str, config: dict[str, Any]) -> JobResult:
        """A run with a configuration, as the launchpad starts it."""
        definition = self.defs().resolve_job_def(job)
        result = definition.execute_in_process(instance=self.instance, run_config=config, raise_on_error=False)
        return ran_of(result, self.instance)

    def backfill(self, first: str, last: str, **config: Any) -> JobResult:
        """The run that the Backfill dialog starts for a range of files."""
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        result = (
            self.defs()
            .resolve_implicit_global_asset_job_def()
            .execute_in_process(
                instance=self.instance,
                asset_selection=[dg.AssetKey(["backfill", "shop"])],
                tags=tags,
                run_config={"ops": {"replay_shop": {"config": config}}},
                raise_on_error=False,
            )
        )
        return ran_of(result, self.instance)

    def latest(self, asset: str) -> dict[str, Any]:
        """Metadata of an asset's newest materialization."""
        entry = self.instance.get_latest_materialization_event(dg.AssetKey.from_user_string(asset))
        assert entry
        assert entry.asset_materialization
        return {key: value.value for key, value in entry.asset_materialization.metadata.items()}


def ran_of(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> JobResult:
    """What a run left in the event log."""
    run = instance.get_run_by_id(result.run_id)
    assert run
    ran = JobResult(result.success, run)
    for entry in instance.all_logs(result.run_id):  # what a step that fails had logged is here alone
        event = entry.dagster_event
        if event is None:
            continue
        if event.is_step_materialization:
            materialization = event.step_materialization_data.materialization
            asset = materialization.asset_key.to_user_string()
            ran.materialized[asset] = {key: value.value for key, value in materialization.metadata.items()}
            ran.versions[asset] = (materialization.tags or {}).get("dagster/data_version")
        elif event.event_type == dg.DagsterEventType.ASSET_OBSERVATION:
            observation = event.asset_observation_data.asset_observation
            ran.observed[observation.asset_key.to_user_string()] = {
                key: value.value for key, value in observation.metadata.items()
            }
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            evaluation = event.asset_check_evaluation_data
            ran.checks[evaluation.asset_key.to_user_string()] = (evaluation.passed, evaluation.description)
        elif event.is_step_failure and event.step_key:
            failure = event.step_failure_data.user_failure_data
            ran.failures[event.step_key] = (failure.description if failure else None) or str(
                event.step_failure_data.error
            )
    return ran


@contextmanager
def location(folder: Path, spark: SparkSession | None = None, **keys: Any) -> Iterator[CodeLocation]:
    """A code location with an instance of its own."""
    home = folder / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home), overrides={"telemetry": {"enabled": False}}) as instance:
        yield CodeLocation(folder, instance, spark, keys)
