"""Selection of a layer's tables for a run, and the result that a step passes to the next one.

Put here: the selection as Dagster has it, and the outputs of a layer's tables. Not here: what a step does with them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.keys import Name
from assets.lineage import Lineage, TableAsset

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.binlog import TableName


HANDED_ON = "handed_on"
"""Key of the IO manager that carries a step's outcome to the next one of the same run."""


@dataclass(frozen=True, slots=True)
class StepSelection:
    """Selection of a layer's tables for a run. ``all`` takes in tables that the graph does not show yet."""

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


def selection_of(context: dg.OpExecutionContext, lineage: Lineage, tables: tuple[TableAsset, ...]) -> StepSelection:
    """The selected ones among a layer's tables.

    A run that has both ends of the chain does all that lies between: a UI that was not reloaded since tables were seen
    for the first time selects everything that it knows, and means everything.
    """
    selected = tuple(table for table in tables if table.output in context.selected_output_names)
    is_whole = {lineage.bronze, lineage.published} <= context.selected_asset_keys
    return StepSelection(selected, is_whole or selected == tables)


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
