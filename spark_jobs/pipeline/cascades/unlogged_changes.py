"""Tables of a source with unlogged changes, and what a run does about them.

Put here: reading the gaps off the lake's schema history, and which of them stop a table. Not here: how they follow from
statements and servers (ddl/unlogged_changes.py), or how they are printed (spark_jobs/cli).

The statements are in the schema history whoever ran when, so the same log has the same gaps in every run.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.parent_changes import Named, ParentChange, first_cascade
from spark_jobs.config.cascades import CascadeAction, CascadeActions
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import DdlStatement, Renamed, UnloggedChanges, renames, unlogged_changes
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.refusals import cascade_actions, refusals
from spark_jobs.schema.history import declared_facts, read

LIMITS = "stratalog docs limits"
"""The page about changes that servers do not log."""
CASCADES = "stratalog docs cascades"
"""The page about foreign keys that change rows of child tables."""
_CONDITIONAL = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_COLUMNS = ["stretch", "number", "file", "offset", "statement", "database"]


def remedy_of_cascade(*, can_derive: bool) -> str:
    """The remedy for rows that a foreign key changes unlogged. can_derive: True if ``on_cascade: apply`` may help."""
    derived = ", or have it derived (on_cascade: apply)" if can_derive else ""
    return f"compare it (stratalog verify) and mend its rows (stratalog mend){derived} ({CASCADES})"


@dataclass(frozen=True, slots=True)
class Cascade:
    """A child table that is in scope, and the foreign key by which the server changes its rows unlogged.

    refusal: why nothing is derived of it, or not all was; None where it was, or is not to be.
    """

    table: TableName
    key: ForeignKey
    action: CascadeAction = "warn"
    refusal: str | None = None

    @property
    def is_derived(self) -> bool:
        """True if the lake has what the key does."""
        return self.action in ("apply", "apply_known") and self.refusal is None

    @property
    def gap(self) -> UnloggedChanges:
        return UnloggedChanges(self.table, self.key)

    @property
    def remedy(self) -> str:
        """The remedy for the child's rows."""
        return remedy_of_cascade(can_derive=self.refusal is None)

    def __str__(self) -> str:
        reason = f" ({self.refusal})" if self.refusal else ""
        return f"{self.table}: {self.gap}{reason}; {self.remedy}"

    def to_json(self) -> dict[str, str]:
        """One item of ``cascades`` in ``status --json``; ``reason`` where it says why nothing is derived."""
        key = self.key
        item = {
            "table": str(self.table),
            "constraint": key.name,
            "parent": str(key.parent),
            "on_delete": key.on_delete,
            "on_update": key.on_update,
        }
        return item | ({"reason": self.refusal} if self.refusal else {})


@dataclass(frozen=True, slots=True)
class StopAtUnlogged:
    """Stop of a table at a gap: the boundary of transactions before it, and the reason, with what to do."""

    at: Position
    refusal: str


FindCascade = Callable[[ForeignKey, Range], ParentChange | None]
"""The first change of a key's parent in a range by which the server may change child rows."""


@dataclass(frozen=True, slots=True)
class SourceUnloggedChanges:
    """The unlogged changes of a source's tables, each a gap of the log.

    Attributes:
        source: its name.
        changes: those of all tables, in scope or not.
        actions: what is done about child tables.
        is_logged: the server logs now what foreign keys do.
        refused: child tables with ``on_cascade: apply`` of which nothing can be derived, and why.
        renames: the names that statements of the log gave to tables, in order.
    """

    source: str
    changes: tuple[UnloggedChanges, ...] = ()
    actions: CascadeActions = field(default_factory=CascadeActions)
    is_logged: bool = False
    refused: Mapping[TableName, str] = field(default_factory=dict)
    renames: tuple[Renamed, ...] = ()

    def of(self, name: TableName) -> list[UnloggedChanges]:
        """The gaps of a table. Some servers store names in small letters and log statements as they were typed."""
        exact = [gap for gap in self.changes if gap.table == name]
        is_small = not exact and str(name).islower()
        return [_in_small(gap) for gap in self.changes if str(gap.table).casefold() == str(name)] if is_small else exact

    def above(self, name: TableName) -> list[UnloggedChanges]:
        """The gaps by foreign keys of a table, of its parents, and of theirs, also under their earlier names."""
        found: dict[TableName, list[UnloggedChanges]] = {}
        names = [name]
        while names:
            child = names.pop()
            if child not in found:
                found[child] = [gap for gap in self.of(child) if gap.key]
                names += [gap.key.parent for gap in found[child] if gap.key]
                names += self.earlier_names(child)
        return [gap for keys in found.values() for gap in keys]

    def earlier_names(self, name: TableName) -> list[TableName]:
        """The names of tables from which they got a name."""
        found, names = list[TableName](), [name]
        while names:
            new = names.pop()
            earlier = {renamed.was for renamed in self.renames if renamed.table == new} - {name, *found}
            found += earlier
            names += earlier
        return found

    def stopping_keys(self, name: TableName) -> list[UnloggedChanges]:
        """The foreign keys of a child table by which a change of its parent stops the child."""
        is_stopped = name in self.refused or self.actions.of(name.schema, name.table) == "stop"
        return [gap for gap in self.of(name) if gap.key] if is_stopped else []

    def children(self, parent: TableName, at: Position) -> set[TableName]:
        """The tables whose rows the server changes by those of a parent, at a position."""
        after = replace(at, offset=at.offset + 1)
        cascading = (gap for gap in self.changes if gap.key and gap.is_in(at, after))
        return {gap.table for gap in cascading if gap.key and str(gap.key.parent).casefold() == str(parent).casefold()}

    def first(
        self, name: TableName, within: Range, find: FindCascade, skipped: Collection[Position] = ()
    ) -> StopAtUnlogged | None:
        """Position where the first gap stops a table in a range of its log; None where none does.

        Args:
            name: the table.
            within: the range.
            find: looks for changes of parents.
            skipped: the events that are quarantined for it (stratalog skip).

        Raises:
            TableStopped: as ``find``, where no gap before it stops the table.
        """
        stops = [
            StopAtUnlogged(max(gap.since or within.start, within.start), self.refusal(gap, name))
            for gap in self.of(name)
            if gap.key is None and gap.since not in skipped and gap.is_in(within.start, within.stop)
        ]
        limit = min((stop.at for stop in stops), default=within.stop)
        for gap in self.stopping_keys(name):
            part = gap.part_of(Range(within.start, limit))
            change = find(gap.key, part) if gap.key and part else None
            if change:
                stops.append(StopAtUnlogged(max(change.boundary, within.start), self._refusal(gap, change, name)))
        return min(stops, key=lambda stop: stop.at, default=None)

    def refusal(self, gap: UnloggedChanges, name: TableName) -> str:
        """Reason why a system-versioned table stops, and what to do."""
        label = f"at {gap.since} " if gap.since else "since before the log "
        return f'{label}{gap}; leave the table out (tables: "!{name}", {LIMITS})'

    def _refusal(self, gap: UnloggedChanges, change: ParentChange, name: TableName) -> str:
        choice = "stop" if name not in self.refused else f"apply, which is not possible: {self.refused[name]}"
        return (
            f"{change.verb} of its parent at {change.at}: it {gap} (on_cascade: {choice}); quarantine that event for "
            f"it (stratalog skip --source {self.source} --at {change.at} --table {name}) and mend its rows (stratalog "
            f"docs mend), or set on_cascade: warn, which continues with a warning ({CASCADES})"
        )


def _in_small(gap: UnloggedChanges) -> UnloggedChanges:
    """Changes as of a server that stores names in small letters."""

    def small(name: TableName) -> TableName:
        return TableName(name.schema.casefold(), name.table.casefold())

    return replace(gap, key=replace(gap.key, parent=small(gap.key.parent)) if gap.key else None)


NO_UNLOGGED_CHANGES = SourceUnloggedChanges("")


def unlogged_changes_of(pipeline: Pipeline, lake: Lake, source: str) -> SourceUnloggedChanges:
    """The unlogged changes of a source's tables, by its schema history; none without a history. Without a JVM."""
    table = lake.schema(source)
    rows = table.rows([("origin", "=", "ddl")], columns=_COLUMNS) if table.head() else []
    # Each statement once: the history has a row of it for each table that it changes.
    by_position = {(row["stretch"], row["number"], row["offset"]): row for row in rows if row["statement"]}
    statements = [
        DdlStatement(
            Position(row["file"], row["offset"], row["stretch"]),
            _CONDITIONAL.sub(r" \1 ", row["statement"]),
            row["database"] or "",
        )
        for row in by_position.values()
    ]
    facts = declared_facts(lake, source)
    gaps = unlogged_changes(statements, facts)
    if not gaps:
        return SourceUnloggedChanges(source)
    return SourceUnloggedChanges(
        source,
        tuple(gaps),
        cascade_actions(pipeline, lake, source),
        is_logged=facts is not None and facts.logs_cascades,
        renames=tuple(renames(statements)),
    )


def cascades(pipeline: Pipeline, lake: Lake, source: str) -> list[Cascade]:
    """The child tables in scope that a foreign key changes now, and the lake does not know how.

    Without those that ``on_cascade`` ignores, and those whose changes are derived.
    """
    gaps = unlogged_changes_of(pipeline, lake, source)
    open_ = [] if gaps.is_logged else [gap for gap in gaps.changes if gap.key and gap.until is None]
    if not open_:
        return []
    refused = {**_underived(lake, gaps), **refusals(pipeline, gaps.actions, source, open_)}
    named = [
        Cascade(gap.table, gap.key, gaps.actions.of(gap.table.schema, gap.table.table), refused.get(gap.table))
        for gap in open_
        if gap.key and pipeline.scope.holds(gap.table.schema, gap.table.table)
    ]
    return sorted(
        (cascade for cascade in named if cascade.action != "ignore" and not cascade.is_derived),
        key=lambda cascade: (cascade.table, cascade.key.name),
    )


def _underived(lake: Lake, gaps: SourceUnloggedChanges) -> dict[TableName, str]:
    """The tables with ``apply_known`` that have rows which foreign keys changed while that was not known, and why."""
    commit = CascadesCommit.of_head(lake.cascades(gaps.source).head())
    found: dict[TableName, str] = {}
    notes = commit.underived if commit else {}
    for name in {gap.table for gap in gaps.changes}:
        note = next((notes[str(known)] for known in (name, *gaps.earlier_names(name)) if str(known) in notes), None)
        if note and gaps.actions.of(name.schema, name.table) == "apply_known":
            found[name] = (
                f"not derived from {note['from']} to {note['to']}: {note['reason']}; once its rows are mended, "
                "on_cascade: apply for it ends this warning"
            )
    return found


def require_derived(pipeline: Pipeline, snapshot: BronzeSnapshot, name: TableName, start: Position) -> None:
    """Check that foreign keys changed no row of a child in replayed log from before the lake began.

    Raises TableStopped.

    start: of the replay. Nothing is derived of such log, so that rows would come back which the server deleted.
    """
    # Children whose changes nobody derives are replayed as the log has them.
    lake, earlier = lake_of(pipeline), Range(max(start, snapshot.oldest), snapshot.begin)
    gaps = unlogged_changes_of(pipeline, lake, snapshot.source) if earlier else NO_UNLOGGED_CHANGES
    if not gaps.actions.is_derived(name.schema, name.table):
        return
    found = first_cascade_of(gaps.above(name), snapshot, lake, earlier)
    if found:
        gap, change = found
        assert gap.key, "it is a foreign key"
        raise TableStopped(
            f"{name}: {change.verb} of {gap.key.parent} at {change.at}: {gap.table} {gap}, and such changes are "
            f"derived from {snapshot.begin} on, where the lake began: rows would be as the log has them, and not "
            "as the server; begin there"
        )


def first_cascade_of(
    keys: Iterable[UnloggedChanges], snapshot: BronzeSnapshot, lake: Lake, within: Range
) -> tuple[UnloggedChanges, ParentChange] | None:
    """The first of some foreign keys by which a parent in a range may change child rows, where the key was there.

    With the change of its parent; None where none does. Raises TableStopped where columns have no names, LakeError.
    """
    parts = [(gap, gap.key, part) for gap in keys if gap.key and (part := gap.part_of(within))]
    if not parts:
        return None
    named, bounds = names_by_history(lake, snapshot.source), {within.start, within.stop}
    index, _ = scan_effective(snapshot.table, snapshot.version, within, snapshot.oldest, bounds)
    changes = ((gap, first_cascade(index, key, part, named)) for gap, key, part in parts)
    return next(((gap, change) for gap, change in changes if change), None)


def names_by_history(lake: Lake, source: str) -> Named:
    """Names of columns at a position, by the schema history, which is read when it is asked for the first time."""
    history = cache(lambda: read(lake, source))

    def named(logged: TableDefinition, at: Position) -> TableDefinition:
        version = history().at(at).get(logged.name)
        known_version = version if version and version.holds else None
        definition = known_version.definition if known_version else None
        if definition is None or not definition.has_names() or len(definition.columns) != len(logged.columns):
            raise TableStopped(f"{logged.name}: nothing names its columns at {at}", at)
        return definition

    return named
