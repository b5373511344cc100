"""Silver and downstream as plain Python makes them of changes: the twin of the engine, rows as dictionaries.

Put here: what the layers hold, one change and one window after the other. Not here: changes as logs or Arrow columns
have them, or the comparison.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Key = tuple[Any, ...]
UNKNOWN: Key = ()
"""Of a row whose INSERT is not known: nothing that is older is its own."""
Image = Mapping[str, Any]
"""By column what an image holds; a column that it leaves out is not there, and NULL is None."""


@dataclass(frozen=True)
class RowChange:
    """A change of one row: an INSERT has no image before, a DELETE none after."""

    before: Image | None
    after: Image | None


@dataclass(frozen=True)
class TableShape:
    """A table: its columns, its key, and the constants that rows have whose INSERT leaves columns out."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    defaults: Image = field(default_factory=dict)

    def key_of(self, image: Image) -> Key:
        return tuple(image[name] for name in self.key)

    def default_row(self) -> dict[str, Any]:
        return dict.fromkeys(self.columns) | dict(self.defaults)


@dataclass(frozen=True)
class NetRow:
    """What a window did to a key: whether it existed before and exists after, and what is known of its columns."""

    existed: bool
    exists: bool
    values: Image
    """Of a key that is gone those of the row that was deleted."""
    position: int
    """The number of the last change."""
    changes: int
    is_ended: bool = False
    """True if the row began behind a delete, in the window."""
    origin: Key | None = None
    """The key that the row had before the window, whose row has the columns that are not known; UNKNOWN where the row's
    INSERT is not known."""
    is_from_server: bool = False

    @property
    def op(self) -> str:
        return ("update" if self.existed else "insert") if self.exists else "delete"


def silver_rows(changes: Iterable[tuple[int, RowChange]], table: TableShape) -> dict[Key, NetRow]:
    """The net change of each key in a window. changes: numbered, in the order of the log."""
    rows: dict[Key, NetRow] = {}
    for offset, change in changes:
        image = _row_behind(change, table)
        old, new = (table.key_of(part) if part else None for part in (change.before, image))
        is_moved = None not in (old, new) and old != new
        moved_row = _moved_row(rows.get(old), old, image, table) if is_moved and old and image is not None else None
        # A change of the key deletes the old one, and inserts the new one.
        if old is not None and (is_moved or new is None):
            assert change.before is not None
            _add_net_change(
                rows,
                old,
                NetRow(existed=True, exists=False, values=change.before, position=offset, changes=1 - is_moved),
            )
        if new is not None and image is not None:
            is_new = is_moved or old is None
            row = NetRow(existed=not is_new, exists=True, values=image, position=offset, changes=1)
            _add_net_change(rows, new, row, moved_row)
    return {
        key: replace(
            row, is_ended=False, origin=_origin_of_rest(row) if row.values.keys() != set(table.columns) else None
        )
        for key, row in rows.items()
    }


def _origin_of_rest(row: NetRow) -> Key | None:
    return UNKNOWN if row.origin is None and row.is_ended else row.origin


def _moved_row(before: NetRow | None, old: Key, image: Image, table: TableShape) -> tuple[Image, Key | None]:
    """What is known of a row that had another key, and the key that the rest is known by. before: of the old key."""
    if before is None:
        return image, old
    if not before.exists:
        return image, UNKNOWN
    origin = _origin_of_rest(before)
    return {**before.values, **image}, old if origin is None else origin


def _row_behind(change: RowChange, table: TableShape) -> Image | None:
    if change.after is None:
        return None
    return (table.default_row() if change.before is None else dict(change.before)) | dict(change.after)


def _add_net_change(
    rows: dict[Key, NetRow], key: Key, row: NetRow, moved_row: tuple[Image, Key | None] | None = None
) -> None:
    """Lays a change over what a window has of its key. moved_row: of a row that had another key, as ``_moved_row``."""
    last = rows.get(key)
    if last is not None:
        row = replace(row, existed=last.existed, changes=row.changes + last.changes)
    if moved_row is not None:
        values, origin = moved_row
        rows[key] = replace(row, values=values, origin=origin)
    elif last is None:
        rows[key] = row
    elif last.exists:
        rows[key] = replace(row, values={**last.values, **row.values}, is_ended=last.is_ended, origin=last.origin)
    else:
        rows[key] = replace(row, is_ended=True)


def current_rows(windows: Sequence[Mapping[Key, NetRow]], table: TableShape) -> tuple[dict[Key, Image], set[Key]]:
    """The rows downstream after some windows of silver, and the keys that no row ever held whole."""
    rows, _ = _rows_after(windows)
    never_whole = {key for key, row in rows.items() if row.keys() != set(table.columns)}
    return {key: row for key, row in rows.items() if key not in never_whole}, never_whole


def kept_rows(windows: Sequence[Mapping[Key, NetRow]], table: TableShape) -> dict[Key, tuple[Image, bool]]:
    """The last row of each key after some windows of silver, and whether it was deleted; none that is not whole."""
    rows, deleted = _rows_after(windows)
    last = {key: (row, False) for key, row in rows.items()} | {key: (row, True) for key, row in deleted.items()}
    return {key: (row, is_deleted) for key, (row, is_deleted) in last.items() if row.keys() == set(table.columns)}


def known_rows(windows: Sequence[Mapping[Key, NetRow]]) -> dict[Key, dict[str, Any]]:
    """What is known of the rows that are there after some windows of silver."""
    return _rows_after(windows)[0]


def _rows_after(windows: Sequence[Mapping[Key, NetRow]]) -> tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]]:
    """What is known of the rows by their keys, and of the row that each key had which is gone."""
    rows: dict[Key, dict[str, Any]] = {}
    deleted: dict[Key, dict[str, Any]] = {}
    server_positions: dict[Key, int] = {}
    for window in windows:
        before_window = {**rows}
        for key, row in window.items():
            if row.position < server_positions.get(key, 0):
                continue  # the server gave the row later, in the middle of the window
            before = rows.pop(key, {})
            if row.origin is not None:
                # The row had another key, unless a load read it under the new one, as which the log has no other.
                is_read = key in server_positions and not row.existed and row.origin != UNKNOWN
                before = (before if is_read else {}) | before_window.get(row.origin, {})
            deleted.pop(key, None)
            into = rows if row.exists else deleted
            into[key] = {**before, **row.values}
            server_positions.pop(key, None)
            if row.is_from_server:
                server_positions[key] = row.position
    return rows, deleted
