"""What the steps of a source's chain have in common: outputs, failing and trying again, what is selected.

Put here: what more than one of bronze.py, silver.py, downstream.py and published.py needs. Not here: what a step does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Comparison, Metadata
from assets.keys import GOES_ON, Lineage, Name, TableAsset
from spark_jobs.errors import AnotherLog, ConfigError, DecodeError, JvmEnded, StratalogError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.operations.backlog import heads
from spark_jobs.runtime.engine_errors import meaning
from spark_jobs.text.remedies import advised

if TYPE_CHECKING:  # these import pyspark
    from pyspark.sql import SparkSession

    from spark_jobs.binlog import TableName
    from spark_jobs.lake.commit import Head
    from spark_jobs.lake.table import Table

HANDED_ON = "handed_on"
"""Key of the IO manager that carries a step's outcome to the next one of the same run."""

SOURCE_TAG = "stratalog/source"
FROM_TAG = "stratalog/from"
TO_TAG = "stratalog/to"
"""Tags of a run: its source, and the part of the log that it is about."""

RETRY = dg.RetryPolicy(max_retries=2, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""A lost connection and a lost race pass; what does not pass says so (``failing``)."""

_LASTING = (ConfigError, DecodeError, TableStopped, AnotherLog, JvmEnded)

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.Output[Any]]


class Sessions(Protocol):
    """What a step needs of the resource ``spark``."""

    def session(self) -> "SparkSession":
        """The run's session, started when it is first asked for."""
        ...


class failing:  # noqa: N801 - reads as a statement: with failing():
    """Turns an error that has a message for the user into a failed step with that message and nothing else."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            error = meaning(error) or error
        if isinstance(error, StratalogError):
            raise dg.Failure(advised(error), allow_retries=not isinstance(error, _LASTING)) from None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a layer's tables a run is to work on. ``is_all`` takes in tables that the graph does not show yet."""

    tables: tuple[TableAsset, ...]
    is_all: bool

    @property
    def is_any(self) -> bool:
        return self.is_all or bool(self.tables)

    @property
    def names(self) -> "frozenset[TableName] | None":
        """The source tables to work on; None for all."""
        from spark_jobs.binlog import TableName

        return None if self.is_all else frozenset(TableName(*name) for table in self.tables for name in table.origins)

    @property
    def targets(self) -> frozenset[Name] | None:
        """The tables of the layer to work on; None for all."""
        return None if self.is_all else frozenset(table.name for table in self.tables)


def selection_of(context: dg.OpExecutionContext, lineage: Lineage, tables: tuple[TableAsset, ...]) -> Selection:
    """The selected ones among a layer's tables.

    A run that has both ends of the chain does all that lies between: a UI that was not reloaded since tables were seen
    for the first time selects everything that it knows, and means everything.
    """
    selected = tuple(table for table in tables if table.output in context.selected_output_names)
    is_whole = {lineage.bronze, lineage.published} <= context.selected_asset_keys
    return Selection(selected, is_whole or selected == tables)


def table_outputs(tables: Sequence[TableAsset]) -> dict[str, dg.Out]:
    """The outputs of a layer's tables and of their checks; a run fills those of the tables that it worked on."""
    checks = {table.check.get_python_identifier(): dg.Out(is_required=False) for table in tables if table.check}
    return {table.output: dg.Out(dg.Nothing, is_required=False) for table in tables} | checks


def is_selected(context: dg.OpExecutionContext, output: str) -> bool:
    return output in context.selected_output_names


def hand_on(context: dg.OpExecutionContext, output: str, outcome: object) -> Iterator[dg.Output[Any]]:
    """The outcome for the next step, where one follows in this run."""
    if is_selected(context, output):
        yield dg.Output(outcome, output)


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
    """What a run did to one table: up to where, what its materialization says, and the version of its data."""

    position: Position
    metadata: Metadata
    version: str | None = None
    """What makes Dagster call the assets after it unsynced; the position where nothing else is given."""
    is_elsewhere: bool = False
    """Whether it stands with another source in the graph."""


@dataclass(frozen=True, slots=True)
class Before:
    """The selected tables of a layer as they stood before a run: their heads, and Dagster's copies of them."""

    tables: "dict[dg.AssetKey, Table]"
    heads: "dict[dg.AssetKey, Head | None]"
    comparisons: dict[dg.AssetKey, Comparison]

    @classmethod
    def read(cls, context: dg.OpExecutionContext, tables: "dict[dg.AssetKey, Table]") -> Self:
        """Raises LakeError."""
        found_heads = dict(zip(tables, heads(list(tables.values())), strict=True))
        positions = {key: head.position if head else None for key, head in found_heads.items()}
        return cls(tables, found_heads, compared(context, positions))

    def events(
        self, context: dg.OpExecutionContext, steps: dict[dg.AssetKey, StepResult]
    ) -> Iterator[dg.MaterializeResult[None]]:
        """A materialization of every table that was worked on, and of every one whose copy is to be mended."""
        for key, table in self.tables.items():
            if key in steps:
                yield materialized(key, steps[key], self.comparisons[key])
            else:
                yield from mended(key, self.comparisons[key], self.heads[key], table)
        for key in steps.keys() - self.tables.keys():
            report_unshown(context, key, steps[key])


def materialized(key: dg.AssetKey, step: StepResult, comparison: Comparison) -> dg.MaterializeResult[None]:
    metadata = step.metadata | comparison.to_metadata()
    version = dg.DataVersion(step.version or str(step.position))
    return dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=version)


def mended(
    key: dg.AssetKey, comparison: Comparison, head: "Head | None", table: "Table", version: str | None = None
) -> Iterator[dg.MaterializeResult[None]]:
    """The lake's position once more for Dagster, where its copy differs from it."""
    if comparison.differs and head and head.position:
        yield materialized(key, StepResult(head.position, checkpoint.of_head(head, table), version), comparison)


def report_unshown(context: dg.OpExecutionContext, key: dg.AssetKey, step: StepResult) -> None:
    """The materialization of a table that the graph shows only after a reload, or with another source."""
    tags = checkpoint.version_tag(step.version or str(step.position))
    context.log_event(dg.AssetMaterialization(key, metadata=step.metadata, tags=tags))
    if step.is_elsewhere:
        return
    context.log.info("%s is not in the graph yet; it is once the code location is reloaded", key.to_user_string())


def check_results(
    context: dg.OpExecutionContext,
    tables: Sequence[TableAsset],
    stopped: dict[dg.AssetKey, list[str]],
    touched: set[dg.AssetKey],
) -> Iterator[dg.AssetCheckResult]:
    """Failed for tables that stopped, passed for those that were worked on.

    The jobs leave checks out, so that a table without news keeps the result it has; there the result is only logged. A
    selection in the UI takes them in, and wants a result of each.
    """
    for table in tables:
        reasons = stopped.get(table.key, [])
        if table.check and table.check.key in context.selected_asset_check_keys:
            description = "\n".join(reasons) or None
            yield dg.AssetCheckResult(
                asset_key=table.key, check_name=GOES_ON, passed=not reasons, description=description
            )
        elif table.check and (reasons or table.key in touched):
            context.log_event(_evaluation(table, reasons))  # type: ignore[arg-type] # taken, though its annotation is older


def _evaluation(table: TableAsset, reasons: list[str]) -> dg.AssetCheckEvaluation:
    description = "\n".join(reasons) or None
    return dg.AssetCheckEvaluation(table.key, GOES_ON, not reasons, description=description, metadata={})
