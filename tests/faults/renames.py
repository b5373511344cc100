"""A generated log of tables that change names and keys, and what the lake has to have of each name: a list of rows.

Put here: the changes of a seed, their bytes, the model. Not here: the comparison (states.py), what runs over it, or
faults.
"""

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from tests.binlogs import segment_spec as spec
from tests.binlogs.segment_types import BIGINT, INT, VARCHAR, ColumnType
from tests.binlogs.xa import XA, prepared
from tests.faults.changes import SCHEMA, Row, Traced, Version
from tests.faults.states import State

NAMES = ("a", "b", "c", "d")
_NUMBER = replace(INT, nullable=False)
_COLUMNS: dict[str, ColumnType] = {"id": _NUMBER, "k": _NUMBER, "v": INT, "text": VARCHAR(20)}
_SQL = "id INT NOT NULL, k INT NOT NULL, v INT, text VARCHAR(20)"
_MOST_ROWS = 9


@dataclass(slots=True)
class ModelTable:
    """A table of the server: its columns, key and rows."""

    columns: dict[str, ColumnType]
    key: list[str]
    rows: list[Row]


class RenamedChanges:
    """The changes of a seed: where each ends in the file, the states of each name, and the file.

    is_partial: whether row images leave columns out, as a server with ``binlog_row_image = MINIMAL`` logs them.
    """

    def __init__(self, seed: int, size: int, *, is_partial: bool = False) -> None:
        self.seed, self._is_partial = seed, is_partial
        self._random = random.Random(seed)
        self._tables: dict[str, ModelTable] = {}
        self._versions: list[Version] = []
        self._changes: list[spec.Change] = []
        self._noted: list[tuple[int, str, tuple[Row, ...]]] = []
        self._number = 0
        for name in NAMES[:3]:
            self._create(name)
        for number in range(size):
            if number % 3 == 2:
                self._execute_statement()
            for _ in range(self._random.randint(1, 2)):
                self._transaction()
        log = Traced(self._versions, self._changes, rotate_to="")
        self.content = log.to_bytes()
        self.states: dict[str, list[State]] = {name: [] for name in NAMES}
        for at, name, rows in self._noted:
            self.states[name].append(State(log.ends[at], rows))

    def _note(self, *names: str) -> None:
        """Of names the rows that they have since the last change."""
        for name in names:
            rows = self._tables[name].rows if name in self._tables else ()
            self._noted.append((len(self._changes) - 1, name, tuple(deepcopy(row) for row in rows)))

    # Statements.

    def _sql(self, text: str) -> None:
        self._changes.append(spec.Statement(SCHEMA, text))

    def _create(self, name: str) -> None:
        key = self._random.choice([["id"], ["k"], ["id", "k"], []])
        primary = f", PRIMARY KEY ({', '.join(key)})" if key else ""
        self._sql(f"CREATE TABLE {name} ({_SQL}{primary})")
        self._tables[name] = ModelTable(dict(_COLUMNS), key, [])
        self._note(name)
        self._transaction(name)

    def _execute_statement(self) -> None:
        table = self._random.choice(list(self._tables))
        free = [name for name in NAMES if name not in self._tables]
        partners = [name for name in self._tables if name != table]
        kinds = ["rename", "rename and alter", "swap", "chain", "key", "key", "column", "truncate", "create"]
        match self._random.choice(kinds):
            case "create" if free:
                self._create(free[0])
            case "rename" if free:
                self._move(f"RENAME TABLE {table} TO {free[0]}", {table: free[0]})
            case "rename and alter" if free:
                self._tables[table].rows = [row | {self._added(table): 7} for row in self._tables[table].rows]
                name = self._added(table)
                self._tables[table].columns[name] = _NUMBER
                self._move(
                    f"ALTER TABLE {table} RENAME TO {free[0]}, ADD COLUMN {name} INT NOT NULL DEFAULT 7",
                    {table: free[0]},
                )
            case "swap" if partners:
                partner = self._random.choice(partners)
                text = f"RENAME TABLE {table} TO tmp, {partner} TO {table}, tmp TO {partner}"
                self._move(text, {table: partner, partner: table})
            case "chain" if partners and free:
                partner = self._random.choice(partners)
                text = f"RENAME TABLE {table} TO {free[0]}, {partner} TO {table}"
                self._move(text, {table: free[0], partner: table})
            case "truncate":
                self._tables[table].rows = []
                self._sql(f"TRUNCATE TABLE {table}")
                self._note(table)
            case "column":
                self._alter_columns(table)
            case _:
                self._change_key(table)

    def _added(self, table: str) -> str:
        """The next column that a table gets."""
        return next(name for name in (f"n{at}" for at in range(100)) if name not in self._tables[table].columns)

    def _move(self, text: str, names: dict[str, str]) -> None:
        """A statement that gives tables other names. A name that no table has any more keeps its rows in the lake."""
        self._sql(text)
        moved = {new: self._tables.pop(old) for old, new in names.items()}
        self._tables |= moved
        self._note(*moved)

    def _change_key(self, table: str) -> None:
        model = self._tables[table]
        keys = [[], ["id"], ["k"], ["k", "id"]]
        possible = [key for key in keys if {*key} != {*model.key} and _is_unique(model.rows, key)]
        if not possible:
            return
        key = self._random.choice(possible)
        actions = ["DROP PRIMARY KEY"] if model.key else []
        actions += [f"ADD PRIMARY KEY ({', '.join(key)})"] if key else []
        if self._random.random() < 0.3:
            name = self._added(table)
            actions.append(f"ADD COLUMN {name} INT NOT NULL DEFAULT 11")
            model.columns[name] = _NUMBER
            model.rows = [row | {name: 11} for row in model.rows]
        model.key = key
        self._sql(f"ALTER TABLE {table} {', '.join(actions)}")
        self._note(table)

    def _alter_columns(self, table: str) -> None:
        model = self._tables[table]
        added = [name for name in model.columns if name.startswith("n")]
        match self._random.choice(["drop", "widen", "rename", "add"]):
            case "drop" if added and model.key:
                name = added[0]
                del model.columns[name]
                model.rows = [{key: value for key, value in row.items() if key != name} for row in model.rows]
                self._sql(f"ALTER TABLE {table} DROP COLUMN {name}")
            case "widen" if model.columns.get("v") == INT:
                model.columns["v"] = BIGINT
                self._sql(f"ALTER TABLE {table} MODIFY v BIGINT")
            case "rename":
                old, new = ("text", "words") if "text" in model.columns else ("words", "text")
                model.columns = {new if name == old else name: kind for name, kind in model.columns.items()}
                model.rows = [
                    {new if name == old else name: value for name, value in row.items()} for row in model.rows
                ]
                self._sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
            case _:
                name = self._added(table)
                model.columns[name] = INT
                model.rows = [row | {name: None} for row in model.rows]
                self._sql(f"ALTER TABLE {table} ADD COLUMN {name} INT")
        self._note(table)

    # Rows.

    def _transaction(self, name: str | None = None) -> None:
        table = name or self._random.choice(list(self._tables))
        self._number += 1
        model = self._tables[table]
        version = Version(table, self._number, model.key, dict(model.columns))
        self._versions.append(version)
        count = self._random.randint(1, 4)
        if self._random.random() < 0.15:
            self._changes += prepared(*(self._change(model, version.name) for _ in range(count)))
            self._changes.append(spec.Statement("", f"XA COMMIT {XA}"))
            self._note(table)
            return
        # Bronze, which is cut at events here, may end between the changes.
        for _ in range(count):
            self._changes.append(self._change(model, version.name))
            self._note(table)
        self._changes.append(spec.Commit())

    def _change(self, model: ModelTable, name: str) -> spec.Change:
        rows = model.rows
        at = self._random.randrange(len(rows)) if rows else 0
        kinds = ["insert", "update", "update", "move", "delete"]
        kind = "delete" if len(rows) >= _MOST_ROWS else self._random.choice(kinds) if rows else "insert"
        match kind:
            case "delete":
                before = rows.pop(at)
                return spec.Delete(name, self._image_cells(model, before, ()))
            case "insert":
                row = self._random_row(model)
                rows.append(row)
                return spec.Insert(name, [*row.values()])
        before, row = rows[at], self._random_row(model)
        if kind == "update":
            row |= {column: before[column] for column in ("id", "k")}
        rows[at] = row
        is_moved = any(row[column] != before[column] for column in model.key)
        changed = [column for column in row if row[column] != before[column]]
        if is_moved or not changed:
            return spec.Update(name, [*before.values()], [*row.values()])
        after = self._image_cells(model, row, changed, has_key=False)
        return spec.Update(name, self._image_cells(model, before, ()), after)

    def _image_cells(self, model: ModelTable, row: Row, names: Sequence[str], *, has_key: bool = True) -> list[Any]:
        """The cells of a row; of a partial image those of the key and of some columns."""
        is_partial = self._is_partial and bool(model.key)
        logged = {*names, *(model.key if has_key else ())}
        return [value if column in logged or not is_partial else ... for column, value in row.items()]

    def _random_row(self, model: ModelTable) -> Row:
        """A row with numbers that no other has; without a key often one that is there."""
        if not model.key and model.rows and self._random.random() < 0.3:
            return dict(self._random.choice(model.rows))
        row: Row = {}
        for name, kind in model.columns.items():
            used_values = {present_row[name] for present_row in model.rows}
            if name in ("id", "k"):
                row[name] = self._random.choice([number for number in range(40) if number not in used_values])
            elif kind.numeric:
                row[name] = self._random.choice([3, 7, 11] if not kind.nullable else [None, 3, 7])
            else:
                row[name] = self._random.choice([None, "x", "y"])
        return row


def _is_unique(rows: Sequence[Row], key: Sequence[str]) -> bool:
    return not key or len({tuple(row[name] for name in key) for row in rows}) == len(rows)
