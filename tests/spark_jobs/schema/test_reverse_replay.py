"""What is told at a log's end, led back over random statements: what was there, from the position on that is said."""

import os
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Session, TableDefinition, TableName
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.alter import definition_after_clauses
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.diff import differences
from spark_jobs.ddl.parse_alter import operations
from spark_jobs.errors import Unsupported
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import Fact, LoggedTable, ServerAnswer, StatementFact
from spark_jobs.schema.reverse_replay import ReversedHistory, replay_backwards
from spark_jobs.schema.tracker import Tracker, as_of
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.server import Server
from tests.fix_hypothesis import examples
from tests.fix_mysql import Database
from tests.spark_jobs.ddl.test_inverse import (
    NAME,
    must_be_inverted,
    random_alter,
    random_table,
    rows_of,
    table_of,
)
from tests.spark_jobs.schema.test_tracker import facts_of, opened
from tests.spark_jobs.silver.test_table_timeline_on_server import Log
from tests.twins.ddl_stream import Stream

END = 9000
STRICT = Session(1 << 22, 33, explicit_timestamps=True)
FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
RUNS = int(os.environ.get("STRATALOG_RUNS", "2"))


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def ddl_at(offset: int, text: str) -> StatementFact:
    return StatementFact(at(offset), classify(text, "d"), "d", STRICT, stop=at(offset + 50))


def led_back(facts: Iterable[Fact]) -> ReversedHistory:
    ordered = list(facts)
    return replay_backwards(ordered, Tracker().follow(ordered), at(4))


def columns_by_fact(facts: Iterable[Fact]) -> dict[str, str]:
    """By position and table the columns that were found, and why they are not those before it."""
    return {
        f"{fact.definition.name.table} {fact.at.offset}": ",".join(fact.definition.column_names())
        + (f" ? {fact.note}" if fact.note else "")
        for fact in led_back(facts).facts
    }


@given(st.integers(min_value=0), st.booleans())
@examples(200)
def test_what_is_found_is_what_was_there(seed: int, logs_full_metadata: bool) -> None:
    generator = random.Random(seed)
    text, columns = random_table(generator)
    definitions, names = [table_of(text)], [0]
    facts: list[Fact] = []
    is_certain = True
    for nth in range(generator.randrange(1, 6)):
        alter = random_alter(generator, columns, names)
        clauses = operations(alter)
        try:
            after = definition_after_clauses(definitions[-1], clauses)
        except Unsupported:
            return
        if after.key is None:
            return
        if generator.random() < 0.7:
            facts.append(
                LoggedTable(at(1000 * nth + 500), rows_of(definitions[-1], logs_full_metadata=logs_full_metadata))
            )
        is_certain = is_certain and must_be_inverted(clauses, definitions[-1])
        facts.append(ddl_at(1000 * (nth + 1), alter))
        definitions.append(after)
    facts += [
        LoggedTable(at(END - 1000), rows_of(definitions[-1], logs_full_metadata=logs_full_metadata)),
        ServerAnswer(at(END), (definitions[-1],)),
    ]
    path = led_back(facts)
    for fact in path.facts:
        assert fact.definition == definitions[fact.at.offset // 1000]
    if is_certain:
        assert at(4) in [fact.at for fact in path.facts]
    versions = Tracker().follow([*facts, *path.facts])
    last = as_of(versions)[NAME]
    assert last.definition == definitions[-1]
    rows = [fact for fact in facts if isinstance(fact, LoggedTable)]
    for row in rows:
        definition = as_of(versions, row.at)[NAME].definition
        if definition and definition.has_names():
            assert definition == definitions[min(row.at.offset // 1000, len(definitions) - 1)]


ONE, TWO = (
    table_of("id INT PRIMARY KEY, a INT"),
    replace(table_of("id INT PRIMARY KEY, b DATE"), name=TableName("d", "u")),
)

THREE = table_of("id INT PRIMARY KEY, a INT, b INT")


def bare(definition: TableDefinition, table: str = "t") -> TableDefinition:
    return replace(rows_of(definition), name=TableName("d", table))


@pytest.mark.parametrize(
    "facts, expected",
    [
        ([ddl_at(100, "RENAME TABLE t TO x, u TO t, x TO u")],
         {"t 150": "id,a", "u 150": "id,b", "t 4": "id,b", "u 4": "id,a"}),
        ([ddl_at(100, "RENAME TABLE v TO w, w TO t")], {"t 150": "id,a", "v 4": "id,a"}),
        ([ddl_at(100, "ALTER TABLE v RENAME COLUMN z TO a, RENAME TO t")], {"t 150": "id,a", "v 4": "id,z"}),
        ([ddl_at(100, "ALTER TABLE t ENGINE = InnoDB"), ddl_at(200, "TRUNCATE t")],
         {"t 150": "id,a", "t 250": "id,a", "t 4": "id,a"}),
        ([ddl_at(100, "CREATE TABLE t (id INT PRIMARY KEY, a INT)"), ddl_at(200, "CREATE INDEX i ON t (a)")],
         {"t 150": "id,a", "t 250": "id,a"}),
        ([ddl_at(100, "DROP TABLE t"), ddl_at(200, "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, a INT)")],
         {"t 250": "id,a"}),
        ([ddl_at(200, "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, a INT)")], {"t 250": "id,a"}),
        ([LoggedTable(at(50), bare(ONE)), ddl_at(200, "CREATE TABLE IF NOT EXISTS t (z INT)")],
         {"t 250": "id,a", "t 4": "id,a"}),
        ([ddl_at(100, "DROP DATABASE d")], {}),
        ([ddl_at(100, "ALTER TABLE t DROP COLUMN z"), ddl_at(200, "ALTER TABLE t ADD a INT")],
         {"t 250": "id,a", "t 150": "id ? what it was before ALTER TABLE at b.000001:100 is not known: it drops column "
          "z, and what that was is in no log (ALTER TABLE t DROP COLUMN z)"}),
        ([ddl_at(100, "ALTER TABLE T ADD a INT")],
         {"t 150": "id,a ? what it was before ALTER TABLE at b.000001:100 is not known: it names d.T; whether that is "
          "d.t is not in the log (ALTER TABLE T ADD a INT)"}),
        ([ddl_at(100, "ALTER TABLE t ADD SYSTEM VERSIONING")],
         {"t 150": "id,a ? what it was before ALTER TABLE at b.000001:100 is not known: rows of system-versioned "
          "tables are not merged (ALTER TABLE t ADD SYSTEM VERSIONING)"}),
        ([LoggedTable(at(50), bare(THREE)), ddl_at(100, "ALTER TABLE t RENAME COLUMN z TO a")],
         {"t 150": "id,a ? what it was before ALTER TABLE at b.000001:100 is not known: by its rows at b.000001:50, "
          "its rows have (@1 int, @2 int, @3 int), which (id int, z int) is not (ALTER TABLE t RENAME COLUMN z TO a)"}),
        ([ddl_at(100, "ALTER TABLE t CHANGE z a INT"), LoggedTable(at(500), bare(ONE))], {"t 150": "id,a"}),
    ],
)  # fmt: skip
def test_what_statements_and_rows_say_going_back(facts: list[Fact], expected: dict[str, str]) -> None:
    unrelated = ddl_at(60, "ALTER TABLE other ADD x INT")  # of which something lacks
    assert columns_by_fact([unrelated, *facts, ServerAnswer(at(END), (ONE, TWO))]) == expected


def test_nothing_is_looked_for_where_nothing_lacks() -> None:
    facts: list[Fact] = [ddl_at(100, "CREATE TABLE t (id INT PRIMARY KEY, a INT)"), ServerAnswer(at(END), (ONE,))]
    assert led_back(facts) == ReversedHistory()


def test_a_character_set_that_a_statement_leaves_to_the_table_is_led_back() -> None:
    definition = table_of("id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET latin1")
    facts: list[Fact] = [
        ddl_at(100, "CREATE TABLE t (id INT PRIMARY KEY)"),
        ddl_at(200, "ALTER TABLE t ADD a VARCHAR(9)"),
        LoggedTable(at(300), bare(definition)),
        ServerAnswer(at(END), (definition,)),
    ]
    versions = Tracker().follow([*facts, *led_back(facts).facts])
    assert [version.origin for version in versions][:3] == ["ddl", "ddl", "inverted"]
    table_definition = as_of(versions, at(300))[NAME].definition
    assert table_definition == definition


def test_a_log_that_names_its_columns_tells_them_itself() -> None:
    after = definition_after_clauses(ONE, operations("ALTER TABLE t ADD z INT"))
    unrelated = ddl_at(60, "ALTER TABLE other ADD x INT")  # of which something lacks
    facts: list[Fact] = [
        LoggedTable(at(50), ONE),
        unrelated,
        ddl_at(100, "ALTER TABLE t ADD z INT"),
        ServerAnswer(at(END), (after,)),
    ]
    assert columns_by_fact(facts) == {"t 150": "id,a,z"}


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
@pytest.mark.parametrize("server, metadata", [("", "MINIMAL"), ("mariadb-11.4", "NO_LOG")])
def test_a_log_that_begins_amid_random_statements_leads_back_to_what_the_server_had(
    request: pytest.FixtureRequest, server: str, seed: int, metadata: str, summary: list[str]
) -> None:
    if server:
        with opened(request.getfixturevalue("servers"), server) as database:
            line = require_as_it_was(database, seed, metadata)
    else:
        line = require_as_it_was(request.getfixturevalue("database"), seed, metadata)
    summary.append(f"led back, {server or 'mysql-8.0'}, {metadata}, seed {seed}: {line}")


def require_as_it_was(database: Database, seed: int, metadata: str) -> str:
    """Says what was compared."""
    server = database.server
    login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
    source, name = Server("shop", MySQL(**login, password=server.password)), TableName(database.name, "t")
    database.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    ((setting,),) = database.execute("SELECT @@GLOBAL.binlog_row_metadata")
    database.execute(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    compared = reasons = parts = 0
    try:
        stream = Stream(seed)
        database.execute(stream.create())
        for _ in range(5):  # a log after the other, of which none has the CREATE, but where the table is made anew
            database.execute("FLUSH BINARY LOGS")
            file, begin = database.execute("SHOW MASTER STATUS")[0][:2]
            had = {0: on_server(source).get(name)}  # by a position before the statement that made it so
            for _ in range(8):
                for statement in stream.generator.choice([stream.rows, stream.add, stream.alter, stream.alter])():
                    # behind it MariaDB may have written a checkpoint of its own already
                    before = database.execute("SHOW MASTER STATUS")[0][1]
                    try:
                        database.execute(statement)
                    except pymysql.MySQLError:  # values that are not of the column's new type
                        continue
                    if statement.startswith("ALTER"):
                        had[before] = on_server(source).get(name)
            log = Log(file, (server.data / file).read_bytes(), 4)
            definitions = tuple(
                definition for at, definition in [(log.stop, on_server(source).get(name))] if definition
            )
            facts = [*facts_of(log), ServerAnswer(log.at(log.stop), definitions)]
            path = replay_backwards(facts, Tracker().follow(facts), log.at(begin))
            for fact in path.facts:
                expected = had[max(offset for offset in had if offset < fact.at.offset)]
                assert expected is not None, fact
                assert differences(fact.definition, expected) == [], fact
                assert fact.definition.key == expected.key, fact
                compared += 1
                reasons += fact.note is not None
            parts += 1
    finally:
        database.execute(f"SET GLOBAL binlog_row_metadata = '{setting}'")
    assert compared, seed
    return f"{compared} definitions in {parts} logs, {reasons} of them behind a statement that cannot be inverted"
