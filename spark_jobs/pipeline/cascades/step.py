"""Changes of child tables by foreign keys, derived and stored before the tables are compacted (``on_cascade: apply``).

Tables that keys join are gone through together. What is derived is one commit of ``cascades/<source>``, which says up
to where it is complete; a child is compacted no further. Where nothing that such a key refers to changed, nothing is
read or written. Without a choice of ``on_cascade``, a child continues where something is not known that is needed, and
the commit says from where to where and why.

Put here: which children can be derived, where their log and rows are, and the commit. Not here: deriving
(spark_jobs/cascades/), what limits mean to a plan (table_planner.py).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import CascadesCommit, DerivedSlice
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, scan_effective, scan_metadata
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.mirror_rows import MirrorRows
from spark_jobs.cascades.parent_changes import first_cascade
from spark_jobs.cascades.walk import ChildTable, Derived, JoinedLog, Walk
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.effects import AlterTable, effects
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.modes import CURRENT_VALUES
from spark_jobs.downstream.multi_source import PROVENANCE
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import DecodeError, LakeError, LostRace, TableStopped
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.groups import LogPart, is_made_in, parts_between_renames, table_groups
from spark_jobs.pipeline.cascades.origins import unknown_rows
from spark_jobs.pipeline.cascades.refusals import destination_of_rows, is_applied, refusals
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges, names_by_history
from spark_jobs.pipeline.destinations import downstream_of
from spark_jobs.schema.history import read as read_history
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit, is_complete
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.quarantine import with_skips
from spark_jobs.text.counts import counted
from spark_jobs.text.progress import doing

log = logging.getLogger(__name__)

_OF_ANY_POSITION = (CommitKind.LOAD, CommitKind.MEND, CommitKind.REDO)
"""Kinds of commits of silver whose rows may be of any part of the log: read from the server, or windows again."""
_INCOMPLETE = "the lake has not all of its rows: load it (stratalog load), without on_cascade or with warn"


@dataclass(frozen=True, slots=True)
class CascadeLimit:
    """The position up to which a child table can be compacted; ``reason``: why it stops there, None where it waits."""

    end: Position
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AppliedCascades:
    """Result of deriving a source's changes by foreign keys.

    Attributes:
        limits: child tables that are not to be compacted up to the log's end.
        refused: child tables of which nothing is derived, and why: they stop before a change that would have to be.
        derived: by child table how many changes were stored.
    """

    limits: Mapping[TableName, CascadeLimit] = field(default_factory=dict)
    refused: Mapping[TableName, str] = field(default_factory=dict)
    derived: Mapping[TableName, int] = field(default_factory=dict)


NOTHING_APPLIED = AppliedCascades()


class _Unmerged(Exception):
    """Rows of a child are in silver alone, of log that its mirror has: the mirror comes first."""


class _Unknown(Exception):
    """The lake lacks what is needed to derive anything of some tables; why, by table, from a change of a parent on."""

    def __init__(self, since: Position, reasons: dict[TableName, str]) -> None:
        super().__init__(str(since))
        self.since, self.reasons = since, reasons


@dataclass(slots=True)
class _Found:
    """Results of a run that derives changes of a source, group by group.

    Attributes:
        end: of the log that the run has.
        notes: by child table what was not derived, as CascadesCommit has it.
        positions: by child table up to where changes are derived.
        refused: the child tables of which nothing is derived, and why.
        read: the child tables whose mirrors changes were derived from.
    """

    end: Position
    notes: dict[str, Mapping[str, str]]
    positions: dict[str, Position]
    refused: dict[TableName, str]
    read: list[ChildTable] = field(default_factory=list)
    slices: list[DerivedSlice] = field(default_factory=list)
    limits: dict[TableName, CascadeLimit] = field(default_factory=dict)

    def note(self, since: Position, reasons: Mapping[TableName, str]) -> None:
        """Notes tables that lack changes from a position up to the log's end, and why."""
        for name, reason in reasons.items():
            first = self.notes.get(str(name), {"from": str(since)})["from"]
            self.notes[str(name)] = {"from": first, "to": str(self.end), "reason": reason}


@dataclass(frozen=True, slots=True)
class CascadeStep:
    """Derives what is new of a source.

    Attributes:
        entries: what is published of its tables.
        gaps: those of its log.
    """

    pipeline: Pipeline
    lake: Lake
    snapshot: BronzeSnapshot
    entries: Sequence[Entry]
    gaps: SourceUnloggedChanges

    @property
    def source(self) -> str:
        return self.snapshot.source

    def run(self) -> AppliedCascades:
        """Derive the changes of all chosen foreign keys and commit them.

        Raises LostRace if another writer was first, LakeError.
        """
        keys = [gap for gap in self.gaps.changes if gap.key]
        wanted = {gap.table for gap in keys if is_applied(self.pipeline, self.gaps.actions, gap.table)}
        if not wanted:
            return NOTHING_APPLIED
        refused = refusals(self.pipeline, self.gaps.actions, self.source, keys)
        applied = [gap for gap in keys if gap.table in wanted and gap.table not in refused]
        # Group by group, from where each is.
        table = self.lake.cascades(self.source)
        head = table.head()
        stored = CascadesCommit.of_head(head)
        positions = {name: Position.parse(text) for name, text in (stored.positions if stored else {}).items()}
        found = _Found(self.snapshot.end, dict(stored.underived if stored else {}), dict(positions), refused)
        for group in table_groups(applied, self.gaps.renames):
            self._derive(group, positions, found)
        # One commit for all of them; none where no parent changed.
        chosen_names = {str(name) for name in wanted if self._is_chosen(name)}
        underived = {name: note for name, note in found.notes.items() if name not in chosen_names}
        if found.positions != positions or underived != (stored.underived if stored else {}):
            upon = head or table.unwritten_head(derived_slices.COLUMNS, {})
            commit = CascadesCommit(
                self.snapshot.end,
                new_batch(),
                positions={name: str(position) for name, position in sorted(found.positions.items())},
                changes=sum(derived_slices.counts(found.slices).values()),
                removed=stored.removed if stored else {},
                underived=underived,
            )
            _require_still_merged(self.lake, self.source, found.read)
            table.append_rows(derived_slices.rows_of(found.slices), upon, commit)
            if found.slices:
                log.info("%s: derived %s by foreign keys", self.source, counted(commit.changes, "change"))
        refused = {name: reason for name, reason in refused.items() if self._is_chosen(name)}
        return AppliedCascades(found.limits, refused, derived_slices.counts(found.slices))

    def _derive(self, group: Sequence[UnloggedChanges], positions: Mapping[str, Position], found: "_Found") -> None:
        """Add what is derived of tables that keys join. Raises LakeError."""
        names = {gap.table for gap in group}
        # What was chosen stops where it is not possible. Other tables go on, and the commit says what they lack.
        chosen = {name for name in names if self._is_chosen(name)}
        try:
            with doing(f"{self.source}: deriving changes by foreign keys"):
                derived = self._derived(group, positions, chosen, found)
        except _Unmerged:
            found.limits |= dict.fromkeys(names, CascadeLimit(self.snapshot.oldest))
            return
        except _Unknown as error:
            found.refused |= error.reasons
            found.note(error.since, {name: error.reasons[name] for name in names - chosen})
            found.positions |= {} if chosen else dict.fromkeys(map(str, names), self.snapshot.end)
            return
        if derived is None:
            return
        found.slices += derived.slices
        found.read += derived.children
        end = derived.end
        if derived.reason:
            found.note(derived.end, dict.fromkeys(names - chosen, derived.reason))
            found.limits |= dict.fromkeys(chosen, CascadeLimit(derived.end, derived.reason))
            end = derived.end if chosen else self.snapshot.end
        elif derived.end < self.snapshot.end:
            found.limits |= dict.fromkeys(names, CascadeLimit(derived.end))
        found.positions |= dict.fromkeys(map(str, names), end)

    def _is_chosen(self, name: TableName) -> bool:
        """True if the configuration says that changes of a child table are derived."""
        return self.gaps.actions.of(name.schema, name.table) == "apply"

    def _derived(
        self,
        group: Sequence[UnloggedChanges],
        positions: Mapping[str, Position],
        chosen: Collection[TableName],
        found: "_Found",
    ) -> Derived | None:
        """Changes derived of tables that keys join; None where nothing that the keys refer to changed.

        Raises _Unknown where the lake has not all of their rows, _Unmerged where a mirror has not.
        """
        names = {gap.table for gap in group}
        try:
            children = {name: self._child(name) for name in names}
        except TableStopped as error:
            raise _Unknown(self.snapshot.oldest, dict.fromkeys(names, str(error))) from error
        within = Range(min(self._start(names, positions, children), self.snapshot.end), self.snapshot.end)
        # A child that gets rows which are not known ends there, or continues with a note.
        named = names_by_history(self.lake, self.source)
        for rows in unknown_rows(self.snapshot, self.gaps, names, within, named):
            name, at = rows.renamed.table, rows.renamed.at
            if children[name].has(at):
                continue
            if name in chosen:
                derived = self._derived_in(group, children, Range(within.start, at), positions)
                is_behind = derived is not None and (derived.reason or derived.end < at)
                return derived if is_behind else replace(derived or Derived((), at), end=at, reason=rows.reason)
            found.note(at, {name: rows.reason})
        return self._derived_in(group, children, within, positions)

    def _derived_in(
        self,
        group: Sequence[UnloggedChanges],
        children: Mapping[TableName, ChildTable],
        within: Range,
        positions: Mapping[str, Position],
    ) -> Derived | None:
        """Changes derived in a range of the log, or up to where a mirror has to come first; as ``_derived``."""
        # Nothing is read where no parent has a row in the log, or none that cascades.
        names, start, end = {gap.table for gap in group}, within.start, within.stop
        if not within or not _has_parents(self.snapshot, group, within):
            return None
        index, scan = self._scanned(within)
        parts = parts_between_renames(scan, names, within)
        part = next((part for part in parts if self._cascades(index, group, part.within)), None)
        if part is None:
            return Derived((), end) if any(str(name) in positions for name in names) else None
        # Rows are looked up under the names that they have there.
        keys = part.keys(group)
        children = {gap.table: children[gap.table] for gap in keys}
        if part.within.start > start and any(not child.has_all_to(part.within.start) for child in children.values()):
            return Derived((), part.within.start)
        return self._walked(keys, part, children, names, index)

    def _walked(
        self,
        group: Sequence[UnloggedChanges],
        part: LogPart,
        children: Mapping[TableName, ChildTable],
        names: Collection[TableName],
        index: SliceIndex,
    ) -> Derived:
        """Changes derived in a part of the log; as ``_derived``. names: those of the group in other parts too."""
        start = part.within.start
        # The log from where the mirror ends that is furthest behind.
        since = min([start, *(child.complete_to or self.snapshot.oldest for child in children.values())])
        begin, reason = self._behind_mirrors(index, group, part.within, children)
        if since < self.snapshot.oldest:
            reason = f"its rows are needed since {since}, and bronze begins at {self.snapshot.oldest}"
        if reason:
            return Derived((), begin, reason)
        index, scan = self._scanned(Range(since, part.stop))
        incomplete = {name: reason for name in children if (reason := self._why_incomplete(name, scan, part.stop))}
        if incomplete:
            joined_reason = f"foreign keys join it with {min(incomplete)}, whose rows the lake lacks"
            raise _Unknown(start, {name: incomplete.get(name, joined_reason) for name in names})
        if any(_is_unmerged(self.lake, self.source, child) for child in children.values()):
            raise _Unmerged
        joined = JoinedLog(index, self.snapshot.table.path, Range(begin, part.stop), since, children, group)
        derived = Walk(self._with_definitions(joined, scan)).derive()
        return replace(derived, children=tuple(children.values()))

    def _entry(self, name: TableName) -> Entry | None:
        """Entry of a table in what is published."""
        return next((entry for entry in self.entries if entry.name == (name.schema, name.table)), None)

    def _behind_mirrors(
        self,
        index: SliceIndex,
        group: Sequence[UnloggedChanges],
        within: Range,
        children: Mapping[TableName, ChildTable],
    ) -> tuple[Position, str | None]:
        """Position from which on changes are derived where mirrors are ahead, and why they cannot be.

        A table that had another ``on_cascade`` meanwhile has what the log had: its changes are derived from there.
        """
        start = within.start
        ahead = max([start, *(child.complete_to for child in children.values() if child.complete_to)])
        ahead = min(ahead, within.stop)
        if ahead == start or not self._cascades(index, group, Range(start, ahead)):
            return start, None
        if not all(child.has_all_to(ahead) for child in children.values()):
            return start, f"tables that foreign keys join it with are compacted up to {ahead}, without what these do"
        return ahead, None

    def _scanned(self, within: Range) -> tuple[SliceIndex, RangeScan]:
        snapshot, bounds = self.snapshot, {within.start, within.stop}
        return scan_effective(snapshot.table, snapshot.version, within, snapshot.oldest, bounds)

    def _cascades(self, index: SliceIndex, group: Sequence[UnloggedChanges], within: Range) -> bool:
        """True if a change of a parent may change child rows. index: from the range's start on."""
        named = names_by_history(self.lake, self.source)
        for gap in group:
            part = gap.part_of(within)
            try:
                if part and gap.key and first_cascade(index, gap.key, part, named):
                    return True
            except TableStopped:  # the walk says where
                return True
        return False

    def _start(
        self, names: Collection[TableName], positions: Mapping[str, Position], children: Mapping[TableName, ChildTable]
    ) -> Position:
        """Position from which on changes are derived: where that ended, or the lake has the children when it begins."""
        # What every mirror has is behind them, whether a parent changed there or not.
        known = [positions[str(name)] for name in names if str(name) in positions]
        present = [child.complete_to for child in children.values() if child.complete_to]
        reached = [*present, *(self._surveyed for child in children.values() if self._is_unseen(child))]
        common = [min(reached)] if len(reached) == len(children) else []
        return max([self.snapshot.oldest, *(known or present), *common])

    def _is_unseen(self, child: ChildTable) -> bool:
        """True if no run has seen a child in the log, so that the lake has no row of it that could change."""
        return child.definition is None and child.complete_to is None and self._entry(child.name) is None

    @property
    def _surveyed(self) -> Position:
        """The position up to which runs have looked for tables in the log."""
        return publication.surveyed_to(self.lake, self.source) or self.snapshot.oldest

    def _child(self, name: TableName) -> ChildTable:
        """A child table as the lake has it."""
        entry = self._entry(name)
        silver_head = self.lake.silver(self.source, name.schema, name.table).head()
        into = destination_of_rows(self.pipeline, self.source, name)
        assert into, "a table without one is refused"
        target = downstream_of(self.lake, self.source, name, into)
        head = target.head()
        commit = SilverCommit.of_head(silver_head)
        if silver_head is None and entry and not entry.is_reset:
            return ChildTable(name, None, MirrorRows(None), entry.checkpoint)  # it has no row up to there
        if head is None or head.position is None or silver_head is None:
            return ChildTable(name, commit.definition if commit else None, MirrorRows(None), None)
        # What silver does not have since is not about the table: it is complete as far as it was compacted.
        position = head.position
        if head.position == silver_head.position and entry and entry.silver_version == silver_head.version:
            position = max([position, *([entry.checkpoint] if entry.checkpoint else [])])
        # Of the rows of other tables, and of deleted ones and old versions, added columns tell.
        provenance = (
            dict(zip(PROVENANCE, (self.source, name.schema, name.table), strict=True)) if into.is_merged else {}
        )
        rows = MirrorRows(snapshot_of(target.path, head.version), {**provenance, **CURRENT_VALUES[into.mode]})
        merged = DownstreamCommit.of_head(head)
        version = merged.silver_version if merged else -1
        return ChildTable(name, commit.definition if commit else None, rows, position, version)

    def _why_incomplete(self, name: TableName, scan: RangeScan, until: Position) -> str | None:
        """Reason why the lake lacks rows of a child table; None where it has all. scan: of the log up to ``until``."""
        table = self.lake.silver(self.source, name.schema, name.table)
        head = table.head()
        if head is not None:
            if silver.is_numbered(head):
                return "nothing names its columns"
            return None if is_complete(head) else _INCOMPLETE
        # A table that is not in silver yet begins in the log, or had rows before, which a load may be reading.
        entry = self._entry(name)
        if entry and entry.complete is False:
            return _INCOMPLETE
        if name not in scan.tables:
            return None
        statements = scan_metadata(read_index(self.snapshot.table, self.snapshot.version, kind="statement"))
        return None if is_made_in(statements, name, until) else _INCOMPLETE

    def _with_definitions(self, joined: JoinedLog, scan: RangeScan) -> JoinedLog:
        """Joined log with what is known of the tables besides their rows."""
        names = sorted(joined.children)
        statements = [(logged, name) for name in names for logged in scan.about(name, joined.since)]
        filters = with_skips(self.pipeline.filters, self.lake, self.source)
        return replace(
            joined,
            statements=sorted(statements, key=lambda pair: pair[0].position.order),
            named=names_by_history(self.lake, self.source),
            same_columns=_same_columns(self.lake, self.source),
            skips={name: filters_of(filters, self.source, name).skips for name in names},
        )


def _is_unmerged(lake: Lake, source: str, child: ChildTable) -> bool:
    """True if silver has other rows of the log that the mirror has: the log after it does not tell them."""
    # Silver may have gone on since: by maintenance, or by a run that was killed before it merged.
    table = lake.silver(source, child.name.schema, child.name.table)
    commits = [SilverCommit.of(checkpoint) for _, checkpoint in table.since(child.silver_version)]
    if any(commit.kind in _OF_ANY_POSITION for commit in commits):
        return True
    # The mirror waits for a table that is rebuilt until this is where it was.
    end, reached = child.complete_to, max((commit.position for commit in commits), default=None)
    if end is None or reached is None or reached < end:
        return False
    rebuilt = [commit for commit in commits if commit.is_overwrite and commit.kind != CommitKind.MAINTENANCE]
    return any(commit.start and commit.start < end for commit in rebuilt)


def _require_still_merged(lake: Lake, source: str, children: Iterable[ChildTable]) -> None:
    """Raise LostRace where silver got rows meanwhile that the mirrors which were read had not."""
    for child in children:
        if _is_unmerged(lake, source, child):
            raise LostRace(f"{source}: {child.name} got rows while changes by foreign keys were derived without them")


def _same_columns(lake: Lake, source: str) -> Callable[[LoggedStatement, TableName], bool]:
    """Function that says by the schema history whether a statement leaves a table's columns and key as they are."""
    history = cache(lambda: read_history(lake, source))

    def columns_at(name: TableName, at: Position) -> list[object] | None:
        version = history().at(at).get(name)
        definition: TableDefinition | None = version.definition if version and version.holds else None
        return None if definition is None else [*definition.columns, definition.key]

    # Keys and indexes come and go without a change of columns.
    def is_same(logged: LoggedStatement, name: TableName) -> bool:
        try:
            changes = effects(logged.statement, logged.database, logged.session)
            if not all(isinstance(change, AlterTable) for change in changes if name in change.tables):
                return False
            before, after = columns_at(name, logged.position), columns_at(name, logged.stop)
        except (DecodeError, LakeError):
            return False
        return bool(changes) and before is not None and before == after

    return is_same


def _has_parents(snapshot: BronzeSnapshot, group: Sequence[UnloggedChanges], within: Range) -> bool:
    """True if a part of the log has rows of a parent, or may commit such that were prepared before it."""
    index = read_index(snapshot.table, snapshot.version, within)
    if index.flags("is_xa").any():
        return True
    parents = {gap.key.parent for gap in group if gap.key}
    return any(len(index.in_ranges(index.rows_of(parent), [within])[0]) for parent in parents)
