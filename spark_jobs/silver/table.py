"""Silver tables: the net change of every key and window of one source table.

Put here: their columns and what a row says. Not here: how rows come about (engine/silver/silver_task.py) or are used
(engine/merge/downstream_job.py).

Besides the source's columns a row has ``_op`` (insert, update or delete: existed before the window × exists after it),
``_existed``, the position of the key's last change, its commit time, its window, and ``_raw``. Deletes stay as rows, so
silver remembers what was deleted when. Windows are appended, and replaced as a whole when a range is replayed.
A TRUNCATE is a row and window of its own, with no key and ``_op`` truncate: rows before it count no more.
So are the rows of a table that takes the name, with ``_op`` rename, after the TRUNCATE of what had it before.
Rows that were loaded are one window without extent, with ``_op`` load: the table as queries saw it
(pipeline/initial_load/load.py). Rows that were mended are too, with ``_op`` mend or mend_delete: they stand before
all that the log says from their position on, and after what it said before (spark_jobs/mending/).

A table whose row images leave columns out (``binlog_row_image``) has ``_absent``: a row of an update may lack columns,
which are then as they were before its window. ``_moved_from`` is the key that the row had then, where it had another.

A table without a key is a **keyless table**: what tells its rows apart is all that is in them, and equal rows are
counted. A row of its silver table is one image and window, and ``_copies`` says how many more or fewer of it there were
afterwards.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.text.sql import identifier, literal

if TYPE_CHECKING:
    from pyspark.sql import Column


class Op(StrEnum):
    """Net operation on a row's key over its window: the values of ``_op``."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    """A statement emptied the table: the row has no key, and rows before it count no more."""
    LOAD = "load"
    """An initial load read the row."""
    MEND = "mend"
    """A mend read the row from the server, since it was not what the log led to."""
    MEND_DELETE = "mend_delete"
    """A mend found no row of the key at the server."""
    RENAME = "rename"
    """The row came with the table that was given this one's name, as of the statement that did it.

    Rows that the table had itself are such too, where a statement changed what they are identified by."""
    CASCADE_UPDATE = "cascade_update"
    """A foreign key changed the row, which was derived (``on_cascade: apply``); among rows of every change."""
    CASCADE_DELETE = "cascade_delete"
    """A foreign key deleted the row, which was derived; among rows of every change."""


MENDED = (Op.MEND, Op.MEND_DELETE)
FROM_SERVER = (Op.LOAD, *MENDED)
"""Operations of rows that were read from the server: no change in the log says them, and they are in no window."""
_FROM_SERVER = pa.array([str(kind) for kind in FROM_SERVER])
_DELETES = pa.array([str(Op.DELETE), str(Op.MEND_DELETE), str(Op.CASCADE_DELETE)])


def operations_sql(operations: Collection[Op]) -> str:
    """SQL: what stands behind IN."""
    return f"({', '.join(literal(kind) for kind in operations)})"


def is_from_server(operations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mask of the rows that were read from the server. operations: their ``_op``."""
    return pc.is_in(operations, _FROM_SERVER)


def is_delete(operations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Mask of the rows that say that their key has none. operations: their ``_op``."""
    return pc.is_in(operations, _DELETES)


POSITION_TYPE = "STRUCT<stretch: INT, number: BIGINT, offset: BIGINT>"
"""A position as Spark has it."""
CHANGE_POSITION_TYPE = "STRUCT<stretch: INT, number: BIGINT, offset: BIGINT, row: INT>"
ADDED = {
    "_op": "STRING",
    "_existed": "BOOLEAN",
    "_position": CHANGE_POSITION_TYPE,
    "_committed_at": "TIMESTAMP",
    "_window_start": POSITION_TYPE,
    "_window_stop": POSITION_TYPE,
    "_raw": "MAP<STRING, STRING>",
}
ABSENT = "_absent"
"""The column that silver tables have besides whose row images left columns out: which ones a row has no value of.

NULL where the row is whole. A table gets it when its first such image comes, and none before. A key of which a column
is in no row since was never seen whole: its state is not known, and it has no row downstream."""
MOVED_FROM = "_moved_from"
"""The column that such tables have besides: of a row that got its key by a change whose image left columns out, the key
that it had before its window, as moved_from_codec.py writes it. The absent columns are those of the row of that key;
nothing that an older row of the new key has is the row's. NULL where nothing is absent."""
LACKING = {ABSENT: "ARRAY<STRING>", MOVED_FROM: "ARRAY<STRING>"}
"""Columns of silver tables whose rows may lack columns, and their types."""
COPIES = "_copies"
"""The column that silver tables of keyless tables have besides: copies that came less copies that went in the
window."""
IDENTITY = "_identity_"
"""Prefix of the names of intermediate columns that hold the values of ``Columns.identity``."""
_INTERMEDIATE_COLUMNS = {"_window", "_exists", "_changes", "_micros", "_gone", *LACKING, "_moved", "_ended"}
"""Columns that rows have besides on their way into the tables."""
_MAY_BE_EXACT = {"STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
"""Types of columns some values of which only ``_raw`` holds."""
_ARROW_TO_SPARK = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
    "timestamp[us]": "TIMESTAMP_NTZ",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "struct<srid: int32, wkb: binary>": "STRUCT<srid: INT, wkb: BINARY>",
    "list<item: float>": "ARRAY<FLOAT>",
}


@dataclass(frozen=True, slots=True)
class Columns:
    """A source table's columns as its silver and downstream tables have them: names, Spark types, key.

    key: empty for a keyless table. has_partial: whether the silver table says which columns a row lacks.
    """

    types: dict[str, str]
    key: tuple[str, ...]
    has_partial: bool = False

    @property
    def rest(self) -> tuple[str, ...]:
        return tuple(name for name in self.types if name not in self.key)

    @property
    def is_keyless(self) -> bool:
        return not self.key

    @property
    def added(self) -> dict[str, str]:
        """Names and types of the columns that the silver table has besides the source's."""
        return ADDED | ({COPIES: "BIGINT"} if self.is_keyless else {}) | (LACKING if self.has_partial else {})

    @property
    def stored(self) -> dict[str, str]:
        """Names and types of all columns of the silver table."""
        return self.types | self.added

    def identity(self, of: str = "") -> list[str]:
        """SQL: what tells one row from another, by the bytes stored; equal where the rows are the same one.

        of: what names are preceded by, such as ``t.``. A key's column whose value may be one that only ``_raw`` holds
        is two expressions, and one of the two is NULL. A keyless table's rows are one structure each, never NULL.
        """
        if self.is_keyless:
            # a table of several may have wider columns than this one
            typed = ((f"CAST({of}{identifier(name)} AS {kind})", kind) for name, kind in self.types.items())
            cells = [_comparable_text(cell, kind) for cell, kind in typed]
            cells.append(f"array_sort(map_entries({of}_raw))")
            pair_set = ", ".join(f"'{at}', {cell}" for at, cell in enumerate(cells))
            return [f"named_struct({pair_set})"]
        comparisons = []
        for name in self.key:
            comparisons.append(f"{of}{identifier(name)}")
            if self.types[name] in _MAY_BE_EXACT:
                comparisons.append(f"try_element_at({of}_raw, {literal(name)})")
        return comparisons


def _comparable_text(cell: str, kind: str) -> str:
    """Text by which SQL compares a cell's bytes: 0 and -0 are equal numbers, but not the same text."""
    return f"CAST({cell} AS STRING)" if kind in ("FLOAT", "DOUBLE", "ARRAY<FLOAT>") else cell


def columns(
    definition: TableDefinition, *, has_partial: bool = False, retired: Mapping[str, str] | None = None
) -> Columns:
    """The columns of a definition, followed by its retired columns, by name and type.

    Raises TableStopped where it is not known which key the table has, a name is unknown, or collides with ours.
    """
    # Without a key, without names or with names of ours, the columns cannot be told.
    names = [column.name for column in definition.columns]
    if definition.key is None:
        raise TableStopped(
            f"{definition.name}: neither the log nor a statement tells whether the table has a key, and which; "
            "SET GLOBAL binlog_row_metadata = 'FULL'"
        )
    if not definition.has_names():
        raise TableStopped(
            f"{definition.name}: the names of its columns are not known; SET GLOBAL binlog_row_metadata = 'FULL'"
        )
    refused = refused_names(definition)
    if refused:
        raise TableStopped(f"{definition.name}: {refused[0]}")
    types = {str(column.name): spark_type(str(column.arrow)) for column in definition.columns}
    return Columns(
        types | (dict(retired) if retired else {}), tuple(str(names[at]) for at in definition.key), has_partial
    )


def refused_names(definition: TableDefinition) -> list[str]:
    """Reason why a table's columns cannot be in the lake by their names, a sentence each; none where they can."""
    reserved = {*ADDED, *_INTERMEDIATE_COLUMNS} if definition.key else {*ADDED, *_INTERMEDIATE_COLUMNS, COPIES}
    problems, first_names = [], dict[str, str]()
    for name in (str(column.name) for column in definition.columns if column.name):
        folded = _as_spark_compares(name)
        if folded in reserved or folded.startswith(IDENTITY):
            problems.append(f"its column {name} has the name of one that is added; rename it")
        elif folded == _HIDDEN:
            problems.append(
                f"its column {name} has the name of a column that Spark adds to every table read; rename it"
            )
        elif folded in first_names:
            problems.append(f"its columns {first_names[folded]} and {name} have one name to Spark; rename one of them")
        first_names.setdefault(folded, name)
    return problems


_HIDDEN = "_metadata"


def _as_spark_compares(name: str) -> str:
    """Equal for names that Java's equalsIgnoreCase takes for one: letter by letter, capital and then small."""
    capitals = (char.upper() if len(char.upper()) == 1 else char for char in name)
    return "".join("i" if char == "\u0130" else char.lower() for char in capitals)


def reset_count(head: Head | None) -> int:
    """Number of rebuilds of a silver table, up to a head of it."""
    commit = SilverCommit.of_head(head)
    return commit.resets if commit else 0


def is_numbered(head: Head | None) -> bool:
    """True if the columns of a silver table have numbers, since nothing tells their names."""
    commit = SilverCommit.of_head(head)
    return commit is not None and commit.is_numbered


def fold_floor(head: Head | None) -> Position | None:
    """The floor of a silver table: windows before it were folded into one. None where none were."""
    commit = SilverCommit.of_head(head)
    return commit.floor if commit else None


def stored_columns(table: Table, head: Head) -> Columns:
    """The columns of a silver table at a head; its commits name the key."""
    commit = SilverCommit.of_head(head)
    key = commit.key_columns if commit else ()
    added = [*ADDED, *LACKING] if key else [*ADDED, *LACKING, COPIES]
    stored = table.columns_at(head.version)
    return Columns({name: kind for name, kind in stored.items() if name not in added}, key, ABSENT in stored)


def spark_type(arrow: str) -> str:
    """The Spark type of a decoded column, written as in DDL."""
    if arrow.startswith("decimal128"):
        return arrow.removeprefix("decimal128").replace(" ", "").join(("DECIMAL", ""))
    return _ARROW_TO_SPARK[arrow]


def raw_sql(raw: str, names: Mapping[str, str | None]) -> str:
    """SQL: the exact texts of a row behind a change of columns.

    names: by the old one the new one, None where it went.
    """
    dropped, cases = _dropped_and_renamed(names)
    remaining = f"map_filter({raw}, (k, v) -> k NOT IN ({dropped}))" if dropped else raw
    with_new_names = f"transform_keys({remaining}, (k, v) -> CASE k {cases} ELSE k END)" if cases else remaining
    return f"IF(size({with_new_names}) = 0, NULL, {with_new_names})" if dropped else with_new_names


def absent_sql(names: Mapping[str, str | None]) -> str:
    """SQL: the names of absent columns of a row behind a change of columns.

    names: by the old one the new one, None where it went.
    """
    dropped, cases = _dropped_and_renamed(names)
    remaining = f"filter({ABSENT}, name -> name NOT IN ({dropped}))" if dropped else ABSENT
    changed = f"transform({remaining}, name -> CASE name {cases} ELSE name END)" if cases else remaining
    return f"CAST(IF(size({changed}) > 0, {changed}, NULL) AS {LACKING[ABSENT]})" if dropped else changed


def _dropped_and_renamed(names: Mapping[str, str | None]) -> tuple[str, str]:
    """SQL: a list of the names that went, and the branches of a CASE by the others; names: as in ``raw_sql``."""
    dropped = ", ".join(literal(old) for old, new in names.items() if new is None)
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in names.items() if new not in (None, old))
    return dropped, cases


def raw_with(raw: str, texts: Mapping[str, str]) -> str:
    """SQL: the exact texts of a row, and those that it has in new columns, by name."""
    if not texts:
        return raw
    added = ", ".join(f"{literal(name)}, {literal(text)}" for name, text in texts.items())
    return f"map_concat(coalesce({raw}, CAST(map() AS MAP<STRING, STRING>)), map({added}))"


PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
"""Delta features: any column name, and rows marked as deleted instead of files written again."""


def properties(table: Table) -> dict[str, str]:
    """Delta properties of a silver table: PROPERTIES, or none if the table is to be plain."""
    return {} if table.plain else dict(PROPERTIES)


def require_same_columns(table: Table, table_columns: dict[str, str], name: str) -> None:
    """Check that the table, if it exists, has these columns. Raises TableStopped."""
    stored = table.columns()
    if stored:
        require_equal_columns(table.path, stored, table_columns, name)


def require_equal_columns(path: str, stored: Mapping[str, str], table_columns: Mapping[str, str], name: str) -> None:
    """Check that a table's stored columns (name and Spark type, in order) are those of its log. Raises TableStopped."""
    if dict(stored) != dict(table_columns):
        raise TableStopped(
            f"{name}: its columns are now ({_columns_text(table_columns)}), but {path} has ({_columns_text(stored)}), "
            "and no statement of the log says why"
        )


def position_cell(position: Position) -> "Column":
    """A position as the struct that windows are stored with."""
    from pyspark.sql import functions as F

    return F.expr(position_sql(position)).cast(POSITION_TYPE)


def window_condition(windows: Range) -> str:
    """SQL: the rows whose window lies in a range that is a union of windows; those from the server lie in none.

    Delta and Parquet have bounds of a structure's fields and compare these alone, so the fields are compared too.
    """
    start, stop = position_sql(windows.start), position_sql(windows.stop)
    bounds = [f"_window_start >= {start} AND _window_start < {stop} AND _op NOT IN {operations_sql(FROM_SERVER)}"]
    for field, lowest, highest in zip(
        ("stretch", "number", "offset"), windows.start.order, windows.stop.order, strict=True
    ):
        bounds.append(f"_window_start.{field} BETWEEN {lowest} AND {highest}")
        if lowest != highest:
            break
    return " AND ".join(bounds)


def position_sql(position: Position) -> str:
    """A position as SQL, to compare windows with."""
    stretch, number, offset = position.order
    return f"named_struct('stretch', {stretch}, 'number', {number}L, 'offset', {offset}L)"


def before_sql(position: Position) -> str:
    """A position as SQL, to compare those of changes with: before all changes that stand there."""
    stretch, number, offset = position.order
    return f"named_struct('stretch', {stretch}, 'number', {number}L, 'offset', {offset}L, 'row', -1)"


MORE_DELETED = (
    "the table has no key, and more copies of a row were deleted than the lake has seen written; the log has to begin "
    "where the table was empty, or the table be loaded, and a filter that leaves out copies where they are written "
    "must leave them out where they are deleted"
)
"""Reason why a table without a key stops that would have less than no copy of a row."""


def _columns_text(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items() if name not in (*ADDED, *LACKING))
