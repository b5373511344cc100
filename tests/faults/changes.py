"""A generated log of a few tables, and what silver and downstream have to be of it: the plain twin, a dict a key.

Put here: the changes of a seed, their bytes, bronze of them, the twin. Not here: what runs over it, or faults.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.lake.commit import APPLICATION
from spark_jobs.log.position import Position
from tests.binlogs import segment_spec as spec
from tests.binlogs.segment_types import INT, VARCHAR, ColumnType
from tests.binlogs.slicing import FILE, bronze_rows

SOURCE, SCHEMA = "shop", "shop"
Row = dict[str, Any]
Key = tuple[Any, ...]
LOOSE = "loose"
"""A table without a key."""
_NUMBER = replace(INT, nullable=False)
_MOST_ROWS = 10
"""Of a table; keys are taken from twice as many."""


class Version(spec.Table):
    """A table between two statements that change its columns; rows of a spec name it with its number."""

    def __init__(self, table: str, number: int, key: list[str], columns: Mapping[str, ColumnType]) -> None:
        super().__init__(f"{SCHEMA}.{table}#{number}", key, True, **columns)
        self.real = spec.Table(f"{SCHEMA}.{table}", key, True, **columns)

    def body(self, table_id: int) -> bytes:
        return self.real.body(table_id)


@dataclass
class Traced(spec.SegmentSpec):
    """A file that knows where each of its changes ends, in bytes."""

    ends: list[int] = field(default_factory=list)

    def _write_change(self, change: spec.Change) -> None:
        super()._write_change(change)
        self.ends.append(self._offset)


@dataclass(frozen=True, slots=True)
class Event:
    """What a change did to a table's keys: rows before it and after it; or a statement."""

    table: str
    before: tuple[Row, ...] = ()
    after: tuple[Row, ...] = ()
    statement: str = ""
    """``truncate``, ``add NAME`` or ``drop NAME``."""
    value: Any = None
    """Of a column that is added: its default."""


class Changes:
    """The changes of a seed: an event each, where each ends in the file, and the file."""

    def __init__(
        self,
        seed: int,
        size: int,
        *,
        statements: bool,
        shards: bool = False,
        is_partial: bool = False,
        is_keyless: bool = False,
        is_ruled: bool = False,
        is_widened_alone: bool = False,
        statements_before: Collection[int] = (),
        commit_micros: Sequence[int] = (),
    ) -> None:
        """statements: whether there are some that change columns or empty a table, at four places.

        shards: whether the tables have the same columns, so that they can be merged into one.

        is_partial: whether row images leave columns out, as a server with ``binlog_row_image = MINIMAL`` logs them.
        is_keyless: whether one of the tables has no key; its rows are few, in several copies. is_ruled: whether rows
        are for rules: with NULL, updates of some columns, and no ALTER where images leave out what a rule may need.
        """
        self.seed, self._is_partial, self._is_ruled = seed, is_partial, is_ruled
        self._is_widened_alone = is_widened_alone
        self._random = random.Random(seed)
        keys = {"orders": ["id"], "pairs": ["a", "b"], "notes": ["code"]}
        orders: dict[str, ColumnType] = {"id": _NUMBER, "state": VARCHAR(10), "total": INT}
        self._columns: dict[str, dict[str, ColumnType]] = {
            "orders": orders,
            "pairs": {"a": _NUMBER, "b": _NUMBER, "text": VARCHAR(20)},
            "notes": {"code": replace(VARCHAR(8), nullable=False), "text": VARCHAR(20)},
            LOOSE: {"a": INT, "text": VARCHAR(20)},
        }
        self.keys = {name: keys[name] for name in self._random.sample(list(keys), 2)}
        if is_keyless:
            self.keys = {LOOSE: [], "orders": keys["orders"]}
        if shards:
            self.keys = {f"orders_{number}": ["id"] for number in range(3)}
            self._columns = {name: dict(orders) for name in self.keys}
        self._numbers = dict.fromkeys(self.keys, 0)
        self._versions = {name: Version(name, 0, key, self._columns[name]) for name, key in self.keys.items()}
        self._tables = list(self._versions.values())
        self._rows: dict[str, dict[Key, Row]] = {name: {} for name in self.keys}
        self._changes: list[spec.Change] = []
        self._events: list[tuple[int, Event]] = []
        self._fills = 0
        self._serial = count()
        default_numbers = (size // 3, size // 2, 2 * size // 3, 5 * size // 6) if statements else ()
        for number in range(size):
            if number in (statements_before or default_numbers):
                self._execute_statement()
            self._transaction()
        log = Traced(self._tables, self._changes, rotate_to="", commit_micros=commit_micros)
        self.content = log.to_bytes()
        self.events = [(log.ends[at], event) for at, event in self._events]
        self.transaction_ends = [
            log.ends[at] for at, change in enumerate(self._changes) if isinstance(change, spec.Commit | spec.Statement)
        ]
        """Where each transaction ends, and each statement."""

    def _transaction(self) -> None:
        table = self._random.choice(list(self.keys))
        for _ in range(self._random.randint(1, 3)):
            if not self.keys[table]:
                self._keyless_change(table)
                continue
            rows = self._rows[table]
            kind = self._random.choices(["insert", "update", "delete", "move", "swap"], [5, 4, 2, 2, 2])[0]
            match "delete" if len(rows) >= _MOST_ROWS else kind:
                case "update" if rows:
                    before = self._random.choice(list(rows.values()))
                    self._update(table, before, self._updated_row(table, before))
                case "delete" if rows:
                    before = self._random.choice(list(rows.values()))
                    del rows[self.key(table, before)]
                    event = Event(table, before=(before,))
                    image = _image_cells(before, self.held(event)[0])
                    self._append(event, spec.Delete(self._name_of(table), image))
                case "move" if rows:
                    before = self._random.choice(list(rows.values()))
                    self._update(table, before, self._new_row(table) | self._free(table))
                case "swap" if len(rows) > 1:
                    first, second = self._random.sample(list(rows.values()), 2)
                    moved = first | self._free(table)
                    self._update(table, first, moved)
                    self._update(table, second, second | self._key_of(table, first))
                    self._update(table, moved, moved | self._key_of(table, second))
                case _:
                    row = self._new_row(table) | self._free(table)
                    rows[self.key(table, row)] = row
                    self._append(Event(table, after=(row,)), spec.Insert(self._name_of(table), [*row.values()]))
        self._changes.append(spec.Commit())

    def _keyless_change(self, table: str) -> None:
        """A change of a row without a key: rows are taken from few, so that many are equal."""
        rows = self._rows[table]
        row = {name: self._value_of_few(name) for name in self._columns[table]}
        number = self._random.choice(list(rows)) if rows else ()
        kind = "insert" if not rows else self._random.choices(["insert", "update", "delete"], [5, 4, 3])[0]
        match "delete" if len(rows) >= _MOST_ROWS else kind:
            case "insert":
                rows[next(self._serial),] = row
                self._append(Event(table, after=(row,)), spec.Insert(self._name_of(table), [*row.values()]))
            case "update":
                before, rows[number] = rows[number], row
                images = [*before.values()], [*row.values()]
                self._append(Event(table, before=(before,), after=(row,)), spec.Update(self._name_of(table), *images))
            case _:
                before = rows.pop(number)
                self._append(Event(table, before=(before,)), spec.Delete(self._name_of(table), [*before.values()]))

    def _value_of_few(self, name: str) -> Any:
        return self._random.choice([None, "x", "y"] if name == "text" else [7, 11])

    def _updated_row(self, table: str, before: Row) -> Row:
        row = self._new_row(table) | self._key_of(table, before)
        names = self._random.sample([*row], self._random.randint(1, len(row))) if self._is_ruled else [*row]
        return before | {name: row[name] for name in names}

    def _update(self, table: str, before: Row, after: Row) -> None:
        rows = self._rows[table]
        del rows[self.key(table, before)]
        rows[self.key(table, after)] = after
        event = Event(table, before=(before,), after=(after,))
        held_before, held_after = self.held(event)
        images = _image_cells(before, held_before), _image_cells(after, held_after)
        self._append(event, spec.Update(self._name_of(table), *images))

    def held(self, event: Event) -> tuple[set[str], set[str]]:
        """The columns that the images before and after a change of a row hold."""
        before, after = (next(iter(rows), Row()) for rows in (event.before, event.after))
        changed = {name for name, value in after.items() if not before or value != before[name]}
        if not self._is_partial or (after and not changed):
            return {*before}, {*after}
        return {*before} & {*self.keys[event.table]}, changed

    def _execute_statement(self) -> None:
        table = self._random.choice(list(self.keys))
        columns, rows = self._columns[table], self._rows[table]
        dropped = [name for name in columns if name.startswith("extra")]
        kinds = ["truncate"] if self._is_ruled and self._is_partial else ["truncate", "add", "drop"]
        match self._random.choice(kinds):
            case "drop" if dropped and (self.keys[table] or not self._is_widened_alone):
                name = dropped[0]
                del columns[name]
                for row in rows.values():
                    del row[name]
                self._ddl(Event(table, statement=f"drop {name}"), f"ALTER TABLE {table} DROP COLUMN {name}")
            case "truncate":
                rows.clear()
                self._ddl(Event(table, statement="truncate"), f"TRUNCATE TABLE {table}")
            case _:
                self._fills += 1
                name, value = f"extra{self._fills}", self._random.choice([None, 7, 11])
                columns[name] = INT if value is None else _NUMBER
                for row in rows.values():
                    row[name] = value
                default = "" if value is None else f" NOT NULL DEFAULT {value}"
                self._ddl(
                    Event(table, statement=f"add {name}", value=value),
                    f"ALTER TABLE {table} ADD COLUMN {name} INT{default}",
                )
        self._numbers[table] += 1
        self._versions[table] = Version(table, self._numbers[table], self.keys[table], dict(columns))
        self._tables.append(self._versions[table])

    def _ddl(self, event: Event, sql: str) -> None:
        self._append(event, spec.Statement(SCHEMA, sql))

    def _append(self, event: Event, change: spec.Change) -> None:
        before, after = (tuple(dict(row) for row in rows) for rows in (event.before, event.after))
        self._events.append((len(self._changes), replace(event, before=before, after=after)))
        self._changes.append(change)

    def _name_of(self, table: str) -> str:
        return self._versions[table].name

    def _new_row(self, table: str) -> Row:
        row: Row = {}
        for name in self._columns[table]:
            texts = name in ("state", "text", "code")
            row[name] = f"v{self._random.randint(0, 99)}" if texts else self._random.randint(0, 999)
            if self._is_ruled and self._columns[table][name].nullable and self._random.random() < 0.15:
                row[name] = None
        return row

    def _free(self, table: str) -> Row:
        """A key that no row has; often one that a row had."""
        while True:
            number = self._random.randint(1, 2 * _MOST_ROWS)
            rows: dict[str, Row] = {"pairs": {"a": number % 4, "b": number}, "notes": {"code": f"c{number}"}}
            row = rows.get(table, {"id": number})
            if self.key(table, row) not in self._rows[table]:
                return row

    def _key_of(self, table: str, row: Row) -> Row:
        return {name: row[name] for name in self.keys[table]}

    def key(self, table: str, row: Row) -> Key:
        return tuple(row[name] for name in self.keys[table])


class Twin:
    """What tables have to be of a log, computed event by event."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self._serial = count()

    def downstream(self, table: str, until: int) -> dict[Key, Row]:
        """The rows by key up to an offset."""
        rows: dict[Key, Row] = {}
        for _, event in self._of(table, 0, until):
            self._apply(table, rows, event)
        return rows

    def kept_rows(self, table: str, until: int) -> list[tuple[Row, bool]]:
        """The last row of every key up to an offset, and whether it was deleted; with the columns as of there."""
        if self._is_keyless(table):
            return self._kept_copies(table, until)
        rows, alive = dict[Key, Row](), dict[Key, Row]()
        for _, event in self._of(table, 0, until):
            self._apply(table, alive, event)
            if event.statement.startswith(("add", "drop")):
                self._apply(table, rows, event)
            rows |= {self.changes.key(table, row): dict(row) for row in event.before}
            rows |= {key: dict(row) for key, row in alive.items()}
        return [(row, key not in alive) for key, row in rows.items()]

    def _kept_copies(self, table: str, until: int) -> list[tuple[Row, bool]]:
        """Without a key: every copy, and once each row of which there was one and is none."""
        rows, alive = dict[Key, Row](), dict[Key, Row]()
        for _, event in self._of(table, 0, until):
            for part in (alive, rows) if event.statement.startswith(("add", "drop")) else (alive,):
                self._apply(table, part, event)
            rows |= {(next(self._serial),): dict(row) for row in (*event.before, *event.after)}
        deleted = {tuple(row.items()): row for row in rows.values() if row not in alive.values()}
        return [*((row, False) for row in alive.values()), *((row, True) for row in deleted.values())]

    def shared(self, reached: Mapping[str, int]) -> list[tuple[str, Row]]:
        """Whose each row is, and the row, where equal keys of tables are one. reached: by table up to which offset."""
        owners: dict[Key, str] = {}
        keys_of: dict[str, set[Key]] = {table: set() for table in reached}
        for end, event in self.changes.events:
            if end > reached[event.table]:
                continue
            own_keys = keys_of[event.table]
            deleted = (
                own_keys if event.statement == "truncate" else {self._key_of(event.table, row) for row in event.before}
            )
            for key in [*deleted]:
                owners.pop(key, None)
                own_keys.discard(key)
            for key in (self._key_of(event.table, row) for row in event.after):
                owners[key] = event.table
                own_keys.add(key)
        rows = {table: self.downstream(table, offset) for table, offset in reached.items()}
        return [(table, rows[table][key]) for key, table in owners.items()]

    def _key_of(self, table: str, row: Row) -> Key:
        return self.changes.key(table, row)

    def has_changes(self, table: str, start: int, stop: int) -> bool:
        """True if anything of a table ends between two offsets."""
        return any(True for _ in self._of(table, start, stop))

    def last_change(self, table: str, until: int) -> int:
        """The offset at which the last change of a table up to another one ends; 0 of one that had no row."""
        events = [(end, event) for end, event in self._of(table, 0, until)]
        has_rows = any(event.after for _, event in events)  # of a table without any, statements alone make none
        return events[-1][0] if has_rows else 0

    def silver(self, table: str, start: int, stop: int, until: int) -> list[tuple[Key, str, Row]]:
        """What a window has, with the columns as of a later offset: key, operation and row; copies instead of a key."""
        reshaping = [event for _, event in self._of(table, stop, until) if event.statement.startswith(("add", "drop"))]
        rows = self._net_copies(table, start, stop) if self._is_keyless(table) else self._net(table, start, stop)
        result = []
        for key, op, net_row in rows:
            row = {(): dict(net_row)}
            for event in reshaping if op != "delete" or self._is_keyless(table) else ():
                self._apply(table, row, event)
            result.append((key, op, row[()]))
        return result

    def _net(self, table: str, start: int, stop: int) -> Iterator[tuple[Key, str, Row]]:
        before = self.downstream(table, start)
        after, touched = dict(before), set[Key]()
        for _, event in self._of(table, start, stop):
            self._apply(table, after, event)
            if event.statement == "truncate":
                touched.clear()
            touched |= {self.changes.key(table, row) for row in (*event.before, *event.after)}
        for key in touched:
            if key in after:
                yield key, ("update" if key in before else "insert"), after[key]
            else:
                yield key, "delete", dict(zip(self.changes.keys[table], key, strict=True))

    def _net_copies(self, table: str, start: int, stop: int) -> Iterator[tuple[Key, str, Row]]:
        """Copies of each row that a window touched: how many came, less those that went."""
        copies: Counter[tuple[tuple[str, Any], ...]] = Counter()
        for _, event in self._of(table, start, stop):
            if event.statement == "truncate":
                copies.clear()
            for row in event.before:
                copies[tuple(row.items())] -= 1
            for row in event.after:
                copies[tuple(row.items())] += 1
        for cells, number in copies.items():
            yield (number,), "insert" if number > 0 else "delete" if number < 0 else "update", dict(cells)

    def rows_read(self, table: str, read_at: int, until: int) -> list[Row]:
        """The rows that were there at an offset, with the columns as of a later one."""
        rows = self.downstream(table, read_at)
        for _, event in self._of(table, read_at, until):
            if event.statement.startswith(("add", "drop")):
                self._apply(table, rows, event)
        return [*rows.values()]

    def is_emptied(self, table: str, start: int, stop: int) -> bool:
        """True if a statement empties a table between two offsets."""
        return any(event.statement == "truncate" for _, event in self._of(table, start, stop))

    def _is_keyless(self, table: str) -> bool:
        return not self.changes.keys[table]

    def changes_of(self, table: str, until: int, loaded_at: int | None = None) -> list[tuple[str, Row]]:
        """Operation and row of every change up to an offset, with the columns as of there; no row of a statement.

        loaded_at: the offset at which all rows that were there then were loaded.
        """
        changes: list[tuple[str, Row]] = []
        for event in self._with_load(table, until, loaded_at):
            verb, _, _ = event.statement.partition(" ")
            if verb in ("add", "drop"):
                changes = [(op, self._reshaped(table, event, row)) for op, row in changes]
            elif verb == "load":
                changes += (("load", dict(row)) for row in event.after)
            elif verb:
                changes.append((verb, {}))
            else:
                op = "update" if event.before and event.after else "insert" if event.after else "delete"
                (row,) = event.after or event.before
                changes.append((op, dict(row)))
        return changes

    def _with_load(self, table: str, until: int, loaded_at: int | None) -> Iterator[Event]:
        """The events of a table up to an offset, and the load."""
        is_loaded = loaded_at is None
        rows = () if loaded_at is None else tuple(self.downstream(table, loaded_at).values())
        for end, event in self._of(table, 0, until):
            if not is_loaded and loaded_at is not None and end > loaded_at:
                is_loaded = True
                yield Event(table, after=rows, statement="load")
            yield event
        if not is_loaded:
            yield Event(table, after=rows, statement="load")

    def versions_of(self, table: str, until: int, loaded_at: int | None = None) -> list[tuple[str, Row, bool]]:
        """Operation and row of every version up to an offset, and whether it is current; as ``changes_of``."""
        versions: list[tuple[str, Row, bool]] = []
        for event in self._with_load(table, until, loaded_at):
            verb, _, _ = event.statement.partition(" ")
            if verb in ("add", "drop"):
                versions = [(op, self._reshaped(table, event, row), is_current) for op, row, is_current in versions]
                continue
            if verb and verb != "load":
                versions = [(op, row, False) for op, row, _ in versions]
                versions.append((verb, {}, False))
            is_split = self._is_keyless(table) or not event.after
            for row in event.before:
                end_version(versions, partial(self._is_same, table, row))
                if is_split or self.changes.key(table, row) != self.changes.key(table, event.after[0]):
                    versions.append(("delete", dict(row), False))
            for row in event.after:
                if not self._is_keyless(table):
                    end_version(versions, partial(self._is_same, table, row))
                versions.append((verb or ("update" if event.before else "insert"), dict(row), True))
        return versions

    def _is_same(self, table: str, first: Row, second: Row) -> bool:
        """True if two rows have one key; without a key, whether they are equal."""
        if self._is_keyless(table):
            return first == second
        return self.changes.key(table, first) == self.changes.key(table, second)

    def _reshaped(self, table: str, event: Event, row: Row) -> Row:
        """A row behind a statement that adds or drops a column; that of a statement has no values."""
        rows: dict[Key, Row] = {(): row}
        if row:
            self._apply(table, rows, event)
        return rows[()]

    def _of(self, table: str, start: int, stop: int) -> Iterator[tuple[int, Event]]:
        return ((end, event) for end, event in self.changes.events if event.table == table and start < end <= stop)

    def _apply(self, table: str, rows: dict[Key, Row], event: Event) -> None:
        verb, _, name = event.statement.partition(" ")
        match verb:
            case "truncate":
                rows.clear()
            case "add":
                for key, row in rows.items():
                    rows[key] = row | {name: event.value}
            case "drop":
                for key, row in rows.items():
                    rows[key] = {column: value for column, value in row.items() if column != name}
            case _:
                for row in event.before:
                    rows.pop(self._number_of(table, rows, row), None)
                for row in event.after:
                    rows[self._number_of(table, {}, row)] = dict(row)

    def _number_of(self, table: str, rows: dict[Key, Row], row: Row) -> Key:
        """The key of a row; without one the number of an equal row, or the next number where there is none."""
        if not self._is_keyless(table):
            return self.changes.key(table, row)
        return next((number for number, copy in rows.items() if copy == row), (next(self._serial),))


def _image_cells(row: Row, held: set[str]) -> list[Any]:
    """The cells of an image, which holds some columns of a row."""
    return [value if name in held else ... for name, value in row.items()]


def end_version(versions: list[tuple[str, Row, bool]], is_ended: Callable[[Row], bool]) -> None:
    """Ends the oldest current version of such a row; of a key there is one."""
    at = next((at for at, (_, row, is_current) in enumerate(versions) if is_current and is_ended(row)), None)
    if at is not None:
        versions[at] = (*versions[at][:2], False)


def bronze_tables(content: bytes, folder: Path, steps: int, slice_bytes: int = 400) -> list[tuple[Path, int]]:
    """Bronze of a file as it grows: the table after a commit, after two and so on; with the offset that each reaches.

    They have the same files, as one table that grows has them.
    """
    slices = bronze_rows(FILE, content, target=slice_bytes)
    ends = slices.column("stop").to_pylist()
    path = str(folder / "bronze")
    snapshot, begin, tables = new_table(path, bronze.COLUMNS, bronze.PROPERTIES), 0, []
    for number in range(1, steps + 1):
        stop = len(ends) * number // steps
        rows = slices.slice(begin, stop - begin).cast(snapshot.schema.arrow(physical=False))
        file = data_files.write(path, rows, snapshot.schema, {}, row_group_rows=3)
        first = Position(FILE, 0 if begin == 0 else ends[begin - 1], 1)
        checkpoint = BronzeCommit(
            Position(FILE, ends[stop - 1], 1), f"{number}", start=first, begin=Position(FILE, 0, 1)
        )
        version = commits.commit(
            snapshot, adds=[file], transaction=(APPLICATION, number), user_metadata=checkpoint.to_json()
        )
        snapshot, begin = replace(snapshot, version=version), stop
        grown = folder / f"bronze{number}"
        shutil.copytree(path, grown, copy_function=os.link)
        tables.append((grown, ends[begin - 1]))
    return tables


def name_of(table: str) -> TableName:
    return TableName(SCHEMA, table)
