"""Source tables whose columns change on their way into one downstream table, and a plain model of them. Put here: both.
Not here: what is compared."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.delta import commits, data_files, schema_changes
from spark_jobs.delta.snapshot import Snapshot, new_table, snapshot_of
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import Owner, PartTable
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from tests.binlogs.timelines import OLD
from tests.spark_jobs.engine.lake_rows import LOG, MAPPED

WINDOW = 100
Row = dict[str, Any]
WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(9,2)": "DECIMAL(12,4)"}
"""Types, and what a statement widens them to."""


def value_of(chance: Random, kind: str) -> Any:
    """A value of a type; of numbers one that all wider types hold."""
    number = chance.choice([None, chance.randrange(100)])
    if number is None:
        return None
    if kind.startswith("DECIMAL"):
        return Decimal(number) / 4
    return {"STRING": f"s{number}", "DATE": date.fromordinal(700_000 + number), "FLOAT": number / 4}.get(kind, number)


class ChangedPart:
    """A silver table, written commit by commit, and its part of a table of several; what it is beside it."""

    def __init__(
        self, folder: Path, owner: Owner, columns: Mapping[str, str], key: Sequence[str], *, plain: bool = False
    ) -> None:
        self.owner, self.key = owner, tuple(key)
        self.name = TableName(*owner[1:])
        self.silver = Table(str(folder / "silver" / "-".join(owner)), plain=False)
        self.target: PartTable = PartTable(Table(str(folder / "all"), plain=plain), owner)
        self.columns, self.rows = dict(columns), list[Row]()
        self.stop, self.resets = WINDOW, 0
        self.floor: Position | None = None

    @property
    def work(self) -> MergeJob:
        head = self.silver.head()
        assert head is not None
        columns = silver.Columns(dict(self.columns), self.key)
        return MergeJob(self.owner[0], self.name, columns, self.silver, head, self.target)

    def change(self, chance: Random) -> None:
        """A window of random changes; of a table with a key each key once."""
        rows = list[Row]()
        for _ in range(chance.randint(1, 4)):
            row = {name: value_of(chance, kind) for name, kind in self.columns.items()}
            row |= {name: chance.randrange(8) for name in self.key}
            if self.key and any(self._key_of(row) == self._key_of(changed) for changed in rows):
                continue
            old_rows = (
                [old for old in self.rows if self._key_of(old) == self._key_of(row)] if self.key else self.rows[:1]
            )
            is_deleted = bool(old_rows) and chance.random() < 0.4
            if old_rows and (is_deleted or self.key):
                self.rows.remove(old_rows[0])
            self.rows += [] if is_deleted else [row]
            if self.key:
                rows.append(row | {"_op": "delete" if is_deleted else "update" if old_rows else "insert"})
            else:
                image = old_rows[0] if is_deleted else row
                rows.append(image | {"_op": "delete" if is_deleted else "insert", "_copies": -1 if is_deleted else 1})
        self._commit_rows(rows)

    def truncate(self) -> None:
        """A statement that empties it."""
        self.rows, self.floor = [], Position(LOG, self.stop)
        self._commit_rows([{"_op": "truncate"}])

    def alter(self, steps: Sequence[str], columns: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> None:
        """A statement about its columns. renamed: new names by old ones."""
        names = dict(renamed or {})
        self.columns = dict(columns)
        rows = [{names.get(name, name): value for name, value in row.items()} for row in self.rows]
        self.rows = [{name: row.get(name) for name in columns} for row in rows]
        self._commit_rows([], kind=CommitKind.CHANGE, steps=steps)

    def rebuild(self) -> None:
        """All rows by a new silver, as after ``reset``."""
        self.resets += 1
        copies = {} if self.key else {"_copies": 1}
        self._commit_rows([row | {"_op": "insert"} | copies for row in self.rows], is_overwrite=True)

    def _key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def _commit_rows(
        self,
        rows: Sequence[Row],
        kind: CommitKind = CommitKind.LIVE,
        *,
        steps: Sequence[str] = (),
        is_overwrite: bool = False,
    ) -> None:
        """A commit of silver, with the rows of a window."""
        start, self.stop = self.stop, self.stop + WINDOW
        columns = silver.Columns(dict(self.columns), self.key)
        table = snapshot_of(self.silver.path) or new_table(self.silver.path, columns.stored, MAPPED)
        design = schema_changes.apply(table, steps) if steps else table
        rows = [_stored(row, start, offset) for offset, row in enumerate(rows, 1)]
        commit = SilverCommit(
            Position(LOG, self.stop),
            new_batch(),
            kind,
            start=Position(LOG, start),
            steps=tuple(steps) or None,
            definition=OLD,
            emptied_at=self.floor,
            is_overwrite=is_overwrite,
            resets=self.resets,
        )
        commits.commit(
            table,
            adds=_written_files(design, rows),
            removes=table.files if is_overwrite else (),
            metadata=design.metadata if steps else None,
            protocol=design.protocol if steps else None,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=commit.to_json(),
        )


def _stored(row: Row, start: int, offset: int) -> Row:
    """A row as silver has it, of a window."""
    at = {"stretch": 1, "number": 1}
    return row | {
        "_existed": row["_op"] != "insert",
        "_position": at | {"offset": start + (0 if row["_op"] == "truncate" else offset), "row": 0},
        "_committed_at": datetime.fromtimestamp(start + offset, UTC),
        "_window_start": at | {"offset": start},
        "_window_stop": at | {"offset": start + WINDOW},
    }


def _written_files(table: Snapshot, rows: Sequence[Row]) -> list[Any]:
    if not rows:
        return []
    fields = table.schema.arrow(physical=False)
    cells = pa.Table.from_pylist([{name: row.get(name) for name in fields.names} for row in rows], fields)
    return [data_files.write(table.path, cells, table.schema, table.configuration)]


def random_statement(chance: Random, part: ChangedPart) -> None:
    """Something that a statement does, or a rebuild."""
    types = part.columns
    names = [name for name in types if name not in part.key]
    match chance.choice(["add", "add", "drop", "widen", "rename", "retype", "truncate", "rebuild"]):
        case "truncate":
            part.truncate()
        case "rebuild":
            part.rebuild()
        case "drop" if len(names) > 1:
            name = chance.choice(names)
            part.alter([f"DROP COLUMN `{name}`"], {n: kind for n, kind in types.items() if n != name})
        case "widen" if any(types[name] in WIDER for name in names):
            name = chance.choice([name for name in names if types[name] in WIDER])
            kind = WIDER[types[name]]
            steps = [widening(), f"ALTER COLUMN `{name}` TYPE {kind}"]
            part.alter(steps, types | {name: kind})
        case "rename" if names:
            name, new = chance.choice(names), chance.choice("abcdAB")
            if new.casefold() not in {column.casefold() for column in types}:
                columns = {new if column == name else column: kind for column, kind in types.items()}
                part.alter([f"RENAME COLUMN `{name}` TO `{new}`"], columns, {name: new})
        case "retype" if names:
            name = chance.choice(names)
            part.rows = [{column: value for column, value in row.items() if column != name} for row in part.rows]
            columns = {column: kind for column, kind in types.items() if column != name} | {name: "DATE"}
            part.alter([f"DROP COLUMN `{name}`", f"ADD COLUMN (`{name}` DATE)"], columns)
        case _:
            name, kind = chance.choice("abcdAB"), chance.choice(["INT", "STRING", "FLOAT", "DECIMAL(9,2)", "DATE"])
            if name.casefold() not in {column.casefold() for column in types}:
                part.alter([f"ADD COLUMN (`{name}` {kind})"], types | {name: kind})


def widening() -> str:
    """The step before types are widened."""
    return "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"


def as_union(parts: Mapping[Owner, tuple[Mapping[str, str], Sequence[Row]]]) -> tuple[set[str], list[Row]]:
    """Columns, as names are compared, and rows of the table of some parts; rows without what they lack."""
    columns = {name.casefold() for types, _ in parts.values() for name in types}
    rows = [
        {name.casefold(): value for name, value in row.items() if value is not None}
        | dict(zip(("_source", "_schema", "_table"), owner, strict=True))
        for owner, (_, rows) in parts.items()
        for row in rows
    ]
    return columns, rows


def copied(part: ChangedPart) -> tuple[dict[str, str], list[Row]]:
    """What a part is now."""
    return dict(part.columns), [dict(row) for row in part.rows]
