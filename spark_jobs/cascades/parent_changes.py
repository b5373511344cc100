"""Changes of a parent by which a foreign key may change child rows, read from row events.

A row event says by its flags whether its session checked foreign keys, and whether the server logs what they do. A
DELETE cascades by ON DELETE, an UPDATE by ON UPDATE where it changes a column that the key refers to: InnoDB compares
bytes, so that a value of other letters or spaces that its collation takes for equal is a change.

Source: storage/innobase/row/row0ins.cc (``row_ins_foreign_check_on_constraint``), row0upd.cc
(``row_upd_check_references_constraints``, ``row_upd_changes_first_fields_binary``).

Put here: reading these events. Not here: what they do to which rows.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, Decoder, TableDefinition, definitions_of
from spark_jobs.binlog.events.types import CASCADES_LOGGED, NO_FOREIGN_KEY_CHECKS
from spark_jobs.bronze.boundaries import split_transactions
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.ddl.foreign_keys import CASCADING, ForeignKey
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position, Range

Named = Callable[[TableDefinition, Position], TableDefinition]
"""Adds to a definition of the log the names that it lacks, at a position. Raises TableStopped where nothing tells."""
_BYTES = 63
"""The collation of bytes that are no text."""
_UPDATE, _DELETE = 2, 3
_VERBS = {_UPDATE: "UPDATE", _DELETE: "DELETE"}
"""Verbs by ``Changes.op``."""


@dataclass(frozen=True, slots=True)
class ParentChange:
    """A change of a parent by which a foreign key may change child rows.

    Attributes:
        at: its row event; of an XA transaction its XA COMMIT.
        boundary: the boundary of transactions before it.
        verb: DELETE or UPDATE.
    """

    at: Position
    boundary: Position
    verb: str


def first_cascade(
    slices: SliceIndex, key: ForeignKey, within: Range, named: Named, skips: Collection[Position] = ()
) -> ParentChange | None:
    """The first change of a key's parent in a range that may change child rows; None where there is none.

    Args:
        slices: the log, of which the range is a part.
        key: the foreign key, as it is in the range.
        within: the range.
        named: for parents whose columns the log does not name.
        skips: row events, and positions of XA COMMIT, that do not count.

    Raises:
        TableStopped: rows of the parent cannot be read, with the boundary before them.
        LakeError: bronze cannot be read.
    """
    rows, _ = slices.in_ranges(slices.rows_of(key.parent), [within])
    for row, cells in zip(rows.tolist(), slices.cells(rows.tolist()), strict=True):
        # Rows of an XA transaction have their effect where it was committed.
        begin, effect = slices.begin(row), slices.position(row) if slices.is_moved(row) else None
        if effect in skips:
            continue
        offsets = frozenset(skip.offset for skip in skips if (skip.stretch, skip.file) == (begin.stretch, begin.file))
        try:
            position = _first_in(cells, begin, key, named, offsets)
        except DecodeError as error:
            boundary = effect or replace(begin, offset=cells["transaction_start"])
            raise TableStopped(f"its parent {key.parent} cannot be read: {error}", boundary) from error
        if position is None:
            continue
        offset, verb = position
        if effect:
            return ParentChange(effect, effect, verb)
        return ParentChange(replace(begin, offset=offset), boundary_before(slices, row, offset), verb)
    return None


def _first_in(
    cells: dict[str, Any], begin: Position, key: ForeignKey, named: Named, skips: Collection[int]
) -> tuple[int, str] | None:
    """Offset and verb of the first such change in a slice. cells: its position, context and payload."""
    logged = definitions_of(begin.file, begin.offset, cells["context"], cells["payload"])
    definition = next((definition for definition in logged if definition.name == key.parent), None)
    if definition is None:  # MariaDB logs TABLE_MAPs of tables that it only locks
        return None
    try:
        definition = definition if definition.has_names() else named(definition, begin)
        ordinals = _referred(key, definition)
    except TableStopped:
        ordinals = None
    # Up to the first one that is not quarantined.
    decoder = Decoder(_comparable(definition), before="all", flags=True, partial=True, prepared=True)
    content = cells["context"], cells["payload"]
    for changes in decoder.decode(begin.file, begin.offset, *content, transaction_start=cells["transaction_start"]):
        for at in np.flatnonzero(_cascading(changes, key, ordinals)).tolist():
            offset = changes.offset[at].as_py()
            if offset not in skips:
                return offset, _VERBS[changes.op[at].as_py()]
    return None


def _referred(key: ForeignKey, definition: TableDefinition) -> list[int] | None:
    """The positions of the columns that a key refers to in its parent; None where they are not known."""
    names = [name.casefold() for name in definition.column_names()]
    ordinals = [names.index(name.casefold()) for name in key.parent_columns if name.casefold() in names]
    return ordinals if key.parent_columns and len(ordinals) == len(key.parent_columns) else None


def _comparable(definition: TableDefinition) -> TableDefinition:
    """A definition whose values can be compared: what it does not tell of signs and character sets is of no account."""
    columns = (
        replace(
            column,
            unsigned=False if column.unsigned is None else column.unsigned,
            charset=_BYTES if column.charset is None else column.charset,
        )
        for column in definition.columns
    )
    return replace(definition, columns=tuple(columns))


def _cascading(changes: Changes, key: ForeignKey, ordinals: list[int] | None) -> NDArray[np.bool_]:
    """Changes that may change child rows by a key. ordinals: of the columns that it refers to."""
    assert changes.flags is not None
    op, flags = changes.op.to_numpy(), changes.flags.to_numpy()
    is_unlogged = flags & (NO_FOREIGN_KEY_CHECKS | CASCADES_LOGGED) == 0
    deletes = (op == _DELETE) & (key.on_delete in CASCADING)
    updates = (op == _UPDATE) & (key.on_update in CASCADING)
    candidates: NDArray[np.bool_] = is_unlogged & (deletes | updates)
    if ordinals is not None and (candidates & updates).any():
        candidates &= deletes | _changed(changes, ordinals)
    return candidates


def _changed(changes: Changes, ordinals: list[int]) -> NDArray[np.bool_]:
    """Updates that may change one of some columns: what an image leaves out after the change is as before it."""
    changed = np.zeros(len(changes), bool)
    for ordinal in ordinals:
        before, after = changes.before.column(ordinal), changes.after.column(ordinal)
        is_equal = pc.fill_null(pc.equal(before, after), fill_value=False)
        both_null = pc.and_(pc.is_null(before), pc.is_null(after))
        differs = ~np.array(pc.or_(is_equal, both_null).to_numpy(zero_copy_only=False), bool)
        # Without a value before, or where a typed column cannot hold one, nothing tells that it stays.
        if changes.present is not None and changes.before_present is not None:
            differs = changes.present.column(ordinal) & (differs | ~changes.before_present.column(ordinal))
        changed |= differs
    if changes.raw is not None or changes.before_raw is not None:
        raws = (raw for raw in (changes.raw, changes.before_raw) if raw is not None)
        changed |= np.logical_or.reduce([raw.is_valid().to_numpy(zero_copy_only=False) for raw in raws])
    return changed


def boundary_before(slices: SliceIndex, row: int, offset: int) -> Position:
    """The boundary of transactions before an event of a slice."""
    return Boundaries.of(slices, row).before(offset)


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The boundaries of transactions in a slice.

    Attributes:
        begin: of the slice.
        events: offsets where its transactions begin in it, in order.
        starts: those where they begin.
    """

    begin: Position
    events: tuple[int, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, slices: SliceIndex, row: int) -> "Boundaries":
        """The event and transaction boundaries of the slice in a row of the index. Raises LakeError."""
        pieces = [*split_transactions(slices.record(row))]
        events, starts = (
            tuple(piece.column(name)[0].as_py() for piece in pieces) for name in ("start", "transaction_start")
        )
        return cls(slices.begin(row), events, starts)

    def before(self, offset: int) -> Position:
        """The boundary before an event."""
        return replace(self.begin, offset=self.starts[bisect_right(self.events, offset) - 1])
