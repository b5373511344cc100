"""Rows as the server had them, for rules about columns that row images leave out.

A rule is about the server's row, and so is the value of a computed column: an UPDATE that leaves ``v`` out is of a row
that has one. It is known where an earlier change of the key has it, whatever rules made of that change. So it is looked
up in the log and nowhere else: silver has no row of a change that was filtered, and these are the rows that the next
change is asked about. What the log of the run does not have stays absent.

Put here: the values of such columns, change by change. Not here: the images themselves (partial_images.py), the rules
(row_filters.py, column_masks.py), or what silver has of the changes (row_overlay.py).

The rows of a change are two, before and after it. Each cell that its image leaves out points to the row before: that
after the change points to that before it, which points to that after the last change of its key. Pointers are followed
until they end at a cell that an image has, or at a key's first row.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, TableDefinition
from spark_jobs.errors import StratalogError
from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.net_changes import DELETE, INSERT, UPDATE, AbsentColumns, SliceOrigin, identity, key_change_mask
from spark_jobs.silver.partial_images import absent_names
from spark_jobs.silver.row_overlay import RAW, completed_texts, present_mask
from spark_jobs.silver.slice_runs import Runs

_TEXTS = pa.map_(pa.string(), pa.string())
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Known:
    """The newest row of each key that is there: its key, RAW and the columns; and bool[row, column], which it has."""

    rows: pa.Table
    is_present: Flags


@dataclass(frozen=True, slots=True)
class _RuleRowsState:
    """What is known at a place of the log: in which of the parts that the windows make, and which skip it is behind."""

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
    ) -> None:
        """names: of the columns. ranges: the windows; what is known in one holds in the next where nothing is between.

        skips: events in quarantine, behind which nothing is known. A table without a key has no rows that could be
        completed.
        """
        columns = definition.column_names()
        self._key = [columns[at] for at in definition.key or ()]
        self._names = [name for name in columns if name in names and name not in self._key] if self._key else []
        joined_ranges = joined(ranges)
        self._parts = [
            next(at for at, part in enumerate(joined_ranges) if window.start < part.stop) for window in ranges
        ]
        self._skips = sorted(skip.order for skip in skips)
        self._state = _RuleRowsState()

    def __bool__(self) -> bool:
        return bool(self._names)

    @property
    def asked(self) -> frozenset[str]:
        """The columns."""
        return frozenset(self._names)

    def restarted(self) -> Self:
        """Without what is known; for the same changes again."""
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

    def between_skips(self, changes: Changes, origin: SliceOrigin) -> Iterator[Changes]:
        """The changes, in parts where events in quarantine lie between them."""
        begin, offsets = 0, np.asarray(changes.offset.to_numpy(), np.int64)
        for skip in self._skips:
            *file, offset = skip
            if skip <= self._state.passed or file > [origin.stretch, origin.number]:
                continue
            is_here = file == [origin.stretch, origin.number]
            at = int(np.searchsorted(offsets, offset)) if is_here else 0
            if at == len(changes):
                break
            if at > begin:
                yield changes.slice(begin, at - begin)
            self._state, begin = _RuleRowsState(self._state.part, None, skip), at
        yield changes.slice(begin, len(changes) - begin) if begin else changes

    def completed(self, changes: Changes, absent: AbsentColumns, window: int) -> tuple[Changes, AbsentColumns]:
        """The changes with these columns as the server had them, and which of them are still not known.

        window: the number of the range that the changes are of. Columns besides these are as they were.
        """
        if not self._names or not len(changes):
            return changes, absent
        part = self._parts[window]
        known = self._state.known if part == self._state.part else None
        walk = _ChangeWalk.of(changes, absent, self._key, self._names, known)
        sources = walk.sources()
        self._state = _RuleRowsState(part, walk.newest(sources), self._state.passed)
        return walk.changes_with(changes, sources)


@dataclass(frozen=True, slots=True)
class _ChangeWalk:
    """The rows before and after changes: first those that are known, then those before updates, then those after.

    rows: key, RAW and the columns. is_present: bool[row, column]. previous: of each row the one that its absent cells
    are asked of; the number of all rows for none. newest_rows: the last row of each key that is there in the end.
    """

    rows: pa.Table
    key: list[str]
    names: list[str]
    is_present: Flags
    previous: Numbers
    newest_rows: Numbers
    updates: Numbers
    known_count: int

    @classmethod
    def of(
        cls, changes: Changes, absent: AbsentColumns, key: list[str], names: list[str], known: _Known | None
    ) -> Self:
        # The rows before and after each change, and of each the columns that its image has.
        op = np.asarray(changes.op.to_numpy(), np.uint8)
        updates = np.flatnonzero(op == UPDATE)
        taken = pa.array(updates)
        after = _table(changes.after, changes.raw, [*key, *names])
        before = _table(changes.before, changes.before_raw, [*key, *names]).take(taken)
        parts, present = (
            [before.cast(after.schema), after],
            [present_mask(pa.chunked_array([lists]), names) for lists in (absent.before.take(taken), absent.after)],
        )
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
        # A key is gone behind a DELETE, and behind an UPDATE that gave its row another key.
        ends = np.zeros(count, np.bool_)
        ends[first_after:] = op == DELETE
        ends[known_count:first_after] = np.asarray(key_change_mask(changes, key), np.bool_)[updates]
        before_in_key = np.full(count, count, np.int64)
        before_in_key[order[1:]] = np.where(is_first[1:], count, order[:-1])
        begins = before_in_key < count
        before_in_key[begins] = np.where(ends[before_in_key[begins]], count, before_in_key[begins])
        # A row behind an update is the one before it, changed; one that was inserted is another one.
        before_in_key[first_after + updates] = known_count + np.arange(len(updates))
        before_in_key[first_after + np.flatnonzero(op == INSERT)] = count
        lasts = order[np.append(np.flatnonzero(is_first)[1:], count) - 1]
        return cls(
            rows,
            key,
            names,
            np.concatenate(present),
            before_in_key,
            lasts[~ends[lasts]],
            updates,
            known_count,
        )

    def sources(self) -> dict[str, Numbers]:
        """Of each column the row that each row has its value from; -1 where none has it."""
        count, sources = len(self.rows), {}
        for at, name in enumerate(self.names):
            # Each step doubles the way that pointers go; the row behind all rows stands for none.
            pointers = np.append(np.where(self.is_present[:, at], np.arange(count), self.previous), count)
            while not np.array_equal(further := pointers[pointers], pointers):
                pointers = further
            sources[name] = np.where(pointers[:count] == count, -1, pointers[:count])
        return sources

    def newest(self, sources: dict[str, Numbers]) -> _Known:
        """The newest row of each key that is there."""
        rows, numbers = self._completed(sources), self.newest_rows
        is_present = np.stack([sources[name][numbers] >= 0 for name in self.names], axis=1)
        return _Known(rows.take(pa.array(numbers)), is_present)

    def changes_with(self, changes: Changes, sources: dict[str, Numbers]) -> tuple[Changes, AbsentColumns]:
        """The changes with the values of these sources."""
        rows, first_after = self._completed(sources), self.known_count + len(self.updates)
        after = rows.slice(first_after)
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
            absent_names(lacks[first_after:], self.names), absent_names(absent_before, self.names)
        )

    def _completed(self, sources: dict[str, Numbers]) -> pa.Table:
        rows = self.rows.set_column(
            self.rows.schema.get_field_index(RAW), RAW, completed_texts(self.rows, sources, self.names)
        )
        for name, source in sources.items():
            cells = self.rows.column(name).combine_chunks().take(pa.array(source, mask=source < 0))
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), cells)
        return rows


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
    cells = {f"\0{at}": cell for at, cell in enumerate(identity(rows, key))}
    table = pa.table(cells).append_column("\0at", pa.array(np.arange(len(rows))))
    lists = table.group_by([*cells], use_threads=False).aggregate([("\0at", "list")]).column("\0at_list")
    joined = lists.combine_chunks()
    codes = np.empty(len(rows), np.int64)
    codes[joined.values.to_numpy()] = np.repeat(np.arange(len(joined)), np.diff(joined.offsets.to_numpy()))
    return codes
