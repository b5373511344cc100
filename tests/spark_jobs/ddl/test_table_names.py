"""The tables that statements change: every form by hand, and those of a grammar, deep and long."""

import inspect
import logging
import sys
import tracemalloc
from dataclasses import dataclass

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_jobs.binlog import Session
from spark_jobs.ddl.classify import Effect, classify
from spark_jobs.ddl.scanner import TokenScanner
from spark_jobs.ddl.table_names import names_in, query_of_create
from spark_jobs.errors import Unsupported

logging.getLogger("sqlglot").setLevel(logging.ERROR)


def names(text: str) -> list[str]:
    tokens = TokenScanner(text, Session())
    return [f"{schema or ''}.{table}" for schema, table in names_in(tokens.peek().text.upper(), tokens)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("INSERT t VALUES (1)", [".t"]),
        ("INSERT INTO s . t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = (SELECT MAX(a) FROM u)", ["s.t"]),
        ("INSERT LOW_PRIORITY IGNORE INTO t PARTITION (p0) SELECT * FROM u JOIN v", [".t"]),
        ("INSERT HIGH_PRIORITY t SET a = 1", [".t"]),
        ("INSERT DELAYED t() VALUES()", [".t"]),
        ("INSERT INTO .t VALUES (1)", [".t"]),
        ("INSERT /*+ SET_VAR(x=1) */ /*!50000 INTO */ t WITH c AS (SELECT 1) SELECT * FROM c", [".t"]),
        ("INSERT quick VALUES (1)", [".quick"]),
        ("INSERT INTO `low_priority` VALUES (1)", [".low_priority"]),
        ('INSERT INTO "t" VALUES (1)', [".t"]),
        ("REPLACE t VALUES (1)", [".t"]),
        ("REPLACE DELAYED INTO s.t SELECT 1", ["s.t"]),
        ("REPLACE LOW_PRIORITY t TABLE u", [".t"]),
        ("LOAD DATA INFILE 'a' INTO TABLE s.t", ["s.t"]),
        ("LOAD DATA LOW_PRIORITY LOCAL INFILE '/INTO TABLE x' IGNORE INTO TABLE `t` FIELDS TERMINATED BY ','", [".t"]),
        ("LOAD XML CONCURRENT INFILE 'a' REPLACE INTO TABLE t ROWS IDENTIFIED BY '<r>'", [".t"]),
        ("UPDATE t SET a = (SELECT b FROM u)", [".t"]),
        ("UPDATE LOW_PRIORITY IGNORE s.t AS x SET x.a = 1 WHERE id IN (SELECT id FROM u)", ["s.t"]),
        ("UPDATE t PARTITION (p0, p1) x SET a = 1", [".t"]),
        ("UPDATE a, s.b y SET a.x = y.x", [".a", "s.b"]),
        ("UPDATE a JOIN b USE INDEX FOR JOIN (i) ON a.i = b.i AND (a.j = 1) LEFT JOIN c USING (id) SET a.x = 1",
         [".a", ".b", ".c"]),
        ("UPDATE (a, b) STRAIGHT_JOIN c SET a.x = 1", [".a", ".b", ".c"]),
        ("UPDATE ((a JOIN (b NATURAL JOIN c))) SET a.x = 1", [".a", ".b", ".c"]),
        ("UPDATE {OJ a LEFT OUTER JOIN b ON a.i = b.i} SET a.x = 1", [".a", ".b"]),
        ("UPDATE a JOIN (SELECT * FROM u) AS d ON a.i = d.i SET a.x = 1", [".a"]),
        ("UPDATE ((SELECT 1) UNION (SELECT 2 FROM u)) AS d JOIN a SET a.x = 1", [".a"]),
        ("UPDATE a JOIN LATERAL (SELECT * FROM u) d SET a.x = 1", [".a"]),
        ("UPDATE a, JSON_TABLE(a.j, '$[*]' COLUMNS (x INT PATH '$')) AS j SET a.x = j.x", [".a"]),
        ("DELETE FROM t", [".t"]),
        ("DELETE LOW_PRIORITY QUICK IGNORE FROM s.t WHERE a IN (SELECT a FROM u) ORDER BY a LIMIT 1", ["s.t"]),
        ("DELETE FROM t PARTITION (p0) WHERE a = 1", [".t"]),
        ("DELETE FROM t AS x WHERE x.a = 1", [".t"]),
        ("DELETE a, b.* FROM a JOIN b JOIN c", [".a", ".b"]),
        ("DELETE x FROM s.t AS x JOIN u y ON x.i = y.i WHERE 1", ["s.t"]),
        ("DELETE FROM x, b USING s.t x JOIN b JOIN c USING (id)", ["s.t", ".b"]),
        ("DELETE s.t.* FROM s.t, u", ["s.t"]),
        ("DELETE gone FROM a, b", [".a", ".b", ".gone"]),
        ("DELETE HISTORY FROM t BEFORE SYSTEM_TIME '2020-01-01'", [".t", ".HISTORY"]),
        ("WITH c AS (SELECT * FROM u) UPDATE t JOIN c SET t.a = c.a", [".t"]),
        ("WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c), d AS (SELECT 1) DELETE t FROM t JOIN d",
         [".t"]),
        ("CREATE TABLE IF NOT EXISTS s.t (a INT REFERENCES u (a))", ["s.t"]),
        ("CREATE OR REPLACE TABLE t LIKE u", [".t"]),
        ("CREATE UNIQUE INDEX i USING BTREE ON s.t (a)", ["s.t"]),
        ("CREATE INDEX IF NOT EXISTS `on` ON t (a)", [".t"]),
        ("DROP INDEX i ON t WAIT 3", [".t"]),
        ("DROP TABLE IF EXISTS a, s.b CASCADE", [".a", "s.b"]),
        ("TRUNCATE s.t", ["s.t"]),
        ("TRUNCATE TABLE t", [".t"]),
        ("RENAME TABLE IF EXISTS a WAIT 5 TO s.b, `c` TO d", [".a", "s.b", ".c", ".d"]),
        ("ALTER ONLINE IGNORE TABLE IF EXISTS t ADD x INT DEFAULT (f(1)), RENAME TO s.u", [".t", "s.u"]),
        ("ALTER TABLE t RENAME u, RENAME COLUMN a TO b, RENAME INDEX i TO j", [".t", ".u"]),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE s.u WITHOUT VALIDATION", [".t", "s.u"]),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE u", [".t", ".u"]),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (a)", [".t"]),
    ],
)  # fmt: skip
def test_the_tables_that_a_statement_changes(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO 'a' VALUES (1)", "INSERT", "UPDATE a JOIN (SELECT 1 SET x = 1", "WITH x", "WITH c SELECT 1",
        "LOAD DATA INFILE 'x'", "CREATE INDEX i", "RENAME TABLE a", "FROB TABLE t", "ALTER TABLE t ADD x INT (",
        "DELETE t", "WITH c AS (SELECT 1) SELECT * FROM c", "CREATE A B C D E F G H I TABLE t",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="cannot be parsed"):
        names(text)


@pytest.mark.parametrize(
    "text, is_filled",
    [
        ("CREATE TABLE t SELECT 1", True),
        ("CREATE TABLE t AS SELECT 1", True),
        ("CREATE TABLE t (SELECT 1)", True),
        ("CREATE TABLE t AS ((SELECT 1) UNION (SELECT 2))", True),
        ("CREATE TABLE t (a INT, KEY (a)) ENGINE=InnoDB IGNORE SELECT 1 AS a", True),
        ("CREATE TABLE t (a INT) REPLACE AS WITH c AS (SELECT 1 AS a) SELECT * FROM c", True),
        ("CREATE TABLE t TABLE u", True),
        ("CREATE TABLE t (a INT) AS TABLE u", True),
        ("CREATE TABLE t VALUES ROW(1)", True),
        ("CREATE TABLE t (VALUES ROW(1))", True),
        ("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1)) SELECT 1 AS a", True),
        ("CREATE TABLE t (a INT)", False),
        ("CREATE TABLE t LIKE u", False),
        ("CREATE TABLE t (LIKE u)", False),
        ("CREATE TABLE t (a INT) COMMENT = 'AS SELECT 1'", False),
        ("CREATE TABLE t (`select` INT, a INT AS (`values` + 1)) WITH SYSTEM VERSIONING", False),
        ("CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1, 2))", False),
        ("CREATE TABLE t (a INT) ENGINE=MERGE UNION=(u, v) TABLESPACE x", False),
        ("CREATE TABLE t (a INT) START TRANSACTION", False),
    ],
)
def test_a_query_fills_a_table_that_is_made(text: str, is_filled: bool) -> None:
    tokens = TokenScanner(text, Session())
    names_in("CREATE", tokens)
    assert query_of_create(tokens) is is_filled


# Statements that a grammar makes: what they are about is known, since the grammar chose it.

NAMES = st.sampled_from(["t", "u", "orders", "`a b`", "`select`", "`t'1`", "größe", "`x``y`", "`/*`", "T1"])
LEAVES = st.sampled_from(
    ["1", "-2.5e3", "a", "b.c", "NULL", "'text'", "'it''s INTO u'", "'a\\'b'", "'/* x'", "'-- y'", "'(('", "0x4142"]
)
NESTS = st.sampled_from(
    [
        "REPLACE({}, 'x', 'y')", "({})", "CASE WHEN {} THEN 1 ELSE 2 END", "IF({}, 1, 2)",
        "JSON_EXTRACT({}, '$.a[0].\"b\"')", "COALESCE(1, {})", "({} + 1)", "(SELECT {} FROM other)",
        "(SELECT 1 FROM (SELECT {} AS x FROM other) AS d)",
    ]
)  # fmt: skip
GAPS = st.sampled_from([" ", "\n", "  /* gap t2 */ ", " -- gap\n", " # (\n", "/**/ "])


@dataclass(frozen=True)
class Example:
    """A statement, and the tables that it changes, by ``schema.table`` in small letters."""

    text: str
    effect: Effect
    tables: frozenset[str]


def full(*names: str) -> frozenset[str]:
    return frozenset(
        ("" if "." in name.replace("`.`", "") else "db.") + name.strip("`").replace("``", "`").casefold()
        for name in names
    )


@st.composite
def expressions(draw: st.DrawFn, depths: st.SearchStrategy[int]) -> str:
    nest, leaf, depth = draw(NESTS), draw(LEAVES), draw(depths)
    before, _, behind = nest.partition("{}")
    return before * depth + leaf + behind * depth


@st.composite
def statements(draw: st.DrawFn, depths: st.SearchStrategy[int], widths: st.SearchStrategy[int]) -> Example:
    table, second, gap = draw(NAMES), draw(NAMES.filter(lambda name: name != "t")), draw(GAPS)
    value, width = draw(expressions(depths)), draw(widths)
    listed = ", ".join([value] * min(width, 20) + ["1"] * width)
    low, ignore, into = (
        draw(st.sampled_from(options)) for options in (("", "LOW_PRIORITY"), ("", "IGNORE"), ("", "INTO"))
    )
    partition = draw(st.sampled_from(["", "PARTITION (p0)"]))
    forms = {
        f"INSERT {low} {ignore} {into} {table} {partition} (a) VALUES ({listed})": (Effect.ROWS, [table]),
        f"INSERT {into} {table} SELECT {value} FROM {second} WHERE a IN ({listed})": (Effect.ROWS, [table]),
        f"INSERT {into} {table} (a) VALUES (1) ON DUPLICATE KEY UPDATE a = {value}": (Effect.ROWS, [table]),
        f"REPLACE {low} {into} {table} (a) VALUES ({listed})": (Effect.ROWS, [table]),
        f"UPDATE {low} {ignore} {table} SET a = {value} WHERE b IN ({listed})": (Effect.ROWS, [table]),
        f"UPDATE {table} x JOIN {second} y ON {value} = y.a SET x.a = 1": (Effect.ROWS, [table, second]),
        f"UPDATE {table} JOIN (SELECT {value} AS v FROM {second}) d SET a = 1": (Effect.ROWS, [table]),
        f"DELETE {low} {ignore} FROM {table} {partition} WHERE a IN ({listed})": (Effect.ROWS, [table]),
        f"DELETE x FROM {table} AS x JOIN {second} AS y ON x.a = {value} WHERE 1": (Effect.ROWS, [table]),
        f"WITH c AS (SELECT {value} AS v FROM {second}) DELETE FROM {table} WHERE a IN (SELECT v FROM c)":
            (Effect.ROWS, [table]),
        f"CREATE TABLE {table} (a INT DEFAULT (1), b INT AS ({value}), CHECK ({value} > 1))": (Effect.CREATES, [table]),
        f"CREATE TABLE {table} ({', '.join(f'c{at} INT DEFAULT {at}' for at in range(width + 1))})":
            (Effect.CREATES, [table]),
        f"CREATE TABLE {table} AS SELECT {value} AS v FROM {second}": (Effect.CREATES, [table]),
        f"ALTER TABLE {table} ADD COLUMN v INT DEFAULT ({value}), COMMENT 'RENAME TO x'": (Effect.CHANGES, [table]),
        f"ALTER TABLE {table} ADD CHECK ({value} > 0), RENAME TO {second}": (Effect.CHANGES, [table, second]),
        f"CREATE INDEX i ON {table} (({value}))": (Effect.INDEXES, [table]),
    }  # fmt: skip
    text, (effect, names) = draw(st.sampled_from(sorted(forms.items(), key=lambda form: form[0])))
    return Example(text.replace(" ", gap, 1), effect, full(*names))


def judged(example: Example) -> tuple[Effect, frozenset[str] | None]:
    statement = classify(example.text, "db")
    return statement.effect, None if statement.tables is None else frozenset(
        ".".join(name) for name in statement.tables
    )


SHALLOW = statements(st.integers(0, 3), st.integers(0, 3))
DEEP = statements(st.sampled_from([30, 36, 60, 200, 1000]), st.integers(0, 3))
LONG = statements(st.integers(0, 2), st.sampled_from([100, 2000, 20_000]))


@given(st.one_of(SHALLOW, DEEP, LONG))
def test_statements_of_any_depth_and_length_name_what_they_change(example: Example) -> None:
    assert judged(example) == (example.effect, example.tables)


def parsed_tables(text: str) -> set[str] | None:
    """The plain twin: all tables of the statement's tree, of an INSERT its own; None where the parser has no tree."""
    try:
        tree = sqlglot.parse_one(text, read="mysql")
    except (SqlglotError, RecursionError):
        return None
    if isinstance(tree, exp.Command):
        return None
    statement = tree.this if isinstance(tree, exp.Insert) else tree
    if any(table.name.upper() in ("LOW_PRIORITY", "IGNORE", "QUICK") for table in statement.find_all(exp.Table)):
        return None  # sqlglot takes a modifier for the table and the table for its alias
    return {f"{table.db or 'db'}.{table.name}".casefold() for table in statement.find_all(exp.Table)}


@given(SHALLOW)
def test_the_tables_are_among_those_that_a_parser_of_all_of_it_finds(example: Example) -> None:
    tree = parsed_tables(example.text)
    if tree is None:
        return
    _, names = judged(example)
    assert names is not None
    assert names <= tree
    if example.text.startswith(("INSERT", "REPLACE")):
        assert names == tree


@pytest.mark.parametrize("room", [150, 400, 1000])
def test_what_a_statement_is_about_does_not_depend_on_who_asks(room: int) -> None:
    """How deep the stack is already is another matter in a thread of Dagster's than on the command line."""
    text = f"CREATE TABLE s.t (a INT, b INT AS ({'REPLACE(' * 500}a{',1,2)' * 500}))"
    limit = sys.getrecursionlimit()
    depth = len(inspect.stack(0))
    sys.setrecursionlimit(depth + room)
    try:
        assert classify(text, "db").tables == frozenset({("s", "t")})
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "head, unit, limit",
    [
        ("INSERT INTO t VALUES (0, 'x')", ",(1,'some text of a row, as long as they are',2.5,NULL)", 9),
        ("REPLACE DELAYED INTO t VALUES (0)", ",(1,2,3)", 9),
        ("DELETE FROM t WHERE id IN (0", ",12345", 9),
        ("UPDATE t SET a = 'x' WHERE id IN (0", ",12345", 9),
        ("DELETE x FROM t x WHERE id IN (0", ",12345", 9),
    ],
)
def test_rows_of_a_statement_are_not_read(head: str, unit: str, limit: int) -> None:
    text = head + unit * (2_000_000 // len(unit)) + ")"
    tokens = TokenScanner(text, Session())
    names_in(tokens.peek().text, tokens)
    assert tokens.count <= limit
    tracemalloc.start()
    try:
        assert classify(text, "db").tables == frozenset({("db", "t")})
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [30_000, pytest.param(100_000, marks=pytest.mark.thorough)])
def test_of_a_long_statement_that_is_read_whole_nothing_is_kept(count: int) -> None:
    labels = ",".join(f"'{at}'" for at in range(count))
    text = f"ALTER TABLE t ADD c ENUM({labels}), RENAME TO u"
    tracemalloc.start()
    try:
        assert classify(text, "db").tables == frozenset({("db", "t"), ("db", "u")})
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
