"""One table of statements: their effects, and what those who follow tables through a log make of them.

Before each statement there are shop.t (id, v) and shop.u (a). Texts that hold the words of DDL in comments, strings and
quoted names are among them: whoever matches words is wrong there.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableExtent
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.effects import (
    AlterTable,
    ChangeIndex,
    ChangeStorage,
    CreateTable,
    CreateTemporary,
    DropSchema,
    DropTable,
    FreeName,
    Rename,
    TableEffect,
    TruncateTable,
    UnknownChange,
    Unread,
    effects,
    name_changes,
)
from spark_jobs.errors import TableStopped, Unsupported
from spark_jobs.log.position import Position, Range
from spark_jobs.schema.facts import Fact, ServerAnswer, StatementFact, TableVersion
from spark_jobs.schema.reverse_replay import replay_backwards
from spark_jobs.schema.tracker import Tracker, as_of
from spark_jobs.silver.rename_lineage import made_at
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableContents, TableState
from spark_jobs.silver.timeline.build import steps_of
from spark_jobs.silver.timeline.inputs import TimelineInputs

T, U = TableName("shop", "t"), TableName("shop", "u")
ID, V, A = Column("id", 3, nullable=False), Column("v", 3), Column("a", 3, nullable=False)
TABLES = {T: TableDefinition(T, (ID, V), (0,), "PRIMARY"), U: TableDefinition(U, (A,), (0,), "PRIMARY")}
PLAIN, ANSI, NO_BACKSLASHES = Session(sql_mode=0), Session(sql_mode=4), Session(sql_mode=1 << 20)


@dataclass(frozen=True)
class Case:
    """A statement.

    Attributes:
        text: the statement, of a session in schema shop.
        effects: what it does, as ``text_of`` has it.
        history: the columns of t in the schema history after it.
        rows: what t's timeline has after it: its columns, after ``empty`` where no row from before is left.
        back: where the definitions after it lead to before it, by table; those that are not known are left out.
        is_made: whether t is another table after it than before it.
    """

    text: str
    effects: str
    history: str = "id,v"
    rows: str | None = None
    back: str = "t(id,v) u(a)"
    is_made: bool = False
    session: Session = PLAIN


SAME = Case("", "")
MADE = replace(SAME, history="x", rows="empty x", back="u(a)", is_made=True)
DROPPED = replace(SAME, history="dropped", back="u(a)")
IF_MISSING = replace(SAME, back="u(a)")
STOPS = replace(SAME, rows="stops")


def like(case: Case, text: str, effects: str, session: Session = PLAIN) -> Case:
    """A case that ends as another one."""
    return replace(case, text=text, effects=effects, session=session)


CASES = [
    # CREATE TABLE: the conditions that count stand before the name
    like(MADE, "CREATE TABLE t (x INT)", "create t(x)"),
    like(MADE, "CREATE TABLE t (x INT) COMMENT 'made IF NOT EXISTS'", "create t(x)"),
    like(MADE, "CREATE TABLE t (x INT) -- IF NOT EXISTS", "create t(x)"),
    like(MADE, "CREATE /* IF NOT EXISTS */ TABLE t (x INT /* IF\nNOT EXISTS */)", "create t(x)"),
    like(MADE, "CREATE TABLE t (x INT COMMENT 'OR REPLACE IF NOT EXISTS')", "create t(x)"),
    like(MADE, "CREATE OR REPLACE TABLE t (x INT)", "create or replace t(x)"),
    like(MADE, "/*!50001 CREATE TABLE t (x INT) */", "create t(x)"),
    like(MADE, "CREATE EXTERNAL TABLE t (x INT)", "create t(x)"),
    like(MADE, 'CREATE TABLE "t" ("x" INT)', "create t(x)", ANSI),
    like(MADE, "SET STATEMENT max_statement_time = 1 FOR CREATE TABLE t (x INT)", "create t(x)"),
    like(MADE, "CREATE TABLE t (x INT) /*!50100 PARTITION BY HASH (x) */", "create t(x)"),
    like(IF_MISSING, "CREATE TABLE IF NOT EXISTS t (x INT)", "create if missing t(x)"),
    like(IF_MISSING, "CREATE TABLE IF /* really */ NOT\nEXISTS t (x INT)", "create if missing t(x)"),
    like(IF_MISSING, "CREATE TABLE /*!50001 IF NOT EXISTS */ t (x INT)", "create if missing t(x)"),
    like(SAME, "CREATE TABLE `if not exists` (x INT)", "create if not exists(x)"),
    like(SAME, "CREATE TABLE w LIKE t", "create w like t"),
    replace(MADE, text="CREATE TABLE t LIKE u", effects="create t like u", history="a", rows="empty ?"),
    replace(MADE, text="CREATE TABLE t (LIKE shop.u)", effects="create t like u", history="a", rows="empty ?"),
    replace(MADE, text="CREATE TABLE t AS SELECT * FROM w WHERE b LIKE 'u'", effects="create filled t", history="?",
            rows="stops"),
    replace(MADE, text="CREATE OR REPLACE TABLE t AS SELECT * FROM u", effects="create or replace filled t",
            history="?", rows="stops"),
    replace(MADE, text="CREATE TABLE t (x NONSENSE)",
            effects="create t, unread: column x: the type nonsense is not known", history="?", rows="empty ?"),
    like(SAME, "CREATE TEMPORARY TABLE t (x INT)", "create temporary t"),
    like(SAME, "/* mine */ CREATE /* own */ TEMPORARY\tTABLE IF NOT EXISTS t (x INT)", "create temporary t"),
    like(SAME, "CREATE OR REPLACE TEMPORARY TABLE other.t (x INT)", "create temporary other.t"),
    like(SAME, 'CREATE TEMPORARY TABLE "t" (x INT)', "create temporary t", ANSI),
    # DROP, TRUNCATE
    like(DROPPED, "DROP TABLE t", "drop t"),
    like(DROPPED, "DROP TABLES IF EXISTS w, `shop` . `t`, other.t /* generated by server */",
         "drop w, drop t, drop other.t"),
    like(DROPPED, "DROP /*!40000 TABLE */ t WAIT 5", "drop t"),
    like(SAME, "DROP TABLE w /* , t */ -- , t", "drop w"),
    like(SAME, "DROP TEMPORARY TABLE t", ""),
    like(SAME, "DROP VIEW t", ""),
    like(SAME, "DROP DATABASE other", "drop schema other"),
    replace(SAME, text="DROP DATABASE /* t */ shop", effects="drop schema shop", history="dropped", rows="dropped",
            back=""),
    replace(SAME, text="DROP SCHEMA IF EXISTS `SHOP`;", effects="drop schema SHOP", history="?", rows="stops", back=""),
    replace(SAME, text="TRUNCATE t", effects="truncate t", rows="empty id,v"),
    replace(SAME, text="TRUNCATE TABLE /* u */ shop.t", effects="truncate t", rows="empty id,v"),
    replace(SAME, text="DELETE FROM `shop`.`t`", effects="truncate t", rows="empty id,v"),
    like(SAME, "TRUNCATE u", "truncate u"),
    # ALTER TABLE
    replace(SAME, text="ALTER TABLE t ADD x INT", effects="alter t: Add", history="id,v,x"),
    replace(SAME, text="ALTER TABLE t NOWAIT ADD x INT", effects="alter t: Add", history="id,v,x"),
    replace(SAME, text="ALTER TABLE t WAIT 5 ADD x INT, ENGINE = InnoDB", effects="alter t: Add", history="id,v,x"),
    replace(SAME, text="SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t ADD x INT", effects="alter t: Add",
            history="id,v,x"),
    replace(SAME, text="ALTER TABLE t RENAME COLUMN v TO w", effects="alter t: Change", history="id,w"),
    replace(SAME, text="/*!80000 ALTER TABLE t RENAME COLUMN v TO w */", effects="alter t: Change", history="id,w"),
    like(SAME, "ALTER TABLE t COMMENT 'RENAME TO u'", "alter t:"),
    like(SAME, "ALTER TABLE t ENGINE = InnoDB /* RENAME TO u */", "alter t:"),
    like(SAME, "ALTER TABLE t RENAME INDEX i TO j", "alter t: DropIndex"),
    like(SAME, "ALTER TABLE t RENAME TO t", "alter t:"),
    like(SAME, "ALTER TABLE u COMMENT 'as t; ADD v INT'", "alter u:"),
    replace(STOPS, text="ALTER TABLE t ADD x INT COMMENT 'a\\\\'", session=NO_BACKSLASHES,
            effects="alter t, unread: its session had NO_BACKSLASH_ESCAPES", history="?", back="u(a)"),
    replace(STOPS, text="ALTER TABLE t FROBNICATE v", effects="alter t, unread: FROBNICATE v is not handled",
            history="?", back="u(a)"),
    # rows that go or come without being named
    like(STOPS, "ALTER TABLE t DROP PARTITION p", "storage t DROP PARTITION"),
    like(STOPS, "ALTER TABLE t DROP PARTITION p, q", "storage t DROP PARTITION"),
    like(STOPS, "ALTER TABLE t ALGORITHM = INPLACE, TRUNCATE PARTITION p", "storage t TRUNCATE PARTITION"),
    replace(STOPS, text="ALTER TABLE t DROP `partition`", effects="alter t: Drop", history="?", back="u(a)"),
    like(STOPS, "ALTER TABLE t IMPORT TABLESPACE", "storage t IMPORT TABLESPACE"),
    like(STOPS, "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "storage t EXCHANGE PARTITION u"),
    like(STOPS, "ALTER TABLE u EXCHANGE /* a */ PARTITION p WITH TABLE t", "storage u EXCHANGE PARTITION t"),
    like(STOPS, "ALTER TABLE t CONVERT PARTITION p TO TABLE w", "storage t CONVERT PARTITION w"),
    like(STOPS, "ALTER TABLE u CONVERT TABLE t TO PARTITION p VALUES LESS THAN (5)", "storage u CONVERT TABLE t"),
    like(SAME, "ALTER TABLE t REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))", "alter t:"),
    like(SAME, "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))", "alter t:"),
    like(SAME, "ALTER TABLE u COMMENT ' EXCHANGE PARTITION p WITH TABLE t '", "alter u:"),
    # names
    replace(SAME, text="RENAME TABLE t TO w", effects="w was t, t freed for w", history="-> w", rows="dropped"),
    replace(SAME, text="RENAME TABLE t /* TO u */ TO `rename`", effects="rename was t, t freed for rename",
            history="-> rename", rows="dropped"),
    replace(SAME, text="ALTER TABLE t RENAME w, COMMENT 'RENAME TO x'", effects="alter t:, w was t, t freed for w",
            history="-> w", rows="dropped"),
    replace(SAME, text="SET STATEMENT lock_wait_timeout = 5 FOR RENAME TABLE t TO w",
            effects="w was t, t freed for w", history="-> w", rows="dropped"),
    replace(SAME, text="SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t RENAME TO w",
            effects="alter t:, w was t, t freed for w", history="-> w", rows="dropped"),
    replace(SAME, text='RENAME TABLE "t" TO "a b"', effects="a b was t, t freed for a b", history="-> a b",
            rows="dropped", session=ANSI),
    replace(SAME, text="RENAME TABLE t TO tmp, u TO t, tmp TO u",
            effects="tmp freed, t was u (now u), u was t (now t)", history="a", rows="empty a", is_made=True),
    replace(SAME, text="RENAME TABLE t TO _t_del, u TO t", effects="_t_del was t, t was u (now _t_del), u freed for t",
            history="a", rows="empty a", is_made=True),
    replace(SAME, text="ALTER TABLE t NOWAIT RENAME TO w, ADD x INT",
            effects="alter t: Add, w was t, t freed for w", history="-> w", rows="dropped"),
    like(SAME, "RENAME TABLE t TO w, w TO t", "w freed"),
    like(SAME, "RENAME TABLE w TO x", "x was w, w freed for x"),
    like(SAME, "RENAME USER t TO u", ""),
    # indexes
    like(SAME, "CREATE INDEX i ON t (v)", "index t:"),
    like(SAME, "CREATE UNIQUE INDEX i ON t (v)", "index t: AddUnique"),
    like(SAME, "CREATE OR REPLACE UNIQUE INDEX IF NOT EXISTS i ON shop.t (v)", "index t: DropIndex AddUnique"),
    like(SAME, "CREATE OR REPLACE INDEX i ON t (v)", "index t: DropIndex"),
    like(SAME, "DROP /* ON u */ INDEX IF EXISTS i ON t", "index t: DropIndex"),
    like(SAME, "CREATE VECTOR INDEX i ON t (v)", "index t:"),
    like(SAME, "CREATE UNIQUE INDEX i ON u (a) COMMENT 'ON t'", "index u: AddUnique"),
    # what touches no table
    like(SAME, "CREATE VIEW t AS SELECT 1", ""),
    like(SAME, "CREATE SEQUENCE t", ""),
    like(SAME, "ALTER SEQUENCE t RESTART 5", ""),
    like(SAME, "CREATE PROCEDURE p() BEGIN DROP TABLE t; END", ""),
    like(SAME, "CREATE LIBRARY l LANGUAGE JAVASCRIPT AS $$ CREATE TABLE t (x INT) $$", ""),
    like(STOPS, "INSERT INTO t VALUES ('DROP TABLE t')", ""),
    replace(STOPS, text="a statement of a server to come about t", effects="unknown A", history="?", back="u(a)"),
]  # fmt: skip


def name_of(table: TableName | None) -> str:
    return "" if table is None else table.table if table.schema == "shop" else str(table)


def kinds(operations: Sequence[object]) -> str:
    return "".join(f" {type(operation).__name__}" for operation in operations)


def shown_create(effect: CreateTable) -> str:
    words = ["or replace"] * effect.replaces + ["if missing"] * effect.if_missing + ["filled"] * effect.is_filled
    text = " ".join(["create", *words, name_of(effect.table)])
    if isinstance(effect.declared, Unread):
        return f"{text}, unread: {effect.declared.reason}"
    columns = f"({','.join(effect.declared.column_names())})" if effect.declared else ""
    return text + (f" like {name_of(effect.like)}" if effect.like else columns)


def shown_alter(effect: AlterTable) -> str:
    if isinstance(effect.clauses, Unread):
        return f"alter {name_of(effect.table)}, unread: {effect.clauses.reason}"
    return f"alter {name_of(effect.table)}:{kinds(effect.operations)}"


SHOWN: dict[type, Callable[[Any], str]] = {
    CreateTable: shown_create,
    AlterTable: shown_alter,
    ChangeIndex: lambda effect: f"index {name_of(effect.table)}:{kinds(effect.operations)}",
    ChangeStorage: lambda effect: f"storage {name_of(effect.table)} {effect.action} {name_of(effect.partner)}".strip(),
    Rename: lambda effect: (
        f"{name_of(effect.table)} was {name_of(effect.was)}"
        + (f" (now {name_of(effect.displaced)})" if effect.displaced else "")
    ),
    FreeName: lambda effect: (
        f"{name_of(effect.table)} freed" + (f" for {name_of(effect.new_name)}" if effect.new_name else "")
    ),
    DropSchema: lambda effect: f"drop schema {effect.schema}",
    UnknownChange: lambda effect: f"unknown {effect.verb}",
    CreateTemporary: lambda effect: f"create temporary {name_of(effect.table)}",
    DropTable: lambda effect: f"drop {name_of(effect.table)}",
    TruncateTable: lambda effect: f"truncate {name_of(effect.table)}",
}


def text_of(effect: TableEffect) -> str:
    """An effect in a few words."""
    return SHOWN[type(effect)](effect)


by_text = pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)


@by_text
def test_what_a_statement_does_to_tables(case: Case) -> None:
    statement = classify(case.text, "shop", case.session)
    assert ", ".join(map(text_of, effects(statement, "shop", case.session))) == case.effects


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def fact_of(case: Case, offset: int = 500) -> StatementFact:
    return StatementFact(
        at(offset), classify(case.text, "shop", case.session), "shop", case.session, stop=at(offset + 10)
    )


def scanned(case: Case) -> RangeScan:
    """The statement, and rows of t before it."""
    occurrence = TableExtent(at(100), at(400), ((at(100), TABLES[T]),))
    statement = classify(case.text, "shop", case.session)
    logged = LoggedStatement(at(500), statement, at(510), "shop", session=case.session)
    return RangeScan({T: occurrence}, (logged,) if statement.effect.value != "none" else ())


def columns(definition: TableDefinition | None) -> str:
    return ",".join(definition.column_names()) if definition else "?"


def history(case: Case) -> dict[TableName, TableVersion]:
    """All tables after the statement, which came after a server was asked."""
    tracker = Tracker()
    versions = tracker.follow([ServerAnswer(at(10), tuple(TABLES.values()))])
    return as_of([*versions, *tracker.follow([fact_of(case)])])


@by_text
def test_what_the_schema_history_makes_of_it(case: Case) -> None:
    now = history(case)[T]
    renamed = f"-> {name_of(now.renamed_to)}" if now.renamed_to else "dropped"
    assert (renamed if now.is_dropped else columns(now.definition)) == case.history


def filled(name: TableName, until: Position) -> TableContents:
    """A table of which the log has all rows."""
    state = TableState(TABLES.get(name), is_complete=True)
    return TableContents(name, None, [DataRange(Range(at(20), until), state)], state, at(20))


@by_text
def test_what_the_timeline_makes_of_it(case: Case) -> None:
    rules = TimelineInputs(lambda logged, _: logged, lambda *_: {}, contents=filled)
    try:
        steps = steps_of(scanned(case), T, Range(at(10), at(1000)), TableState(TABLES[T]), rules)
    except TableStopped:
        steps = []
    last = steps[-1] if steps else None
    text = "stops"
    if last:
        is_empty = isinstance(last, SchemaChange) and last.empties
        text = "dropped" if last.state.is_dropped else "empty " * is_empty + columns(last.state.definition)
    assert text == (case.rows or case.history)


@by_text
def test_what_it_leads_back_to(case: Case) -> None:
    after = [version.definition for version in history(case).values() if version.definition]
    lacking = fact_of(replace(case, text="ALTER TABLE lacking ADD x INT"), 300)
    facts: list[Fact] = [lacking, fact_of(case), ServerAnswer(at(900), tuple(after))]
    reversed_history = replay_backwards(facts, Tracker().follow(facts), at(4))
    definitions = {fact.definition.name: fact.definition for fact in reversed_history.facts if fact.at == at(4)}
    before = {
        name: definitions.get(name) or definition
        for name, definition in TABLES.items()
        if name in reversed_history.reached
    }
    assert (
        " ".join(f"{name_of(name)}({columns(definition)})" for name, definition in sorted(before.items())) == case.back
    )


@by_text
def test_whether_it_makes_the_table(case: Case) -> None:
    assert (made_at(scanned(case), T, at(4)) is not None) == case.is_made


@pytest.mark.parametrize(
    "text",
    ["RENAME TABLE a", "RENAME TABLE a TO", "RENAME TABLE TO b", "DROP TABLE", "ALTER TABLE t ADD x INT DEFAULT 'open"],
)
def test_a_statement_whose_tables_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        effects(classify(text, "shop"), "shop", PLAIN)


def test_what_cannot_be_read_is_not_taken_for_nothing() -> None:
    with pytest.raises(Unsupported, match="why"):
        _ = CreateTable(T, declared=Unread("why")).definition
    with pytest.raises(Unsupported, match="why"):
        _ = AlterTable(T, Unread("why")).operations


def test_the_names_that_change_are_those_of_renames() -> None:
    for text, expected in (
        ("RENAME TABLE a TO tmp, b TO a, tmp TO b", "tmp freed, a was b (now b), b was a (now a)"),
        ("ALTER TABLE c ADD x INT, RENAME other.d", "other.d was c, c freed for other.d"),
        ("ALTER TABLE c COMMENT 'RENAME TO d'", ""),
        ("DROP TABLE t", ""),
    ):
        assert ", ".join(map(text_of, name_changes(classify(text, "shop"), "shop", PLAIN))) == expected


@by_text
def test_a_statement_that_is_cut_anywhere_is_read_or_refused(case: Case) -> None:
    for length in range(len(case.text)):
        with suppress(Unsupported):
            effects(classify(case.text[:length], "shop", case.session), "shop", case.session)
