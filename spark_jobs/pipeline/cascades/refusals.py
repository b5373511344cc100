"""Child tables whose changes by foreign keys are to be derived, and cannot be by the configuration alone.

Put here: what is done about each child table, which tables are refused, and why. Not here: what the lake lacks of a
table (step.py), or what becomes of them (unlogged_changes.py).
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.cascades import CascadeActions
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.downstream.modes import CURRENT_ROWS
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import Lake
from spark_jobs.pipeline.destinations import destinations_of
from spark_jobs.silver.planning_context import filters_of


def cascade_actions(pipeline: Pipeline, lake: Lake, source: str) -> CascadeActions:
    """The actions for the child tables of a source; the default is that of the lake's beginning. Raises LakeError.

    A lake that is not there yet begins with ``apply_known``.
    """
    commit = BronzeCommit.of_head(lake.bronze(source).head())
    is_old = commit is not None and not commit.derives_cascades
    return replace(pipeline.cascade_actions, default="warn" if is_old else "apply_known")


def refusals(
    pipeline: Pipeline, actions: CascadeActions, source: str, keys: Collection[UnloggedChanges]
) -> dict[TableName, str]:
    """The child tables that are to be derived and cannot be, and why, by the configuration alone.

    keys: all foreign keys that cascade, of whichever tables.
    """
    found: dict[TableName, str] = {}
    children = {gap.table for gap in keys}
    applied = {name for name in children if is_applied(pipeline, actions, name)}
    for name in sorted(applied):
        reason = next(_reasons(pipeline, source, name), None)
        if reason:
            found[name] = reason
    # Children of a child whose own changes are not known are not known either.
    while True:
        children_of_refused = {
            gap.table: f"its parent {gap.key.parent} is changed by foreign keys itself, and that is not applied"
            for gap in keys
            if gap.key and gap.table in applied and gap.table not in found
            if gap.key.parent in children and (gap.key.parent not in applied or gap.key.parent in found)
        }
        if not children_of_refused:
            return found
        found |= children_of_refused


def is_applied(pipeline: Pipeline, actions: CascadeActions, name: TableName) -> bool:
    """True if changes of a child table are to be derived, as far as that is possible."""
    return actions.is_derived(name.schema, name.table) and pipeline.scope.holds(name.schema, name.table)


def _reasons(pipeline: Pipeline, source: str, name: TableName) -> Iterator[str]:
    """Reasons why the configuration leaves nothing to derive the changes of a child table from."""
    # Rows that the lake does not have as the server has them.
    filters = filters_of(pipeline.filters, source, name)
    if filters.events or filters.rows:
        yield "filters leave out rows or changes of it, so that the lake does not have its rows"
    rule = filters.columns
    if rule and (rule.exclude or rule.masks or rule.include is not None):
        yield "a rule about its columns (columns:) hides what the server has in them"
    # Rows that are not found.
    try:
        into = destination_of_rows(pipeline, source, name)
    except TableStopped as error:
        yield str(error)
        return
    if into is None:
        yield (
            "no downstream table has its rows of now and of no other table's key: route it to one more (routes:), "
            f"with mode: {' or '.join(CURRENT_ROWS)}"
        )


def destination_of_rows(pipeline: Pipeline, source: str, name: TableName) -> Destination | None:
    """The downstream table whose rows are those of a source table, or among others say so; None where none is.

    Raises TableStopped where routes do not tell.
    """
    listed = destinations_of(pipeline, source, name)
    return next((into for into in listed if into.mode in CURRENT_ROWS and not into.is_shared), None)
