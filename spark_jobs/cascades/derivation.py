"""Effects of foreign keys on child rows, change by change of the log: values in, values out.

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

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey

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


@dataclass(frozen=True, slots=True)
class ImagePair:
    """A change of a row. before: None of an INSERT. after: None of a DELETE."""

    table: TableName
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class DerivedChange:
    """A change that a server made by a foreign key. before: the row that it met; after: None where it deleted it."""

    reference: Reference
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
        located: rows of a child that it had before all changes, by weights of a key's columns; others may be among
            them.
    """

    identity: Callable[[TableName, Row], Key]
    weights: Callable[[TableName, Sequence[str], Row], Weights | None]
    located: Callable[[Reference, Weights], Iterable[Row]]


class Derivation:
    """Goes through changes in the order of the log."""

    def __init__(self, references: Iterable[Reference], lookups: RowLookups) -> None:
        self._lookups = lookups
        self._by_parent: dict[TableName, list[Reference]] = defaultdict(list)
        self._by_child: dict[TableName, list[Reference]] = defaultdict(list)
        for reference in references:
            if reference.key.is_cascading:
                self._by_parent[reference.key.parent].append(reference)
                self._by_child[reference.child].append(reference)
        self._rows: dict[TableName, dict[Key, Row | None]] = defaultdict(dict)
        """Rows of children as they are now, of those that were met; None where one is gone."""
        self._referring: dict[tuple[Reference, Weights], dict[Key, None]] = defaultdict(dict)
        """By weights of a key's columns the rows that have them, or had."""
        self._fetched: set[tuple[Reference, Weights]] = set()

    def rows_met(self) -> Mapping[TableName, Mapping[Key, Row | None]]:
        """Rows of children as they are now, of those that were met; None where one is gone."""
        return self._rows

    def follow(self, change: ImagePair, *, cascades: bool = True) -> list[DerivedChange]:
        """A change of the log, and the changes that the server made by it, in the order in which it made them.

        cascades: whether the server carries out foreign keys at this change, and does not log that.
        """
        self._note(change.table, change.before, change.after)
        if not cascades or change.before is None:
            return []
        return list(self._consequences(change.table, change.before, change.after))

    def _consequences(self, table: TableName, before: Row, after: Row | None) -> Iterator[DerivedChange]:
        """Changes of child rows that follow from a change of a parent's row."""
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
            for identity in self._children(reference, before):
                row = self._rows[reference.child][identity]
                if row is None or not self._refers(reference, row, before):
                    continue  # what followed from this change before has met it
                new_row = None if is_deleted else {**row, **new_values}
                self._note(reference.child, row, new_row)
                yield DerivedChange(reference, row, new_row)
                yield from self._consequences(reference.child, row, new_row)

    def _children(self, reference: Reference, parent: Row) -> list[Key]:
        """The rows of a child that refer to a parent's row, or did."""
        weights = self._lookups.weights(reference.key.parent, reference.key.parent_columns, parent)
        if weights is None:
            return []
        if (reference, weights) not in self._fetched:
            self._fetched.add((reference, weights))
            # A row that was met before is what it is now, and not what it was before all changes.
            rows = self._rows[reference.child]
            for row in self._lookups.located(reference, weights):
                if self._lookups.identity(reference.child, row) not in rows:
                    self._note(reference.child, None, row)
        return list(self._referring[reference, weights])

    def _refers(self, reference: Reference, row: Row, parent: Row) -> bool:
        child_weights = self._lookups.weights(reference.child, reference.key.columns, row)
        return child_weights == self._lookups.weights(reference.key.parent, reference.key.parent_columns, parent)

    def _note(self, table: TableName, before: Row | None, after: Row | None) -> None:
        """Has the rows of a child as a change leaves them."""
        # A row is found by the weights that it has now, and by no others.
        references = self._by_child.get(table)
        if references is None:
            return
        rows = self._rows[table]
        if before is not None:
            identity = self._lookups.identity(table, before)
            rows[identity] = None
            for reference in references:
                weights = self._lookups.weights(table, reference.key.columns, before)
                if weights is not None:
                    self._referring[reference, weights].pop(identity, None)
        if after is not None:
            identity = self._lookups.identity(table, after)
            rows[identity] = after
            for reference in references:
                weights = self._lookups.weights(table, reference.key.columns, after)
                if weights is not None:
                    self._referring[reference, weights][identity] = None
