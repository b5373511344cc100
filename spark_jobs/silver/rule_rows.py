"""Rows as the server had them, for rules about columns that row images omit.

A rule is about the server's row, and so is the value of a computed column: an UPDATE that leaves ``v`` out is of a row
that has one. It is known where an earlier change of the key has it, whatever rules made of that change. So it is looked
up in the log: silver has no row of a change that was filtered, and these are the rows that the next change is asked
about. A row that came by a load begins with what the load read. What neither of them has stays absent.

Put here: the values of such columns, change by change. Not here: the images themselves (partial_images.py), the rules
(row_filters.py, column_masks.py), or what silver has of the changes (row_overlay.py).

The rows of a change are two, before and after it. Each cell that its image leaves out points to the row before: that
after the change points to that before it, which points to that after the last change of its key. Pointers are followed
until they end at a cell that an image has, or at a key's first row; that one points to the row that a load read.

A load reads while the table is written to, so what it read may be from after a change of that time. It counts for
changes after the load alone, and there in columns that no change before them has. Its row is found by the key, and may
be of another one where a key changed while it read: such a row has none.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, TableDefinition
from spark_jobs.errors import StratalogError
from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.net_changes import (
    DELETE,
    INSERT,
    UPDATE,
    AbsentColumns,
    SliceOrigin,
    identity_columns,
    key_change_mask,
)
from spark_jobs.silver.partial_images import absent_names
from spark_jobs.silver.row_overlay import RAW, completed_texts, present_mask
from spark_jobs.silver.slice_runs import Runs

_TEXTS = pa.map_(pa.string(), pa.string())
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowsOfLoad:
    """Rows that a load read of the table.

    since: the position that they count from. until: one at which all were read. names: the columns that they have as
    the server had them. read: from keys, with RAW, and names, to the rows that some of the keys have, with RAW, and
    which of the keys each has.
    """

    since: Position
    until: Position
    names: frozenset[str]
    read: Callable[[pa.Table, Sequence[str]], tuple[Numbers, pa.Table]]


class _Stage(Enum):
    """A place of the log beside a load; UNKNOWN where log since the load began is missing."""

    UNKNOWN = 0
    BEFORE = 1
    DURING = 2
    BEHIND = 3


@dataclass(frozen=True, slots=True)
class _Known:
    """The newest row of each key that is there: its key, RAW and the columns; and bool[row, column], which it has.

    may_be_loaded: bool[row, load], whether the load's row of the key is the same row, and was not read yet.
    """

    rows: pa.Table
    is_present: Flags
    may_be_loaded: Flags


@dataclass(frozen=True, slots=True)
class _RuleRowsState:
    """State at a position of the log: in which of the parts that the windows make, and after which cut it is."""

    part: int | None = None
    known: _Known | None = None
    passed: tuple[int, ...] = ()


class RuleRows:
    """Completes the rows of changes, in the order of the log, in the columns that rules ask for."""

    def __init__(
        self,
        definition: TableDefinition,
        names: Collection[str],
        ranges: Sequence[Range],
        skips: Collection[Position] = frozenset(),
        loads: Sequence[RowsOfLoad] = (),
    ) -> None:
        """names: of the columns. ranges: the windows; what is known in one holds in the next where nothing is between.

        skips: events in quarantine, behind which nothing is known. loads: of the table. A table without a key has no
        rows that could be completed.
        """
        columns = definition.column_names()
        self._key = [columns[at] for at in definition.key or ()]
        self._names = [name for name in columns if name in names and name not in self._key] if self._key else []
        joined_ranges = joined(ranges)
        self._parts = [
            next(at for at, part in enumerate(joined_ranges) if window.start < part.stop) for window in ranges
        ]
        self._starts = [joined_ranges[at].start for at in self._parts]
        self._skips = sorted(skip.order for skip in skips)
        self._loads = loads
        ends = (end.order for load in loads for end in (load.since, load.until))
        self._cuts = sorted({*self._skips, *ends})
        self._state = _RuleRowsState()

    def __bool__(self) -> bool:
        return bool(self._names)

    @property
    def asked(self) -> frozenset[str]:
        """The columns."""
        return frozenset(self._names)

    def restarted(self) -> Self:
        """The same without what was learnt, to read the same changes again."""
        self._state = _RuleRowsState()
        return self

    def attempting(self, work: Callable[[Runs], object]) -> Callable[[Runs], object]:
        """Work on changes that may fail, and is repeated in parts then: what is known is as before it then."""

        def attempt(runs: Runs) -> object:
            before = self._state
            try:
                return work(runs)
            except StratalogError:
                self._state = before
                raise

        return attempt

    def in_parts(self, changes: Changes, origin: SliceOrigin) -> Iterator[Changes]:
        """The changes, in parts where an event in quarantine, or an end of a load, lies between them."""
        begin, offsets = 0, np.asarray(changes.offset.to_numpy(), np.int64)
        for cut in self._cuts:
            *file, offset = cut
            if cut <= self._state.passed or file > [origin.stretch, origin.number]:
                continue
            is_here = file == [origin.stretch, origin.number]
            at = int(np.searchsorted(offsets, offset)) if is_here else 0
            if at == len(changes):
                break
            if at > begin:
                yield changes.slice(begin, at - begin)
            known = None if cut in self._skips else self._state.known
            self._state, begin = _RuleRowsState(self._state.part, known, cut), at
        yield changes.slice(begin, len(changes) - begin) if begin else changes

    def completed(self, changes: Changes, absent: AbsentColumns, window: int) -> tuple[Changes, AbsentColumns]:
        """The changes with these columns as the server had them, and which of them are still not known.

        window: the number of the range that the changes are of. Columns besides these are as they were.
        """
        if not self._names or not len(changes):
            return changes, absent
        part = self._parts[window]
        known = self._state.known if part == self._state.part else None
        walk = _ChangeWalk.of(changes, absent, self._key, self._names, known, load_count=len(self._loads))
        sources, stages = walk.sources(), [self._stage(load, window) for load in self._loads]
        for at, (load, stage) in enumerate(zip(self._loads, stages, strict=True)):
            if stage is _Stage.BEHIND:
                walk = walk.with_loaded(at, load, sources)
                sources = walk.sources()
        self._state = _RuleRowsState(part, walk.newest(sources, stages), self._state.passed)
        return walk.changes_with(changes, sources)

    def _stage(self, load: RowsOfLoad, window: int) -> _Stage:
        """Stage of the changes in hand beside a load."""
        passed = self._state.passed
        if load.since < self._starts[window] or any(load.since.order <= skip <= passed for skip in self._skips):
            return _Stage.UNKNOWN
        if passed < load.since.order:
            return _Stage.BEFORE
        return _Stage.DURING if passed < load.until.order else _Stage.BEHIND


@dataclass(frozen=True, slots=True)
class _ChangeWalk:
    """The rows before and after changes: first those that are known, then those before updates, then those after.

    Behind them, where they were asked for, loaded ones.

    rows: key, RAW and the columns. is_present: bool[row, column]. previous: of each row the one that its absent cells
    are asked of; the number of all rows for none. newest_rows: the last row of each key that is there in the end.
    is_moved: whether the row before had another key. may_be_loaded: of first rows of keys, as in ``_Known``.
    """

    rows: pa.Table
    key: list[str]
    names: list[str]
    is_present: Flags
    previous: Numbers
    newest_rows: Numbers
    updates: Numbers
    known_count: int
    change_count: int
    is_moved: Flags
    may_be_loaded: Flags

    @classmethod
    def of(
        cls,
        changes: Changes,
        absent: AbsentColumns,
        key: list[str],
        names: list[str],
        known: _Known | None,
        *,
        load_count: int,
    ) -> Self:
        # The rows before and after each change, and of each the columns that its image has.
        op = np.asarray(changes.op.to_numpy(), np.uint8)
        updates = np.flatnonzero(op == UPDATE)
        taken = pa.array(updates)
        after = _table(changes.after, changes.raw, [*key, *names])
        before = _table(changes.before, changes.before_raw, [*key, *names]).take(taken)
        lacking = pa.chunked_array([absent.before.take(taken), absent.after])
        parts, present = [before.cast(after.schema), after], [present_mask(lacking, names)]
        if known is not None:
            parts, present = [known.rows.cast(after.schema), *parts], [known.is_present, *present]
        rows, known_count = pa.concat_tables(parts).combine_chunks(), 0 if known is None else len(known.rows)
        count, first_after = len(rows), known_count + len(updates)
        # In the order of the log: what is known, then of each change the row before it and the row after it.
        times = np.concatenate([np.full(known_count, -1), 2 * updates, 2 * np.arange(len(op)) + 1])
        codes = _codes(rows, key)
        order = np.lexsort([times, codes])
        is_first = np.ones(count, np.bool_)
        is_first[1:] = codes[order][1:] != codes[order][:-1]
        # A key is gone behind a DELETE, and behind an UPDATE that gave its row another one.
        ends, is_moved = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        ends[first_after:] = op == DELETE
        ends[known_count:first_after] = np.asarray(key_change_mask(changes, key), np.bool_)[updates]
        is_moved[first_after + updates] = ends[known_count:first_after]
        before_in_key = np.full(count, count, np.int64)
        before_in_key[order[1:]] = np.where(is_first[1:], count, order[:-1])
        begins = before_in_key < count
        before_in_key[begins] = np.where(ends[before_in_key[begins]], count, before_in_key[begins])
        # A row behind an update is the one before it, changed; one that was inserted is another one.
        before_in_key[first_after + updates] = known_count + np.arange(len(updates))
        before_in_key[first_after + np.flatnonzero(op == INSERT)] = count
        lasts = order[np.append(np.flatnonzero(is_first)[1:], count) - 1]
        numbers = lasts[~ends[lasts]], updates, known_count, len(op)
        may_be_loaded = _may_be_loaded(order[is_first], count, known, load_count)
        return cls(rows, key, names, np.concatenate(present), before_in_key, *numbers, is_moved, may_be_loaded)

    def with_loaded(self, at: int, load: RowsOfLoad, sources: dict[str, Numbers]) -> Self:
        """Rows with those of a load, where changes lack columns that these have.

        at: the load's number. sources: as ``sources`` gives them.
        """
        # First rows of those of changes that lack a column, if the load may have them.
        names, lacks = [name for name in self.names if name in load.names], np.zeros(len(self.rows), np.bool_)
        for name in names:
            lacks[self.known_count :] |= sources[name][self.known_count :] < 0
        first_rows, _ = self._first_rows()
        asked = np.unique(first_rows[lacks])
        asked = asked[self.may_be_loaded[asked, at]]
        if not len(asked):
            return self
        # What the load read is one more row, before the first one.
        numbers, found = load.read(self.rows.select([*self.key, RAW]).take(pa.array(asked)), names)
        count, total = len(self.rows), len(self.rows) + len(found)
        added = self.rows.take(pa.array(asked[numbers]))
        for name in (RAW, *names):
            field = added.schema.field(name)
            added = added.set_column(added.schema.get_field_index(name), field, found.column(name).cast(field.type))
        previous = np.append(np.where(self.previous == count, total, self.previous), np.full(len(found), total))
        previous[asked[numbers]] = count + np.arange(len(found))
        has = np.tile([name in names for name in self.names], (len(found), 1))
        return replace(
            self,
            rows=pa.concat_tables([self.rows, added]).combine_chunks(),
            previous=previous,
            is_present=np.concatenate([self.is_present, has]),
            is_moved=np.append(self.is_moved, np.zeros(len(found), np.bool_)),
            may_be_loaded=np.pad(self.may_be_loaded, ((0, len(found)), (0, 0))),
        )

    def _first_rows(self) -> tuple[Numbers, Flags]:
        """First row that each row was, and whether it has had the same key since."""
        count = len(self.rows)
        pointers, has_same_key = np.where(self.previous < count, self.previous, np.arange(count)), ~self.is_moved
        while not np.array_equal(further := pointers[pointers], pointers):
            has_same_key, pointers = has_same_key & has_same_key[pointers], further
        return pointers, has_same_key

    def sources(self) -> dict[str, Numbers]:
        """The row from which each row has the value of a column, by column; -1 if no row has it."""
        count, sources = len(self.rows), {}
        for at, name in enumerate(self.names):
            # Each step doubles the way that pointers go; the row behind all rows stands for none.
            pointers = np.append(np.where(self.is_present[:, at], np.arange(count), self.previous), count)
            while not np.array_equal(further := pointers[pointers], pointers):
                pointers = further
            sources[name] = np.where(pointers[:count] == count, -1, pointers[:count])
        return sources

    def newest(self, sources: dict[str, Numbers], stages: Sequence[_Stage]) -> _Known:
        """The newest row of each key that is there."""
        rows, numbers = self._completed(sources), self.newest_rows
        is_present = np.stack([sources[name][numbers] >= 0 for name in self.names], axis=1)
        return _Known(rows.take(pa.array(numbers)), is_present, self._still_to_be_read(stages)[numbers])

    def _still_to_be_read(self, stages: Sequence[_Stage]) -> Flags:
        """Mask by row and load: the load's row of its key is the same row, and was not read yet."""
        first_rows, has_same_key = self._first_rows()
        is_known = np.arange(len(self.rows)) < self.known_count
        masks = {_Stage.BEFORE: np.ones_like(is_known), _Stage.DURING: has_same_key}
        # Behind a load, rows of changes were asked for if they lack anything.
        may_be_loaded = [
            self.may_be_loaded[first_rows, at] & masks.get(stage, is_known) for at, stage in enumerate(stages)
        ]
        return np.stack(may_be_loaded, axis=1) if stages else self.may_be_loaded

    def changes_with(self, changes: Changes, sources: dict[str, Numbers]) -> tuple[Changes, AbsentColumns]:
        """The changes with the values of these sources."""
        rows, first_after = self._completed(sources), self.known_count + len(self.updates)
        first_behind = first_after + self.change_count
        after = rows.slice(first_after, self.change_count)
        # Rows before that are no updates' have no cell.
        numbers = np.full(len(changes), -1, np.int64)
        numbers[self.updates] = self.known_count + np.arange(len(self.updates))
        before = rows.take(pa.array(numbers, mask=numbers < 0))
        lacks = np.stack([sources[name] < 0 for name in self.names], axis=1)
        absent_before = np.zeros((len(changes), len(self.names)), np.bool_)
        absent_before[self.updates] = lacks[self.known_count : first_after]
        completed = replace(
            changes,
            after=_with_columns(changes.after, after, self.names),
            before=_with_columns(changes.before, before, self.names),
            raw=after.column(RAW).combine_chunks(),
            before_raw=before.column(RAW).combine_chunks(),
        )
        return completed, AbsentColumns(
            absent_names(lacks[first_after:first_behind], self.names), absent_names(absent_before, self.names)
        )

    def _completed(self, sources: dict[str, Numbers]) -> pa.Table:
        rows = self.rows.set_column(
            self.rows.schema.get_field_index(RAW), RAW, completed_texts(self.rows, sources, self.names)
        )
        for name, source in sources.items():
            cells = self.rows.column(name).combine_chunks().take(pa.array(source, mask=source < 0))
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), cells)
        return rows


def _may_be_loaded(first_rows: Numbers, count: int, known: _Known | None, load_count: int) -> Flags:
    """Mask by row and load: the load's row of the key is the same row. first_rows: those of keys, of so many."""
    may_be_loaded = np.zeros((count, load_count), np.bool_)
    may_be_loaded[first_rows] = True
    if known is not None:
        may_be_loaded[: len(known.rows)] = known.may_be_loaded
    return may_be_loaded


def _table(image: pa.RecordBatch, raw: pa.Array | None, names: Sequence[str]) -> pa.Table:
    """Some columns of images, with their exact texts."""
    cells: dict[str, Any] = {name: image.column(name) for name in names}
    return pa.table(cells | {RAW: pa.nulls(len(image), _TEXTS) if raw is None else raw})


def _with_columns(image: pa.RecordBatch, rows: pa.Table, names: Sequence[str]) -> pa.RecordBatch:
    for name in names:
        at = image.schema.get_field_index(name)
        image = image.set_column(at, image.schema.field(at), rows.column(name).combine_chunks())
    return image


def _codes(rows: pa.Table, key: Sequence[str]) -> Numbers:
    """The number of each row's key."""
    cells = {f"\0{at}": cell for at, cell in enumerate(identity_columns(rows, key))}
    table = pa.table(cells).append_column("\0at", pa.array(np.arange(len(rows))))
    lists = table.group_by([*cells], use_threads=False).aggregate([("\0at", "list")]).column("\0at_list")
    joined = lists.combine_chunks()
    codes = np.empty(len(rows), np.int64)
    codes[joined.values.to_numpy()] = np.repeat(np.arange(len(joined)), np.diff(joined.offsets.to_numpy()))
    return codes
