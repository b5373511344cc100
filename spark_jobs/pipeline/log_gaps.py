"""The tables of a source whose rows the log does not tell, and what a run does about them.

Put here: reading the gaps off the lake's schema history, and which of them stop a table. Not here: how they follow from
statements and servers (ddl/log_gaps.py), or how they are printed (spark_jobs/cli).

The statements are in the schema history whoever ran when, so the same log has the same gaps in every run.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.log_gaps import DdlStatement, LogGap, log_gaps
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.schema.history import declared_facts
from spark_jobs.source.server import Server
from spark_jobs.source.server_facts import ask_facts

LIMITS = "stratalog docs limits"
"""The page that says what to do about each gap."""
_CONDITIONAL = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_COLUMNS = ["stretch", "number", "file", "offset", "statement", "database"]


@dataclass(frozen=True, slots=True)
class Cascade:
    """A child table that is in scope, and the foreign key by which the server changes its rows unlogged."""

    table: TableName
    key: ForeignKey

    def __str__(self) -> str:
        return (
            f"{self.table}: {LogGap(self.table, self.key)}; compare it (stratalog verify), or replace the rule by "
            f"statements or triggers, which are logged ({LIMITS})"
        )

    def to_json(self) -> dict[str, str]:
        """One item of ``cascades`` in ``status --json``."""
        key = self.key
        return {
            "table": str(self.table),
            "constraint": key.name,
            "parent": str(key.parent),
            "on_delete": key.on_delete,
            "on_update": key.on_update,
        }


@dataclass(frozen=True, slots=True)
class Gaps:
    """The gaps of a source's tables.

    Attributes:
        source: its name.
        gaps: those of all tables, in scope or not.
        stops_cascades: whether foreign keys stop their child tables (``on_cascade: stop``).
    """

    source: str
    gaps: tuple[LogGap, ...] = ()
    stops_cascades: bool = False

    def of(self, name: TableName) -> list[LogGap]:
        """Those of a table. Some servers store names in small letters and log statements as they were typed."""
        exact = [gap for gap in self.gaps if gap.table == name]
        is_small = not exact and str(name).islower()
        return [gap for gap in self.gaps if str(gap.table).casefold() == str(name)] if is_small else exact

    def first(self, name: TableName, within: Range, skipped: Collection[Position] = ()) -> LogGap | None:
        """The first gap that stops a table in a range of its log.

        Args:
            name: the table.
            within: the range.
            skipped: the statements that are quarantined for it (stratalog skip).
        """
        gaps = [
            gap
            for gap in self.of(name)
            if (gap.key is None or self.stops_cascades)
            and gap.since not in skipped
            and gap.is_in(within.start, within.stop)
        ]
        return min(gaps, key=lambda gap: (gap.since is not None, gap.since or within.start), default=None)

    def refusal(self, gap: LogGap, name: TableName) -> str:
        """Why a gap stops a table, and what to do."""
        place = f"at {gap.since} " if gap.since else "since before the log "
        if gap.key is None:
            return f'{place}{gap}; leave the table out (tables: "!{name}", {LIMITS})'
        skip = f", or quarantine the statement (stratalog skip --source {self.source} --at {gap.since})"
        return (
            f"{place}{gap} (on_cascade: stop); set on_cascade: warn, which goes on with a warning"
            f"{skip if gap.since else ''} ({LIMITS})"
        )


NO_GAPS = Gaps("")


def gaps_of(pipeline: Pipeline, lake: Lake, source: str) -> Gaps:
    """The gaps of a source's tables, by its schema history; none where there is no history yet. Without a JVM."""
    table = lake.schema(source)
    rows = table.rows([("origin", "=", "ddl")], columns=_COLUMNS) if table.head() else []
    by_place = {(row["stretch"], row["number"], row["offset"]): row for row in rows if row["statement"]}
    statements = [
        DdlStatement(
            Position(row["file"], row["offset"], row["stretch"]),
            _CONDITIONAL.sub(r" \1 ", row["statement"]),
            row["database"] or "",
        )
        for row in by_place.values()
    ]
    gaps = log_gaps(statements, declared_facts(lake, source))
    return Gaps(source, tuple(gaps), stops_cascades=pipeline.on_cascade == "stop")


def cascades(pipeline: Pipeline, lake: Lake, source: str) -> list[Cascade]:
    """The child tables in scope that a foreign key changes unlogged now; none where ``on_cascade`` ignores them."""
    if pipeline.on_cascade == "ignore":
        return []
    return cascades_among(gaps_of(pipeline, lake, source).gaps, pipeline.scope.holds)


def remarks_on(pipeline: Pipeline, server: Server) -> list[str]:
    """What a live server declares of tables in scope that its log will not tell, a line each. Raises SourceError."""
    with server.connect() as connection:
        facts = ask_facts(server, connection, server.variables(connection), pipeline.scope.holds)
    gaps = log_gaps([], facts)
    versioned = [f"{gap.table}: {gap}; it will stop: leave it out ({LIMITS})" for gap in gaps if gap.key is None]
    cascades = [] if pipeline.on_cascade == "ignore" else cascades_among(gaps, pipeline.scope.holds)
    return [*versioned, *map(str, cascades)]


def cascades_among(gaps: Collection[LogGap], in_scope: Callable[[str, str], bool]) -> list[Cascade]:
    """The open ones of child tables in scope, by table and constraint."""
    cascades = [
        Cascade(gap.table, gap.key)
        for gap in gaps
        if gap.key and gap.until is None and in_scope(gap.table.schema, gap.table.table)
    ]
    return sorted(cascades, key=lambda cascade: (cascade.table, cascade.key.name))


def before_gap(within: Range, gap: LogGap) -> Range:
    """The part of a range before a gap begins."""
    begin = within.start if gap.since is None else max(gap.since, within.start)
    return replace(within, stop=begin)
