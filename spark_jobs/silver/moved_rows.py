"""Rows that got their key by a partial image, completed by the row of the key that they had.

Such a row (``_moved_from``) has the absent columns of the row of its old key as that was before: nothing that an older
row of its new key has is its own. That row may have come from another key too, and so on, through windows.

Put here: the walk over rows of such keys in the order of the log. Not here: finding these rows in silver
(engine/rows/moved_lookup.py), or laying rows of one key over each other (row_overlay.py).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.silver import moved_from_codec
from spark_jobs.silver.net_changes import identity_columns
from spark_jobs.silver.partial_images import absent_names
from spark_jobs.silver.row_overlay import ABSENT, MOVED_FROM, RAW, completed_texts, present_mask

MOVED = "_moved"
"""Column of rows: true if a change gave the row its key, and no row of the old key has completed it yet."""
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_NONE = -1


@dataclass(slots=True)
class KeyState:
    """State of a key's row at some point of the log.

    sources: of each column the number of the row that has its value, -1 where none does. origin: the number of the key
    that the row had before, which the other columns are to be asked of; -1 for its own. is_broken: whether it lacks
    columns behind a delete, since its INSERT is not known. is_from_server: whether a load or a mend read it. age: of a
    row from the server, its number in the order of positions.
    """

    sources: Numbers
    origin: int = _NONE
    is_broken: bool = False
    is_from_server: bool = False
    age: int = _NONE


_GONE = KeyState(np.zeros(0, np.int64), is_broken=True)


@dataclass(frozen=True, slots=True)
class RowWalk:
    """Rows in the order in which they are walked through.

    rows: with ABSENT, MOVED_FROM and RAW. key, names: the table's key and the columns that rows are completed in.
    order: the row numbers. starts: where in the order rows begin that stand at one point of the log. is_gone: which
    rows say that their key is gone. is_moved: which rows are to be completed by the row of an old key.
    is_from_server: which rows were read from the server. is_new: which keys did not exist at the beginning of a row's
    window. emptied: the first row in the order behind each statement that emptied the table. ages: numbers in the order
    of the rows' own positions, where a row that the server gave may be newer than those of its window.
    """

    rows: pa.Table
    key: Sequence[str]
    names: Sequence[str]
    order: Numbers
    starts: Numbers
    is_gone: Flags
    is_moved: Flags
    is_from_server: Flags | None = None
    is_new: Flags | None = None
    emptied: Sequence[int] = ()
    ages: Numbers | None = None

    def completed_rows(self) -> pa.Table:
        """All rows, those that are moved with what the rows of their old keys tell. Raises what ``refuse`` raises."""
        moved = np.flatnonzero(self.is_moved)
        if not len(moved):
            return self.rows
        codes, origins, origin_rows = self._codes()
        is_present = present_mask(self.rows.column(ABSENT), self.names)
        states = self._states(codes, origins, is_present)
        # Of the moved rows the values of other rows, the texts of these, and what is still absent.
        row_numbers = np.arange(len(self.rows))
        sources = {name: np.where(is_present[:, at], row_numbers, _NONE) for at, name in enumerate(self.names)}
        for row, state in states:
            for at, name in enumerate(self.names):
                sources[name][row] = state.sources[at]
        return self._with_sources(sources, dict(states), origin_rows)

    def _codes(self) -> tuple[Numbers, Numbers, Numbers]:
        """Numbers of each row's key and old key, -1 for none; and by number a row that names the key as its old one."""
        # The keys of all rows, and behind them those that rows name, are numbered together.
        cells = [*self.key, RAW]
        names = self.rows.column(MOVED_FROM)
        old_keys, numbers = moved_from_codec.keys_from_texts(names, self.key, self.rows.schema)
        keys = self.rows.select(cells)
        all_keys = pa.concat_tables([keys, old_keys.cast(keys.schema)])
        columns = dict(zip(map(str, range(len(cells))), identity_columns(all_keys, self.key), strict=True))
        if "_window" in self.rows.column_names:
            windows = self.rows.column("_window").combine_chunks()
            columns["window"] = pa.chunked_array([windows, windows.take(numbers)])
        table = pa.table(columns)
        # Rows of one key, and of one window where there are several, get one number.
        grouped = table.append_column("\0at", pa.array(np.arange(len(table)))).group_by([*columns], use_threads=False)
        lists = grouped.aggregate([("\0at", "list")]).column("\0at_list").combine_chunks()
        codes = np.empty(len(table), np.int64)
        codes[lists.values.to_numpy()] = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
        key_codes, old_codes = codes[: len(keys)], codes[len(keys) :]
        origins = np.full(len(keys), _NONE, np.int64)
        origins[numbers.to_numpy()] = old_codes
        origin_rows = np.full(len(lists), _NONE, np.int64)
        origin_rows[old_codes] = numbers.to_numpy()
        return key_codes, origins, origin_rows

    def _states(self, codes: Numbers, origins: Numbers, is_present: Flags) -> list[tuple[int, KeyState]]:
        """States of the moved rows: what is known of each."""
        states: dict[int, KeyState] = {}
        default: KeyState | None = None
        results: list[tuple[int, KeyState]] = []
        is_unknown = moved_from_codec.has_unknown_insert(self.rows.column(MOVED_FROM))
        statements = deque(sorted(self.emptied))
        involved = np.zeros(1 + max(codes.max(), origins.max()), np.bool_)
        involved[codes[self.is_moved]] = True
        involved[origins[origins >= 0]] = True
        for begin, at_once in self._points():
            while statements and begin >= statements[0]:
                statements.popleft()
                default = _GONE
                states.clear()
            rows_at_once = [row for row in at_once.tolist() if involved[codes[row]]]
            # All look at what was before this point; what they make of it is there behind it.
            new_states: list[tuple[int, KeyState]] = []
            for row in rows_at_once:
                before = states.get(int(codes[row]), default)
                if is_unknown[row]:
                    state = KeyState(np.where(is_present[row], row, _NONE), is_broken=True)
                    results.append((row, state))
                elif self.is_moved[row]:
                    old = states.get(int(origins[row]), default) if origins[row] >= 0 else _GONE
                    state = self._state_of_moved(row, int(origins[row]), old, before, is_present[row])
                    results.append((row, state))
                else:
                    state = self._next(row, int(origins[row]), before, is_present[row])
                # What the server said in the middle of the window is newer than a change before that.
                if before is None or self.ages is None or before.age < self.ages[row]:
                    new_states.append((int(codes[row]), _GONE if self.is_gone[row] else state))
            states.update(new_states)
        return results

    def _points(self) -> Iterator[tuple[int, Numbers]]:
        stops = [*self.starts[1:].tolist(), len(self.order)]
        for start, stop in zip(self.starts.tolist(), stops, strict=True):
            yield start, self.order[start:stop]

    def _state_of_moved(
        self, row: int, origin: int, old: KeyState | None, before: KeyState | None, is_present: Flags
    ) -> KeyState:
        """State of a row that came from another key. before: of its new key's row until then."""
        sources = np.where(is_present, row, _NONE)
        if old is not None and old is not _GONE:
            sources = np.where(sources < 0, old.sources, sources)
            origin = old.origin if old.origin >= 0 else origin
        is_broken = old is not None and old.is_broken
        # What a load read of the new key is the same row: the log says of no other one of that key since.
        if before is not None and before.is_from_server and self.is_new is not None and self.is_new[row]:
            sources = np.where(sources < 0, before.sources, sources)
        is_whole = bool((sources >= 0).all())
        return KeyState(sources, _NONE if is_whole else origin, is_broken and not is_whole)

    def _next(self, row: int, origin: int, before: KeyState | None, is_present: Flags) -> KeyState:
        """State of a key behind any other row."""
        if self.is_gone[row]:
            return _GONE
        sources = np.where(is_present, row, _NONE)
        if bool(is_present.all()) or origin >= 0:
            is_from_server = self.is_from_server is not None and bool(self.is_from_server[row])
            age = int(self.ages[row]) if is_from_server and self.ages is not None else _NONE
            return KeyState(sources, origin, is_from_server=is_from_server, age=age)
        if before is None:
            return KeyState(sources)
        if before is _GONE:
            return KeyState(sources, is_broken=True)
        return KeyState(np.where(sources < 0, before.sources, sources), before.origin, before.is_broken)

    def _with_sources(self, sources: dict[str, Numbers], states: dict[int, KeyState], origin_rows: Numbers) -> pa.Table:
        """The rows with the values of these sources."""
        rows = self.rows
        absent = np.stack([sources[name] < 0 for name in self.names], axis=1)
        # A row that is whole names no key, another one that which the absent columns are to be asked of.
        names_of = np.arange(len(rows))
        for row, state in states.items():
            names_of[row] = origin_rows[state.origin] if state.origin >= 0 else row
        moved_from = rows.column(MOVED_FROM).combine_chunks().take(pa.array(names_of))
        is_broken = np.zeros(len(rows), np.bool_)
        is_broken[[row for row, state in states.items() if state.is_broken]] = True
        moved_from = pc.if_else(pa.array(is_broken), pa.scalar([], moved_from.type), moved_from)
        is_named = absent.any(axis=1) | ~self.is_moved
        cells = {
            RAW: completed_texts(rows, sources, self.names),
            ABSENT: absent_names(absent, self.names),
            MOVED_FROM: pc.if_else(pa.array(is_named), moved_from, pa.scalar(None, moved_from.type)),
        }
        for name, source in sources.items():
            if (source != np.arange(len(rows))).any():
                cells[name] = rows.column(name).combine_chunks().take(pa.array(source, mask=source < 0))
        for name, values in cells.items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), values.cast(rows.schema.field(at).type))
        return rows


def points_of(columns: Sequence[NDArray[np.int64]]) -> tuple[Numbers, Numbers]:
    """The order of rows by columns, the most significant first, and where in it rows begin that are equal in all."""
    order = np.lexsort([*reversed(columns)])
    is_first = np.zeros(len(order), np.bool_)
    is_first[:1] = True
    for values in columns:
        ordered = values[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    return order.astype(np.int64), np.flatnonzero(is_first)


def first_in(order: Numbers, flags: Flags) -> int:
    """The first place in an order of rows whose row has a flag; behind all of them where none has."""
    return int(np.argmax(flags[order])) if flags.any() else len(order)


def within_window(rows: pa.Table, key: Sequence[str], names: Sequence[str]) -> pa.Table:
    """Net rows of windows, those that changes gave their keys completed by all rows of the windows before them.

    rows: every one that there is, or was up to a point of the log, with ``_exists``, ``_window`` and MOVED. Where an
    old key was gone nothing tells what its row was: MOVED_FROM is empty.
    """
    is_moved = np.asarray(rows.column(MOVED).to_numpy(zero_copy_only=False), np.bool_)
    if not is_moved.any():
        return rows
    # Changes in the order of the log; a change of a key is two rows at one position.
    position = rows.column("_position").combine_chunks()
    fields = ("stretch", "number", "offset", "row")
    order, starts = points_of([np.asarray(position.field(name), np.int64) for name in fields])

    is_gone = ~np.asarray(rows.column("_exists").to_numpy(zero_copy_only=False), np.bool_)
    completed = RowWalk(rows, key, names, order, starts, is_gone, is_moved).completed_rows()
    at = completed.schema.get_field_index(MOVED)
    return completed.set_column(at, MOVED, pa.repeat(pa.scalar(False), len(rows)))
