"""Pass over the log of tables that foreign keys join, which derives the changes that the server did not log.

The children's rows are those of their mirrors, which are of some position, and what the log and earlier derivations
say since then. Changes are derived from a position on; those before it are stored, and only followed.

A derived change stands at its parent's event, behind its rows. Where the event has a later change of the same row, that
one is what the row is after it, and the derived one is left out.

Put here: the order of things. Not here: the rules (derivation.py), decoding (logged_rows.py), finding rows
(mirror_rows.py), which tables are gone through together (spark_jobs/pipeline/cascades/step.py).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby

from spark_jobs.binlog import TableDefinition, TableName, comparable_text
from spark_jobs.bronze.derived_slices import DerivedSlice, stored_changes
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.cascades.derivation import (
    Copies,
    Derivation,
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
from spark_jobs.cascades.parent_changes import Named, boundary_before
from spark_jobs.cascades.pending_changes import PendingChanges
from spark_jobs.ddl.effects import Rename, name_changes
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position, Range

_DELETE = 3
"""Value of ``Changes.op``."""


@dataclass(frozen=True, slots=True)
class ChildTable:
    """A child table whose changes are derived.

    Attributes:
        definition: as silver has its rows; None where it has none yet.
        rows: those of its mirror.
        complete_to: the position up to which these are complete; None where it has none.
        silver_version: the version of silver that was merged into the mirror; -1 where none was.
    """

    name: TableName
    definition: TableDefinition | None
    rows: MirrorRows
    complete_to: Position | None
    silver_version: int = -1

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
    """Derived changes, and the position up to which they are complete; ``reason``: why that is not the log's end.

    children: the tables whose mirrors were read for it.
    """

    slices: tuple[DerivedSlice, ...]
    end: Position
    reason: str | None = None
    children: tuple[ChildTable, ...] = ()


class _Limit(Exception):
    """Changes are derived up to a position now, and from there on once the mirror of a child is there."""

    def __init__(self, end: Position) -> None:
        super().__init__(str(end))
        self.end = end


class Walk:
    """Single pass over a log."""

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
        self._pending = PendingChanges(self._identity_of, self._copies)
        self._event: Position | None = None
        self._is_new = self._is_skipped = False
        self._passed: dict[TableName, bool] = {}
        """True if a table's changes of the event at hand are in its mirror, or quarantined."""

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
        """Look up the children of all parents that change, and theirs, so that each mirror is read a few times.

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
                for row in rows if child in parents else ():
                    self._want(wanted, keys, child, row)

    def _want(
        self,
        wanted: dict[tuple[TableName, tuple[str, ...]], set[Weights]],
        keys: Sequence[tuple[TableName, ForeignKey]],
        parent: TableName,
        image: Row,
    ) -> None:
        """Note the weights by which children refer to a row, of children that have rows in their mirror."""
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
        """Carry out the statements before a position. Raises _Limit where a child has rows that one changes."""
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
        at, name, change = row.at, row.change.table, row.change
        if self._next_stored:
            self._pass_stored(at, row.row)
        self._begin_event(at)
        if name not in self._passed:
            child = self._log.children.get(name)
            self._passed[name] = child is not None and (child.has(at) or at in self._log.skips.get(name, ()))
        if self._passed[name]:
            return
        if self._pending.has_of_event and name in self._log.children and name not in self._copies:
            for image in (change.before, change.after):
                if image is not None:
                    self._pending.supersede(name, self._identity_of(name, image))
        # Changes that are stored are followed as they are, and those of a quarantined event derive nothing.
        cascades = row.cascades and self._is_new and not self._is_skipped
        changes = self._derivation.follow(change, cascades=cascades)
        if changes:
            self._pending.add(row, changes)

    def _begin_event(self, at: Position) -> None:
        """Load the foreign keys that are there at an event."""
        if at is self._event or at == self._event:
            return
        self._begin_part(at)
        self._event = at
        self._passed.clear()
        self._pending.begin_event()
        self._is_new = at >= self._log.within.start
        self._is_skipped = any(at in positions for positions in self._log.skips.values())

    def _flush(self, part: LoggedSlice, end: Position | None = None) -> None:
        """Derived changes of a slice as slices; those before ``end``."""
        grouped = self._pending.take(part, self._log.index, end)
        self._event = None
        for (name, start), columns in grouped.items():
            definition = self._definitions[name]
            self._slices.append(columns.to_slice(start, self._logged.get(name, definition), definition))

    def _learn(self, part: LoggedSlice) -> None:
        """Load the definitions of a slice's tables."""
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
        """Load the foreign keys that are there at a position."""
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
        """Keep what is known of rows when the keys become others."""
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
        pairs = (pair for pair in row[RAW] or () if pair[0].casefold() in names)
        texts = sorted((column, comparable_text(text)) for column, text in pairs)
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
        """Follow the changes that were derived before a position."""
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


def _in_small(key: ForeignKey) -> ForeignKey:
    """A key by its columns in small letters, as rows have them."""
    columns, parent_columns = (tuple(name.casefold() for name in names) for names in (key.columns, key.parent_columns))
    return replace(key, columns=columns, parent_columns=parent_columns)
