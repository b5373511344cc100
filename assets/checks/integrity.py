"""Checks of what a source has in the lake: cheap ones, which ask no server for rows.

Put here: the checks, and what they say. Not here: how they look (spark_jobs/checks/integrity.py,
checks/schema_drift.py, operations/observation/status.py), the comparison with the source's rows (equals_source.py),
or the job that runs them (dagster_project/jobs.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Metadata
from assets.failures import failing, retried
from assets.lineage import Lineage, TableAsset
from assets.progress import sessions
from assets.steps import Sessions
from spark_jobs.config.model import Pipeline
from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # imports pyspark
    from spark_jobs.operations.observation.status import SourceStatus

POSITIONS_TOUCH = "positions_touch"
LAG = "lag"
MARGIN = "retention_margin"
QUARANTINE = "no_quarantine"
NAMED = "columns_named"
LOGGED = "changes_logged"
SCHEMA = "schema"
KEYS_UNIQUE = "keys_unique"
SECOND = "second_reader"
BREAKS = "binlog/breaks"
KEYS = "rows/repeated_keys"
_MESSAGES = {
    POSITIONS_TOUCH: "Fails when the log in bronze has a gap or an overlap.",
    LAG: "Warns when bronze is further behind the source than max_lag in pipeline.yaml allows.",
    MARGIN: "Fails when the source has less log left before bronze's position than retention.margin asks for.",
    QUARANTINE: "Warns when an event is quarantined (stratalog skip).",
    NAMED: "Warns when a table has positional columns (on_unnamed in pipeline.yaml).",
    LOGGED: "Warns when a foreign key changes rows of a table unlogged (on_cascade).",
    SECOND: "Fails when python-mysql-replication reads other values of a sample of the newest changes.",
}
_OF_SERVERS = {
    SCHEMA: "Fails when a table has other columns, or another key, than the server declares.",
}
"""Checks that sources have which are servers."""
_SHOWN = 20


def audit_checks(pipeline: Pipeline, lineage: Lineage) -> dg.AssetChecksDefinition:
    """The checks of a source's bronze and downstream tables, in one step; Spark starts where keys are asked for."""
    source, tables, catalog = lineage.source, keyed_tables(lineage), lineage.catalog

    @dg.multi_asset_check(
        name=catalog.name(f"audit_{source}"),
        description=f"Looks at what the lake has of {source}: positions, keys, lag and retention margin.",
        specs=[*_on_bronze(pipeline, lineage), *map(_unique_keys_spec, tables)],
        can_subset=True,
        required_resource_keys={catalog.spark},
    )
    @retried
    def audit(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        # Each check reads what it needs, and nothing is read for a check that is not selected.
        selected = context.selected_asset_check_keys
        on_bronze = {key.name for key in selected if key.asset_key == lineage.bronze}
        if POSITIONS_TOUCH in on_bronze:
            with failing():
                yield _positions(pipeline, lineage)
        if on_bronze & {LAG, MARGIN}:
            with failing():
                status = _status(pipeline, source)
            if LAG in on_bronze:
                yield _lag(pipeline, lineage, status)
            if MARGIN in on_bronze:
                yield _margin(lineage, status)
        for name, look in (_OF_LAKE | {SECOND: _second_reader}).items():
            if name in on_bronze:
                with failing():
                    yield look(pipeline, lineage)
        if SCHEMA in on_bronze:
            with failing():
                yield _check_schema(pipeline, lineage)
        # Keys are read by Spark, which starts only for them.
        table_list = [table for table in tables if _unique_keys_spec(table).key in selected]
        if table_list:
            yield from _check_keys(pipeline, lineage, table_list, sessions(context, catalog.spark))

    return audit


def known_by_runs(pipeline: Pipeline, lineage: Lineage) -> Iterator[dg.AssetCheckResult]:
    """Results of the checks that read nothing but what a run knows: it says them, too. Raises LakeError."""
    for look in _OF_LAKE.values():
        yield look(pipeline, lineage)


def keyed_tables(lineage: Lineage) -> list[TableAsset]:
    """The downstream tables whose keys can be checked."""
    return [asset for asset in lineage.downstream if asset.check and len(asset.origins) == 1]


def audit_keys(pipeline: Pipeline, lineage: Lineage) -> list[dg.AssetCheckKey]:
    """Names of the checks."""
    return [spec.key for spec in (*_on_bronze(pipeline, lineage), *map(_unique_keys_spec, keyed_tables(lineage)))]


def _on_bronze(pipeline: Pipeline, lineage: Lineage) -> list[dg.AssetCheckSpec]:
    texts = _MESSAGES | (_OF_SERVERS if pipeline.sources[lineage.source].servers else {})
    return [dg.AssetCheckSpec(name, asset=lineage.bronze, description=text) for name, text in texts.items()]


def _unique_keys_spec(table: TableAsset) -> dg.AssetCheckSpec:
    text = "Fails when a key of the source's table is in several rows, or in none."
    return dg.AssetCheckSpec(KEYS_UNIQUE, asset=table.key, description=text, blocking=True)


def _positions(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.checks.integrity import breaks
    from spark_jobs.lake.layout import lake_of

    table = lake_of(pipeline).bronze(lineage.source)
    head = table.head()
    if head is None or head.position is None:
        return _result(lineage, POSITIONS_TOUCH, "", {}, "bronze holds nothing yet")
    gaps = breaks(table, head)
    metadata = {BREAKS: len(gaps), **checkpoint.position_metadata(head.position)}
    return _result(lineage, POSITIONS_TOUCH, _first_lines(gaps), metadata)


def _status(pipeline: Pipeline, source: str) -> "SourceStatus":
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.status import status

    return status(pipeline, lake_of(pipeline), source)


def _lag(pipeline: Pipeline, lineage: Lineage, status: "SourceStatus") -> dg.AssetCheckResult:
    limit = pipeline.max_lag.total_seconds() if pipeline.max_lag else None
    lag, backlog = status.lag_seconds, status.backlog_bytes
    metadata: Metadata = {} if lag is None else {checkpoint.LAG: lag}
    metadata |= {} if backlog is None else {checkpoint.BACKLOG: checkpoint.number(backlog)}
    problem = status.error or ""
    if not problem and limit is not None and lag is not None and lag > limit:
        problem = f"bronze was at the source's end {lag:,.0f} s ago, and max_lag is {limit:,.0f} s"
    return _result(lineage, LAG, problem, metadata, "" if limit is not None else "max_lag is not set", warns=True)


def _margin(lineage: Lineage, status: "SourceStatus") -> dg.AssetCheckResult:
    margin, hours = status.retention_margin_bytes, status.retention_margin_hours
    metadata: Metadata = {} if margin is None else {checkpoint.MARGIN_BYTES: checkpoint.number(margin)}
    metadata |= {} if hours is None else {checkpoint.MARGIN_HOURS: hours}
    return _result(lineage, MARGIN, status.error or status.warning or "", metadata)


def _quarantine(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.silver import quarantine

    events = [str(skip) for skip in quarantine.read(lake_of(pipeline), lineage.source)]
    text = f"{len(events)} events are quarantined\n{_first_lines(events)}" if events else ""
    return _result(lineage, QUARANTINE, text, checkpoint.quarantine_metadata(len(events)), warns=True)


def _column_names(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.downstream import publication
    from spark_jobs.lake.layout import lake_of

    entries = publication.read(lake_of(pipeline), lineage.source)
    tables = sorted(".".join(entry.name) for entry in entries if entry.numbered and entry.state != "ignored")
    text = f"nothing names the columns of {counted(len(tables), 'table')}\n{_first_lines(tables)}" if tables else ""
    return _result(lineage, NAMED, text, {checkpoint.NUMBERED_TABLES: checkpoint.number(len(tables))}, warns=True)


def _logged(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.pipeline.cascades.unlogged_changes import cascades

    keys = cascades(pipeline, lake_of(pipeline), lineage.source)
    metadata: Metadata = {checkpoint.CASCADES: checkpoint.number(len(keys))}
    return _result(lineage, LOGGED, "\n".join(map(str, keys)), metadata, warns=True)


_OF_LAKE = {QUARANTINE: _quarantine, NAMED: _column_names, LOGGED: _logged}
"""The checks that look at the lake's own records alone."""


def _second_reader(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.bronze.table import BronzeSnapshot
    from spark_jobs.checks.second_reader.compare import read_twice
    from spark_jobs.lake.layout import lake_of

    if BronzeSnapshot.find(lake_of(pipeline), lineage.source) is None:
        return _result(lineage, SECOND, "", {}, "bronze holds nothing yet")
    reading = read_twice(pipeline, lineage.source)
    text = "\n".join([str(reading), *reading.lines()])
    return _result(lineage, SECOND, "" if reading.is_equal else text, checkpoint.second_reading_metadata(reading), text)


def _check_schema(pipeline: Pipeline, lineage: Lineage) -> dg.AssetCheckResult:
    from spark_jobs.checks.schema_drift import audit_schema

    audit = audit_schema(pipeline, lineage.source)
    assert audit, "only sources that are servers have the check"
    return _result(lineage, SCHEMA, _first_lines(audit.lines()), checkpoint.schema_metadata(audit), str(audit))


def _first_lines(lines: list[str]) -> str:
    """The first of many."""
    rest = f"\n… and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "\n".join(lines[:_SHOWN]) + rest


def _check_keys(
    pipeline: Pipeline, lineage: Lineage, tables: list[TableAsset], spark: Sessions
) -> Iterator[dg.AssetCheckResult]:
    from spark_jobs.binlog import TableName
    from spark_jobs.checks.integrity import NEVER_WHOLE, REPEATED, keys_never_whole, repeated_keys

    # Keys that occur twice are counted by Spark, keys that were never complete are in the commits.
    names = {table.key: (TableName(*table.origins[0]), table.name) for table in tables}
    with failing():
        repeated_counts = repeated_keys(spark.session(), pipeline, lineage.source, list(names.values()))
        unseen = keys_never_whole(pipeline, lineage.source)
    for table in tables:
        repeated, lacking = repeated_counts.get(names[table.key]), unseen.get(names[table.key], 0)
        text = {
            None: "the table has no key, or no row yet",
            0: None,
        }.get(repeated, f"{counted(repeated or 0, 'key')} in several rows: {REPEATED}")
        if lacking:
            text = f"{counted(lacking, 'key')} missing: {NEVER_WHOLE}" + (f"; {text}" if repeated else "")
        metadata = {} if repeated is None else {KEYS: checkpoint.number(repeated)}
        metadata |= {checkpoint.NEVER_WHOLE: checkpoint.number(lacking)} if lacking else {}
        yield dg.AssetCheckResult(
            asset_key=table.key,
            check_name=KEYS_UNIQUE,
            passed=not (repeated or lacking),
            description=text,
            metadata=metadata,
        )


def _result(
    lineage: Lineage, name: str, problem: str, metadata: Metadata, text: str = "", *, warns: bool = False
) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckResult(
        asset_key=lineage.bronze,
        check_name=name,
        passed=not problem,
        severity=severity,
        description=problem or text or None,
        metadata=metadata,
    )
