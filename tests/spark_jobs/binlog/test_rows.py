import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog.framing import TableMaps, open_slice
from spark_jobs.binlog.rows import Changes, Decoder
from spark_jobs.binlog.table import Column, TableDefinition, TableName, parse_table_map

RECORDED = Path("tests/recorded")


def definitions(file: Path) -> dict[str, TableDefinition]:
    maps = TableMaps()
    scanner, _ = open_slice(file.name, 0, None, file.read_bytes(), maps)
    found = [parse_table_map(event, scanner.format, file.name) for event in maps.events]
    return {str(definition.name): labelled(definition, file) for definition in found}


LABELS = {
    "kinds.strings": {"e": ("a,b", "c'd", "", "ü"), "s": ("x", "y", "ü", "z")},
    "small.t": {"@8": ("a", "b")},
}


def labelled(definition: TableDefinition, file: Path) -> TableDefinition:
    """With the labels of the SQL: MySQL 8.0.12 does not log their character set, so those beyond ASCII are not told."""
    statement = re.search(rf"create table {definition.name} .*", file.with_suffix(".sql").read_text())
    assert statement
    written = re.findall(r"(\w+) (?:enum|set)\(([^)]*)\)", statement[0])
    labels = {name: tuple(text.strip("'").split("','")) for name, text in written} | LABELS.get(str(definition.name), {})
    names = definition.column_names()
    columns = [replace(column, labels=labels.get(name)) for name, column in zip(names, definition.columns, strict=True)]
    return replace(definition, columns=tuple(columns))


def decoded(file: Path, definition: TableDefinition, **options: object) -> list[Changes]:
    return list(Decoder(definition, before="all", **options).decode(file.name, 0, None, file.read_bytes()))


def printed(column: Column, array: pa.Array) -> list[str | None]:
    """The values as the server prints them, its time zone UTC."""
    if pa.types.is_binary(array.type):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pa.types.is_floating(array.type):
        return array.to_pylist()
    if pa.types.is_decimal(array.type):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    texts = array.cast(pa.timestamp("us")) if pa.types.is_timestamp(array.type) else array
    texts = texts.cast(pa.string()).to_pylist()
    if pa.types.is_timestamp(array.type):
        end = 20 + column.meta if column.meta else 19
        return [None if text is None else text[:end] for text in texts]
    return texts


def rows_of(definition: TableDefinition, batch: pa.RecordBatch, raw: pa.Array | None) -> list[list[object]]:
    columns = [printed(column, array) for column, array in zip(definition.columns, batch.columns, strict=True)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    for row, exact in zip(rows, [None] * len(rows) if raw is None else raw.to_pylist(), strict=True):
        for name, text in exact or []:
            place = definition.column_names().index(name)
            assert row[place] is None, name
            row[place] = text
    return rows


def replayed(definition: TableDefinition, batches: list[Changes]) -> list[list[object]]:
    """The table's rows after the changes, in the order of its first column."""
    table: dict[tuple[object, ...], list[object]] = {}
    for changes in batches:
        after = rows_of(definition, changes.after, changes.raw)
        before = rows_of(definition, changes.before, changes.before_raw)
        for op, new, old in zip(changes.op.to_pylist(), after, before, strict=True):
            if op == 1:
                assert all(value is None for value in old)
                table[key(definition, new)] = new
            else:
                gone = table.pop(key(definition, old if op == 2 else new))
                assert gone == (old if op == 2 else new)
            if op == 2:
                table[key(definition, new)] = new
    return sorted(table.values(), key=lambda row: int(str(row[0])))


def key(definition: TableDefinition, row: list[object]) -> tuple[object, ...]:
    return tuple(row[ordinal] for ordinal in definition.key or (0,))


def recorded_tables() -> list[object]:
    return [
        pytest.param(file.with_suffix(".000001"), table, id=f"{file.stem}-{table}")
        for file in sorted(RECORDED.glob("*.json"))
        for table in json.loads(file.read_text())
    ]


@pytest.mark.parametrize("rows", [16384, 1])
@pytest.mark.parametrize("file, table", recorded_tables())
def test_recorded_rows_are_what_the_server_selected(file: Path, table: str, rows: int) -> None:
    expected = json.loads(file.with_suffix(".json").read_text())[table]
    definition = definitions(file)[table]
    if definition.named():
        assert definition.column_names() == expected["columns"]
    found = replayed(definition, decoded(file, definition, rows=rows))
    for column, place in zip(definition.columns, range(len(definition.columns)), strict=True):
        wanted = [row[place] for row in expected["rows"]]
        if pa.types.is_floating(column.arrow):
            wanted = [None if value is None else float(value) for value in wanted]
        assert [row[place] for row in found] == wanted, (column.name, column.sql_type)
