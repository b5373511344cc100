"""Rows of the schema history: facts and definitions to Arrow and back.

Put here: the table's columns. Not here: reading and writing it (history.py).
"""

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.binlog.types.charsets import charset_of
from spark_jobs.errors import Unsupported
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import TableVersion
from spark_jobs.schema.tracker import type_of_column
from spark_jobs.text.sql import identifier

_COLUMN = {
    "name": ("STRING", pa.string()),
    "type": ("STRING", pa.string()),
    "nullable": ("BOOLEAN", pa.bool_()),
    "charset": ("STRING", pa.string()),
    "default": ("STRING", pa.string()),
    "generated": ("BOOLEAN", pa.bool_()),
    "invisible": ("BOOLEAN", pa.bool_()),
    "unsigned": ("BOOLEAN", pa.bool_()),
    "labels": ("ARRAY<STRING>", pa.list_(pa.string())),
    "declared": ("STRING", pa.string()),
    "type_code": ("INT", pa.int32()),
    "meta": ("BIGINT", pa.int64()),
    "collation": ("INT", pa.int32()),
}
_TYPES = {
    "schema": ("STRING", pa.string()),
    "table": ("STRING", pa.string()),
    "stretch": ("INT", pa.int32()),
    "number": ("BIGINT", pa.int64()),
    "file": ("STRING", pa.string()),
    "offset": ("BIGINT", pa.int64()),
    "origin": ("STRING", pa.string()),
    "committed_at": ("TIMESTAMP", pa.timestamp("us", "UTC")),
    "gtid": ("STRING", pa.string()),
    "statement": ("STRING", pa.string()),
    "database": ("STRING", pa.string()),
    "session": ("MAP<STRING, STRING>", pa.map_(pa.string(), pa.string())),
    "columns": (
        f"ARRAY<STRUCT<{', '.join(f'{identifier(name)}: {kind}' for name, (kind, _) in _COLUMN.items())}>>",
        pa.list_(pa.struct([(name, kind) for name, (_, kind) in _COLUMN.items()])),
    ),
    "key": ("ARRAY<STRING>", pa.list_(pa.string())),
    "key_index": ("STRING", pa.string()),
    "dropped": ("BOOLEAN", pa.bool_()),
    "renamed_from": ("STRING", pa.string()),
    "renamed_to": ("STRING", pa.string()),
    "holds": ("BOOLEAN", pa.bool_()),
    "differs": ("ARRAY<STRING>", pa.list_(pa.string())),
    "note": ("STRING", pa.string()),
}
COLUMNS = {name: kind for name, (kind, _) in _TYPES.items()}
"""Names and Spark types; docs/lake.md says what they mean."""
ARROW = pa.schema([(name, kind) for name, (_, kind) in _TYPES.items()])


def row_of(version: TableVersion) -> dict[str, Any]:
    """The row of a version, by ``COLUMNS``."""
    # One row a version, with names where the definition has ordinals.
    definition = version.definition
    names = definition.column_names() if definition else []
    return {
        "schema": version.name.schema,
        "table": version.name.table,
        "stretch": version.at.stretch,
        "number": version.at.number,
        "file": version.at.file,
        "offset": version.at.offset,
        "origin": version.origin,
        "committed_at": version.committed_at,
        "gtid": version.gtid,
        "statement": version.statement,
        "database": version.database,
        "session": list(version.variables.items()) or None,
        "columns": cells(definition) if definition else None,
        "key": [names[at] for at in definition.key] if definition and definition.key is not None else None,
        "key_index": definition.index if definition else None,
        "dropped": version.is_dropped,
        "renamed_from": _quoted_name(version.renamed_from),
        "renamed_to": _quoted_name(version.renamed_to),
        "holds": version.holds,
        "differs": list(version.differs),
        "note": version.note,
    }


def _quoted_name(name: TableName | None) -> str | None:
    """Name in back-ticks: it may have dots in it."""
    return f"{identifier(name.schema)}.{identifier(name.table)}" if name else None


def _parsed_name(text: str | None) -> TableName | None:
    if text is None:
        return None
    match = re.fullmatch(r"`((?:[^`]|``)*)`\.`((?:[^`]|``)*)`", text, re.DOTALL)
    assert match, text
    return TableName(*(part.replace("``", "`") for part in match.groups()))


def cells(definition: TableDefinition) -> list[dict[str, Any]]:
    """The definition's columns as rows of the history; columns without a name are ``@1``, ``@2``, … by position."""
    names = zip(definition.column_names(), definition.columns, strict=True)
    return [_column_cells(name, column) for name, column in names]


def _column_cells(name: str, column: Column) -> dict[str, Any]:
    is_text = column.charset is not None
    return {
        "name": name,
        "type": type_of_column(column),
        "nullable": column.nullable,
        "charset": _collation_charset(column.charset) if is_text else None,
        "default": column.default,
        "generated": column.computed,
        "invisible": column.invisible,
        "unsigned": column.unsigned,
        "labels": None if column.labels is None else list(column.labels),
        "declared": column.declared,
        "type_code": column.type_code,
        "meta": column.meta,
        "collation": column.charset,
    }


def _collation_charset(collation: int | None) -> str | None:
    try:
        return None if collation is None else charset_of(collation)
    except Unsupported:
        return None


def version_of(row: dict[str, Any]) -> TableVersion:
    """The version that a row of ``COLUMNS`` stores; the inverse of ``row_of``."""
    name = TableName(row["schema"], row["table"])
    definition = None
    # The key is stored by names, and is ordinals of columns here.
    if row["columns"] is not None:
        columns = tuple(map(_column, row["columns"]))
        bare = TableDefinition(name, columns)
        names = bare.column_names()
        key = None if row["key"] is None else tuple(names.index(name) for name in row["key"])
        definition = replace(bare, key=key, index=row["key_index"])
    return TableVersion(
        name,
        Position(row["file"], row["offset"], row["stretch"]),
        row["origin"],
        definition,
        is_dropped=row["dropped"],
        holds=row["holds"],
        differs=tuple(row["differs"] or ()),
        note=row["note"],
        renamed_from=_parsed_name(row["renamed_from"]),
        renamed_to=_parsed_name(row["renamed_to"]),
        statement=row["statement"],
        database=row["database"],
        variables=dict(row["session"] or ()),
        gtid=row["gtid"],
        committed_at=row["committed_at"],
    )


def _column(stored: dict[str, Any]) -> Column:
    return Column(
        name=None if re.fullmatch(r"@\d+", stored["name"]) else stored["name"],
        type_code=stored["type_code"],
        meta=stored["meta"],
        unsigned=stored["unsigned"],
        nullable=stored["nullable"],
        charset=stored["collation"],
        labels=None if stored["labels"] is None else tuple(stored["labels"]),
        declared=stored["declared"],
        default=stored["default"],
        computed=stored["generated"],
        invisible=stored["invisible"],
    )
