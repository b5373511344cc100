"""Changes by foreign keys among those to revert: which of them statements restore, and in which order.

A parent's row that is back has its children restored behind it, table by table from parents to children. An UPDATE of a
key cascades again when it is taken back, so that its children need no statement. What cannot be decided is refused.

Put here: what becomes of derived changes of the events that are taken back. Not here: statements (undo_steps.py),
reading changes (trace.py).
"""

import logging
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from spark_jobs.binlog import TableName
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.ddl.foreign_keys import CASCADING
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.downstream import publication
from spark_jobs.errors import Unsupported
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.row_history.trace import TracedChange
from spark_jobs.row_history.trace_lines import differing

log = logging.getLogger(__name__)

Event = tuple[int, ...]
"""Order of the position where a row event, or an XA transaction, takes effect: the beginning of
``TracedChange.position``."""


def event_of(traced: TracedChange) -> Event:
    """The event that made a change; of one by a foreign key the parent's."""
    return traced.position[:3]


@dataclass(frozen=True, slots=True)
class ChildRules:
    """The foreign keys of a source's log, by which its children are restored."""

    source: str
    keys: Sequence[UnloggedChanges]

    def restored(
        self, logged: Sequence[TracedChange], derived: Iterable[TracedChange]
    ) -> dict[Event, list[TracedChange]]:
        """Changes by event that statements restore, in their order.

        logged: the changes that are taken back. derived: those by foreign keys of the same events. Raises Unsupported.
        """
        chosen, by_event = defaultdict[Event, list[TracedChange]](list), defaultdict[Event, list[TracedChange]](list)
        for traced in logged:
            chosen[event_of(traced)].append(traced)
        for traced in derived:
            by_event[event_of(traced)].append(traced)
        for changes in chosen.values():
            self._require_no_own_children(changes)
        restored = {}
        for event, changes in by_event.items():
            _require_decided(self.source, chosen[event], changes)
            rank = self._ranks({traced.change.definition.name for traced in changes}, changes[0])
            by_statement = [traced for traced in changes if not self._cascades_again(traced)]
            restored[event] = sorted(by_statement, key=lambda traced: rank[traced.change.definition.name])
        return restored

    def in_force(self, traced: TracedChange) -> list[UnloggedChanges]:
        """The keys that are there at a change."""
        at = Position(traced.change.file, traced.position[2], traced.stretch)
        return [gap for gap in self.keys if gap.key and gap.is_in(at, replace(at, offset=at.offset + 1))]

    def _require_no_own_children(self, changes: Sequence[TracedChange]) -> None:
        """Check that no event changes rows that its other rows may have changed. Raises Unsupported."""
        name, keys = changes[0].change.definition.name, self.in_force(changes[0])
        if len(changes) == 1 or not any(_may_cascade(traced, gap) for traced in changes for gap in keys):
            return
        # All tables that the event may have changed, the table itself among them where keys lead back to it.
        found, names = set[TableName](), [name]
        while names:
            parent = names.pop()
            children = {gap.table for gap in keys if gap.key and gap.key.parent == parent} - found
            found |= children
            names += children
        changing = [
            gap.key
            for gap in keys
            if gap.key and gap.table == name and (gap.key.on_delete == "SET NULL" or gap.key.on_update in CASCADING)
        ]
        if name in found and changing:
            raise _refused(
                self.source,
                changes[0],
                f"it changes several rows of {name}, which the foreign key {changing[0].name} -> "
                f"{changing[0].parent} {changing[0].rules} may have changed before, and the log has rows as that left "
                "them",
            )

    def _cascades_again(self, traced: TracedChange) -> bool:
        """True if the server takes a change back by itself, with the parent's. Raises Unsupported where it did once."""
        change = traced.change
        if change.before is None or change.after is None:
            return False
        _, after = differing(change.before, change.after)
        # A parent's value that is NULL, as after SET NULL, is referred to by nothing.
        if any(cell == "null" for cell in after.values()):
            return False
        changed = {name.casefold() for name in after}
        columns = [
            {name.casefold() for name in gap.key.columns}
            for gap in self.keys
            if gap.key and gap.until is None and gap.table == change.definition.name and gap.key.on_update == "CASCADE"
        ]
        if any(changed <= names for names in columns):
            return True
        raise _refused(
            self.source,
            traced,
            f"a foreign key with ON UPDATE CASCADE changed {', '.join(sorted(changed))} of {change.definition.name}, "
            "and it is not there any more, so that the server would not change it back",
        )

    def _ranks(self, names: Collection[TableName], traced: TracedChange) -> Mapping[TableName, int]:
        """Rank by table in an order of parents before children. Raises Unsupported where there is none."""
        parents = {name: set[TableName]() for name in names}
        for gap in self.in_force(traced):
            if gap.key and gap.table in parents and gap.key.parent in parents and gap.key.parent != gap.table:
                parents[gap.table].add(gap.key.parent)
        try:
            return {name: rank for rank, name in enumerate(TopologicalSorter(parents).static_order())}
        except CycleError as error:
            listed = ", ".join(map(str, sorted(names)))
            raise _refused(
                self.source, traced, f"the foreign keys of {listed} refer to each other in a circle"
            ) from error

    def require_known(self, lake: Lake, changes: Iterable[TracedChange]) -> None:
        """Warn of children whose changes are not derived. Raises Unsupported where they will be by the next run."""
        commit = CascadesCommit.of_head(lake.cascades(self.source).head())
        surveyed = publication.surveyed_to(lake, self.source)
        # Each change is derived, was noted as one that is not, or is the next run's.
        lacking = set[TableName]()
        for traced in changes:
            at = Position(traced.change.file, traced.position[2], traced.stretch)
            for name in {gap.table for gap in self.in_force(traced) if _may_cascade(traced, gap)}:
                text = commit.positions.get(str(name)) if commit else None
                note = commit.underived.get(str(name)) if commit else None
                if text and at < Position.parse(text) and not (note and Position.parse(note["from"]) <= at):
                    continue
                if surveyed is None or surveyed <= at:
                    raise Unsupported(
                        f"{at}: what foreign keys did to rows of {name} by this change is not derived yet; execute "
                        "stratalog run first"
                    )
                lacking.add(name)
        for name in sorted(lacking):
            log.warning(
                "%s: %s: what foreign keys did to its rows by these changes is not derived, and is not taken back; "
                "compare it (stratalog verify)", self.source, name,
            )  # fmt: skip


def require_parents(derived: Iterable[TracedChange], events: Collection[Event], rules: ChildRules) -> None:
    """Check that each chosen change by a foreign key is chosen with its parent's change. Raises Unsupported."""
    for traced in derived:
        if event_of(traced) not in events:
            name = traced.change.definition.name
            parents = sorted({str(gap.key.parent) for gap in rules.in_force(traced) if gap.key and gap.table == name})
            raise _refused(
                rules.source,
                traced,
                f"a foreign key changed rows of {name}, which come back with the change of the parent alone; name it "
                f"too ({' or '.join(parents) or 'its parent'}), with the change at this position",
            )


def require_whole_events(
    source: str, chosen: Iterable[TracedChange], all_changes: Iterable[TracedChange], events: set[Event]
) -> None:
    """Check that events by which foreign keys changed rows are chosen with all of their rows. Raises Unsupported.

    events: those by which foreign keys changed rows.
    """
    counts = Counter(event_of(traced) for traced in chosen)
    for traced in all_changes:
        event = event_of(traced)
        counts[event] -= 1
        if event in events and counts[event] < 0:
            raise _refused(
                source,
                traced,
                "foreign keys changed rows by this event, and by which of its rows is not stored; choose all of its "
                "rows (--gtid, or --from and --to, without --key and --where)",
            )


def _may_cascade(traced: TracedChange, gap: UnloggedChanges) -> bool:
    """True if a key may have changed child rows by a change."""
    change = traced.change
    if gap.key is None or gap.key.parent != change.definition.name or change.before is None:
        return False
    if change.after is None:
        return gap.key.on_delete in CASCADING
    changed = {name.casefold() for name in differing(change.before, change.after)[1]}
    return gap.key.on_update in CASCADING and bool(changed & {name.casefold() for name in gap.key.parent_columns})


def _require_decided(source: str, logged: Sequence[TracedChange], derived: Sequence[TracedChange]) -> None:
    """Check that foreign keys changed each row of an event once, and in no XA transaction. Raises Unsupported."""
    if any(traced.facts.xa for traced in logged):
        raise _refused(
            source, derived[0], "foreign keys changed rows in an XA transaction, in an order that is not stored"
        )
    # Keys that several changes met, and tables without a key that changes of several kinds did.
    met = Counter[tuple[TableName, str]]()
    ops = defaultdict[TableName, set[str]](set)
    for traced in derived:
        name = traced.change.definition.name
        for key in {traced.change.old_key, traced.change.new_key} - {None}:
            met[name, str(key)] += 1
        if traced.change.old_key is None and traced.change.new_key is None:
            ops[name].add(traced.change.op)
    twice = [name for (name, _), count in met.items() if count > 1] + [
        name for name, kinds in ops.items() if len(kinds) > 1
    ]
    if twice:
        raise _refused(source, derived[0], f"several foreign keys changed the same row of {twice[0]}")


def _refused(source: str, traced: TracedChange, reason: str) -> Unsupported:
    at = Position(traced.change.file, traced.position[2], traced.stretch)
    words = [str(at), "--source", source, "--table", str(traced.change.definition.name)]
    return Unsupported(
        f"{at}: {reason}; restore the rows by hand as they were before (stratalog at {shlex.join(words)}), and "
        "leave the change out by --from, --to, --key or --gtid"
    )
