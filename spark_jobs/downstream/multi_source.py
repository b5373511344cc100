"""Downstream tables of several source tables: the part of each, with its position, and the union of columns.

Put here: what commits of such a table say, a part seen as a table by itself, and which columns fit all parts. Not here:
which tables are of several (config/routes.py), or what is merged into a part (engine/merge/part_merge.py).

A commit names all parts; it moves one and repeats the others as they stood in the head that it was planned on.
A second commit that was planned on the same head fails, because that version exists already, so no part's position is
ever set back.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.binlog import TableName
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream.commit import DownstreamCommit, PartEntry
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.text.sql import identifier, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROVENANCE = {"_source": "STRING", "_schema": "STRING", "_table": "STRING"}
"""Columns that say whose a row is, and their types."""
SHARED = "shared"
"""Key setting by which equal keys of a table's parts are one row."""

_ADDED_COLUMNS = ("_position", "_committed_at", "_raw")
"""Columns of every downstream row besides the source's."""
_INTEGERS = {"TINYINT": 10, "SMALLINT": 10, "INT": 10, "BIGINT": 20}
"""Integers, from narrow to wide, and the digits that Delta wants of a decimal that they are widened to."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_MOST_DIGITS = 38
WIDENING = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
_WITHOUT_ZONE = "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"

Owner = tuple[str, str, str]
"""Source, schema and table."""


@dataclass(frozen=True, slots=True)
class Part:
    """One source table's part: up to where it is merged, from which version of silver, and its columns then."""

    owner: Owner
    position: Position
    silver_version: int
    is_complete: bool
    columns: dict[str, str]
    unseen: int = 0
    """Keys that it lacks because no row image of theirs was whole."""
    key: tuple[str, ...] = ()
    """The columns of its key, where parts have keys in common."""
    silver_batch: str | None = None
    """Commit of the version of silver."""

    def __str__(self) -> str:
        source, schema, table = self.owner
        return f"{schema}.{table} of source {source}"

    def commit(self, of: Checkpoint) -> DownstreamCommit:
        """Commit of this part, as of a table of its own."""
        source, schema, table = self.owner
        return DownstreamCommit(
            self.position,
            of.batch,
            of.kind,
            source=source,
            table=f"{schema}.{table}",
            silver_version=self.silver_version,
            silver_batch=self.silver_batch,
            keys_never_whole=self.unseen,
            is_complete=self.is_complete,
        )


def parts_of(checkpoint: Checkpoint | None) -> list[Part]:
    """The parts that a commit names; none where the table is one source table's."""
    commit = DownstreamCommit.of(checkpoint) if checkpoint else None
    if commit is None or commit.parts is None:
        return []
    # Columns are stored once for all parts that have the same.
    shapes = commit.shapes or ()
    return [
        Part(
            (part.source, part.schema, part.table),
            part.position,
            part.silver_version,
            part.is_complete,
            dict(shapes[part.shape]),
            part.keys_never_whole,
            part.key,
            part.silver_batch,
        )
        for part in commit.parts
    ]


def with_parts(commit: DownstreamCommit, parts: Iterable[Part]) -> DownstreamCommit:
    """The commit that names these parts; columns that several have alike stand there once."""
    # Parts in a fixed order, so that equal states are equal commits.
    shapes: list[list[tuple[str, str]]] = []
    entries = []
    for part in sorted(parts, key=lambda part: part.owner):
        shape = list(part.columns.items())
        shapes += [] if shape in shapes else [shape]
        source, schema, table = part.owner
        entry = PartEntry(
            source=source,
            schema=schema,
            table=table,
            position=part.position,
            silver_version=part.silver_version,
            is_complete=part.is_complete,
            shape=shapes.index(shape),
            keys_never_whole=part.unseen,
            key=part.key,
            silver_batch=part.silver_batch,
        )
        entries.append(entry)
    return replace(commit, parts=tuple(entries), shapes=tuple(dict(shape) for shape in shapes))


def is_own(commit: DownstreamCommit, source: str, name: TableName) -> bool:
    """True if a downstream table, by a commit of it, has the rows of this source table alone."""
    return commit.parts is None and (commit.source or source, commit.table or str(name)) == (source, str(name))


class PartTable(Table):
    """A source table's part of a downstream table, to be read and written as if it were a table by itself."""

    is_shared = False
    """True if equal keys of several parts are one row."""

    def __init__(self, table: Table, owner: Owner) -> None:
        super().__init__(table.path, table.plain)
        self.owner = owner

    @property
    def provenance(self) -> dict[str, str]:
        return dict(zip(PROVENANCE, self.owner, strict=True))

    def head(self) -> Head | None:
        """The head, with the part's own checkpoint; None in it where nothing of the part was merged yet.

        Raises TableStopped where the table is one source table's, without provenance columns.
        """
        table_head = super().head()
        return None if table_head is None else self._own_head(table_head)

    def empty(self) -> bool:
        head = self.head()
        return head is None or head.checkpoint is None

    def columns(self) -> dict[str, str]:
        """The columns of the part, with its own types."""
        part = self._own_part(self.head())
        stored = super().columns()
        return {} if part is None else part.columns | {name: stored[name] for name in _ADDED_COLUMNS}

    def read(self, spark: "SparkSession", version: int | None = None) -> "DataFrame":
        """The part's rows, with its columns."""
        types, rows = self.columns(), super().read(spark, version).where(provenance_condition(self.provenance))
        return rows.selectExpr(*(f"CAST({identifier(n)} AS {kind}) AS {identifier(n)}" for n, kind in types.items()))

    def land(self, upon: Snapshot, head: Head, checkpoint: Checkpoint, **changes: Any) -> Head:
        return self._own_head(super().land(upon, head, checkpoint, **changes))

    def _claimed(self, head: Head, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint of this part as the table's commit states it: with the parts of all sources."""
        commit = DownstreamCommit.of(checkpoint)
        # This part as the commit leaves it replaces what the head says of it.
        own_part = Part(
            self.owner,
            commit.position,
            commit.silver_version,
            bool(commit.is_complete),
            dict(commit.columns or {}),
            commit.keys_never_whole,
            (commit.key or ()) if self.is_shared else (),
            commit.silver_batch,
        )
        # The table is complete once each part is.
        parts = [*(part for part in parts_of(head.all_parts) if part.owner != self.owner), own_part]
        all_parts = DownstreamCommit(
            commit.position,
            commit.batch,
            commit.kind,
            source=commit.source,
            table=commit.table,
            silver_version=commit.silver_version,
            start=commit.start,
            is_complete=all(part.is_complete for part in parts),
            key_sharing=SHARED if self.is_shared else None,
        )
        return with_parts(all_parts, parts)

    def _own_head(self, table_head: Head) -> Head:
        commit = DownstreamCommit.of_head(table_head)
        # A table of one source table, or with keys shared otherwise, is not continued.
        if commit is not None and commit.parts is None:
            raise TableStopped(
                f"{self.path} has the rows of {commit.table or 'one table'} alone, without "
                f"{', '.join(PROVENANCE)}; by routes: it is now of several source tables. Route them to another table, "
                "or move this one away: the next run rebuilds it from silver"
            )
        if commit is not None and (commit.key_sharing == SHARED) != self.is_shared:
            was, now = ("apart", SHARED) if self.is_shared else (SHARED, "apart")
            raise TableStopped(
                f"{self.path} was made with the keys of its source tables {was}, and by routes: they are {now} now "
                "(keys:). Route them to another table, or move this one away: the next run rebuilds it from silver"
            )
        part = self._own_part(replace(table_head, all_parts=commit))
        return replace(table_head, checkpoint=part.commit(commit) if part and commit else None, all_parts=commit)

    def _own_part(self, head: Head | None) -> Part | None:
        return next((part for part in parts_of(head.all_parts if head else None) if part.owner == self.owner), None)


class SharedPart(PartTable):
    """The same where equal keys of several source tables are one row: the rows meant are those that it wrote last."""

    is_shared = True

    def other_parts(self, head: Head) -> list[Part]:
        """The parts of other source tables."""
        return [part for part in parts_of(head.all_parts) if part.owner != self.owner]


class SourceTable(Table):
    """A downstream table as a source has it: of one of several, its position is the furthest of the source's parts."""

    def __init__(self, table: Table, source: str) -> None:
        super().__init__(table.path, table.plain)
        self.source = source

    def head(self) -> Head | None:
        table_head = super().head()
        parts = parts_of(table_head.checkpoint) if table_head else []
        if table_head is None or not parts:
            return table_head
        own_parts = [part for part in parts if part.owner[0] == self.source]
        last = max(own_parts, key=lambda part: part.position, default=None)
        return replace(
            table_head, checkpoint=last.commit(table_head.checkpoint) if last and table_head.checkpoint else None
        )


def view(table: Table, owner: Owner) -> Table:
    """A downstream table as one source table has it: its part, where the table is of several."""
    commit = DownstreamCommit.of_head(table.head())
    if commit is None or commit.parts is None:
        return table
    return SharedPart(table, owner) if commit.key_sharing == SHARED else PartTable(table, owner)


def provenance_condition(provenance: Mapping[str, str], of: str = "") -> str:
    """SQL: whether a row has these provenance columns. of: what names are preceded by, such as ``t.``."""
    return " AND ".join(f"{of}{name} = {literal(value)}" for name, value in provenance.items())


def union(target: Mapping[str, str], table_columns: Mapping[str, str], parts: Sequence[Part], name: str) -> list[str]:
    """Clauses of ALTER TABLE, one after the other, that give a table columns which fit a part and the others.

    target: the table's columns of sources, by name and type. Raises TableStopped, with both definitions.
    """
    by_name = {column.casefold(): column for column in target}
    names = {column.casefold() for columns in (table_columns, *(part.columns for part in parts)) for column in columns}
    drops = [f"DROP COLUMN {identifier(column)}" for column in target if column.casefold() not in names]
    adds, widened, before = [], [], "FIRST"
    for column, kind in table_columns.items():
        as_there = by_name.get(column.casefold())
        if as_there is None:
            adds.append(f"ADD COLUMN ({identifier(column)} {kind} {before})")
        elif target[as_there] != kind:
            fitting = holding_both(target[as_there], kind)
            holder = next((part for part in parts if _has(part.columns, column)), None)
            if fitting is None and holder:
                raise TableStopped(_contradiction(name, table_columns, column, holder))
            if fitting is None:  # it is nobody else's
                drops.append(f"DROP COLUMN {identifier(as_there)}")
                adds.append(f"ADD COLUMN ({identifier(column)} {kind} {before})")
                as_there = None
            elif fitting != target[as_there]:
                widened.append(f"ALTER COLUMN {identifier(as_there)} TYPE {fitting}")
        before = f"AFTER {identifier(as_there or column)}"
    without_zone = "TIMESTAMP_NTZ" in table_columns.values() and "TIMESTAMP_NTZ" not in target.values()
    return [
        *drops,
        *([_WITHOUT_ZONE] if without_zone else []),
        *([WIDENING] if widened else []),
        *widened,
        *adds,
    ]


def _has(columns: Mapping[str, str], column: str) -> bool:
    return column.casefold() in {name.casefold() for name in columns}


def _contradiction(name: str, table_columns: Mapping[str, str], column: str, holder: Part) -> str:
    def listed(columns: Mapping[str, str]) -> str:
        return ", ".join(f"{full_name} {kind}" for full_name, kind in columns.items())

    return (
        f"{name}: no type holds both what its column {column} is, and what it is in {holder}, which is merged into "
        f"the same table. Its columns are ({listed(table_columns)}), the other's ({listed(holder.columns)}); alter one "
        "of them to fit, or route it to a table of its own"
    )


def holding_both(first: str, second: str) -> str | None:
    """The narrowest type that holds every value of both, and that Delta can widen both to."""
    if first == second:
        return first
    if {first, second} == {"FLOAT", "DOUBLE"}:
        return "DOUBLE"
    if first in _INTEGERS and second in _INTEGERS:
        return max(first, second, key=list(_INTEGERS).index)
    digits = [_digits(first), _digits(second)]
    if None in digits:
        return None
    integer_digits, scale = (max(digit_counts[at] for digit_counts in digits if digit_counts) for at in (0, 1))
    return f"DECIMAL({integer_digits + scale},{scale})" if integer_digits + scale <= _MOST_DIGITS else None


def _digits(kind: str) -> tuple[int, int] | None:
    """Digits before and after the point."""
    if kind in _INTEGERS:
        return _INTEGERS[kind], 0
    match = _DECIMAL.fullmatch(kind)
    return (int(match[1]) - int(match[2]), int(match[2])) if match else None
