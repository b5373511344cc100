"""Checks of what a source has in the lake: cheap ones, which ask no server for rows.

Put here: the checks, and what they say. Not here: how they look (spark_jobs/checks/integrity.py,
checks/schema_drift.py, operations/status.py), the comparison with the source's rows (equals_source.py), or the job that
runs them (dagster_project/jobs.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Metadata
from assets.keys import Lineage, TableAsset
from assets.steps import RETRY, Sessions, failing
from spark_jobs.config.model import Pipeline

if TYPE_CHECKING:  # imports pyspark
    from spark_jobs.operations.status import SourceStatus

POSITIONS_TOUCH = "positions_touch"
LAG = "lag"
MARGIN = "retention_margin"
QUARANTINE = "no_quarantine"
NAMED = "columns_named"
LOGGED = "changes_logged"
SCHEMA = "schema"
KEYS_UNIQUE = "keys_unique"
BREAKS = "binlog/breaks"
KEYS = "rows/repeated_keys"
_SAID = {
    POSITIONS_TOUCH: "Whether the log in bronze has no gap and no overlap, from its beginning to its position.",
    LAG: "Whether bronze is no further behind the source than max_lag in pipeline.yaml allows.",
    MARGIN: "Whether the source has as much log left before bronze's position as retention.margin wants.",
    QUARANTINE: "Whether every event counts: none is passed over for a table (stratalog skip).",
    NAMED: "Whether the columns of every table have names: none is read by number (on_unnamed in pipeline.yaml).",
    LOGGED: "Whether the log has all changes of the tables: no foreign key changes rows unlogged (on_cascade).",
}
_OF_SERVERS = {
    SCHEMA: "Whether every table has the columns and the key that the server declares, as the log led to them.",
}
"""Checks that sources have which are servers."""
_SHOWN = 20


def audit_checks(pipeline: Pipeline, lineage: Lineage) -> dg.AssetChecksDefinition:
    """The checks of a source's bronze and downstream tables, in one step; Spark starts where keys are asked for."""
    source, tables = lineage.source, keyed_tables(lineage)

    @dg.multi_asset_check(
        name=f"audit_{source}",
        description=f"Looks at what the lake has of {source}: positions, keys, lag and retention margin.",
        specs=[*_on_bronze(pipeline, lineage), *map(_of_keys, tables)],
        can_subset=True,
        retry_policy=RETRY,
    )
    def audit(
        context: dg.AssetCheckExecutionContext, spark: dg.ResourceParam[Sessions]
    ) -> Iterator[dg.AssetCheckResult]:
        asked = context.selected_asset_check_keys
        on_bronze = {key.name for key in asked if key.asset_key == lineage.bronze}
        if POSITIONS_TOUCH in on_bronze:
            with failing():
                yield _positions(pipeline, lineage)
        if on_bronze & {LAG, MARGIN}:
            with failing():
                found = _status(pipeline, source)
            if LAG in on_bronze:
                yield _lag(pipeline, lineage, found)
            if MARGIN in on_bronze:
                yield _margin(lineage, found)
        for name, look in {QUARANTINE: _quarantine, NAMED: _named, LOGGED: _logged}.items():
            if name in on_bronze:
                with failing():
                    yield look(pipeline, lineage)
        if SCHEMA in on_bronze:
            with failing():
                yield _schema(pipeline, lineage)
        chosen = [table for table in tables if _of_keys(table).key in asked]
        if chosen:
            yield from _keys(pipeline, lineage, chosen, spark)

    return audit


def keyed_tables(lineage: Lineage) -> list[TableAsset]:
    """The downstream tables whose keys can be checked."""
    return [one for one in lineage.downstream if one.check and len(one.origins) == 1]


def audit_keys(pipeline: Pipeline, lineage: Lineage) -> list[dg.AssetCheckKey]:
    """Names of the checks."""
    return [spec.key for spec in (*_on_bronze(pipeline, lineage), *map(_of_keys, keyed_tables(lineage)))]


def _on_bronze(pipeline: Pipeline, lineage: Lineage) -> list[dg.AssetCheckSpec]:
    said = _SAID | (_OF_SERVERS if pipeline.sources[lineage.source].servers else {})
    return [dg.AssetCheckSpec(name, asset=lineage.bronze, description=text) for name, text in said.items()]


def _of_keys(table: TableAsset) -> dg.AssetCheckSpec:
    said = "Whether every key of the source's table stands in one row."
    return dg.AssetCheckSpec(KEYS_UNIQUE, asset=table.key, description=said, blocking=True)


def _positions(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.checks.integrity import breaks
    from spark_jobs.lake.layout import lake_of

    table = lake_of(pipeline).bronze(lineage.source)
    head = table.head()
    if head is None or head.position is None:
        return _result(lineage, POSITIONS_TOUCH, "", {}, "bronze holds nothing yet")
    found = breaks(table, head)
    metadata = {BREAKS: len(found), **checkpoint.of_position(head.position)}
    return _result(lineage, POSITIONS_TOUCH, _shown(found), metadata)


def _status(pipeline: Pipeline, source: str) -> "SourceStatus":
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.status import status

    return status(pipeline, lake_of(pipeline), source)


def _lag(pipeline: Pipeline, lineage: Lineage, found: "SourceStatus") -> dg.AssetCheckResult:
    limit = pipeline.max_lag.total_seconds() if pipeline.max_lag else None
    lag, backlog = found.lag_seconds, found.backlog_bytes
    metadata: Metadata = {} if lag is None else {checkpoint.LAG: lag}
    metadata |= {} if backlog is None else {checkpoint.BACKLOG: checkpoint.number(backlog)}
    problem = found.error or ""
    if not problem and limit is not None and lag is not None and lag > limit:
        problem = f"bronze was at the source's end {lag:,.0f} s ago, and max_lag is {limit:,.0f} s"
    return _result(lineage, LAG, problem, metadata, "" if limit is not None else "max_lag is not set", warns=True)


def _margin(lineage: Lineage, found: "SourceStatus") -> dg.AssetCheckResult:
    margin, hours = found.retention_margin_bytes, found.retention_margin_hours
    metadata: Metadata = {} if margin is None else {checkpoint.MARGIN_BYTES: checkpoint.number(margin)}
    metadata |= {} if hours is None else {checkpoint.MARGIN_HOURS: hours}
    return _result(lineage, MARGIN, found.error or found.warning or "", metadata)


def _quarantine(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.silver import quarantine

    found = [str(one) for one in quarantine.read(lake_of(pipeline), lineage.source)]
    said = f"{len(found)} events are passed over\n{_shown(found)}" if found else ""
    return _result(lineage, QUARANTINE, said, checkpoint.of_quarantined(len(found)), warns=True)


def _named(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of

    entries = publication.read(lake_of(pipeline), lineage.source)
    found = sorted(".".join(entry.name) for entry in entries if entry.numbered and entry.state != "ignored")
    said = f"nothing names the columns of {len(found)} tables\n{_shown(found)}" if found else ""
    return _result(lineage, NAMED, said, {checkpoint.NUMBERED_TABLES: checkpoint.number(len(found))}, warns=True)


def _logged(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.pipeline.log_gaps import cascades

    found = cascades(pipeline, lake_of(pipeline), lineage.source)
    metadata: Metadata = {checkpoint.CASCADES: checkpoint.number(len(found))}
    return _result(lineage, LOGGED, _shown([str(one) for one in found]), metadata, warns=True)


def _schema(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.checks.schema_drift import audit_schema

    found = audit_schema(pipeline, lineage.source)
    assert found, "only sources that are servers have the check"
    return _result(lineage, SCHEMA, _shown(found.lines()), checkpoint.of_schema(found), str(found))


def _shown(lines: list[str]) -> str:
    """The first of many."""
    more = f"\n… and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "\n".join(lines[:_SHOWN]) + more


def _keys(
    pipeline: Pipeline, lineage: Lineage, tables: list[TableAsset], spark: Sessions
) -> Iterator[dg.AssetCheckResult]:
    from spark_jobs.binlog import TableName
    from spark_jobs.checks.integrity import NEVER_WHOLE, keys_never_whole, repeated_keys

    names = {table.key: (TableName(*table.origins[0]), table.name) for table in tables}
    with failing():
        found = repeated_keys(spark.session(), pipeline, lineage.source, list(names.values()))
        unseen = keys_never_whole(pipeline, lineage.source)
    for table in tables:
        repeated, lacking = found.get(names[table.key]), unseen.get(names[table.key], 0)
        said = {
            None: "the table has no key, or no row yet",
            0: None,
        }.get(repeated, f"{repeated} keys stand in several rows: somebody else wrote to the table")
        if lacking:
            said = f"{lacking} keys stand in none: {NEVER_WHOLE}" + (f"; {said}" if repeated else "")
        metadata = {} if repeated is None else {KEYS: checkpoint.number(repeated)}
        metadata |= {checkpoint.NEVER_WHOLE: checkpoint.number(lacking)} if lacking else {}
        yield dg.AssetCheckResult(
            asset_key=table.key,
            check_name=KEYS_UNIQUE,
            passed=not (repeated or lacking),
            description=said,
            metadata=metadata,
        )


def _result(
    lineage: Lineage, name: str, problem: str, metadata: Metadata, said: str = "", *, warns: bool = False
) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckResult(
        asset_key=lineage.bronze,
        check_name=name,
        passed=not problem,
        severity=severity,
        description=problem or said or None,
        metadata=metadata,
    )
