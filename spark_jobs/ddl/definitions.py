"""Names of columns that the log lacks, from a live server's definitions, and when these are valid.

Put here: definitions read from information_schema, matched against table maps.
Not here: what table maps tell by themselves (binlog/events/table_map.py), or keeping definitions in the lake
(schema/history.py).

What no log tells, whatever its metadata: which of its BINARY columns MariaDB declares as UUID, INET4, INET6 or VECTOR,
and how many digits of a second its old temporal types have. That is taken from definitions too.

A server's definitions say what is true when they are read. They are read before the end of the log is asked for, and
believed for a range only where no statement in it, up to the moment of reading, names the table, and every
column's type and metadata are those of the table map. Anything else stops the table: no name is guessed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from spark_jobs.binlog import OLD_TWINS, Column, TableDefinition, TableName, same_layout
from spark_jobs.binlog.types import DECLARED, EITHER_SIGN
from spark_jobs.binlog.types.charsets import charset_of, width_of
from spark_jobs.ddl.labels import with_labels
from spark_jobs.errors import NamesUnknown, TableStopped, Unsupported
from spark_jobs.log.position import Position

_FIXED = {
    "tinyint": 1,
    "smallint": 2,
    "mediumint": 9,
    "int": 3,
    "bigint": 8,
    "date": 10,
    "year": 13,
}
_SPATIAL = {
    *("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"),
    *("multipoint", "multilinestring", "multipolygon"),
}
_LONG = {"json": 245, "vector": 242} | dict.fromkeys(_SPATIAL, 255)
"""Types whose values' lengths have four bytes."""
_UNKNOWN = -1
_UTF8MB4_BIN = 46
_FRACTIONAL = {"timestamp": 17, "datetime": 18, "time": 19}
_BLOBS = {
    "tinyblob": 1,
    "blob": 2,
    "mediumblob": 3,
    "longblob": 4,
    "tinytext": 1,
    "text": 2,
    "mediumtext": 3,
    "longtext": 4,
}
_ADDRESSES = {"uuid": 16, "inet4": 4, "inet6": 16}
"""MariaDB's types that the log holds as BINARY of so many bytes."""
_COUNTED = {"char": 254, "binary": 254, "varchar": 15, "varbinary": 15}
COMPRESSED = " COMPRESSED*/"
"""Suffix of the declaration of a compressed column in MariaDB's information_schema."""
_DEFLATED = {252: 140, 15: 141}
"""The codes of MariaDB's compressed columns. A VARCHAR's metadata counts the byte before each value."""
_TEXTUAL = {*_COUNTED.values(), 252, *_DEFLATED.values(), *_LONG.values()}
"""Codes of the types that servers count as character columns."""
PRIMARY = "PRIMARY"
"""The name of the index that is a primary key."""
_ESCAPED = re.compile(r"''|\\.", re.DOTALL)
"""Escapes in labels as information_schema writes them (sql/sql_show.cc and field.cc, ``append_unescaped``)."""
_LABEL = re.compile(r"'((?:[^']|'')*)'")


def with_server_definition(
    source: str, logged: TableDefinition, answer: tuple[Position, TableDefinition] | None, last_change: Position | None
) -> TableDefinition:
    """The definition with what the log lacks: names, key, labels, declared types.

    Raises TableStopped where names are missing and no definition can be believed, or an outdated one declares a type
    that the log does not tell. ``answer``: the server's definition and where in the log it was read. ``last_change``:
    where the last statement of the range stands that names the table, if one does.
    """
    # Named columns need labels and declared types alone, as far as the server's definition still fits.
    if logged.has_names():
        if answer is None:
            return logged
        read_at, definition = answer
        declared = _declared(source, logged, read_at, definition, last_change)
        is_same = logged.column_names() == definition.column_names() and not (last_change and read_at < last_change)
        return with_defaults(with_labels(declared, definition), definition) if is_same else declared
    # Unnamed columns take the names by their ordinals: the definition must be of the rows' time.
    missing = f"{source}: {logged.name}: the log does not name its columns (binlog_row_metadata is not FULL)"
    if answer is None:
        raise NamesUnknown(
            f"{missing}, and no definition was read from a server; SET GLOBAL binlog_row_metadata = 'FULL', or name a "
            "schema dump of known position (schema_dump: of a source of files)"
        )
    read_at, definition = answer
    if last_change and read_at < last_change:
        raise TableStopped(
            f"{missing}, and the server's definition was read at {read_at}, before a change at {last_change}"
        )
    # The types must agree one by one, otherwise names would be given to the wrong columns.
    strange = [column.name for column in definition.columns if not is_known(column)]
    if strange:
        raise TableStopped(f"{missing}, and the type of its column {strange[0]} is not known; leave the table out")
    fits = declared_as_logged(logged, definition)
    if fits is None:
        raise TableStopped(
            f"{missing}, and the server's definition does not fit: the log has {logged}, the server {definition}"
        )
    return fits


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """Answer of the schema history about a table.

    at: the position that it is of; reason: what is to be known where it does not hold; by: who told it, for messages.
    not_before: why it is not known what the table was before that position.
    """

    at: Position
    definition: TableDefinition | None = None
    reason: str | None = None
    by: str = "the schema dump"
    not_before: str | None = None


def completed_by_history(logged: TableDefinition, history: HistoryAnswer) -> TableDefinition:
    """The definition with what a log that names no columns lacks. Raises TableStopped where that is not told."""
    # Each thing that is missing has a message of its own, with what to do.
    missing = f"{logged.name}: the log does not name its columns (binlog_row_metadata is not FULL)"
    definition = history.definition
    if definition is None or history.reason:
        raise TableStopped(f"{missing}, and {history.by} does not tell them: {history.reason}")
    fits = declared_as_logged(logged, definition)
    if fits is None:
        do = "; name a dump that was taken where it says" if history.by == "the schema dump" else ""
        raise TableStopped(
            f"{missing}, and the definition by {history.by}, at {history.at}, does not fit: the log has {logged}, and "
            f"it says {definition}{do}"
        )
    # Without character sets, text of 5.7 logs cannot be decoded.
    open_ = [column.name for column in fits.columns if column.charset is None and column.type.is_character]
    if open_:
        do = "; make the dump without --compatible" if history.by == "the schema dump" else ""
        raise TableStopped(f"{missing}, and neither the log nor {history.by} tells the character set of {open_[0]}{do}")
    return fits


def declared_as_logged(logged: TableDefinition, definition: TableDefinition) -> TableDefinition | None:
    """A declared definition as the log writes it; None where types, signs or character sets are others."""
    definition = as_logged(logged, definition)
    if len(logged.columns) == len(definition.columns):
        definition = replace(definition, columns=tuple(map(_measured, logged.columns, definition.columns)))
    if not same_layout(logged, definition) or not all(map(_agrees, logged.columns, definition.columns)):
        return None
    pairs = zip(logged.columns, definition.columns, strict=True)
    return replace(
        definition, name=logged.name, columns=tuple(replace(two, nullable=from_log.nullable) for from_log, two in pairs)
    )


def _measured(logged: Column, column: Column) -> Column:
    """Text that is declared without a character set, in that of the log: until then its length counts letters."""
    if column.charset is not None or logged.charset in (None, 63) or logged.type_code != column.type_code:
        return column
    is_counted = column.type_code in _COUNTED.values()
    return replace(column, charset=logged.charset, meta=column.meta * (_width(logged.charset) if is_counted else 1))


def _width(collation: int | None) -> int:
    try:
        return 1 if collation is None else width_of(charset_of(collation))
    except Unsupported:
        return 1


def _declared(
    source: str, logged: TableDefinition, read_at: Position, definition: TableDefinition, last_change: Position | None
) -> TableDefinition:
    """A definition that the log tells but for declared types, with these."""
    definition = as_logged(logged, definition)
    fits = same_layout(logged, definition) and logged.column_names() == definition.column_names()
    declared = [column.declared for column in definition.columns]
    if last_change and read_at < last_change and any(declared):
        raise TableStopped(
            f"{source}: {logged.name}: the log does not tell UUID, INET and VECTOR from BINARY, and the server's "
            f"definition was read at {read_at}, before a change at {last_change}; run again"
        )
    if not fits or not any(declared):
        return logged
    pairs = zip(logged.columns, declared, strict=True)
    return replace(logged, columns=tuple(replace(c, declared=c.declared or declared) for c, declared in pairs))


def defaults(definition: TableDefinition) -> list[tuple[str | None, bool | None]]:
    """Part in which equal definitions may differ: of each column its default, and whether it is computed."""
    return [(column.default, column.computed) for column in definition.columns]


def with_defaults(definition: TableDefinition, source: TableDefinition | None) -> TableDefinition:
    """The definition with the defaults that another one of the same columns tells, where it tells none itself."""
    if source is None:
        return definition
    by_name = {column.name: column for column in source.columns}
    columns = tuple(_with_default(column, by_name.get(column.name)) for column in definition.columns)
    return replace(definition, columns=columns)


def without_defaults(definition: TableDefinition) -> TableDefinition:
    """The definition as a log tells it."""
    return replace(
        definition, columns=tuple(replace(column, default=None, computed=None) for column in definition.columns)
    )


def _with_default(column: Column, source: Column | None) -> Column:
    if source is None or source.name is None:
        return column
    column = replace(column, invisible=source.invisible if column.invisible is None else column.invisible)
    if (column.default, column.computed) != (None, None):
        return column
    is_number = column.type.has_labels and column.labels != source.labels  # its values are no labels in the lake
    return replace(column, default=None if is_number else source.default, computed=source.computed)


def with_names(logged: TableDefinition, definition: TableDefinition) -> TableDefinition | None:
    """A definition of a log that tells types alone, with what is known besides; None where the types are others."""
    definition = as_logged(logged, definition)
    codes = [[OLD_TWINS.get(c.type_code, c.type_code) for c in side.columns] for side in (logged, definition)]
    if codes[0] != codes[1]:
        return None
    return replace(definition, name=logged.name, columns=tuple(map(_completed, logged.columns, definition.columns)))


def _completed(logged: Column, column: Column) -> Column:
    def first(first_value: Any, fallback: Any) -> Any:
        return fallback if first_value is None else first_value

    return replace(
        logged,
        name=column.name,
        unsigned=first(logged.unsigned, column.unsigned),
        charset=first(logged.charset, column.charset),
        labels=first(logged.labels, column.labels),
        declared=first(logged.declared, column.declared),
    )


def column_list(definition: TableDefinition) -> str:
    """Names and types, for messages."""
    return ", ".join(
        f"{name} {column.sql_type}" for name, column in zip(definition.column_names(), definition.columns, strict=True)
    )


def as_logged(logged: TableDefinition, definition: TableDefinition) -> TableDefinition:
    """A server's definition, with the types that the log may write as others as it writes them."""
    if len(logged.columns) != len(definition.columns):
        return definition
    return replace(definition, columns=tuple(map(_as_written, logged.columns, definition.columns)))


def _as_written(logged: Column, column: Column) -> Column:
    """Temporal types in their old format keep their digits; MariaDB's VECTOR is a VARBINARY, its JSON a LONGTEXT."""
    if logged.type_code == OLD_TWINS.get(column.type_code):
        return replace(column, type_code=logged.type_code, meta=logged.meta, declared=column.sql_type)
    if (column.type_code, logged.type_code) == (_LONG["vector"], _COUNTED["varbinary"]):
        return replace(column, type_code=logged.type_code, meta=logged.meta, charset=63)
    if (column.type_code, logged.type_code) == (_LONG["json"], 252):
        return replace(column, type_code=logged.type_code, meta=4, charset=_UTF8MB4_BIN)
    return column


def as_mariadb_logs(definition: TableDefinition) -> TableDefinition:
    """A definition by statements as MariaDB's log has it: its JSON is a LONGTEXT, its VECTOR a VARBINARY."""
    return replace(definition, columns=tuple(map(_as_mariadb_logs, definition.columns)))


def _as_mariadb_logs(column: Column) -> Column:
    if column.type_code == _LONG["json"]:
        return replace(column, type_code=252, meta=4, charset=_UTF8MB4_BIN)
    if column.type_code == _LONG["vector"] and (size := re.search(r"[0-9]+", column.declared or "")):
        return replace(column, type_code=_COUNTED["varbinary"], meta=4 * int(size[0]), charset=63)
    return column


def is_known(column: Column) -> bool:
    """True if a server's definition names a type and a collation that this version knows."""
    return column.type_code != _UNKNOWN


def _agrees(logged: Column, column: Column) -> bool:
    same_sign = logged.unsigned is None or logged.unsigned == column.unsigned
    same_text = logged.charset in (None, column.charset) or _is_same_charset(logged.charset, column.charset)
    return same_sign and same_text and logged.nullable == column.nullable


def _is_same_charset(left: int | None, right: int | None) -> bool:
    """True if two collations are of one character set, which is all that a value's bytes depend on."""
    try:
        return None not in (left, right) and charset_of(left) == charset_of(right)  # type: ignore[arg-type] # not None
    except Unsupported:
        return False


def with_numbered_columns(logged: TableDefinition) -> TableDefinition:
    """The definition of rows whose columns nothing names: ``@1``, ``@2``, … by position, and no key.

    A column keeps the number that it has here. An integer whose sign is not told is one
    of either sign, text of unknown character set and labels that are not told stay so.
    """
    pairs = zip(logged.column_names(), logged.columns, strict=True)
    columns = tuple(replace(column, name=name, declared=_sign(column)) for name, column in pairs)
    return replace(logged, columns=columns, key=(), index=None, numbered=True)


def _sign(column: Column) -> str | None:
    is_open = column.unsigned is None and (EITHER_SIGN, column.type_code) in DECLARED
    return EITHER_SIGN if is_open else column.declared


def to_json(definition: TableDefinition) -> str:
    fields = asdict(definition)
    for column in fields["columns"]:
        del column["label_bytes"]
    if not definition.numbered:
        del fields["numbered"]
    return json.dumps(fields, ensure_ascii=False)


def from_json(text: str) -> TableDefinition:
    raw = json.loads(text)
    columns = [
        Column(**{**fields, "labels": fields["labels"] and tuple(fields["labels"])}) for fields in raw["columns"]
    ]
    key = raw["key"]
    key = None if key is None else tuple(key)
    return TableDefinition(
        TableName(**raw["name"]), tuple(columns), key, raw.get("index"), numbered=raw.get("numbered", False)
    )


def column_of_row(row: dict[str, Any], collations: Mapping[str, int]) -> Column:
    """One row of information_schema.COLUMNS as TABLE_MAP would describe it.

    For unknown types and collations the code is _UNKNOWN. collations: ids by name.
    """
    code, meta = _layout(row)
    is_text = code in _TEXTUAL
    collation = collations.get(row["collation"]) if row["collation"] else 63 if is_text else None
    return Column(
        name=row["name"],
        type_code=_UNKNOWN if row["collation"] and collation is None else code,
        meta=meta,
        unsigned="unsigned" in row["declared"],
        nullable=row["nullable"] == "YES",
        charset=collation,
        labels=_labels(row["declared"]) if code in (247, 248) else None,
        declared=row["declared"] if row["kind"] in _ADDRESSES or row["kind"] == "vector" else None,
    )


def _labels(declared: str) -> tuple[str, ...]:
    return tuple(_ESCAPED.sub(_unescaped, label) for label in _LABEL.findall(declared))


def _unescaped(escaped: re.Match[str]) -> str:
    return {"''": "'", "\\0": "\0", "\\n": "\n", "\\r": "\r", "\\Z": "\x1a"}.get(escaped[0], escaped[0][-1])


def _layout(row: dict[str, Any]) -> tuple[int, int]:
    """Type code and metadata number, as binlog.types reads them."""
    kind = row["kind"]
    if kind in _MEASURED:
        code, meta = _MEASURED[kind](row)
        is_compressed = row["declared"].endswith(COMPRESSED)
        return (_DEFLATED[code], meta + (code == _COUNTED["varchar"])) if is_compressed else (code, meta)
    return next(((codes[kind], meta) for codes, meta in _CONSTANT if kind in codes), (_UNKNOWN, 0))


def _set_size(labels: int) -> int:
    """Bytes of a SET's bits: 1, 2, 3, 4 or 8."""
    size = (labels + 7) // 8
    return size if size <= 4 else 8


_CONSTANT = ((_FIXED, 0), (_LONG, 4), ({"float": 4}, 4), ({"double": 5}, 8))
_MEASURED: dict[str, Callable[[dict[str, Any]], tuple[int, int]]] = {
    "decimal": lambda row: (246, row["digits"] << 8 | row["scale"]),
    "bit": lambda row: (16, row["digits"]),
    "enum": lambda row: (247, 1 if len(_labels(row["declared"])) < 256 else 2),
    "set": lambda row: (248, _set_size(len(_labels(row["declared"])))),
}
_MEASURED |= {kind: lambda row: (_FRACTIONAL[row["kind"]], row["fraction"] or 0) for kind in _FRACTIONAL}
_MEASURED |= {kind: lambda row: (252, _BLOBS[row["kind"]]) for kind in _BLOBS}
_MEASURED |= {kind: lambda row: (254, _ADDRESSES[row["kind"]]) for kind in _ADDRESSES}
_MEASURED |= {kind: lambda row: (_COUNTED[row["kind"]], row["octets"]) for kind in _COUNTED}
