"""One value through the whole decoder, three ways: whole, cut after every byte, and with another value behind it.

Put here: the checker that the tables of cases in tests/spark_jobs/binlog/types share. Not here: cases.
"""

from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.binlog.events.scanner import TableMaps, open_slice
from spark_jobs.binlog.events.table_map import Column, TableDefinition, parse_table_map
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.binlogs.segment_types import INT, ColumnType

NAME = "shop.t"
FILE = "log.000001"


def definition_of(content: bytes) -> TableDefinition:
    """The definition that the first TABLE_MAP of a file gives."""
    maps = TableMaps()
    scanner, _ = open_slice(FILE, 0, None, content, maps)
    return parse_table_map(maps.events[0], scanner.format, FILE)


def column_of(kind: ColumnType) -> Column:
    return definition_of(SegmentSpec([Table(NAME, value=kind)], [Insert(NAME, (None,))]).to_bytes()).columns[0]


def decode(content: bytes, collation: int | None = None, definition: TableDefinition | None = None) -> Changes:
    """The only batch of a file about one table; ``collation``: of its first column, in place of the file's."""
    definition = definition or definition_of(content)
    if collation is not None:
        columns = (replace(definition.columns[0], charset=collation), *definition.columns[1:])
        definition = replace(definition, columns=columns)
    [changes] = Decoder(definition, before="all").decode(FILE, 0, None, content)
    return changes


def read(kind: ColumnType, wire: bytes) -> tuple[Any, str | None]:
    """A value and its exact text where the typed column cannot hold it, another value behind it."""
    table = Table(NAME, value=kind, behind=INT)
    changes = decode(SegmentSpec([table], [Insert(NAME, (Raw(wire), 0x01020304))]).to_bytes())
    changes.after.validate(full=True)
    assert changes.after["behind"].to_pylist() == [0x01020304]
    raw = dict(changes.raw[0].as_py()) if changes.raw is not None else {}
    assert raw.keys() <= {"value"}
    return changes.after["value"][0].as_py(), raw.get("value")


def check(kind: ColumnType, wire: str, value: Any, raw: str | None = None) -> None:
    """Asserts what the bytes (hex) mean, and that none of their beginnings means anything."""
    stored = bytes.fromhex(wire)
    result = read(kind, stored)
    assert result == (value, raw)
    assert type(result[0]) is type(value)
    for length in range(len(stored)):
        content = SegmentSpec([Table(NAME, value=kind)], [Insert(NAME, (Raw(stored[:length]),))]).to_bytes()
        with pytest.raises(DecodeError, match=r"log.000001:\d+: .*shop.t"):
            decode(content)
