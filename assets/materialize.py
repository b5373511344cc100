"""Materializations and check results of a layer's tables, and copies of positions that are corrected.

Put here: what a run reports of a table that it worked on, or whose position Dagster has wrong. Not here: the metadata
(checkpoint.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Comparison, Metadata
from assets.lineage import REPLICATING, TableAsset
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.backlog import heads

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.lake.commit import Head
    from spark_jobs.lake.table import Table


Events = Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.Output[Any]]


def compared(
    context: dg.OpExecutionContext, positions: dict[dg.AssetKey, Position | None]
) -> dict[dg.AssetKey, Comparison]:
    """Dagster's copies of positions beside the lake's; what differs is said in the log."""
    recorded = checkpoint.read_last(context.instance, positions)
    comparisons = {key: Comparison(recorded[key], position) for key, position in positions.items()}
    for key, comparison in comparisons.items():
        if comparison.differs:
            context.log.info("%s: %s", key.to_user_string(), comparison)
    return comparisons


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of a run for one table: its position, the metadata of its materialization, and the version of its data."""

    position: Position
    metadata: Metadata
    version: str | None = None
    """Data version that makes Dagster call the assets after it unsynced; the position where nothing else is given."""
    is_elsewhere: bool = False
    """True if it stands with another source in the graph."""


@dataclass(frozen=True, slots=True)
class Before:
    """The selected tables of a layer as they stood before a run: their heads, and Dagster's copies of them."""

    tables: "dict[dg.AssetKey, Table]"
    heads: "dict[dg.AssetKey, Head | None]"
    comparisons: dict[dg.AssetKey, Comparison]

    @classmethod
    def read(cls, context: dg.OpExecutionContext, tables: "dict[dg.AssetKey, Table]") -> Self:
        """The heads of tables before a step, compared with Dagster's last materializations. Raises LakeError."""
        found_heads = dict(zip(tables, heads(list(tables.values())), strict=True))
        positions = {key: head.position if head else None for key, head in found_heads.items()}
        return cls(tables, found_heads, compared(context, positions))

    def events(
        self, context: dg.OpExecutionContext, steps: dict[dg.AssetKey, StepResult]
    ) -> Iterator[dg.MaterializeResult[None]]:
        """A materialization of every table that was worked on, and of every one whose copy is to be resynced."""
        for key, table in self.tables.items():
            if key in steps:
                yield materialized(key, steps[key], self.comparisons[key])
            else:
                yield from resynced(key, self.comparisons[key], self.heads[key], table)
        for key in steps.keys() - self.tables.keys():
            report_unshown(context, key, steps[key])


def materialized(key: dg.AssetKey, step: StepResult, comparison: Comparison) -> dg.MaterializeResult[None]:
    metadata = step.metadata | comparison.to_metadata()
    version = dg.DataVersion(step.version or str(step.position))
    return dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=version)


def resynced(
    key: dg.AssetKey, comparison: Comparison, head: "Head | None", table: "Table", version: str | None = None
) -> Iterator[dg.MaterializeResult[None]]:
    """The lake's position once more for Dagster, where its copy differs from it. version: of bronze's data."""
    if comparison.differs and head and head.position:
        metadata = checkpoint.head_metadata(head, table) if version else checkpoint.table_metadata(head, table)
        yield materialized(key, StepResult(head.position, metadata, version), comparison)


def report_step(context: dg.OpExecutionContext, key: dg.AssetKey, step: StepResult) -> None:
    """The materialization of a table that is no output of the step."""
    tags = checkpoint.version_tag(step.version or str(step.position))
    context.log_event(dg.AssetMaterialization(key, metadata=step.metadata, tags=tags))


def report_unshown(context: dg.OpExecutionContext, key: dg.AssetKey, step: StepResult) -> None:
    """The materialization of a table that the graph shows only after a reload, or with another source."""
    report_step(context, key, step)
    if step.is_elsewhere:
        return
    context.log.info("%s is not in the graph yet; it is once the code location is reloaded", key.to_user_string())


def check_results(
    context: dg.OpExecutionContext,
    tables: Sequence[TableAsset],
    stopped: dict[dg.AssetKey, list[str]],
    touched: set[dg.AssetKey],
    warnings: Mapping[dg.AssetKey, list[str]] = MappingProxyType({}),
) -> Iterator[dg.AssetCheckResult]:
    """Failed for tables that stopped, passed for those that were worked on; a warning for those of ``warnings``.

    The jobs leave checks out, so that a table without news keeps the result it has; there the result is only logged. A
    selection in the UI takes them in, and wants a result of each.
    """
    for table in tables:
        reasons, remarks = stopped.get(table.key, []), warnings.get(table.key, [])
        severity = dg.AssetCheckSeverity.ERROR if reasons else dg.AssetCheckSeverity.WARN
        description, passed = "\n".join([*reasons, *remarks]) or None, not (reasons or remarks)
        result = dg.AssetCheckResult(
            asset_key=table.key, check_name=REPLICATING, passed=passed, severity=severity, description=description
        )
        if table.check and table.check.key in context.selected_asset_check_keys:
            yield result
        elif table.check and (not passed or table.key in touched):
            log_check(context, result)


def log_check(context: dg.OpExecutionContext, result: dg.AssetCheckResult) -> None:
    """The result of a check that is not in the plan of the run; it names its asset and its check."""
    assert result.asset_key
    assert result.check_name
    evaluation = dg.AssetCheckEvaluation(
        result.asset_key,
        result.check_name,
        result.passed,
        severity=result.severity,
        description=result.description,
        metadata=dict(result.metadata or {}),
    )
    context.log_event(evaluation)  # type: ignore[arg-type] # taken, though its annotation is older
