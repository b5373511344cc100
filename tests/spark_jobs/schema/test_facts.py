from collections.abc import Iterable
from dataclasses import replace

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.ddl.classify import judge
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import Asked, Fact, Inverted, Logged, Stated, TableVersion
from spark_jobs.schema.tracker import Tracker, as_of

STRICT = Session(1 << 22, 33, explicit_timestamps=True)
T = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET latin1, b INT NOT NULL)"
ID, A, B = Column("id", 3, nullable=False), Column("a", 15, 9, charset=8), Column("b", 3, nullable=False)
LOGGED = TableDefinition(TableName("d", "t"), (ID, A, B), (0,))


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def said(*statements: str, start: int = 100) -> list[Fact]:
    return [
        Stated(at(start + 10 * nth), judge(text, "d"), "d", STRICT, {"sql_mode": "STRICT_ALL_TABLES"}, f"g:{nth}")
        for nth, text in enumerate(statements)
    ]


def rows(offset: int, definition: TableDefinition = LOGGED) -> Logged:
    return Logged(at(offset), definition)


def follow(*facts: Fact | Iterable[Fact]) -> list[TableVersion]:
    every: list[Fact] = []
    for one in facts:
        every += [one] if isinstance(one, Stated | Logged | Asked | Inverted) else list(one)
    return Tracker().follow(every)


def test_a_version_holds_behind_its_statement_and_at_its_rows() -> None:
    found = follow(said(T, "ALTER TABLE t ADD c INT", start=100), rows(300, replace(LOGGED, columns=(ID,))))
    name = LOGGED.name
    widths = {
        offset: len(one.definition.columns)
        for offset in (100, 101, 110, 111, 299, 300)
        for one in [as_of(found, at(offset)).get(name)]
        if one and one.definition
    }
    assert widths == {101: 3, 110: 3, 111: 4, 299: 4, 300: 1}
