from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import (
    LoggedStatement,
    RangeScan,
    TableExtent,
    common_definition,
    scan_effective,
    scan_metadata,
)
from spark_jobs.ddl.classify import Effect, classify
from spark_jobs.errors import LakeError, TableStopped
from spark_jobs.log.position import Position, Range
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT, VARCHAR
from tests.binlogs.slicing import bronze_of, bronze_rows

NAME = TableName("shop", "t")


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def surveyed(*statements: tuple[int, str], first: int | None = 100) -> RangeScan:
    tables = {} if first is None else {NAME: TableExtent(at(first), at(900), ())}
    logged = tuple(
        LoggedStatement(at(offset), classify(text, "shop"), at(offset + 10), "shop") for offset, text in statements
    )
    return RangeScan(tables, logged)


def test_the_last_change_is_the_last_statement_that_names_the_table() -> None:
    range_scan = surveyed((50, "CREATE TABLE t (a INT)"), (70, "ALTER TABLE t ADD b INT"), (90, "DROP TABLE other"))
    assert range_scan.last_change(NAME) == at(70)
    assert range_scan.last_change(TableName("crm", "t")) is None


TEXTS = [
    *(
        "CREATE TABLE t (a INT)",
        "ALTER TABLE T ADD b INT",
        "DROP TABLE other, t",
        "TRUNCATE crm.t",
        "DROP DATABASE shop",
    ),
    *("RENAME TABLE t TO u", "CREATE INDEX i ON t (a)", "CALL p()", "XA ROLLBACK 'x'", "INSERT INTO t VALUES (1)"),
    *("CREATE TABLE `t t` LIKE t", "ALTER TABLE t WHATEVER", "DROP TABLE IF EXISTS a, b"),
]


@pytest.mark.parametrize("name", [NAME, TableName("SHOP", "T"), TableName("crm", "t"), TableName("shop", "u")], ids=str)
def test_statements_about_a_table_are_those_that_name_it_in_order(name: TableName) -> None:
    range_scan = surveyed(*((50 + 10 * nth, text) for nth, text in enumerate(TEXTS)))
    named_in = [statement for statement in range_scan.statements if statement.statement.names(name.schema, name.table)]
    about, indexes = range_scan.about(name, at(70)), range_scan.indexes(name, at(4))
    assert about == [
        logged for logged in named_in if logged.position >= at(70) and logged.statement.effect is not Effect.INDEXES
    ]
    assert indexes == [logged for logged in named_in if logged.statement.effect is Effect.INDEXES]
    assert range_scan.last_change(name) == max(logged.position for logged in named_in if logged not in indexes)


def definition(*columns: Column) -> TableDefinition:
    return TableDefinition(NAME, columns, (0,))


ID = Column("id", 3)


def test_rows_of_one_definition_agree() -> None:
    assert common_definition(NAME, [(at(4), definition(ID)), (at(9), definition(ID))]) == definition(ID)


@pytest.mark.parametrize(
    "second, expected",
    [
        (definition(ID, Column("n", 8)), "id int, n bigint"),
        (definition(Column("key", 3)), "key int"),
        (definition(Column("id", 3, unsigned=True)), "id int unsigned"),
    ],
)
def test_rows_of_two_definitions_stop_the_table(second: TableDefinition, expected: str) -> None:
    with pytest.raises(TableStopped) as stopped:
        common_definition(NAME, [(at(4), definition(ID)), (at(9), second)])
    assert str(stopped.value) == (
        f"shop.t: its columns differ between b.000001:4 (id int) and b.000001:9 ({expected}), "
        "and no statement between them says why"
    )


def test_bronze_tells_tables_definitions_and_statements(tmp_path: Path) -> None:
    spec = SegmentSpec(
        tables=[
            Table("shop.t", key=["id"], id=INT.NOT_NULL),
            Table("shop.u", key=["id"], id=INT.NOT_NULL, v=VARCHAR(9)),
        ],
        changes=[
            *(Insert("shop.t", (1,)), Commit(), Statement("shop", "TRUNCATE u"), Statement("shop", "FLUSH TABLES")),
            *(Insert("shop.u", (1, None)), Insert("shop.t", (2,)), Commit()),
        ],
    )
    table, version = bronze_of(tmp_path / "bronze", [bronze_rows("b.000001", spec.to_bytes(), target=1)])
    range_scan = scan_metadata(read_index(table, version, Range(at(0), Position("b.000002", 4))))
    assert set(range_scan.tables) == {NAME, TableName("shop", "u")}
    assert [
        (statement.statement.text, statement.statement.names("shop", "u")) for statement in range_scan.statements
    ] == [("TRUNCATE u", True)]
    occurrence = range_scan.tables[NAME]
    assert occurrence.first < range_scan.statements[0].position < occurrence.last
    assert common_definition(NAME, occurrence.definitions).column_names() == ["id"]
    (logged,) = range_scan.about(TableName("shop", "u"), at(4))
    assert (logged.database, logged.position < logged.stop <= occurrence.last) == ("shop", True)
    assert range_scan.about(NAME, at(4)) == range_scan.about(TableName("shop", "u"), logged.stop) == []


def test_rows_of_tables_that_a_slice_does_not_name_are_refused(tmp_path: Path) -> None:
    spec = SegmentSpec([Table("shop.t", key=["id"], id=INT.NOT_NULL)], [Insert("shop.t", (1,)), Commit()])
    rows = bronze_rows("b.000001", spec.to_bytes(), target=1)
    kind = rows.schema.field("tables")
    rows = rows.set_column(rows.column_names.index("tables"), kind, pa.nulls(len(rows), kind.type))
    table, version = bronze_of(tmp_path / "bronze", [rows])
    with pytest.raises(LakeError, match=r"bronze: the slice at b\.000001:\d+ does not say which tables"):
        scan_effective(table, version, Range(at(4), Position("b.000002", 4)), at(4))


@pytest.mark.parametrize("version, is_mariadb", [("8.0.36", False), ("11.4.5-MariaDB-log", True)])
def test_statements_have_the_server_that_logged_them(tmp_path: Path, version: str, is_mariadb: bool) -> None:
    """Check it also of the statement that a file begins with, whose slice has the file's head in its bytes."""
    changes = [Statement("shop", "TRUNCATE t"), Statement("shop", "DROP TABLE t")]
    content = SegmentSpec(changes=changes, version=version, rows_version=2 - is_mariadb).to_bytes()
    table, at_version = bronze_of(tmp_path / "bronze", [bronze_rows("b.000001", content, target=1)])
    range_scan = scan_metadata(read_index(table, at_version, Range(at(0), Position("b.000002", 4))))
    assert [logged.session.is_mariadb for logged in range_scan.statements] == [is_mariadb] * 2
