"""Rows of a query beside the same rows in the log.

Put here: that they are the same values. Not here: which rows are asked for (test_key_ranges.py).
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.binlog import Changes, Column, Decoder, Slicer, TableDefinition, TableName
from spark_jobs.ddl.definitions import with_server_definition
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyColumn, KeyRange
from spark_jobs.pipeline.initial_load.row_images import as_selected
from spark_jobs.pipeline.initial_load.selecting import Selecting, select
from spark_jobs.source.information_schema import on_server
from tests.differential.comparison import Log, connected, logged
from tests.differential.edges import edge_tables
from tests.differential.kinds import KINDS
from tests.differential.workload import Connection, Numbers, Writer, dialect_of, table_of
from tests.fix_mysql import Database
from tests.fix_servers import Servers
from tests.services.servers import SERVERS
from tests.spark_jobs.source.test_server import settings, source_of
from tests.twins import slow_loader
from tests.twins.slow_loader import decoded

ID = KeyColumn("id", "bigint")
ALL = KeyRange(None, None)
INT, JSON, DECIMAL, TIME = (
    Column("c", code, meta, unsigned=False) for code, meta in ((3, 0), (245, 4), (246, 20 << 8 | 10), (19, 3))
)


def one_column(column: Column) -> TableDefinition:
    return TableDefinition(TableName("shop", "t"), (column,), (0,))


@pytest.mark.parametrize(
    "column, text, value",
    [
        (INT, b"-2147483648", "-2147483648"),
        (JSON, b'"base64:type15:AAAA\nBBBB"', '"base64:type15:AAAA\\nBBBB"'),
        (DECIMAL, b"-0.0000000001", "-1E-10"),
        (DECIMAL, b"-1234567890.0123456789", "-1234567890.0123456789"),
        (TIME, b"-00:00:00.500", "-00:00:00.500"),
        (TIME, b"-838:59:59.000", "-838:59:59.000"),
        (Column("c", 10), b"2024-00-10", "None"),
        (Column("c", 5, 8), b"-0", "-0.0"),
        (Column("c", 15, 20, charset=8), b"\xe4", "ä"),
        (Column("c", 15, 20, charset=33), b"\xe4", "None"),
        (Column("c", 247, 1, labels=("x", "y")), b"2", "y"),
        (Column("c", 247, 1, labels=("x", "y")), b"0", ""),
    ],
)
def test_what_a_server_sends_becomes_the_value_of_the_log(column: Column, text: bytes, value: str) -> None:
    [changes] = decoded(one_column(column), [(text,)], "here")
    assert str(changes.after.column(0)[0].as_py()) == value


def test_what_a_column_cannot_hold_is_kept_as_text() -> None:
    [changes] = decoded(one_column(Column("c", 18, 2)), [(b"0000-00-00 00:00:00.00",), (None,)], "here")
    assert changes.after.column(0).to_pylist() == [None, None]
    assert changes.raw is not None
    assert changes.raw.to_pylist() == [[("c", "0000-00-00 00:00:00.00")], None]


def test_rows_are_decoded_in_pieces_and_in_order() -> None:
    rows = [(str(number).encode(),) for number in range(20_000)]
    parts = list(decoded(one_column(INT), iter(rows), "here"))
    assert len(parts) > 1
    assert [value for part in parts for value in part.after.column(0).to_pylist()] == list(range(20_000))


def test_a_type_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(TableStopped, match=r"shop\.t: the type of its column c"):
        as_selected(one_column(Column("c", -1)))


def test_names_may_hold_anything() -> None:
    key = Key("shop%s", "or`ders", (KeyColumn("i%d", "int"),))
    definition = TableDefinition(TableName("shop%s", "or`ders"), (Column("i%d", 3), Column("f`", 4, 4)), (0,))
    statement, parameters = select(definition, key, KeyRange(("7",), None))
    assert statement % tuple(parameters) == ("SELECT `i%d`, `f```" + " FROM `shop%s`.`or``ders` WHERE `i%d` > 7")


def rows_of_log(log: Log, definition: TableDefinition) -> Iterator[Changes]:
    """The table's changes in a log, read by a server's definition."""
    decoder = Decoder(definition)
    for name, chunks in log.chunks():
        slicer = Slicer(name, 0, None)
        batches = [batch for chunk in chunks for batch in slicer.feed(chunk)] + list(slicer.finish())
        for batch in batches:
            for row in batch.to_pylist():
                yield from decoder.decode(name, row["start"], row["context"], row["payload"])


def by_id(parts: Iterable[Changes]) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for part in parts:
        raws = [None] * len(part) if part.raw is None else part.raw.to_pylist()
        for cells, raw in zip(part.after.to_pylist(), raws, strict=True):
            rows[cells["id"]] = {name: repr(cell) for name, cell in cells.items()} | {"_raw": repr(raw)}
    return rows


def fill(random: Random, connection: Connection, table: Any) -> None:
    """Rows of all sorts, also those that no strict server takes."""
    writer = Writer(random, table, Numbers())
    for at in range(8):
        writer.odd = at > 2
        connection.attempt(writer.insert())


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.slow
@pytest.mark.parametrize("name", SERVERS)
def test_values_are_those_of_the_log(name: str, servers: Servers) -> None:
    server = servers.get(name)
    seed, schema = 5, "selected"
    random = Random(seed)
    with connected(server) as connection:
        dialect = dialect_of(connection)
        kinds = [name for name, kind in KINDS.items() if kind.here(dialect)]
        groups = [kinds[at::4] for at in range(4)] + [random.sample(kinds, 10) for _ in range(2)]
        tables = [table_of(random, dialect, (schema, f"t{at}"), "InnoDB", members) for at, members in enumerate(groups)]
        connection.execute(f"DROP DATABASE IF EXISTS {schema}")
        connection.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
        with logged(server, connection) as log:
            connection.execute("SET SESSION sql_mode = '', innodb_strict_mode = OFF")
            for table in tables:
                connection.execute(table.create)
                fill(random, connection, table)
            edges = list(edge_tables(dialect))
            for name_of_edges, columns, rows in edges:
                connection.execute(f"CREATE TABLE {schema}.{name_of_edges} ({columns}) CHARACTER SET utf8mb4")
                for row in rows:
                    connection.execute(f"INSERT INTO {schema}.{name_of_edges} VALUES {row}")
        declared = on_server(source_of(server))
        for table in tables:
            compare(server, log, declared[TableName(schema, table.name)], minimum=20)
        for name_of_edges, _, rows in edges:
            compare(server, log, declared[TableName(schema, name_of_edges)], minimum=len(rows) - 1)
        connection.execute(f"DROP DATABASE {schema}")


def compare(server: MySQLServer, log: Log, declared: TableDefinition, minimum: int) -> None:
    selecting = Selecting("shop", settings(server), declared, Key(declared.name.schema, declared.name.table, (ID,)))
    fast, slow = (table_of_parts(parts) for parts in (selecting.read(ALL), slow_loader.read(selecting, ALL)))
    assert fast.equals(slow), (declared, fast.to_pylist(), slow.to_pylist())
    selected = by_id(selecting.read(ALL))
    definition = as_logged(log, declared)
    cells_of_log = by_id(rows_of_log(log, definition))
    assert len(selected) > minimum
    assert selected.keys() == cells_of_log.keys()
    for row, cells in cells_of_log.items():
        different = {
            name: (selected[row][name][:200], cell[:200]) for name, cell in cells.items() if selected[row][name] != cell
        }
        assert not different, (definition, row)


def table_of_parts(parts: Iterable[Changes]) -> pa.Table:
    """All that a reader gives of rows; equal tables have equal bytes, NaN and the sign of zero included."""
    raw_type = pa.map_(pa.string(), pa.string())
    tables = []
    for part in parts:
        raw = pa.nulls(len(part), raw_type) if part.raw is None else part.raw.cast(raw_type)
        floating = [pa.types.is_floating(column.type) for column in part.after.columns]
        columns = [
            pc.cast(column, pa.string()) if is_floating else column
            for column, is_floating in zip(part.after.columns, floating, strict=True)
        ]
        tables.append(pa.Table.from_arrays([*columns, raw], [*part.after.schema.names, "raw"]))
    return pa.concat_tables(tables).combine_chunks().sort_by("id")


def as_logged(log: Log, declared: TableDefinition) -> TableDefinition:
    """The definition in the log, with what the server tells besides."""
    from spark_jobs.binlog import definitions_of

    for name, chunks in log.chunks():
        slicer = Slicer(name, 0, None)
        batches = [batch for chunk in chunks for batch in slicer.feed(chunk)] + list(slicer.finish())
        for batch in batches:
            for row in batch.to_pylist():
                for definition in definitions_of(name, row["start"], row["context"], row["payload"]):
                    if definition.name == declared.name:
                        return with_server_definition("shop", definition, (Position("log", 4), declared), None)
    raise AssertionError(f"{declared.name} is not in the log")


@pytest.mark.mysql
def test_a_table_that_is_gone_is_named(database: Database) -> None:
    key = Key(database.name, "gone", (ID,))
    definition = TableDefinition(TableName(database.name, "gone"), (Column("id", 3),), (0,))
    with pytest.raises(SourceError, match=rf"shop: {database.name}\.gone: .*doesn't exist"):
        list(Selecting("shop", settings(database.server), definition, key).read(KeyRange(None, None)))
