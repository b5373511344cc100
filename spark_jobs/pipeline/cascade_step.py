"""``on_cascade: apply``: changes of child tables by foreign keys, derived and stored before the tables are compacted.

Tables that keys join are gone through together. What is derived is one commit of ``cascades/<source>``, which says up
to where it is complete; a child is compacted no further. Where nothing that such a key refers to changed, nothing is
read or written.

Put here: which children can be derived, where their log and rows are, and the commit. Not here: deriving
(spark_jobs/cascades/), what limits mean to a plan (table_planner.py).
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import CascadesCommit, DerivedSlice
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.mirror_rows import MirrorRows
from spark_jobs.cascades.parent_changes import first_cascade
from spark_jobs.cascades.walk import ChildTable, Derived, JoinedLog, Walk
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.effects import AlterTable, effects
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream.modes import CURRENT_VALUES
from spark_jobs.downstream.multi_source import PROVENANCE
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import DecodeError, LakeError, TableStopped
from spark_jobs.lake.commit import new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascade_refusals import destination_of_rows, is_applied, refusals
from spark_jobs.pipeline.destinations import downstream_of
from spark_jobs.pipeline.unlogged_changes import SourceUnloggedChanges, names_by_history
from spark_jobs.schema.history import read as read_history
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit, is_complete
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.quarantine import with_skips
from spark_jobs.text.counts import counted
from spark_jobs.text.progress import doing

log = logging.getLogger(__name__)

_INCOMPLETE = "the lake has not all of its rows: load it (stratalog load) with on_cascade: warn, then set apply"


@dataclass(frozen=True, slots=True)
class CascadeLimit:
    """The position up to which a child table can be compacted; ``reason``: why it stops there, None where it waits."""

    end: Position
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AppliedCascades:
    """What is derived of a source.

    Attributes:
        limits: child tables that are not to be compacted up to the log's end.
        refused: child tables of which nothing is derived, and why: they stop before a change that would have to be.
        derived: by child table how many changes were stored.
    """

    limits: Mapping[TableName, CascadeLimit] = field(default_factory=dict)
    refused: Mapping[TableName, str] = field(default_factory=dict)
    derived: Mapping[TableName, int] = field(default_factory=dict)


NOTHING_APPLIED = AppliedCascades()


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
        """Raises LostRace where another writer has derived meanwhile, LakeError."""
        keys = [gap for gap in self.gaps.changes if gap.key]
        if not any(is_applied(self.pipeline, gap.table) for gap in keys):
            return NOTHING_APPLIED
        refused = refusals(self.pipeline, self.source, keys)
        applied = [gap for gap in keys if is_applied(self.pipeline, gap.table) and gap.table not in refused]
        # Group by group, from where each is.
        table = self.lake.cascades(self.source)
        head = table.head()
        stored = CascadesCommit.of_head(head)
        positions = {name: Position.parse(text) for name, text in (stored.positions if stored else {}).items()}
        slices: list[DerivedSlice] = []
        limits: dict[TableName, CascadeLimit] = {}
        new = dict(positions)
        for group in _table_groups(applied):
            with doing(f"{self.source}: deriving changes by foreign keys"):
                derived = self._derived(group, positions, refused)
            if derived is None:
                continue
            slices += derived.slices
            names = {gap.table for gap in group} - refused.keys()
            new |= dict.fromkeys(map(str, names), derived.end)
            if derived.end < self.snapshot.end or derived.reason:
                limits |= dict.fromkeys(names, CascadeLimit(derived.end, derived.reason))
        # One commit for all of them; none where no parent changed.
        if new != positions:
            upon = head or table.unwritten_head(derived_slices.COLUMNS, {})
            commit = CascadesCommit(
                self.snapshot.end,
                new_batch(),
                positions={name: str(position) for name, position in sorted(new.items())},
                changes=sum(derived_slices.counts(slices).values()),
                removed=stored.removed if stored else {},
            )
            table.append_rows(derived_slices.rows_of(slices), upon, commit)
            if slices:
                log.info("%s: derived %s by foreign keys", self.source, counted(commit.changes, "change"))
        return AppliedCascades(limits, refused, derived_slices.counts(slices))

    def _derived(
        self, group: Sequence[UnloggedChanges], positions: Mapping[str, Position], refused: dict[TableName, str]
    ) -> Derived | None:
        """What is derived of tables that keys join; None where nothing that the keys refer to changed.

        refused: gets the tables whose rows the lake does not have.
        """
        # Nothing is read where no parent has a row in the log, or none that cascades.
        names = {gap.table for gap in group}
        try:
            children = {name: self._child(name) for name in names}
        except TableStopped as error:
            refused |= dict.fromkeys(names, str(error))
            return None
        start, end = self._start(names, positions, children), self.snapshot.end
        if start >= end or not self._has_parents(group, Range(start, end)):
            return None
        index, scan = self._scanned(start)
        if not self._cascades(index, group, Range(start, end)):
            return Derived((), end)
        # The log from where the mirror ends that is furthest behind.
        since = min([start, *(child.complete_to or self.snapshot.oldest for child in children.values())])
        begin, reason = self._behind_mirrors(index, group, start, children)
        if since < self.snapshot.oldest:
            reason = f"its rows are needed since {since}, and bronze begins at {self.snapshot.oldest}"
        if reason:
            return Derived((), begin, reason)
        if since < start:
            index, scan = self._scanned(since)
        incomplete = {name: reason for name in names if (reason := self._why_incomplete(name, scan))}
        if incomplete:
            for name in names:
                refused[name] = (
                    incomplete.get(name) or f"foreign keys join it with {min(incomplete)}, whose rows the lake lacks"
                )
            return None
        joined = JoinedLog(index, self.snapshot.table.path, Range(begin, end), since, children, group)
        return Walk(self._with_definitions(joined, scan)).derive()

    def _has_parents(self, group: Sequence[UnloggedChanges], within: Range) -> bool:
        """True if a part of the log has rows of a parent, or may commit such that were prepared before it."""
        index = read_index(self.snapshot.table, self.snapshot.version, within)
        if index.flags("is_xa").any():
            return True
        parents = {gap.key.parent for gap in group if gap.key}
        return any(len(index.in_ranges(index.rows_of(parent), [within])[0]) for parent in parents)

    def _behind_mirrors(
        self,
        index: SliceIndex,
        group: Sequence[UnloggedChanges],
        start: Position,
        children: Mapping[TableName, ChildTable],
    ) -> tuple[Position, str | None]:
        """From where on changes are derived where mirrors are ahead, and why they cannot be.

        A table that had another ``on_cascade`` meanwhile has what the log had, and is gone on with from there.
        """
        ahead = max([start, *(child.complete_to for child in children.values() if child.complete_to)])
        ahead = min(ahead, self.snapshot.end)
        if ahead == start or not self._cascades(index, group, Range(start, ahead)):
            return start, None
        if any(child.complete_to is None or child.complete_to < ahead for child in children.values()):
            return start, f"tables that foreign keys join it with are compacted up to {ahead}, without what these do"
        return ahead, None

    def _scanned(self, since: Position) -> tuple[SliceIndex, RangeScan]:
        snapshot = self.snapshot
        return scan_effective(snapshot.table, snapshot.version, Range(since, snapshot.end), snapshot.oldest, {since})

    def _cascades(self, index: SliceIndex, group: Sequence[UnloggedChanges], within: Range) -> bool:
        """True if a change of a parent may change child rows. index: from the range's start on."""
        named = names_by_history(self.lake, self.source)
        for gap in group:
            part = (
                Range(max(gap.since or within.start, within.start), min(gap.until or within.stop, within.stop))
                if (gap.is_in(within.start, within.stop))
                else None
            )
            try:
                if part and gap.key and first_cascade(index, gap.key, part, named):
                    return True
            except TableStopped:  # the walk says where
                return True
        return False

    def _start(
        self, names: Collection[TableName], positions: Mapping[str, Position], children: Mapping[TableName, ChildTable]
    ) -> Position:
        """From where on changes are derived: where that ended before, or the lake has the children when it begins."""
        # What every mirror has is behind them, whether a parent changed there or not.
        known = [positions[str(name)] for name in names if str(name) in positions]
        present = [child.complete_to for child in children.values() if child.complete_to]
        common = [min(present)] if len(present) == len(children) else []
        return max([self.snapshot.oldest, *(known or present), *common])

    def _child(self, name: TableName) -> ChildTable:
        """A child table as the lake has it."""
        entry = next((entry for entry in self.entries if entry.name == (name.schema, name.table)), None)
        silver_head = self.lake.silver(self.source, name.schema, name.table).head()
        into = destination_of_rows(self.pipeline, self.source, name)
        assert into, "a table without one is refused"
        target = downstream_of(self.lake, self.source, name, into)
        head = target.head()
        commit = SilverCommit.of_head(silver_head)
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
        return ChildTable(name, commit.definition if commit else None, rows, position)

    def _why_incomplete(self, name: TableName, scan: RangeScan) -> str | None:
        """Why the lake does not have all rows of a child table; None where it has."""
        table = self.lake.silver(self.source, name.schema, name.table)
        head = table.head()
        if head is not None:
            if silver.is_numbered(head):
                return "nothing names its columns"
            return None if is_complete(head) else _INCOMPLETE
        # A table that is not in silver yet begins in the log, or had rows before.
        created = [
            logged for logged in scan.about(name, self.snapshot.oldest) if logged.statement.effect is Effect.CREATES
        ]
        if name in scan.tables and not created:
            return _INCOMPLETE
        return None

    def _with_definitions(self, joined: JoinedLog, scan: RangeScan) -> JoinedLog:
        """With what is known of the tables besides their rows."""
        names = sorted(joined.children)
        statements = [(logged, name) for name in names for logged in scan.about(name, joined.since)]
        filters = with_skips(self.pipeline.filters, self.lake, self.source)
        return replace(
            joined,
            statements=sorted(statements, key=lambda pair: pair[0].position.order),
            named=names_by_history(self.lake, self.source),
            same_columns=self._same_columns(),
            skips={name: filters_of(filters, self.source, name).skips for name in names},
        )

    def _same_columns(self) -> Callable[[LoggedStatement, TableName], bool]:
        """Whether a statement leaves a table's columns and key as they are, by the schema history."""
        history = cache(lambda: read_history(self.lake, self.source))

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


def _table_groups(keys: Sequence[UnloggedChanges]) -> list[list[UnloggedChanges]]:
    """Foreign keys by the tables that they join."""
    groups: list[tuple[set[TableName], list[UnloggedChanges]]] = []
    for gap in keys:
        assert gap.key
        tables, joined = {gap.table, gap.key.parent}, [gap]
        for group in [group for group in groups if group[0] & tables]:
            tables |= group[0]
            joined = [*group[1], *joined]
            groups.remove(group)
        groups.append((tables, joined))
    return [joined for _, joined in groups]
