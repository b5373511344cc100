"""Inputs of planning the timelines of a source's tables.

Put here: bronze at one version, the rules of the configuration, what the schema history tells. Not here: the timeline
of a table (table_timeline.py), or what tables held under other names (rename_lineage.py).
"""

from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import Filters, TableFilters
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.schema.history import ServerDefinitions, by_history
from spark_jobs.silver.quarantine import with_skips
from spark_jobs.silver.timeline.inputs import ByHistory


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """One source's bronze as it was read, and the choices of its configuration about tables."""

    lake: Lake
    snapshot: BronzeSnapshot
    filters: Filters = field(default_factory=Filters)
    """The rules, and the events that are quarantined."""
    by_history: ByHistory = lambda _name, _start: None
    """Answer of the schema history about a table that nothing else is known of."""
    by_server: ServerDefinitions | None = None
    """Newest answer of the server, read once for all tables."""
    system_zone: str | None = None
    """The server's own time zone, where the configuration names it."""
    numbers: bool = False
    """True if columns whose names nothing tells are numbered."""
    on_drop_empties: bool = False
    """True if DROP TABLE takes the rows away."""
    begins_anew: bool = False
    """True if a column is retired at a statement that gives it a type which does not hold every value."""
    by_log: bool = False
    """True if rows are taken from silver only where the log does not have a table from its beginning on."""

    @classmethod
    def of(cls, pipeline: Pipeline, lake: Lake, snapshot: BronzeSnapshot) -> "PlanningContext":
        """Context by the configuration, and what the lake has of the source."""
        return cls(
            lake,
            snapshot,
            filters=with_skips(pipeline.filters, lake, snapshot.source),
            by_history=by_history(lake, snapshot.source),
            by_server=ServerDefinitions(lake, snapshot.source),
            system_zone=pipeline.sources[snapshot.source].system_time_zone,
            numbers=pipeline.on_unnamed == "number",
            on_drop_empties=pipeline.on_drop == "drop",
            begins_anew=pipeline.on_incompatible == "new_column",
        )

    @property
    def source(self) -> str:
        return self.snapshot.source

    @property
    def has_older_log(self) -> bool:
        """True if bronze begins later than the first extraction did."""
        return self.snapshot.oldest > self.snapshot.begin

    def complete(self, logged: TableDefinition, last_change: Position | None) -> TableDefinition:
        """A logged definition with what the log lacks, from what a server told last. Raises TableStopped."""
        return (self.by_server or ServerDefinitions(self.lake, self.source)).complete(logged, last_change)

    def for_load(self) -> "PlanningContext":
        """Context for rows that were read as the server shows them: by names that the server has."""
        return replace(
            self,
            by_history=lambda _name, _start: None,
            numbers=False,
            begins_anew=False,
        )


def filters_of(filters: Filters, source: str, name: TableName) -> TableFilters:
    """The rules about a table. Raises TableStopped where two of them cannot both be."""
    try:
        return filters.of(name.schema, name.table)
    except ConfigError as error:
        raise TableStopped(f"{source}: {error}") from error
