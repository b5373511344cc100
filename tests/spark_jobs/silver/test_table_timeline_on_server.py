"""Random DDL and DML on real servers, carried out row by row in plain Python: the server's tables at every pause.

It is the course that is tested here, with the decoder, without Spark: how statements are read, and how rows are led
through them.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog import (
    Decoder,
    FormatDescription,
    Slicer,
    TableDefinition,
    TableName,
    definitions_of,
    parse_table_map,
    read_session,
)
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableExtent
from spark_jobs.ddl.classify import Effect, classify
from spark_jobs.ddl.default_values import Fill
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.projection import column_origins
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableContents, TimelineStep
from spark_jobs.silver.timeline.build import build, steps_of
from spark_jobs.silver.timeline.inputs import TimelineInputs
from tests.fix_mysql import Database, database_of
from tests.fix_servers import TELLING, Servers, telling
from tests.services.schema_dumps import dump_position
from tests.twins.ddl_stream import stream_for

pytestmark = [pytest.mark.mysql]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
RUNS = int(os.environ.get("STRATALOG_RUNS", "1"))
STEPS = int(os.environ.get("STRATALOG_STEPS", "60"))

Row = dict[str, Any]


class Log:
    """A part of a server's log in slices, as bronze has it, and what a survey says of it."""

    def __init__(self, file: str, data: bytes, start: int) -> None:
        self.file = file
        slicer = Slicer(file, 0, None)
        batches = [*slicer.feed(data), *slicer.finish()]
        rows = [row for batch in batches for row in batch.to_pylist()]
        self.slices = [row for row in rows if row["start"] >= start]
        self.stop = slicer.complete
        self.head = next(iter(rows))["payload"][4:]

    def at(self, offset: int) -> Position:
        return Position(self.file, offset)

    def survey(self, until: Position) -> RangeScan:
        """Of what is before a position."""
        length = int.from_bytes(self.head[9:13], "little")
        format_ = FormatDescription.parse(self.head[:length], self.file)
        tables: dict[TableName, TableExtent] = {}
        statements = []
        for row in self.slices:
            here = self.at(row["start"])
            if here >= until:
                break
            for lake_table in row["tables"]:
                name = TableName(lake_table["schema"], lake_table["table"])
                occurrence = tables.get(name, TableExtent(here, here, ()))
                tables[name] = replace(occurrence, last=here)
            for event in row["maps"]:
                definition = parse_table_map(event, format_, self.file)
                occurrence = tables[definition.name]
                tables[definition.name] = replace(occurrence, definitions=(*occurrence.definitions, (here, definition)))
            if row["kind"] == "statement":
                judged, session = classify(row["statement"], row["database"]), read_session(row["payload"])
                statements.append(LoggedStatement(here, judged, self.at(row["stop"]), row["database"], None, session))
        return RangeScan(
            tables, tuple(statement for statement in statements if statement.statement.effect is not Effect.NONE)
        )

    def within(self, name: TableName, part: Range) -> list[dict[str, Any]]:
        table_fields = {"schema": name.schema, "table": name.table}
        inside = [row for row in self.slices if part.start <= self.at(row["start"]) < part.stop]
        return [row for row in inside if row["kind"] == "rows" and table_fields in row["tables"]]

    def first(self, name: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
        first_definitions: dict[int, TableDefinition] = {}
        for at, part in enumerate(parts):
            for row in self.within(name, part)[:1]:
                definitions = definitions_of(self.file, row["start"], row["context"], row["payload"])
                first_definitions[at] = next(definition for definition in definitions if definition.name == name)
        return first_definitions


def filled(fill: Fill | None, kind: str) -> Any:
    """What a new column has; its exact text where the lake's type does not hold it."""
    return None if fill is None else fill.exact or value_of(fill.sql, kind)


def value_of(literal: str, kind: str) -> Any:
    """What CAST(literal AS kind) gives."""
    text = re.sub(r"\\(.)", r"\1", literal[1:-1]) if literal.startswith("'") else literal
    if kind == "STRING":
        return text
    if kind == "BINARY":
        return bytes.fromhex(literal[2:-1])
    if kind == "DATE":
        return date.fromisoformat(text)
    if kind == "TIMESTAMP_NTZ":
        return datetime.fromisoformat(text)
    return widened(Decimal(text), kind)


def widened(value: Any, kind: str) -> Any:
    """A value as a wider type has it."""
    if value is None or isinstance(value, str | bytes | date):
        return value
    if kind == "FLOAT":
        return float(np.float32(float(value)))
    if kind == "DOUBLE":
        return float(value)
    if kind.startswith("DECIMAL"):
        scale = int(kind[8:-1].partition(",")[2])
        return Decimal(value).quantize(Decimal(1).scaleb(-scale))
    return int(value)


class Table:
    """A table on its way through its course."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self.rows: list[Row] = []

    def follow(self, log: Log, name: TableName, steps: Iterable[TimelineStep]) -> "Table":
        for step in steps:
            if isinstance(step, SchemaChange):
                self.schema_change(log, step)
            else:
                self.change(log, name, step)
        return self

    def schema_change(self, log: Log, change: SchemaChange) -> None:
        if change.inherited is not None and change.origins is None:
            source = Table().follow(log, change.inherited.name, change.inherited.steps)
            self.types, self.rows = source.types, source.rows
        elif change.empties and change.inherited is None:
            self.rows = []
        if change.state.definition is None:
            return
        columns = silver.columns(change.state.definition)
        origins = column_origins(change, self.types, columns.types)
        moved = []
        for row in self.rows:
            new: Row = {}
            for name, kind in columns.types.items():
                origin = origins[name]
                if origin is None:
                    new[name] = filled(change.fills.get(name), kind)
                else:
                    new[name] = widened(row[origin], kind)
            moved.append(new)
        self.types = columns.types
        self.rows = moved

    def change(self, log: Log, name: TableName, rows: DataRange) -> None:
        columns = silver.columns(rows.definition)
        self.types = columns.types
        decoder = Decoder(rows.definition, before="all")
        for part in log.within(name, rows.range):
            transaction = {"committed_us": 0, "transaction_start": part["transaction_start"]}
            payload = pa.py_buffer(part["payload"])
            for changes in decoder.decode(log.file, part["start"], part["context"], payload, **transaction):
                before, after = exact(changes.before, changes.before_raw), exact(changes.after, changes.raw)
                for op, old, new in zip(changes.op.to_pylist(), before, after, strict=True):
                    for removed in [old] if op == 2 else [new] if op == 3 else []:
                        self.remove(removed, columns.key or tuple(columns.types))
                    if op != 3:
                        if columns.key:
                            self.remove(new, columns.key)
                        self.rows.append(new)

    def remove(self, removed: Row, key: Sequence[str]) -> None:
        """One row that has the values of the key's columns, if any has."""
        at = next((at for at, row in enumerate(self.rows) if all(row[name] == removed[name] for name in key)), None)
        if at is not None:
            del self.rows[at]


def exact(rows: pa.RecordBatch, raw: pa.MapArray | None) -> list[Row]:
    """Rows with the texts of what their columns' types do not hold."""
    texts = raw.to_pylist() if raw is not None else [None] * len(rows)
    return [row | dict(row_texts or ()) for row, row_texts in zip(rows.to_pylist(), texts, strict=True)]


def display_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with whole numbers as integers: BIGINT UNSIGNED is a decimal in the lake."""
    return tuple(int(cell) if isinstance(cell, Decimal) and cell == cell.to_integral_value() else cell for cell in row)


def of_server(database: Database, table: str, types: dict[str, str]) -> list[str]:
    described = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "ORDER BY ordinal_position",
        (database.name, table),
    )
    assert [name for name, _ in described] == list(types)
    forms = {"time": "CAST(`{}` AS CHAR)", "set": "CAST(`{}` AS CHAR)", "bit": "`{}` + 0"}
    listed = ", ".join(forms.get(kind, "`{}`").format(name) for name, kind in described)
    return sorted(repr(display_of(row)) for row in database.execute(f"SELECT {listed} FROM {table}"))


def table_at_end(log: Log, name: TableName) -> Table:
    """What a table's course leads to; names that tables take from others bring their rows along."""
    rules = TimelineInputs(lambda logged, _: logged, log.first)

    @cache
    def contents(was: TableName, until: Position) -> TableContents:
        return build(log.survey(until), was, Range(log.at(0), until), None, replace(rules, contents=contents))

    log_range = Range(log.at(0), log.at(log.stop))
    return Table().follow(
        log, name, steps_of(log.survey(log_range.stop), name, log_range, None, replace(rules, contents=contents))
    )


def require_same(database: Database, log: Log) -> list[int]:
    """Every table that is there: how many rows each of them has."""
    counts = []
    for (table,) in database.execute("SHOW TABLES"):
        timeline_table = table_at_end(log, TableName(database.name, table))
        rows = sorted(repr(display_of(tuple(row.values()))) for row in timeline_table.rows)
        if database.execute(f"SELECT * FROM {table}"):
            assert rows == of_server(database, table, timeline_table.types), table
        else:  # whose columns are known from the first row on
            assert not rows, table
        counts.append(len(timeline_table.rows))
    return counts


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
@pytest.mark.parametrize("tables", [["t"], ["t", "u", "v"]], ids=len)
@pytest.mark.parametrize("server, metadata", TELLING)
def test_courses_lead_to_the_server_s_tables(
    server: str, metadata: str | None, tables: list[str], seed: int, servers: Servers, summary: list[str]
) -> None:
    running = servers.get(server)
    with telling(running, metadata), database_of(running) as database:
        database.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
        database.execute("FLUSH BINARY LOGS")
        file, _ = dump_position(running).split(":")
        counts: list[int] = []
        last = [f"REPLACE INTO {table} (id) VALUES (1)" for table in tables]
        statements = [*stream_for(server, metadata, seed, tables).statements(STEPS), *last]
        for at, statement in enumerate(statements):
            database.execute(statement)
            if at % 30 == 0 or statement is last[-1]:
                log = Log(file, (running.data / file).read_bytes(), 4)
                counts += require_same(database, log)
    label = f"courses, {server}, {metadata or 'no metadata'}, {len(tables)} tables, seed {seed}"
    summary.append(f"{label}: {len(statements)} statements, {len(counts)} tables compared, {sum(counts)} rows")
