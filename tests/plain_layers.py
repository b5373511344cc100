"""Silver and downstream as plain Python makes them of changes: the twin of the engine, rows as dictionaries.

Put here: what the layers hold, one change and one window after the other. Not here: changes as logs or Arrow columns
have them, or the comparison.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Key = tuple[Any, ...]
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
    """Of a key that is gone those that it had last."""
    position: int
    """The number of the last change."""
    changes: int
    is_ended: bool = False
    """True if a row that existed after a delete is known in part alone, so that silver stops."""
    newest_cells: Image = field(default_factory=dict, compare=False)
    """The newest value of each column that any image of the key held since it came from another key."""
    origin: Key | None = None
    """The key that the row had before the window, whose row has the columns that are not known."""
    begun: Key | None = field(default=None, compare=False)
    """That key of the last row which came from another one, whatever became of it."""
    is_from_server: bool = False

    @property
    def op(self) -> str:
        return ("update" if self.existed else "insert") if self.exists else "delete"


class OldKeyGone(Exception):
    """A change of a key that was gone, whose images do not hold the whole row: silver stops."""


def silver_rows(changes: Iterable[tuple[int, RowChange]], table: TableShape) -> dict[Key, NetRow]:
    """The net change of each key in a window. changes: numbered, in the order of the log. Raises OldKeyGone."""
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
    lacking = {key for key, row in rows.items() if row.values.keys() != set(table.columns)}
    return {
        key: replace(
            row,
            is_ended=row.is_ended and row.exists and key in lacking,
            origin=(row.origin if row.exists else row.begun) if key in lacking else None,
        )
        for key, row in rows.items()
    }


def _moved_row(before: NetRow | None, old: Key, image: Image, table: TableShape) -> tuple[Image, Key | None]:
    """What is known of a row that had another key, and the key that the rest is known by. before: of the old key."""
    if before is None or not before.exists:
        values, origin = image, old
    else:
        values, origin = {**before.values, **image}, before.origin or old
    if values.keys() == set(table.columns):
        return values, None
    if before is not None and (not before.exists or before.is_ended):
        raise OldKeyGone
    return values, origin


def _row_behind(change: RowChange, table: TableShape) -> Image | None:
    if change.after is None:
        return None
    return (table.default_row() if change.before is None else dict(change.before)) | dict(change.after)


def _add_net_change(
    rows: dict[Key, NetRow], key: Key, row: NetRow, moved_row: tuple[Image, Key | None] | None = None
) -> None:
    """Lays a change over what a window has of its key. moved_row: of a row that had another key, as ``_moved_row``."""
    last = rows.get(key)
    if moved_row is not None:
        values, origin = moved_row
        existed = row.existed if last is None else last.existed
        changes = row.changes + (0 if last is None else last.changes)
        newest_cells = {**({} if origin or last is None else last.newest_cells), **values}
        rows[key] = replace(
            row,
            existed=existed,
            values=values,
            changes=changes,
            newest_cells=newest_cells,
            origin=origin,
            begun=origin or (None if last is None else last.begun),
        )
        return
    if last is None:
        rows[key] = replace(row, newest_cells=row.values)
        return
    newest_cells = {**last.newest_cells, **row.values}
    values = {**last.values, **row.values} if last.exists else row.values
    is_ended = last.is_ended or not last.exists
    is_inserted = row.exists and not last.exists
    rows[key] = replace(
        row,
        existed=last.existed,
        values=values if row.exists else newest_cells,
        changes=last.changes + row.changes,
        is_ended=is_ended,
        newest_cells=newest_cells,
        origin=None if is_inserted else last.origin,
        begun=last.begun,
    )


def current_rows(windows: Sequence[Mapping[Key, NetRow]], table: TableShape) -> tuple[dict[Key, Image], set[Key]]:
    """The rows downstream after some windows of silver, and the keys that no row ever held whole."""
    rows, _ = _rows_after(windows)
    never_whole = {key for key, row in rows.items() if row.keys() != set(table.columns)}
    return {key: row for key, row in rows.items() if key not in never_whole}, never_whole


def kept_rows(windows: Sequence[Mapping[Key, NetRow]], table: TableShape) -> dict[Key, tuple[Image, bool]]:
    """The last row of each key after some windows of silver, and whether it was deleted; none that is not whole."""
    rows, newest_cells = _rows_after(windows)
    last = {key: (rows.get(key, newest_cells[key]), key not in rows) for key in newest_cells}
    return {key: (row, is_deleted) for key, (row, is_deleted) in last.items() if row.keys() == set(table.columns)}


def _rows_after(windows: Sequence[Mapping[Key, NetRow]]) -> tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]]:
    """What is known of rows by their keys, and of keys that had rows by all that came since another key's row did."""
    rows: dict[Key, dict[str, Any]] = {}
    newest_cells: dict[Key, dict[str, Any]] = {}
    server_keys: set[Key] = set()
    for window in windows:
        before_window = {**rows}
        for key, row in window.items():
            before, newest = rows.pop(key, {}), newest_cells.get(key, {})
            if row.origin is not None:
                # The row had another key, unless a load read it under the new one, as which the log has no other.
                is_read = key in server_keys and not row.existed
                before = (before if is_read else {}) | before_window.get(row.origin, {})
                newest = before
            newest_cells[key] = {**newest, **row.values}
            if row.exists:
                rows[key] = {**before, **row.values}
            server_keys.discard(key)
            if row.is_from_server:
                server_keys.add(key)
    return rows, newest_cells
