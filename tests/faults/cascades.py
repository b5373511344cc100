"""A generated log of tables that foreign keys join, and what the lake has to have of each: as a server does it.

The log has what a server writes to it: changes of parents, and nothing of what their foreign keys did to children. The
model has both.

Put here: the changes of a seed, their bytes, the model. Not here: the comparison (states.py), runs, or faults.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from spark_jobs.binlog.events.types import NO_FOREIGN_KEY_CHECKS
from tests.binlogs import segment_spec as spec
from tests.binlogs.segment_types import INT, ColumnType
from tests.binlogs.xa import XA, prepared
from tests.faults.changes import SCHEMA, Row, Traced, Version
from tests.faults.states import State

TABLES = ("a", "b", "c", "d")
_MOST_ROWS = 12
"""Of a table; ids are taken from twice as many."""
_CASCADE, _SET_NULL, _NO_ACTION = "CASCADE", "SET NULL", "NO ACTION"


@dataclass(frozen=True, slots=True)
class Key:
    """A foreign key of one column, to its parent's id."""

    child: str
    column: str
    parent: str
    on_delete: str
    on_update: str

    def sql(self) -> str:
        return (
            f"CONSTRAINT {self.child}_{self.column} FOREIGN KEY ({self.column}) REFERENCES {self.parent} (id) "
            f"ON DELETE {self.on_delete} ON UPDATE {self.on_update}"
        )


class Refused(Exception):
    """What the server refuses: two rows of one key, or a row that refers to the same table and would move with it."""


@dataclass(slots=True)
class ModelServer:
    """The rows of tables by id, and what their foreign keys do to them.

    touched: the tables with rows that changed since it was emptied.
    """

    keys: list[Key]
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def delete(self, table: str, number: int, *, checks: bool) -> None:
        del self.rows[table][number]
        self.touched.add(table)
        for key, child in self._children_of(table, number) if checks else ():
            if key.on_delete == _CASCADE:
                self.delete(key.child, child["id"], checks=True)
            else:
                self._set_column(key, child, None)

    def update(self, table: str, number: int, after: Row, *, checks: bool) -> None:
        """Raises Refused, with rows as they may be then."""
        del self.rows[table][number]
        if after["id"] in self.rows[table]:
            raise Refused
        self.rows[table][after["id"]] = after
        self.touched.add(table)
        for key, child in self._children_of(table, number) if checks and after["id"] != number else ():
            if key.on_update == _NO_ACTION:
                raise Refused
            self._set_column(key, child, after["id"] if key.on_update == _CASCADE else None)

    def _children_of(self, parent: str, number: int) -> Iterator[tuple[Key, Row]]:
        """Rows that refer to a row, as they are when their turn comes: another key may have been first."""
        for key in self.keys:
            for child in [*self.rows[key.child]] if key.parent == parent else ():
                row = self.rows[key.child].get(child)
                if row is not None and row[key.column] == number:
                    yield key, row

    def _set_column(self, key: Key, child: Row, value: int | None) -> None:
        self.update(key.child, child["id"], self.rows[key.child][child["id"]] | {key.column: value}, checks=True)

    def referable(self, table: str, column: str) -> list[int] | None:
        """The values that a column may have besides NULL; None where it may have any."""
        parents = [key.parent for key in self.keys if (key.child, key.column) == (table, column)]
        return [*self.rows[parents[0]]] if parents else None


class CascadingChanges:
    """The changes of a seed: the file that has them, and the states of each table."""

    def __init__(self, seed: int, size: int) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        self._columns: dict[str, dict[str, ColumnType]] = {
            name: {"id": replace(INT, nullable=False), "r": INT, "v": INT} for name in TABLES
        }
        self._server = ModelServer([])
        self._versions: dict[str, Version] = {}
        self._all_versions: list[Version] = []
        self._changes: list[spec.Change] = []
        self._noted: list[tuple[int, str, tuple[Row, ...]]] = []
        self._last_rows: dict[str, tuple[Row, ...]] = {}
        self._added = 0
        self._create_tables()
        for number in range(size):
            if number % 3 == 2:
                self._execute_statement()
            for _ in range(self._random.randint(1, 2)):
                self._append_transaction()
        log = Traced(self._all_versions, self._changes, rotate_to="")
        self.content = log.to_bytes()
        self.states: dict[str, list[State]] = {name: [] for name in TABLES}
        for at, name, rows in self._noted:
            self.states[name].append(State(log.ends[at], rows))

    # Statements.

    def _create_tables(self) -> None:
        """Tables, each with keys to those before it; the first may refer to itself."""
        for number, name in enumerate(TABLES):
            self._server.rows[name] = {}
            if number or self._random.random() < 0.3:
                parent = self._random.choice(TABLES[:number]) if number else name
                self._server.keys.append(self._random_key(name, "r", parent))
            if number and self._random.random() < 0.3:
                self._server.keys.append(self._random_key(name, "id", self._random.choice(TABLES[:number])))
            keys = "".join(f", {key.sql()}" for key in self._server.keys if key.child == name)
            self._append_statement(f"CREATE TABLE {name} (id INT NOT NULL PRIMARY KEY, r INT, v INT{keys})")
            self._new_version(name)
            self._note_rows(name)
        for name in TABLES:
            self._fill_table(name)

    def _random_key(self, child: str, column: str, parent: str) -> Key:
        if column == "id":
            return Key(child, column, parent, _CASCADE, _CASCADE)
        on_delete, on_update = (self._random.choice([_CASCADE, _CASCADE, _SET_NULL]) for _ in range(2))
        # InnoDB does not move rows of a table because of rows of the same.
        return Key(child, column, parent, on_delete, on_update if child != parent else _NO_ACTION)

    def _new_version(self, name: str) -> None:
        self._versions[name] = Version(name, len(self._all_versions), ["id"], dict(self._columns[name]))
        self._all_versions.append(self._versions[name])

    def _append_statement(self, text: str) -> None:
        self._changes.append(spec.Statement(SCHEMA, text))

    def _note_rows(self, *names: str) -> None:
        """Of tables the rows that they have since the last change, where they are others."""
        for name in names:
            rows = tuple(deepcopy([*self._server.rows[name].values()]))
            if rows != self._last_rows.get(name, ()):
                self._last_rows[name] = rows
                self._noted.append((len(self._changes) - 1, name, rows))

    def _execute_statement(self) -> None:
        table = self._random.choice(TABLES)
        rows, columns, keys = self._server.rows[table], self._columns[table], self._server.keys
        added = [name for name in columns if name.startswith("n")]
        match self._random.choice(["truncate", "add", "drop", "key", "key"]):
            case "truncate" if not any(key.parent == table for key in keys):
                rows.clear()
                self._append_statement(f"TRUNCATE TABLE {table}")
            case "drop" if added:
                del columns[added[0]]
                for row in rows.values():
                    del row[added[0]]
                self._append_statement(f"ALTER TABLE {table} DROP COLUMN {added[0]}")
                self._new_version(table)
            case "key":
                self._change_key(table)
            case _:
                self._added += 1
                columns[f"n{self._added}"] = INT
                for row in rows.values():
                    row[f"n{self._added}"] = None
                self._append_statement(f"ALTER TABLE {table} ADD COLUMN n{self._added} INT")
                self._new_version(table)
        self._note_rows(table)

    def _change_key(self, table: str) -> None:
        """Drops the key of a table's column r, or adds one to rows that are there."""
        keys = self._server.keys
        present_key = next((key for key in keys if (key.child, key.column) == (table, "r")), None)
        if present_key:
            keys.remove(present_key)
            self._append_statement(f"ALTER TABLE {table} DROP FOREIGN KEY {present_key.child}_{present_key.column}")
            return
        values = {row["r"] for row in self._server.rows[table].values()} - {None}
        parents = [name for name in TABLES[: TABLES.index(table)] if values <= {*self._server.rows[name]}]
        if parents:
            key = self._random_key(table, "r", self._random.choice(parents))
            keys.append(key)
            self._append_statement(f"ALTER TABLE {table} ADD {key.sql()}")

    # Rows.

    def _fill_table(self, table: str) -> None:
        for _ in range(4):
            self._append_changes([self._insert_row(table, checks=True)])
        self._changes.append(spec.Commit())

    def _append_transaction(self) -> None:
        """Changes of several tables, with or without checks, at times prepared first."""
        checks = self._random.random() < 0.85
        if self._random.random() < 0.15:
            self._server.touched.clear()
            changes = [self._random_change(checks=checks) for _ in range(self._random.randint(1, 4))]
            self._changes += prepared(*[change for change in changes if change])
            self._changes.append(spec.Statement("", f"XA COMMIT {XA}"))
            self._note_rows(*sorted(self._server.touched))
            return
        # Bronze, which is cut at events here, may end between the changes.
        for _ in range(self._random.randint(1, 5)):
            self._server.touched.clear()
            self._append_changes([self._random_change(checks=checks)])
        self._changes.append(spec.Commit())

    def _append_changes(self, changes: Sequence[spec.Change | None]) -> None:
        for change in changes:
            if change:
                self._changes.append(change)
                self._note_rows(*sorted(self._server.touched))

    def _random_change(self, *, checks: bool) -> spec.Change | None:
        """A change that the server takes, by its model; None where it would not."""
        table = self._random.choice(TABLES)
        rows = self._server.rows[table]
        kinds: dict[Callable[..., spec.Change | None], int] = {
            self._insert_row: 6,
            self._update_row: 3,
            self._move_row: 3,
        }
        kinds[self._delete_rows] = 2 + 4 * (len(rows) >= _MOST_ROWS)
        (kind,) = self._random.choices([*kinds], [*kinds.values()]) if rows else (self._insert_row,)
        before = deepcopy(self._server.rows)
        try:
            return kind(table, checks=checks)
        except Refused:
            self._server.rows = before
            return None

    def _insert_row(self, table: str, *, checks: bool) -> spec.Change | None:
        free = self._free_ids(table, checks=checks)
        if not free or len(self._server.rows[table]) >= _MOST_ROWS:
            return None
        row: Row = dict.fromkeys(self._columns[table])
        row |= {"id": self._random.choice(free), "v": self._random.randint(0, 99)}
        row["r"] = self._referable_value(table, checks=checks)
        self._server.rows[table][row["id"]] = row
        self._server.touched.add(table)
        return self._rows_event(table, spec.Insert, [[*row.values()]], checks=checks)

    def _delete_rows(self, table: str, *, checks: bool) -> spec.Change:
        """Some rows, one after the other: those that went with an earlier one are not in the log."""
        images = []
        for _ in range(self._random.choice([1, 1, 1, 2, 3])):
            if self._server.rows[table]:
                number = self._random.choice([*self._server.rows[table]])
                images.append([*self._server.rows[table][number].values()])
                self._server.delete(table, number, checks=checks)
        return self._rows_event(table, spec.Delete, images, checks=checks)

    def _update_row(self, table: str, *, checks: bool) -> spec.Change:
        """A row with other values, and often another parent."""
        row = self._random.choice([*self._server.rows[table].values()])
        return self._change_row(table, row, checks=checks, r=self._referable_value(table, checks=checks))

    def _move_row(self, table: str, *, checks: bool) -> spec.Change | None:
        """A row that gets another id, with which its children go."""
        row, free = self._random.choice([*self._server.rows[table].values()]), self._free_ids(table, checks=checks)
        return self._change_row(table, row, checks=checks, id=self._random.choice(free)) if free else None

    def _change_row(self, table: str, row: Row, *, checks: bool, **values: Any) -> spec.Change:
        after = row | {"v": self._random.randint(0, 99)} | values
        images = [*row.values()], [*after.values()]
        self._server.update(table, row["id"], after, checks=checks)
        return self._rows_event(table, spec.Update, [images], checks=checks)

    def _rows_event(self, table: str, kind: Any, images: list[Any], *, checks: bool) -> spec.Change:
        return spec.Rows(self._versions[table].name, kind, images, flags=0 if checks else NO_FOREIGN_KEY_CHECKS)

    def _free_ids(self, table: str, *, checks: bool) -> list[int]:
        """Ids that a row may get."""
        referable = self._server.referable(table, "id") if checks else None
        numbers = range(1, 2 * _MOST_ROWS) if referable is None else referable
        return [number for number in numbers if number not in self._server.rows[table]]

    def _referable_value(self, table: str, *, checks: bool) -> int | None:
        """What a row may refer to."""
        referable = self._server.referable(table, "r") if checks else None
        numbers = range(1, 2 * _MOST_ROWS) if referable is None else referable
        choices: list[int | None] = [None, *numbers, *numbers]
        return self._random.choice(choices)
