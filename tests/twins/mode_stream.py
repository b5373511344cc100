"""A random stream of statements on one table, and what downstream modes make of it, in plain Python.

Put here: the statements, the events that they are, the twins. Not here: the lake (pipeline/test_modes.py).
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Cells = tuple[Any, ...]
"""A row of the table: its key first."""

TABLE = "t"
CREATE = f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, v VARCHAR(9), n INT)"
WITH_BLOB = f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, v TEXT, n INT)"
KEYLESS = f"CREATE TABLE {TABLE} (id INT, v VARCHAR(9), n INT)"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a row. op: insert, update, delete; truncate of all rows, without a row. is_moved: of a key."""

    op: str
    before: Cells | None = None
    after: Cells | None = None

    @property
    def is_moved(self) -> bool:
        return self.op == "update" and self.before is not None and self.after is not None and self.key != self.after[0]

    @property
    def key(self) -> Any:
        row = self.before or self.after
        return row[0] if row else None


@dataclass(slots=True)
class Stream:
    """Statements on a table, executed as they are made."""

    execute: Callable[[str], Any]
    choose: random.Random
    events: list[Event] = field(default_factory=list)
    rows: dict[int, Cells] = field(default_factory=dict)
    columns: int = 3
    moves: bool = True
    """True if keys change in tables with columns that such a change does not set."""
    sets_some: bool = False
    """True if updates that leave the key set some of the columns alone."""

    def begin(self, create: str = CREATE) -> None:
        self.execute(create)

    def step(self) -> None:
        """One transaction of one to four statements."""
        count = self.choose.choice([1, 1, 1, 2, 4])
        if count > 1:
            self.execute("BEGIN")
        for _ in range(count):
            self._execute_statement()
        if count > 1:
            self.execute("COMMIT")

    def add_column(self) -> None:
        """A column that older rows have too, by its default."""
        self.execute(f"ALTER TABLE {TABLE} ADD COLUMN c{self.columns} INT NOT NULL DEFAULT 7")
        self.columns += 1
        self.rows = {key: (*row, 7) for key, row in self.rows.items()}
        self.events = [
            Event(event.op, event.before and (*event.before, 7), event.after and (*event.after, 7))
            for event in self.events
        ]

    def truncate(self) -> None:
        self.execute(f"TRUNCATE TABLE {TABLE}")
        self.rows.clear()
        self.events.append(Event("truncate"))

    def _execute_statement(self) -> None:
        free = sorted({*range(12)} - self.rows.keys())
        kind = self.choose.choice(["insert", "insert", "update", "update", "delete", "move", "several"])
        if free and (kind == "insert" or not self.rows):
            self._insert(self.choose.choice(free))
        elif kind == "delete":
            self._delete(self.choose.choice(sorted(self.rows)))
        elif kind == "move" and free and (self.moves or self.columns == 3):
            self._update(self.choose.choice(sorted(self.rows)), self.choose.choice(free))
        elif kind == "several":
            for key in sorted(self.rows)[:3]:
                self._update(key, key)
        elif self.rows:
            self._update(key := self.choose.choice(sorted(self.rows)), key)

    def _insert(self, key: int) -> None:
        row = self._random_row(key)
        self.execute(f"INSERT INTO {TABLE} VALUES ({', '.join(map(_sql_literal, row))})")
        self.rows[key] = row
        self.events.append(Event("insert", None, row))

    def _update(self, key: int, to: int) -> None:
        row, before = self._random_row(to), self.rows.pop(key)
        positions = [0, 1, 2]
        if self.sets_some and key == to:
            positions = sorted(self.choose.sample(range(1, self.columns), self.choose.randrange(1, self.columns)))
        names = ["id", "v", "n", *(f"c{at}" for at in range(3, self.columns))]
        settings = ", ".join(f"{names[at]} = {_sql_literal(row[at])}" for at in positions)
        self.execute(f"UPDATE {TABLE} SET {settings} WHERE id = {key}")
        row = tuple(row[at] if at in positions else before[at] for at in range(self.columns))
        self.rows[to] = row
        if row != before:
            self.events.append(Event("update", before, row))

    def _delete(self, key: int) -> None:
        self.execute(f"DELETE FROM {TABLE} WHERE id = {key}")
        self.events.append(Event("delete", self.rows.pop(key)))

    def _random_row(self, key: int) -> Cells:
        value = self.choose.choice([None, "a", "bb", "ccc"])
        return (key, value, self.choose.randrange(100), *(self.choose.randrange(9) for _ in range(self.columns - 3)))


def _sql_literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def soft_deleted(stream: Stream) -> dict[Any, tuple[Cells, bool]]:
    """By key, the last row that it had, and whether it is deleted."""
    rows: dict[Any, tuple[Cells, bool]] = {}
    for event in stream.events:
        if event.op == "truncate":
            rows = {key: (row, True) for key, (row, _) in rows.items()}
            continue
        if event.before is not None and (event.op == "delete" or event.is_moved):
            rows[event.key] = event.before, True
        if event.after is not None:
            rows[event.after[0]] = event.after, False
    return rows


def soft_deleted_rows(stream: Stream) -> Counter[tuple[Cells, bool]]:
    """Of a table without a key all of its rows, and once each that was there and is not, as deleted."""
    all_rows: set[Cells] = set()
    for event in stream.events:
        all_rows |= {row for row in (event.before, event.after) if row is not None}
    rows = Counter(stream.rows.values())
    return Counter(
        {(row, False): count for row, count in rows.items()} | {(row, True): 1 for row in all_rows - rows.keys()}
    )


def appended(stream: Stream) -> list[tuple[str, Cells | None]]:
    """Operation and row of every change, in order."""
    return [(event.op, event.before if event.op == "delete" else event.after) for event in stream.events]


Version = tuple[str, Cells | None, int, int | None]
"""Operation, row, the ordinal of the change that it is, and of the one that ended it; None where it is current."""


def versions(stream: Stream) -> list[Version]:
    """The versions of all rows, in order; the delete of an old key before the row of the new one."""
    rows: list[Version] = []
    current: dict[Any, int] = {}

    def end(key: Any, nth: int) -> None:
        op, row, start, _ = rows[current.pop(key)]
        rows[rows.index((op, row, start, None))] = op, row, start, nth

    for nth, event in enumerate(stream.events):
        if event.op == "truncate":
            for key in [*current]:
                end(key, nth)
            rows.append(("truncate", None, nth, nth))
            continue
        if event.key in current:
            end(event.key, nth)
        if event.op == "delete" or event.is_moved:
            rows.append(("delete", event.before, nth, nth))
        if event.after is not None:
            current[event.after[0]] = len(rows)
            rows.append((event.op, event.after, nth, None))
    return rows
