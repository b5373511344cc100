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
    """The newest value of each column that any image of the key held."""

    @property
    def op(self) -> str:
        return ("update" if self.existed else "insert") if self.exists else "delete"


class KeyChanged(Exception):
    """A change of the key whose images do not hold the whole row: silver stops."""


def silver_rows(changes: Iterable[tuple[int, RowChange]], table: TableShape) -> dict[Key, NetRow]:
    """The net change of each key in a window. changes: numbered, in the order of the log. Raises KeyChanged."""
    rows: dict[Key, NetRow] = {}
    for offset, change in changes:
        image = _row_behind(change, table)
        old, new = (table.key_of(part) if part else None for part in (change.before, image))
        is_moved = None not in (old, new) and old != new
        if is_moved and image is not None and image.keys() != set(table.columns):
            raise KeyChanged
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
            _add_net_change(
                rows, new, NetRow(existed=not is_new, exists=True, values=image, position=offset, changes=1)
            )
    lacking = {key for key, row in rows.items() if row.exists and row.values.keys() != set(table.columns)}
    return {key: replace(row, is_ended=row.is_ended and key in lacking) for key, row in rows.items()}


def _row_behind(change: RowChange, table: TableShape) -> Image | None:
    if change.after is None:
        return None
    return (table.default_row() if change.before is None else dict(change.before)) | dict(change.after)


def _add_net_change(rows: dict[Key, NetRow], key: Key, row: NetRow) -> None:
    """Lays a change over what a window has of its key."""
    last = rows.get(key)
    if last is None:
        rows[key] = replace(row, newest_cells=row.values)
        return
    newest_cells = {**last.newest_cells, **row.values}
    values = {**last.values, **row.values} if last.exists else row.values
    is_ended = last.is_ended or not last.exists
    rows[key] = replace(
        row,
        existed=last.existed,
        values=values if row.exists else newest_cells,
        changes=last.changes + row.changes,
        is_ended=is_ended,
        newest_cells=newest_cells,
    )


def current_rows(windows: Sequence[Mapping[Key, NetRow]], table: TableShape) -> tuple[dict[Key, Image], set[Key]]:
    """The rows downstream after some windows of silver, and the keys that no row ever held whole."""
    rows: dict[Key, dict[str, Any]] = {}
    for window in windows:
        for key, row in window.items():
            before = rows.pop(key, {})
            if row.exists:
                rows[key] = {**before, **row.values}
    never_whole = {key for key, row in rows.items() if row.keys() != set(table.columns)}
    return {key: row for key, row in rows.items() if key not in never_whole}, never_whole


def kept_rows(windows: Sequence[Mapping[Key, NetRow]], table: TableShape) -> dict[Key, tuple[Image, bool]]:
    """The last row of each key after some windows of silver, and whether it was deleted; none that is not whole."""
    rows: dict[Key, dict[str, Any]] = {}
    newest_cells: dict[Key, dict[str, Any]] = {}
    for window in windows:
        for key, row in window.items():
            before = rows.pop(key, {})
            newest_cells[key] = {**newest_cells.get(key, {}), **row.values}
            if row.exists:
                rows[key] = {**before, **row.values}
    last = {key: (rows.get(key, newest_cells[key]), key not in rows) for key in newest_cells}
    return {key: (row, is_deleted) for key, (row, is_deleted) in last.items() if row.keys() == set(table.columns)}
