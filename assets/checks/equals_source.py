"""Asset check of each downstream table of a live source: its rows equal the source's.

Put here: the checks, and what they say. Not here: how tables are compared (spark_jobs/verify), or the job that runs
them (dagster_project/jobs.py).

The checks are there only where pipeline.yaml says ``verify: true``: each reads all rows of its table at the server, and
Dagster runs an asset's checks whenever somebody materializes it by hand.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Metadata
from assets.failures import failing, retried
from assets.lineage import Lineage, TableAsset
from assets.progress import sessions
from spark_jobs.config.model import Pipeline
from spark_jobs.runtime.lazy_session import lazy_session

if TYPE_CHECKING:  # imports pyspark
    from spark_jobs.checks.verify import Verdict
    from spark_jobs.pipeline.destinations import TableInto

EQUALS_SOURCE = "equals_source"
_SHOWN = 20
"""Differing keys in a check's metadata."""


def verify_checks(pipeline: Pipeline, lineage: Lineage) -> dg.AssetChecksDefinition | None:
    """The checks of a source's downstream tables, in one step and one Spark session; None where there are none."""
    tables = checked_tables(pipeline, lineage)
    if not tables:
        return None
    source, catalog = lineage.source, lineage.catalog

    @dg.multi_asset_check(
        name=catalog.name(f"verify_{source}"),
        description=f"Compares the downstream tables of {source} with the source's own rows while writes continue.",
        specs=[_spec(table) for table in tables],
        can_subset=True,
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    def verify(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        from spark_jobs.binlog import TableName
        from spark_jobs.checks.verify import verify_source

        # Only the selected tables are compared, all of them in one session.
        selected = {key.asset_key for key in context.selected_asset_check_keys}
        table_list = [table for table in tables if table.key in selected]
        targets = {(TableName(*asset.origins[0]), asset.name): asset for asset in table_list}
        names, pending = {name for name, _ in targets}, dict(targets)
        spark = lazy_session(sessions(context, catalog.spark).session)
        with failing():
            verdicts = verify_source(spark, pipeline, source, names.__contains__, lambda *pair: pair in targets)
            for verdict in verdicts:
                yield _result(pending.pop(_compared(pending, verdict)), verdict)
        # A table that has no verdict is gone on both sides.
        for asset in pending.values():
            text = "neither the source nor the lake has the table any more"
            yield dg.AssetCheckResult(asset_key=asset.key, check_name=EQUALS_SOURCE, passed=True, description=text)

    return verify


def _compared(targets: "Iterable[TableInto]", verdict: "Verdict") -> "TableInto":
    """Compared tables among these: of one that goes to several, a verdict names the downstream table."""
    own_targets = (pair for pair in targets if pair[0] == verdict.table)
    return next(pair for pair in own_targets if verdict.into in (None, ".".join(pair[1])))


def checked_tables(pipeline: Pipeline, lineage: Lineage) -> list[TableAsset]:
    """The downstream tables that have the check: those of one table of a live source, where checks are asked for."""
    if not pipeline.verify or pipeline.sources[lineage.source].mysql is None:
        return []
    return [asset for asset in lineage.downstream if asset.check and len(asset.origins) == 1]


def check_keys(pipeline: Pipeline, lineage: Lineage) -> list[dg.AssetCheckKey]:
    """Names of the checks."""
    return [_spec(table).key for table in checked_tables(pipeline, lineage)]


def _spec(table: TableAsset) -> dg.AssetCheckSpec:
    text = "Fails when a row or a value differs from the source's table."
    return dg.AssetCheckSpec(EQUALS_SOURCE, asset=table.key, description=text, blocking=True)


def _result(table: TableAsset, verdict: "Verdict") -> dg.AssetCheckResult:
    lines = [f"{verdict.state}: {verdict.table}", *verdict.remarks()]
    return dg.AssetCheckResult(
        asset_key=table.key,
        check_name=EQUALS_SOURCE,
        passed=verdict.is_right,
        description="\n".join(lines),
        metadata=_metadata(verdict),
    )


def _metadata(verdict: "Verdict") -> Metadata:
    lines = list(verdict.lines(values=False))[:_SHOWN]
    return {
        **(checkpoint.position_metadata(verdict.position) if verdict.position else {}),
        "rows/source": verdict.source_rows,
        "rows/lake": verdict.lake_rows,
        "rows/missing": verdict.missing,
        "rows/extra": verdict.extra,
        "rows/different": verdict.different,
        "rows/older": verdict.older,
        "rows/changing": verdict.changing,
        checkpoint.SECONDS: round(verdict.seconds, 3),
        **({"verify/keys": "\n".join(lines)} if lines else {}),
    }
