"""Published: which version of which table holds which position. One asset a source, at the end of its chain.

Put here: the step that publishes a run's outcome, and fails it where tables have stopped. Not here: how the published
table is written (spark_jobs/downstream/publication.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Metadata
from assets.checks.integrity import known_by_runs
from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.materialize import Events, StepResult, compared, log_check, materialized
from assets.progress import progress, sessions
from assets.report import refresh
from assets.run_summary import changes_summary, tag_run
from assets.steps import Sessions, around
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import message_under
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.backlog import published_position
from spark_jobs.operations.observation.run_telemetry import step_observed
from spark_jobs.runtime.lazy_session import lazy_session

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.checks.schema_drift import SchemaAudit
    from spark_jobs.downstream.publication import Entry
    from spark_jobs.pipeline.outcome import Outcome

PUBLISHED = "published"
STOPPED_TAG = "stratalog/stopped_tables"
"""Tag of a run that failed for nothing but tables that stopped: how many."""


def publish_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """Publish what the run left, then fail it where tables have stopped."""
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"publish_{source}"),
        description=f"Publishes which versions of {source}'s tables belong together; fails where a table has stopped.",
        out={PUBLISHED: dg.Out(dg.Nothing, is_required=False)},
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    @around(catalog.execute, "publish", source, catalog.include_metadata)
    def publish(context: dg.OpExecutionContext, merged: Any) -> Events:
        key, spark = lineage.published, sessions(context, catalog.spark)
        # What was published before, and what this run leaves.
        with failing(), progress(context), step_observed(pipeline, source, context.run_id, ends=True) as work:
            before = _entries(pipeline, source)
            position = published_position(pipeline, source)
            comparison = compared(context, {key: position})[key]
            work.note(merged)
            entries = _published(pipeline, source, merged) if merged else before
            _catalogued(context, pipeline, spark)
        now = merged.position if merged else position
        # Published again where a position, an entry or Dagster's copy differs.
        if now and (comparison.differs or set(entries) != set(before) or now != comparison.in_lake):
            schema = _audited_schema(pipeline, source) if merged else None
            for line in schema.lines() if schema else ():
                context.log.warning("%s: %s", source, line)
            metadata = _metadata(now, entries, _skipped(pipeline, source)) | checkpoint.schema_metadata(schema)
            unshown = _unshown(lineage, merged)
            metadata |= {checkpoint.NEW: ", ".join(unshown)} if unshown else {}
            metadata |= refresh(context, pipeline, source)
            yield materialized(key, StepResult(now, metadata), comparison)
        if merged:
            _log_checks(context, pipeline, lineage)
        _log_outcome(context, lineage, merged)
        # Stopped tables fail the step last, when everything else is published.
        stopped = [entry for entry in entries if entry.state == "stopped"]
        if stopped:
            fail(context, stopped)

    return publish


def _log_checks(context: dg.OpExecutionContext, pipeline: Pipeline, lineage: Lineage) -> None:
    """Results of bronze's checks that read no more than a run knows; without, an old audit's would stand."""
    with failing():
        results = list(known_by_runs(pipeline, lineage))
    for result in results:
        log_check(context, result)


def fail(context: dg.OpExecutionContext, stopped: "Sequence[Entry]") -> None:
    """Fails the run, after all else is done, naming the tables that have stopped."""
    reasons = {".".join(entry.name): entry.reason or "" for entry in stopped}
    context.instance.add_run_tags(context.run_id, {STOPPED_TAG: str(len(reasons))})
    listed = "\n".join(
        f"{name}: {message_under(entry.reason or '', entry.source, name)}"
        for name, entry in zip(reasons, stopped, strict=True)
    )
    raise dg.Failure(
        f"{len(reasons)} stopped, the other tables went through:\n{listed}",
        metadata={name: dg.MetadataValue.text(reason) for name, reason in reasons.items()},
        allow_retries=False,
    )


def _entries(pipeline: Pipeline, source: str) -> "list[Entry]":
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of

    return publication.read(lake_of(pipeline), source)


def _published(pipeline: Pipeline, source: str, outcome: "Outcome") -> "list[Entry]":
    from spark_jobs.pipeline.run import publish

    publish(pipeline, source, outcome)
    return _entries(pipeline, source)


def _catalogued(context: dg.OpExecutionContext, pipeline: Pipeline, spark: Sessions) -> None:
    """Names of tables in Spark's catalog, where pipeline.yaml wants them there."""
    from spark_jobs.operations.catalog import update

    changes = update(lazy_session(spark.session), pipeline)
    if changes.registered or changes.removed:
        context.log.info("catalog: registered: %s; removed: %s", changes.registered, changes.removed)


def _audited_schema(pipeline: Pipeline, source: str) -> "SchemaAudit | None":
    from spark_jobs.checks.schema_drift import audit_after_run

    return audit_after_run(pipeline, source)


def _skipped(pipeline: Pipeline, source: str) -> list[str]:
    """The events that are quarantined."""
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.silver import quarantine

    return [str(skip) for skip in quarantine.read(lake_of(pipeline), source)]


def _unshown(lineage: Lineage, outcome: "Outcome | None") -> list[str]:
    """Tables that the run saw for the first time, and that the graph does not have yet."""
    graph = {asset.name for asset in lineage.silver}
    new = {(schema, table) for _, schema, table in outcome.new} - graph if outcome else set()
    return sorted(map(".".join, new))


def _metadata(position: Position, entries: "list[Entry]", skipped: list[str]) -> Metadata:
    states = [entry.state for entry in entries]
    return {
        **checkpoint.position_metadata(position),
        checkpoint.CURRENT: states.count("current"),
        checkpoint.STOPPED: states.count("stopped"),
        checkpoint.IGNORED_TABLES: states.count("ignored"),
        **checkpoint.quarantine_metadata(len(skipped)),
        **({checkpoint.SKIPPED: "\n".join(skipped)} if skipped else {}),
        **checkpoint.lag(max((entry.committed_at for entry in entries if entry.committed_at), default=None)),
    }


def _log_outcome(context: dg.OpExecutionContext, lineage: Lineage, outcome: "Outcome | None") -> None:
    """Log the result of the run, and set it as a tag in the list of runs."""
    source, unshown = lineage.source, _unshown(lineage, outcome)
    did = changes_summary(outcome)
    context.log.info("%s: %s", source, did)
    tag_run(context, source, did)
    if unshown:
        listed = ", ".join(unshown)
        context.log.info("%s: seen for the first time: %s; reload the code location to have it shown", source, listed)
