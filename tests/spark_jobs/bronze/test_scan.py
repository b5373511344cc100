from pathlib import Path

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import Said, Seen, Survey, agreed, survey
from spark_jobs.ddl.classify import Effect, judge
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position, Range
from tests.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.segment_types import INT, VARCHAR
from tests.slicing import bronze_of, bronze_rows

NAME = TableName("shop", "t")


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def surveyed(*statements: tuple[int, str], first: int | None = 100) -> Survey:
    tables = {} if first is None else {NAME: Seen(at(first), at(900), ())}
    said = tuple(Said(at(offset), judge(text, "shop"), at(offset + 10), "shop") for offset, text in statements)
    return Survey(tables, said)


def test_the_last_change_is_the_last_statement_that_names_the_table() -> None:
    found = surveyed((50, "CREATE TABLE t (a INT)"), (70, "ALTER TABLE t ADD b INT"), (90, "DROP TABLE other"))
    assert found.last_change(NAME) == at(70)
    assert found.last_change(TableName("crm", "t")) is None


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
    found = surveyed(*((50 + 10 * nth, text) for nth, text in enumerate(TEXTS)))
    every = [said for said in found.statements if said.statement.names(name.schema, name.table)]
    about, indexes = found.about(name, at(70)), found.indexes(name, at(4))
    assert about == [one for one in every if one.position >= at(70) and one.statement.effect is not Effect.INDEXES]
    assert indexes == [one for one in every if one.statement.effect is Effect.INDEXES]
    assert found.last_change(name) == max(one.position for one in every if one not in indexes)


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
        f"shop.t: its columns differ between b.000001:4 (id int) and b.000001:9 ({shown}), "
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
    found = survey(read_index(table, version, Range(at(0), Position("b.000002", 4))))
    assert set(found.tables) == {NAME, TableName("shop", "u")}
    assert [(said.statement.text, said.statement.names("shop", "u")) for said in found.statements] == [
        ("TRUNCATE u", True)
    ]
    seen = found.tables[NAME]
    assert seen.first < found.statements[0].position < seen.last
    assert agreed(NAME, seen.definitions).column_names() == ["id"]
    (said,) = found.about(TableName("shop", "u"), at(4))
    assert (said.database, said.position < said.stop <= seen.last) == ("shop", True)
    assert found.about(NAME, at(4)) == found.about(TableName("shop", "u"), said.stop) == []
