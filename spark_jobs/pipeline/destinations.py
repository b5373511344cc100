"""Downstream tables of the rows of a source table.

Put here: the routes of a table as tables of the lake, with TableStopped where they do not tell. Not here: what a route
is (config/routes.py), or merging (table_merge.py).
"""

import logging

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination, Name
from spark_jobs.downstream.multi_source import PartTable, SharedPart
from spark_jobs.errors import (
    ConfigError,
    TableStopped,
)
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


TableInto = tuple[TableName, Name]
"""A source table, and a downstream table that its rows go to."""


def destinations_of(pipeline: Pipeline, source: str, name: TableName) -> tuple[Destination, ...]:
    """The downstream tables that a source table's rows are merged to. Raises TableStopped where routes do not tell."""
    try:
        return pipeline.routing.of(source, name.schema, name.table)
    except ConfigError as error:
        raise TableStopped(f"{source}: {name}: {error}") from error


def downstream_of(lake: Lake, source: str, name: TableName, into: Destination) -> Table:
    """A downstream table as a source table has it: the table, or its part of one of several.

    Raises TableStopped where the lake has no place for it.
    """
    table = lake.downstream(*into.name)
    if into.is_shared:
        return SharedPart(table, (source, name.schema, name.table))
    return PartTable(table, (source, name.schema, name.table)) if into.is_merged else table


def why_not_anew(pipeline: Pipeline, source: str, name: TableName) -> str | None:
    """Reason why no column of a source table can be restarted (on_incompatible); None where one can."""
    try:
        into = [
            destination for destination in pipeline.routing.of(source, name.schema, name.table) if destination.is_merged
        ]
    except ConfigError as error:
        return str(error)
    return f"routes merge it with others into {into[0]}" if into else None


def destinations_or_stop(
    pipeline: Pipeline, source: str, name: TableName, stopped: dict[TableName, str]
) -> tuple[Destination, ...]:
    """The destinations of a table; none where routes do not give any, which stops it: ``stopped`` gets the message."""
    try:
        return destinations_of(pipeline, source, name)
    except TableStopped as error:
        stopped[name] = advised(error, source, name)
        log.error("%s", stopped[name])  # noqa: TRY400 - the message is the whole of it
        return ()
