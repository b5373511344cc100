"""Windows of the log for a target: groups of transactions that do not conflict, and the statements of each.

Put here: where a window ends, its parts, and the order of statements in a part. Not here: reading changes
(log_changes.py), their keys (unique_keys.py), or executing parts (log_delivery.py).

A transaction of the source is never split: all its changes are of one part, which is one transaction at the target. So
a reader of the target sees none of it or all of it. Transactions of one group keep their order; those of different
groups have no unique key in common, and may arrive in another order within a window.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery.ordered.causality import KeyGroups, levels
from spark_jobs.delivery.ordered.log_changes import Portion, TableChanges
from spark_jobs.delivery.ordered.target_state import TargetState
from spark_jobs.delivery.ordered.unique_keys import NONE, Keys
from spark_jobs.delivery.statements import RowStatement, WriteMethod, Writer
from spark_jobs.delivery.table_delivery import STATEMENTS
from spark_jobs.log.position import Position

INSERT, UPDATE, DELETE = 1, 2, 3
_SORTED_FROM = 32
"""Changes from which on sorting them is less work than it saves."""
Rows = NDArray[np.int64]


class Action(IntEnum):
    """Action on a row, in the order in which a level's statements are executed."""

    DELETE = 0
    UPSERT = 1
    MOVE = 2
    """Give the row another key, by an UPDATE of its own."""
    INSERT = 3


@dataclass(frozen=True, slots=True)
class TableTexts:
    """The changes of one table in a portion, as literals. keys: of each change its numbers, without NONE."""

    number: int
    """Number of the table in the delivery."""
    writer: Writer
    op: NDArray[np.uint8]
    is_moved: NDArray[np.bool_]
    """Updates that change what the row is found by."""
    values: pa.Array
    """The rows after the changes, as ``Writer.row_texts``."""
    old_keys: pa.Array
    """The rows before them, as ``Writer.key_texts``."""
    before: pa.Table
    after: pa.Table
    has_own_columns: bool
    has_second_index: bool
    is_partial: bool
    """True if changes were left out: a row may not be there."""
    keys: list[list[int]]

    @classmethod
    def of(cls, target: TargetState, changes: TableChanges) -> tuple["TableTexts", Rows]:
        """Texts, with the numbers of the changes that rules leave. Raises DeliveryError, TableStopped."""
        target.open(changes.state)
        writer, keys = target.writer, target.keys
        assert writer
        assert keys
        assert target.target
        changes_seen = target.judge.judged(changes)
        is_update, is_delete = changes_seen.op == UPDATE, changes_seen.op == DELETE
        # The row before: of an update its before image, of a delete the only one; of an insert the row itself counts
        # for nothing.
        images = pa.concat_tables([changes_seen.after, changes_seen.before])
        indexes = np.arange(len(changes_seen.op))
        old = images.take(pa.array(np.where(is_update, indexes + len(indexes), indexes)))
        old_keys, new_keys = writer.key_texts(old), writer.key_texts(changes_seen.after)
        is_moved = is_update & pc.not_equal(old_keys, new_keys).to_numpy(zero_copy_only=False)
        # Without a key, a row that changes is deleted and inserted.
        if not writer.key:
            is_moved = is_update
        before_keys, after_keys = keys.of(old), keys.of(changes_seen.after)
        texts = cls(
            target.number,
            writer,
            changes_seen.op,
            is_moved,
            writer.row_texts(changes_seen.after),
            old_keys,
            old,
            changes_seen.after,
            target.has_own_columns and bool(writer.key),
            bool(writer.key) and target.target.unique > 1,
            target.judge.may_drop_changes,
            _keys_of_changes(before_keys, after_keys, is_insert=changes_seen.op == INSERT, is_delete=is_delete),
        )
        return texts, changes_seen.rows

    def clearing(self, rows: Rows) -> Iterator[RowStatement]:
        """Delete what may be there of these changes, which are made again: their values may be other rows' by now."""
        if self.has_second_index and len(rows):
            indexes = pa.array(rows)
            images = pa.concat_tables([self.before.take(indexes), self.after.take(indexes)])
            yield from self.writer.delete(images, is_again=True)

    def statements(self, rows: Rows, *, is_safe: bool) -> Iterator[tuple[Action, "Iterator[RowStatement]"]]:
        """The statements that make these changes, which have no key in common."""
        rows = self._by_key(rows)
        # A row that gets another key is deleted and written again, unless the target has columns of its own in it.
        op, is_moved = self.op[rows], self.is_moved[rows]
        moves_by_update = self.has_own_columns and not is_safe
        deleted = (op == DELETE) | (is_moved & (not moves_by_update))
        inserted = (op == INSERT) | (is_moved & (not moves_by_update))
        updated = (op == UPDATE) & ~is_moved
        is_safe = is_safe and bool(self.writer.key)
        if deleted.any():
            yield Action.DELETE, self._deletes(rows[deleted], is_safe=is_safe)
        if updated.any():
            method = WriteMethod.UPSERT if is_safe or self.is_partial else WriteMethod.UPDATE
            yield Action.UPSERT, self._writes(rows[updated], method)
        if moves_by_update and is_moved.any():
            moved = pa.array(rows[is_moved])
            updates = self.writer.update(self.after.take(moved), self.old_keys.take(moved))
            yield Action.MOVE, (replace(update, is_at_most=self.is_partial) for update in updates)
        if inserted.any():
            yield (
                Action.INSERT,
                self._writes(rows[inserted], WriteMethod.REPEATED_INSERT if is_safe else WriteMethod.INSERT),
            )

    def _deletes(self, rows: Rows, *, is_safe: bool) -> Iterator[RowStatement]:
        indexes = pa.array(rows)
        if is_safe:
            return self.writer.delete(self.before.take(indexes), is_again=True)
        return self.writer.delete_texts(self.old_keys.take(indexes), is_at_most=self.is_partial)

    def _writes(self, rows: Rows, method: WriteMethod) -> Iterator[RowStatement]:
        texts = self.values.take(pa.array(rows))
        return self.writer.write_texts(texts, method, lambda index: self.after.slice(int(rows[index]), 1))

    def _by_key(self, rows: Rows) -> Rows:
        """The changes in the order of their key, in which servers write them with a tenth to a third less work."""
        key = self.writer.key
        if not key or len(rows) < _SORTED_FROM:
            return rows
        order = pc.sort_indices(self.after.select(key).take(pa.array(rows)), [(name, "ascending") for name in key])
        ordered: Rows = rows[order.to_numpy()]
        return ordered


def _keys_of_changes(
    before: Sequence[Keys], after: Sequence[Keys], *, is_insert: NDArray[np.bool_], is_delete: NDArray[np.bool_]
) -> list[list[int]]:
    """Keys of the images of each change."""
    old = [np.where(is_insert, NONE, keys) for keys in before]
    new = [np.where(is_delete, NONE, keys) for keys in after]
    new = [np.where(keys == old_keys, NONE, keys) for keys, old_keys in zip(new, old, strict=True)]
    rows = np.stack([*old, *new], axis=1).tolist() if old else [[]] * len(is_insert)
    return [[key for key in row if key] for row in rows]


@dataclass(frozen=True, slots=True)
class PlannedPortion:
    """The changes of a portion in the log's order, by transaction.

    tables: their texts. table, row, keys: of each change, in order. bounds: where transactions begin, and the end.
    begins: the position of each transaction. positions: of each change.
    """

    tables: tuple[TableTexts, ...]
    table: NDArray[np.int64]
    row: Rows
    keys: list[list[int]]
    bounds: tuple[int, ...]
    begins: tuple[Position, ...]
    end: Position
    positions: tuple[Rows, Rows, Rows]
    """File, offset and row in the event."""


def planned(portion: Portion, targets: Sequence[TargetState], file_of: Callable[[int, int], str]) -> PlannedPortion:
    """Order a portion's changes. file_of: a file's name by stretch and number. Raises DeliveryError, TableStopped."""
    texts, columns = [], []
    for number, changes in enumerate(portion.tables):
        own_texts, rows = TableTexts.of(targets[changes.table], changes)
        texts.append(own_texts)
        cells = (changes.file, changes.offset, changes.row, changes.transaction)
        columns.append(
            [np.full(len(rows), number, np.int64), np.arange(len(rows)), *(values[rows] for values in cells)]
        )
    table, row, file, offset, index, transaction = (
        (np.concatenate(values) for values in zip(*columns, strict=True)) if columns else (np.zeros(0, np.int64),) * 6
    )
    # All tables' changes in the log's order, and where a transaction begins among them.
    order = np.lexsort((index, offset, file))
    file, offset, index, transaction = file[order], offset[order], index[order], transaction[order]
    starts = np.flatnonzero((np.diff(file) != 0) | (np.diff(transaction) != 0)) + 1
    firsts = [0, *starts.tolist()] if len(order) else []
    begins = []
    for at in firsts:
        stretch, number = int(file[at]) >> 40, int(file[at]) & ((1 << 40) - 1)
        begins.append(Position(file_of(stretch, number), int(transaction[at]), stretch))
    table, row = table[order], row[order]
    keys = [texts[number].keys[at] for number, at in zip(table.tolist(), row.tolist(), strict=True)]
    bounds, indexes = (*firsts, len(order)), (file, offset, index)
    return PlannedPortion(tuple(texts), table, row, keys, bounds, tuple(begins), portion.end, indexes)


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Transactions that are written before anything behind them is, in parts that can be written in any order.

    parts: the changes of each, by their numbers in the portion, in the log's order. end: the position behind it.
    """

    portion: PlannedPortion
    parts: tuple[Rows, ...]
    end: Position
    part_rows: int
    """Rows of a part that the window was planned with."""

    @property
    def rows(self) -> int:
        return sum(map(len, self.parts))

    def counts(self) -> dict[int, int]:
        """Number of changes that it has of each table."""
        numbers = Counter(self.portion.table[np.concatenate(self.parts)].tolist()) if self.parts else Counter[int]()
        return {self.portion.tables[table].number: count for table, count in numbers.items()}

    @property
    def digest(self) -> str:
        """A digest that differs between windows of one range whose parts have different changes."""
        digest = hashlib.sha256(str(self.end).encode())
        names = [f"{table.writer.name}\0".encode() for table in self.portion.tables]
        for part in self.parts:
            digest.update(b"part")
            # A change is one row of an event of the log, for one table of the target.
            for column in self.portion.positions:
                digest.update(column[part].tobytes())
            digest.update(b"".join(names[number] for number in self.portion.table[part].tolist()))
        return digest.hexdigest()

    @property
    def is_keyed(self) -> bool:
        """True if all rows are found by a key."""
        return all(table.writer.key for table in self.portion.tables)

    def statements(self, part: int, *, is_safe: bool) -> Iterator[RowStatement]:
        """The statements of a part: level by level, and of a level table by table."""
        rows = self.parts[part]
        if is_safe:
            for number, table in enumerate(self.portion.tables):
                yield from table.clearing(self.portion.row[rows[self.portion.table[rows] == number]])
        level = np.array(levels([self.portion.keys[at] for at in rows.tolist()]), np.int64)
        tables = self.portion.table[rows]
        order = np.lexsort((rows, tables, level))
        edges = np.flatnonzero((np.diff(level[order]) != 0) | (np.diff(tables[order]) != 0)) + 1
        for begin, end in pairwise([0, *edges.tolist(), len(order)]):
            level_rows = rows[order[begin:end]]
            if len(level_rows):
                texts = self.portion.tables[int(self.portion.table[level_rows[0]])]
                for _, statements in texts.statements(self.portion.row[level_rows], is_safe=is_safe):
                    yield from statements


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of windows. joined: rows of a group up to which groups are joined. window: rows of one at most."""

    batch: int
    workers: int
    part: int
    joined: int
    window: int

    @classmethod
    def of(cls, settings: Delivery) -> "Sizes":
        part = settings.batch_rows * STATEMENTS
        return cls(settings.batch_rows, settings.workers, part, settings.batch_rows, part * settings.workers)

    @classmethod
    def for_open_window(cls, part: int) -> "Sizes":
        """Sizes of a window that was begun: it has the parts that it had, and nothing is flushed in it."""
        return cls(part, 1, part, 1 << 62, 1 << 62)

    def rows_per_part(self, rows: int) -> int:
        """Rows of a part of a window that has so many: each worker has one, as far as parts are not small."""
        return min(self.part, max(self.batch, -(-rows // self.workers)))


def windows(portion: PlannedPortion, sizes: Sizes) -> Iterator[LogWindow]:
    """The windows of a portion: each ends where a transaction conflicts with several groups (a flush), or with it."""
    first = 0
    groups, count = KeyGroups(sizes.joined), 0
    for number, (begin, end) in enumerate(pairwise(portion.bounds)):
        keys = {*chain.from_iterable(portion.keys[begin:end])}
        is_full = count and count + end - begin > sizes.window
        if is_full or not groups.add(keys, end - begin):
            yield _window(portion, groups, (first, number), sizes.rows_per_part(count))
            first, groups, count = number, KeyGroups(sizes.joined), 0
            groups.add(keys, end - begin)
        count += end - begin
    yield _window(portion, groups, (first, len(portion.bounds) - 1), sizes.rows_per_part(count))


def _window(portion: PlannedPortion, groups: KeyGroups, span: tuple[int, int], part_rows: int) -> LogWindow:
    """The transactions of a span as a window: groups are put into parts in the order of their first transactions."""
    first, last = span
    end = portion.begins[last] if last < len(portion.begins) else portion.end
    parts: list[list[int]] = []
    rows = 0
    for members in groups.transactions():
        changes = [
            at for member in members for at in range(portion.bounds[first + member], portion.bounds[first + member + 1])
        ]
        if not parts or rows + len(changes) > part_rows:
            parts.append([])
            rows = 0
        parts[-1] += changes
        rows += len(changes)
    return LogWindow(portion, tuple(np.array(sorted(part), np.int64) for part in parts), end, part_rows)
