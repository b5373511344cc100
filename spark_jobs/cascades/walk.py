"""Goes through the log of tables that foreign keys join, and derives the changes that the server did not log.

The children's rows are those of their mirrors, which are of some position, and what the log and earlier derivations
say since then. Changes are derived from a position on; those before it are stored, and only followed.

A derived change stands at its parent's event, behind its rows. Where the event has a later change of the same row, that
one is what the row is after it, and the derived one is left out.

Put here: the order of things. Not here: the rules (derivation.py), decoding (logged_rows.py), finding rows
(mirror_rows.py), which tables are gone through together (spark_jobs/pipeline/cascade_step.py).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW, DerivedSlice, stored_changes
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.cascades.derivation import (
    Copies,
    Derivation,
    DerivedChange,
    ImagePair,
    Key,
    Reference,
    Row,
    RowLookups,
    Weights,
)
from spark_jobs.cascades.key_columns import RAW, KeyColumns, row_of
from spark_jobs.cascades.logged_rows import LoggedRow, LoggedSlice, logged_slices
from spark_jobs.cascades.mirror_rows import MirrorRows
from spark_jobs.cascades.parent_changes import Boundaries, Named, boundary_before
from spark_jobs.ddl.effects import Rename, name_changes
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position, Range

_UPDATE, _DELETE = 2, 3
"""By ``Changes.op``."""
_RAW_TYPE = pa.map_(pa.string(), pa.string())
_MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class ChildTable:
    """A child table whose changes are derived.

    Attributes:
        definition: as silver has its rows; None where it has none yet.
        rows: those of its mirror.
        complete_to: the position up to which these are complete; None where it has none.
    """

    name: TableName
    definition: TableDefinition | None
    rows: MirrorRows
    complete_to: Position | None

    def has(self, at: Position) -> bool:
        """True if the mirror has what happened at a position."""
        return self.complete_to is not None and at < self.complete_to

    def has_all_to(self, end: Position) -> bool:
        """True if the mirror has everything before a position."""
        return self.complete_to is not None and self.complete_to >= end


@dataclass(frozen=True, slots=True)
class JoinedLog:
    """The log of tables that foreign keys join.

    Attributes:
        index: its slices, from where the mirror that is furthest behind ends, with the derived ones.
        bronze: the path of bronze.
        within: from where on changes are derived, and up to where.
        since: from where on the log is needed for the children's rows.
        children: the child tables.
        keys: the foreign keys of the children, each with the part of the log in which it is there.
        statements: those about a child, in order.
        named: names of columns that the log does not name.
        same_columns: whether a statement leaves a table's columns as they are.
        skips: by child table its quarantined events, at which nothing is derived.
    """

    index: SliceIndex
    bronze: str
    within: Range
    since: Position
    children: Mapping[TableName, ChildTable]
    keys: Sequence[UnloggedChanges]
    statements: Sequence[tuple[LoggedStatement, TableName]] = ()
    named: Named = lambda logged, _at: logged
    same_columns: Callable[[LoggedStatement, TableName], bool] = lambda _logged, _name: False
    skips: Mapping[TableName, frozenset[Position]] = field(default_factory=dict)

    @property
    def tables(self) -> frozenset[TableName]:
        return frozenset(self.children) | {gap.key.parent for gap in self.keys if gap.key}


@dataclass(frozen=True, slots=True)
class Derived:
    """Derived changes, and the position up to which they are complete; ``reason``: why that is not the log's end."""

    slices: tuple[DerivedSlice, ...]
    end: Position
    reason: str | None = None


@dataclass(slots=True)
class _Pending:
    """A derived change of the slice at hand.

    moved_to: its identity behind it, where that is another one. has_old, has_new: whether the log has no later change
    of the same event by either identity.
    """

    derived: DerivedChange
    at: Position
    row: int
    committed_at: datetime
    gtid: str | None
    moved_to: Key | None = None
    has_old: bool = True
    has_new: bool = True

    def images(self) -> tuple[Row, Row | None]:
        """The row before and after; None where it is deleted, or its new identity is another row's by now."""
        before, after = self.derived.before, self.derived.after
        if after is None or not self.has_new:
            return before, None
        return before if self.has_old else after, after

    def leave_out(self, identity: Key) -> bool:
        """Leaves out what a later change of the same event says of an identity; True if nothing is left."""
        if self.moved_to is None:
            return True
        self.has_old = self.has_old and identity != self.derived.identity
        self.has_new = self.has_new and identity != self.moved_to
        return not (self.has_old or self.has_new)


class _Limit(Exception):
    """Changes are derived up to a position now, and from there on once the mirror of a child is there."""

    def __init__(self, end: Position) -> None:
        super().__init__(str(end))
        self.end = end


class Walk:
    """Goes through a log once."""

    def __init__(self, joined: JoinedLog) -> None:
        self._log = joined
        self._rows = {name: child.rows for name, child in joined.children.items()}
        self._definitions = {
            name: child.definition for name, child in joined.children.items() if child.definition is not None
        }
        self._logged: dict[TableName, TableDefinition] = {}
        self._columns: dict[tuple[TableName, tuple[str, ...]], KeyColumns] = {}
        self._identities: dict[TableName, tuple[str, ...]] = {}
        bounds = {bound for gap in joined.keys for bound in (gap.since, gap.until) if bound}
        self._bounds = sorted(bounds, key=lambda bound: bound.order)
        self._part = -1
        self._copies: dict[TableName, Copies] = {}
        self._derivation = Derivation((), self._lookups())
        self._met: dict[TableName, dict[Key, Row | None]] = defaultdict(dict)
        self._met_by: dict[Reference, dict[Weights, list[Row]]] = {}
        self._statements = list(joined.statements)
        self._stored = self._stored_changes()
        self._next_stored = next(self._stored, None)
        self._slices: list[DerivedSlice] = []
        self._pending: list[_Pending | None] = []
        self._counts: dict[Position, int] = {}
        self._by_row: dict[tuple[TableName, Key], list[int]] = defaultdict(list)

    def derive(self) -> Derived:
        """The derived slices of the range, and the position up to which they are complete. Raises LakeError."""
        within = self._log.within
        try:
            self._find_first()
            slices = logged_slices(self._log.index, self._log.tables, self._log.named, self._log.since)
            # The slices of an XA transaction have their effect in one place.
            for _, parts in groupby(slices, key=lambda part: part.at if part.is_moved else part.number):
                self._follow([*parts])
            self._pass_statements(within.stop)
        except _Limit as limit:
            return Derived(tuple(self._slices), max(limit.end, within.start))
        except TableStopped as error:
            at = error.at if isinstance(error.at, Position) else within.start
            return Derived(tuple(self._slices), max(at, within.start), str(error))
        return Derived(tuple(self._slices), within.stop)

    def _find_first(self) -> None:
        """Looks up the children of all parents that change, and theirs, so that each mirror is read a few times.

        What cannot be looked up is looked up again where it is needed, and stops there.
        """
        with suppress(TableStopped):
            self._find_all()
        self._definitions = {
            name: child.definition for name, child in self._log.children.items() if child.definition is not None
        }
        self._logged, self._columns = {}, {}
        self._copies |= {name: Copies() for name, known in self._definitions.items() if known.key == ()}

    def _find_all(self) -> None:
        # By what the log has of parents.
        wanted: dict[tuple[TableName, tuple[str, ...]], set[Weights]] = defaultdict(set)
        keys = [(gap.table, gap.key) for gap in self._log.keys if gap.key]
        parents = {key.parent for _, key in keys}
        for part in logged_slices(self._log.index, parents, self._log.named, self._log.since):
            self._learn(part)
            for logged in part.rows:
                for image in (logged.change.before, logged.change.after):
                    if image is not None:
                        self._want(wanted, keys, logged.change.table, image)
        # Level by level: children of the rows that were found.
        while wanted:
            found = {
                (child, names): self._rows[child].find(self._key_columns(child, names), weights)
                for (child, names), weights in wanted.items()
            }
            wanted = defaultdict(set)
            for (child, _), rows in found.items():
                for row in rows:
                    self._want(wanted, keys, child, row)

    def _want(
        self,
        wanted: dict[tuple[TableName, tuple[str, ...]], set[Weights]],
        keys: Sequence[tuple[TableName, ForeignKey]],
        parent: TableName,
        image: Row,
    ) -> None:
        """Notes the weights by which children refer to a row, of children that have rows in their mirror."""
        for child, key in keys:
            if key.parent != parent or self._rows[child].is_empty or not key.is_cascading:
                continue
            # Columns have other names before or after: of a key that is not there yet, or not any more.
            names = tuple(name.casefold() for name in key.columns)
            parent_names = {name.casefold() for name in key.parent_columns}
            if not (parent_names <= image.keys() and self._rows[child].has_columns(names)):
                continue
            weights = self._key_columns(parent, key.parent_columns).weights(image)
            if weights is not None and weights not in wanted[child, names]:
                wanted[child, names].add(weights)

    def _pass_statements(self, at: Position) -> None:
        """Carries out the statements before a position. Raises _Limit where a child has rows that one changes."""
        while self._statements and self._statements[0][0].stop <= at:
            statement, name = self._statements.pop(0)
            child = self._log.children[name]
            if child.has(statement.position) or self._log.same_columns(statement, name):
                continue
            self._take_over()
            copies = self._copies.pop(name, Copies())
            has_met = any(self._met[name].values()) or any(count > 0 for count in copies.counts.values())
            # A table that gets the name brings its rows, which are looked up under it once its mirror has them.
            is_empty = self._rows[name].is_empty and not has_met and not _gives_name(statement, name)
            if not is_empty:
                raise _Limit(statement.stop if statement.position >= self._log.within.start else self._log.within.start)
            self._met[name] = {}
            for known in (self._definitions, self._logged):
                known.pop(name, None)
            self._forget_columns(name)
            self._part = -1

    def _follow(self, parts: Sequence[LoggedSlice]) -> None:
        """The changes of a slice, or of all of an XA transaction.

        Raises TableStopped with the boundary of transactions before what stops.
        """
        self._pass_statements(parts[0].at)
        for part in parts:
            self._learn(part)
            for row in part.rows:
                try:
                    self._follow_row(row)
                except TableStopped as error:
                    at = self._boundary(part, row.at)
                    self._flush(part, at)
                    raise TableStopped(str(error), at) from error
        self._flush(parts[-1])

    def _boundary(self, part: LoggedSlice, at: Position) -> Position:
        """The boundary of transactions before a change of a slice."""
        return part.at if part.is_moved else boundary_before(self._log.index, part.number, at.offset)

    def _follow_row(self, row: LoggedRow) -> None:
        self._pass_stored(row.at, row.row)
        self._begin_part(row.at)
        name, skips = row.change.table, self._log.skips
        child = self._log.children.get(name)
        if child and (child.has(row.at) or row.at in skips.get(name, ())):
            return
        for image in (row.change.before, row.change.after):
            if child and image is not None and name not in self._copies:
                self._supersede(row, self._identity_of(name, image))
        # Changes that are stored are followed as they are, and those of a quarantined event derive nothing.
        is_skipped = any(row.at in positions for positions in skips.values())
        cascades = row.cascades and row.at >= self._log.within.start and not is_skipped
        changes = self._derivation.follow(row.change, cascades=cascades)
        first = self._counts.get(row.at, FIRST_DERIVED_ROW)
        for number, derived in enumerate(changes, first):
            moved_to = self._moved_to(derived)
            for identity in {derived.identity, moved_to or derived.identity}:
                self._by_row[derived.table, identity].append(len(self._pending))
            self._pending.append(_Pending(derived, row.at, number, row.committed_at, row.gtid, moved_to))
        if changes:
            self._counts[row.at] = first + len(changes)

    def _moved_to(self, derived: DerivedChange) -> Key | None:
        """The identity that a row has behind a change, where it gets another one."""
        if derived.after is None or derived.table in self._copies:
            return None
        identity = self._identity_of(derived.table, derived.after)
        return None if identity == derived.identity else identity

    def _supersede(self, row: LoggedRow, identity: Key) -> None:
        """Leaves out derived changes of a row that a later change of the same event has."""
        for number in self._by_row.pop((row.change.table, identity), ()):
            pending = self._pending[number]
            if pending and pending.at == row.at and pending.leave_out(identity):
                self._pending[number] = None

    def _flush(self, part: LoggedSlice, end: Position | None = None) -> None:
        """Derived changes of a slice as slices, one for each transaction and child; those before ``end``."""
        pending = [change for change in self._pending if change is not None and (end is None or change.at < end)]
        self._pending = []
        self._by_row.clear()
        grouped: dict[tuple[TableName, Position], list[_Pending]] = defaultdict(list)
        boundaries = Boundaries.of(self._log.index, part.number) if pending and not part.is_moved else None
        for at, changes in groupby(pending, key=lambda change: change.at):
            start = boundaries.before(at.offset) if boundaries else part.at
            for change in changes:
                grouped[change.derived.table, start].append(change)
        for (name, start), of_transaction in grouped.items():
            definition = self._definitions[name]
            logged = self._logged.get(name, definition)
            self._slices.append(_derived_slice(start, of_transaction, logged, definition))
        self._counts = {}

    def _learn(self, part: LoggedSlice) -> None:
        """Has the definitions of a slice's tables."""
        for logged, definition in part.definitions:
            if self._definitions.get(definition.name) != definition:
                self._forget_columns(definition.name)
            self._definitions[definition.name], self._logged[definition.name] = definition, logged
            if definition.name in self._log.children and definition.key == ():
                self._copies.setdefault(definition.name, Copies())

    def _forget_columns(self, name: TableName) -> None:
        self._columns = {key: columns for key, columns in self._columns.items() if key[0] != name}
        self._identities.pop(name, None)

    def _begin_part(self, at: Position) -> None:
        """Has the foreign keys that are there at a position."""
        part = bisect_right(self._bounds, at)
        if part == self._part:
            return
        self._take_over()
        self._part = part
        after = replace(at, offset=at.offset + 1)
        references = [
            Reference(gap.table, _in_small(gap.key)) for gap in self._log.keys if gap.key and gap.is_in(at, after)
        ]
        self._derivation = Derivation(references, self._lookups(), self._copies, self._log.children)

    def _take_over(self) -> None:
        """Keeps what is known of rows when the keys become others."""
        for name, rows in self._derivation.rows_met().items():
            self._met[name].update(rows)
        self._met_by = {}

    def _lookups(self) -> RowLookups:
        return RowLookups(self._identity_of, self._weights_of, self._located_rows)

    def _identity_of(self, name: TableName, row: Row) -> Key:
        """A row's key, with the exact texts that its columns have."""
        names = self._identities.get(name)
        if names is not None and not row[RAW]:
            return tuple([row[column] for column in names])
        if names is None:
            definition = self._definitions[name]
            if definition.key is None:
                raise TableStopped(f"{name}: its key is not known, so that its rows cannot be followed")
            all_names = definition.column_names()
            key = definition.key or range(len(all_names))
            names = self._identities[name] = tuple(all_names[at].casefold() for at in key)
        texts = tuple((column, text) for column, text in row[RAW] or () if column.casefold() in names)
        return (*(row[column] for column in names), *texts)

    def _weights_of(self, name: TableName, columns: Sequence[str], row: Row) -> Weights | None:
        return self._key_columns(name, columns).weights(row)

    def _key_columns(self, name: TableName, columns: Sequence[str]) -> KeyColumns:
        key = name, tuple(columns)
        if key not in self._columns:
            definition = self._definitions.get(name)
            if definition is None:
                raise TableStopped(f"{name}: its columns are not known")
            self._columns[key] = KeyColumns.of(definition, columns)
        return self._columns[key]

    def _located_rows(self, reference: Reference, weights: Weights) -> Iterable[Row]:
        """The rows of a child as they were when its keys became these."""
        name = reference.child
        met = self._met[name]
        stored = self._rows[name]
        if not stored.is_empty:
            columns = self._key_columns(name, reference.key.columns)
            for row in stored.located(columns, weights):
                if not met or self._identity_of(name, row) not in met:
                    yield row
        if reference not in self._met_by:
            by_weights = self._met_by[reference] = {}
            for changed in met.values():
                weight = None if changed is None else self._weights_of(name, reference.key.columns, changed)
                if weight is not None and changed is not None:
                    by_weights.setdefault(weight, []).append(changed)
        yield from self._met_by[reference].get(weights, ())

    def _stored_changes(self) -> Iterator[tuple[Position, int, ImagePair]]:
        """Changes that were derived before, in order, as far as mirrors do not have them."""
        changes: list[tuple[Position, int, ImagePair]] = []
        for part in stored_changes(self._log.bronze, self._log.index.derived):
            name, at = part.definition.name, part.at
            if name not in self._log.children or at >= self._log.within.start:
                continue
            for row in part.batch().to_pylist():
                position = replace(at, offset=row["offset"])
                after = row_of([*row["after"]], row["after"], row["raw"])
                before = after if row["op"] == _DELETE else row_of([*row["before"]], row["before"], row["before_raw"])
                changes.append((position, row["row"], ImagePair(name, before, None if row["op"] == _DELETE else after)))
        yield from sorted(changes, key=lambda change: (change[0].order, change[1]))

    def _pass_stored(self, at: Position, number: int) -> None:
        """Follows the changes that were derived before a position."""
        while self._next_stored and (self._next_stored[0].order, self._next_stored[1]) < (at.order, number):
            position, _, change = self._next_stored
            self._begin_part(position)
            if not self._log.children[change.table].has(position):
                self._derivation.follow(change, cascades=False)
            self._next_stored = next(self._stored, None)


def _gives_name(logged: LoggedStatement, name: TableName) -> bool:
    """True if a statement gives a name to a table. Where it cannot be read, its tables stop at it."""
    with suppress(DecodeError):
        changes = name_changes(logged.statement, logged.database, logged.session)
        return any(isinstance(change, Rename) and change.table == name for change in changes)
    return False


def _derived_slice(
    start: Position, pending: Sequence[_Pending], logged: TableDefinition, definition: TableDefinition
) -> DerivedSlice:
    """Changes of a transaction. logged: the table as the log has it; definition: with its names."""
    images = [change.images() for change in pending]
    # Images as the decoder has them: of a delete the row as it was.
    after = [old if new is None else new for old, new in images]
    before = [None if new is None else old for old, new in images]
    changes = Changes(
        op=pa.array([_DELETE if new is None else _UPDATE for _, new in images], pa.uint8()),
        offset=pa.array([change.at.offset for change in pending], pa.int64()),
        row=pa.array([change.row for change in pending], pa.int32()),
        committed_at=pa.array([change.committed_at for change in pending], _MOMENT),
        gtid=None,
        after=_image(after, definition),
        before=_image(before, definition),
        raw=_raw(after),
        before_raw=_raw(before),
    )
    return DerivedSlice(definition.name, pending[0].at, start, logged, changes, pending[0].gtid)


def _in_small(key: ForeignKey) -> ForeignKey:
    """A key by its columns in small letters, as rows have them."""
    columns, parent_columns = (tuple(name.casefold() for name in names) for names in (key.columns, key.parent_columns))
    return replace(key, columns=columns, parent_columns=parent_columns)


def _image(rows: Sequence[Row | None], definition: TableDefinition) -> pa.RecordBatch:
    names = definition.column_names()
    arrays = [
        pa.array([None if row is None else row[name] for row in rows], column.arrow)
        for name, column in zip([name.casefold() for name in names], definition.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _raw(rows: Sequence[Row | None]) -> pa.Array | None:
    texts: list[Any] = [None if row is None else row[RAW] for row in rows]
    return pa.array(texts, _RAW_TYPE) if any(texts) else None
