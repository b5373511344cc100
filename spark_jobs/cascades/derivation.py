"""Derivation of what foreign keys do to child rows, change by change of the log; a function of values.

A change of a parent's row is followed by those that the server makes by each key that refers to the row, and by those
that follow from these, before the next change of the log. The rules are InnoDB's (storage/innobase/row/row0ins.cc,
``row_ins_foreign_check_on_constraint``, ``row_ins_cascade_calc_update_vec``; row0upd.cc,
``row_upd_check_references_constraints``): a key with a NULL refers to nothing; an UPDATE counts where bytes of a
referred column differ, and sets those columns alone; a child is found by the collation of its columns. What InnoDB
refuses (a row that would be referred to by nothing, a cycle of updates, a value that does not fit) ends the statement
at the server, so that the log has none of it.

Put here: the rules, and the rows that they were met by. Not here: where rows and changes come from
(parent_changes.py), or when values are equal (weights.py).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.errors import TableStopped

Row = Mapping[str, Any]
"""A row's values by column."""
Key = tuple[Hashable, ...]
"""Identity of a row in its table."""
Weights = tuple[Hashable, ...]
"""Values of a foreign key's columns, equal where the server takes the values for equal."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key of a child table, whose columns are known."""

    child: TableName
    key: ForeignKey
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.child, self.key)))

    def __hash__(self) -> int:
        return self._hash  # rows are looked up by it, several times each


class ImagePair(NamedTuple):
    """A change of a row. before: None of an INSERT. after: None of a DELETE."""

    table: TableName
    before: Row | None
    after: Row | None


class DerivedChange(NamedTuple):
    """A change that a server made by a foreign key.

    Attributes:
        identity: of the row in its table, before the change.
        before: the row that it met.
        after: None where it deleted it.
    """

    reference: Reference
    identity: Key
    before: Row
    after: Row | None

    @property
    def table(self) -> TableName:
        return self.reference.child


@dataclass(frozen=True, slots=True)
class RowLookups:
    """Functions that identify, find and compare rows.

    Attributes:
        identity: a row's key in its table.
        weights: the values of some columns as their collations compare them; None where one is NULL. Raises
            TableStopped where that is not known.
        located: rows of a child that it had before all changes, by weights of a key's columns.
    """

    identity: Callable[[TableName, Row], Key]
    weights: Callable[[TableName, Sequence[str], Row], Weights | None]
    located: Callable[[Reference, Weights], Iterable[Row]]


@dataclass(slots=True)
class Copies:
    """Rows of a table without a key, equal ones counted: by identity, which is of all values.

    Attributes:
        counts: of copies now, and of copies that came less copies that went where ``located`` does not have the row.
        located: of which the copies before all changes are counted.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    counts: Counter[Key] = field(default_factory=Counter)
    located: set[Key] = field(default_factory=set)

    def note(self, identity: Key, row: Row, copies: int) -> None:
        self.rows[identity] = row
        self.counts[identity] += copies


Effect = tuple[tuple[str, Any], ...] | None
"""New values of columns by a foreign key, None of a delete."""


@dataclass(slots=True)
class _SharedColumns:
    """Effects of one change on children with several keys that share columns.

    InnoDB goes through the children of a row in the order of an index, which no log tells. Where one key's effect on a
    row decides whether another key finds it, so does the order.

    Attributes:
        met: by child and row how it was, with the key by which it was changed first, that key's effect, and its cause.
        searches: by child the keys whose children were looked for, with weights, effect and cause.
    """

    met: dict[tuple[TableName, Key], tuple[Row, Reference, Effect, int]] = field(default_factory=dict)
    searches: dict[TableName, list[tuple[Reference, Weights, Effect, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def require_any_order(self, weights: Callable[[TableName, Sequence[str], Row], Weights | None]) -> None:
        """Check that the result does not depend on the order of the rows. Raises TableStopped."""
        for (table, _), (row, first, effect, cause) in self.met.items():
            for second, wanted, second_effect, second_cause in self.searches[table]:
                is_alike = second is first or effect == second_effect or cause == second_cause
                if is_alike or not {*second.key.columns} & {*first.key.columns}:
                    continue
                if weights(table, second.key.columns, row) == wanted:
                    names = " and ".join(sorted(key.name or ", ".join(key.columns) for key in (first.key, second.key)))
                    raise TableStopped(
                        f"{table}: its foreign keys {names} have columns in common and change the same row at once, "
                        "and in which order they do is not known"
                    )


FoundBy = tuple[Reference, Weights]
"""A foreign key, and weights of its columns by which a row was found."""


class _ChildRows:
    """Rows of a child as they are now, of those that were met, and the weights by which they refer to parents.

    Attributes:
        rows: by identity; None where one is gone.
    """

    def __init__(self, table: TableName, references: Sequence[Reference], lookups: RowLookups) -> None:
        self.rows: dict[Key, Row | None] = {}
        self._table, self._lookups = table, lookups
        self._referring: dict[Reference, dict[Weights, dict[Key, None]]] = {
            reference: defaultdict(dict) for reference in references
        }

    def referring(self, reference: Reference, weights: Weights) -> dict[Key, None]:
        """The identities of the rows whose columns of a key weigh so."""
        return self._referring[reference][weights]

    def note(
        self, before: Row | None, after: Row | None, known: Key | None = None, found_by: FoundBy | None = None
    ) -> None:
        """Keep a row as a change leaves it. known: its identity before. found_by: how the row before was found."""
        # A row is found by the weights that it has now, and by no others.
        if before is not None:
            identity = self._lookups.identity(self._table, before) if known is None else known
            self.rows[identity] = None
            for reference, by_weights in self._referring.items():
                weights = self._weights_of(reference, before, found_by)
                if weights is not None:
                    by_weights[weights].pop(identity, None)
        if after is not None:
            identity = self._lookups.identity(self._table, after)
            self.rows[identity] = after
            self.refer(identity, after)

    def refer(self, identity: Key, row: Row, found_by: FoundBy | None = None) -> None:
        """Let a row be found by the weights of its foreign keys' columns."""
        for reference, by_weights in self._referring.items():
            weights = self._weights_of(reference, row, found_by)
            if weights is not None:
                by_weights[weights][identity] = None

    def _weights_of(self, reference: Reference, row: Row, found_by: FoundBy | None) -> Weights | None:
        if found_by and found_by[0] is reference:
            return found_by[1]
        return self._lookups.weights(self._table, reference.key.columns, row)


class Derivation:
    """Derivation of effects from changes in the order of the log."""

    def __init__(
        self,
        references: Iterable[Reference],
        ties: RowLookups,
        copies: Mapping[TableName, Copies] | None = None,
        followed: Collection[TableName] = (),
    ) -> None:
        """Start without a change.

        Args:
            references: the keys that are there.
            ties: how rows are found.
            copies: the rows of the children that have no key, as they are; they are changed.
            followed: tables that get such a key later, by which the rows of now are looked up then.
        """
        self._lookups = ties
        self._copies = {} if copies is None else copies
        self._by_parent: dict[TableName, list[Reference]] = defaultdict(list)
        by_child: dict[TableName, list[Reference]] = {name: [] for name in (*followed, *self._copies)}
        for reference in references:
            if reference.key.is_cascading:
                self._by_parent[reference.key.parent].append(reference)
                by_child.setdefault(reference.child, []).append(reference)
        self._children = {name: _ChildRows(name, keys, ties) for name, keys in by_child.items()}
        self._fetched: set[FoundBy] = set()
        self._sharing = {table for table, keys in by_child.items() if _share_columns(keys)}
        self._shared, self._causes = _SharedColumns(), 0
        for table, counted in self._copies.items():
            for identity, row in counted.rows.items():
                self._children[table].refer(identity, row)

    def rows_met(self) -> Mapping[TableName, Mapping[Key, Row | None]]:
        """Rows of children as they are now, of those that were met; None where one is gone."""
        return {name: child.rows for name, child in self._children.items()}

    def follow(self, change: ImagePair, *, cascades: bool = True) -> list[DerivedChange]:
        """The changes that the server made by one of the log, in an order in which it may have made them.

        cascades: whether the server carries out foreign keys at this change, and does not log that. Raises TableStopped
        where they are not known.
        """
        self._note(change.table, change.before, change.after)
        if not cascades or change.before is None:
            return []
        derived = list(self._consequences(change.table, change.before, change.after))
        if self._sharing:
            self._shared.require_any_order(self._lookups.weights)
            self._shared = _SharedColumns()
        return derived

    def _consequences(self, table: TableName, before: Row, after: Row | None) -> Iterator[DerivedChange]:
        """Changes of child rows that follow from a change of a parent's row."""
        # What follows from one change of a row has one cause, by whichever key.
        self._causes += 1
        cause = self._causes
        for reference in self._by_parent.get(table, ()):
            key = reference.key
            rule = key.on_delete if after is None else key.on_update
            changed = {
                child_column: after[column]
                for child_column, column in zip(key.columns, key.parent_columns, strict=True)
                if after is not None and after[column] != before[column]
            }
            if rule not in ("CASCADE", "SET NULL") or (after is not None and not changed):
                continue
            new_values: Mapping[str, Any] = dict.fromkeys(key.columns) if rule == "SET NULL" else changed
            is_deleted = after is None and rule == "CASCADE"
            # A row with a NULL in the key is referred to by nothing.
            weights = self._lookups.weights(key.parent, key.parent_columns, before)
            if weights is None:
                continue
            child, found_by = self._children[reference.child], (reference, weights)
            effect = None if is_deleted else tuple(new_values.items())
            is_sharing = reference.child in self._sharing
            if is_sharing:
                self._shared.searches[reference.child].append((reference, weights, effect, cause))
            copies, has_children = self._copies.get(reference.child), reference.child in self._by_parent
            for identity, row in self._referring_rows(child, copies, reference, weights):
                if is_sharing:
                    self._shared.met.setdefault((reference.child, identity), (row, reference, effect, cause))
                new_row = None if is_deleted else {**row, **new_values}
                if copies is None:
                    child.note(row, new_row, identity, found_by)
                else:
                    self._note_copies(reference.child, copies, row, new_row)
                yield DerivedChange(reference, identity, row, new_row)
                if has_children:
                    yield from self._consequences(reference.child, row, new_row)

    def _referring_rows(
        self, child: _ChildRows, copies: Copies | None, reference: Reference, weights: Weights
    ) -> Iterator[tuple[Key, Row]]:
        """The rows of a child that refer to a parent's row, with identity, each as it is when its turn comes.

        weights: of the parent's values.
        """
        if (reference, weights) not in self._fetched:
            self._fetched.add((reference, weights))
            self._fetch(child, copies, reference, weights)
        referring, rows = child.referring(reference, weights), copies.rows if copies else child.rows
        for identity in [*referring]:
            row = rows[identity]
            if row is None or identity not in referring:
                continue  # what followed from this change before has met it
            for _ in range(copies.counts[identity] if copies else 1):
                yield identity, row

    def _fetch(self, child: _ChildRows, copies: Copies | None, reference: Reference, weights: Weights) -> None:
        """Fetch the rows of a child that it had before all changes, and that refer to a parent's row."""
        located = self._lookups.located(reference, weights)
        if copies is not None:
            self._count_located(reference.child, copies, located)
            return
        # A row that was met before is what it is now, and not what it was before all changes.
        for row in located:
            identity = self._lookups.identity(reference.child, row)
            if identity not in child.rows:
                child.rows[identity] = row
                child.refer(identity, row, (reference, weights))

    def _count_located(self, table: TableName, copies: Copies, located: Iterable[Row]) -> None:
        """Counts copies that a table without a key had before all changes."""
        new = set[Key]()
        for row in located:
            identity = self._lookups.identity(table, row)
            if identity not in copies.located:
                new.add(identity)
                copies.note(identity, row, 1)
                self._children[table].refer(identity, row)
        copies.located |= new

    def _note(self, table: TableName, before: Row | None, after: Row | None) -> None:
        """Keep the rows of a child as a change of the log leaves them."""
        child = self._children.get(table)
        copies = self._copies.get(table) if self._copies else None
        if child and copies is not None:
            self._note_copies(table, copies, before, after)
        elif child:
            child.note(before, after)

    def _note_copies(self, table: TableName, copies: Copies, before: Row | None, after: Row | None) -> None:
        for row, count in ((before, -1), (after, 1)):
            if row is not None:
                identity = self._lookups.identity(table, row)
                copies.note(identity, row, count)
                self._children[table].refer(identity, row)


def _share_columns(references: Sequence[Reference]) -> bool:
    """True if a column is of several keys of a child."""
    columns = [column for reference in references for column in reference.key.columns]
    return len({*columns}) < len(columns)
