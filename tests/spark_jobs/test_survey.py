from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs import bronze
from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.errors import TableStopped
from spark_jobs.lake import Checkpoint, Lake, new_batch
from spark_jobs.position import Position, Range
from spark_jobs.schema.statements import judge
from spark_jobs.survey import Said, Seen, Survey, agreed, survey
from tests.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.segment_types import INT, VARCHAR
from tests.spark_jobs.test_export import bronze_rows

NAME = TableName("shop", "t")


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def surveyed(*statements: tuple[int, str], first: int | None = 100) -> Survey:
    tables = {} if first is None else {NAME: Seen(at(first), at(900), ())}
    said = tuple(Said(at(offset), judge(text, "shop")) for offset, text in statements)
    return Survey(tables, said)


@pytest.mark.parametrize(
    "found, fresh, why",
    [
        (surveyed(), False, None),
        (surveyed((500, "ALTER TABLE other ADD x INT")), False, None),
        (surveyed((500, "CREATE TABLE t (a INT)")), False, None),
        (surveyed((50, "ALTER TABLE t ADD x INT")), True, None),
        (surveyed((50, "ALTER TABLE t ADD x INT"), first=None), True, None),
        (surveyed((5, "ALTER TABLE t ADD x INT")), False, None),
        (
            surveyed((50, "ALTER TABLE t ADD x INT")),
            False,
            "ALTER TABLE at b.000001:50 changes the table, which is not applied yet: ALTER TABLE t ADD x INT",
        ),
        (
            surveyed((500, "TRUNCATE TABLE t")),
            True,
            "TRUNCATE TABLE at b.000001:500 changes the table, which is not applied yet: TRUNCATE TABLE t",
        ),
        (
            surveyed((50, "INSERT INTO t VALUES (1)")),
            True,
            (
                "INSERT INTO at b.000001:50 changes rows in statement format, which says what was asked, not what "
                "happened: "
                "INSERT INTO t VALUES (1)"
            ),
        ),
        (
            surveyed((50, "SELECT `shop`.`f`()")),
            True,
            (
                "SELECT SHOP at b.000001:50 runs a routine, logged in statement format: which rows of which tables "
                "it changed "
                "is not in the log: SELECT `shop`.`f`()"
            ),
        ),
        (
            surveyed((50, "XA COMMIT X'01',X'',1")),
            True,
            (
                "XA COMMIT at b.000001:50 decides about rows that were logged before it (XA, or a rollback past "
                "them), which "
                "is not handled yet: XA COMMIT X'01',X'',1"
            ),
        ),
    ],
)
def test_what_keeps_a_table_from_being_compacted_is_said_with_its_place(
    found: Survey, fresh: bool, why: str | None
) -> None:
    assert found.obstacle(NAME, at(10), fresh=fresh) == why


def test_the_last_change_is_the_last_statement_that_names_the_table() -> None:
    found = surveyed((50, "CREATE TABLE t (a INT)"), (70, "ALTER TABLE t ADD b INT"), (90, "DROP TABLE other"))
    assert found.last_change(NAME) == at(70)
    assert found.last_change(TableName("crm", "t")) is None


def definition(*columns: Column) -> TableDefinition:
    return TableDefinition(NAME, columns, (0,))


ID = Column("id", 3)


def test_rows_of_one_definition_agree() -> None:
    assert agreed(NAME, [(at(4), definition(ID)), (at(9), definition(ID))]) == definition(ID)


@pytest.mark.parametrize(
    "other, shown",
    [
        (definition(ID, Column("n", 8)), "id int, n bigint"),
        (definition(Column("key", 3)), "key int"),
        (definition(Column("id", 3, unsigned=True)), "id int unsigned"),
    ],
)
def test_rows_of_two_definitions_stop_the_table(other: TableDefinition, shown: str) -> None:
    with pytest.raises(TableStopped) as stopped:
        agreed(NAME, [(at(4), definition(ID)), (at(9), other)])
    assert str(stopped.value) == (
        f"shop.t: its columns differ between b.000001:4 (id int) and b.000001:9 ({shown}); "
        "a change of columns is not applied yet"
    )


@pytest.mark.spark
def test_bronze_tells_tables_definitions_and_statements(spark: SparkSession, lake: Path) -> None:
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
    table = Lake(str(lake)).bronze("shop")
    head = table.create(spark, bronze.COLUMNS, bronze.PROPERTIES)
    rows = spark.createDataFrame(bronze_rows("b.000001", spec.to_bytes(), target=1))
    head = table.append(rows, head, Checkpoint(at(len(spec.to_bytes())), new_batch()))
    found = survey(bronze.read(spark, table, head.version, Range(at(0), Position("b.000002", 4))))
    assert set(found.tables) == {NAME, TableName("shop", "u")}
    assert [(said.statement.text, said.statement.names("shop", "u")) for said in found.statements] == [
        ("TRUNCATE u", True)
    ]
    seen = found.tables[NAME]
    assert seen.first < found.statements[0].position < seen.last
    assert agreed(NAME, seen.definitions).column_names() == ["id"]
    assert found.obstacle(NAME, at(4), fresh=True) is None
