"""Tables followed by what four origins tell: their definitions behind each, and what is said where they contradict."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from spark_jobs.binlog import Column, FormatDescription, Session, TableDefinition, TableName, parse_table_map
from spark_jobs.binlog.events.query_event import read_session
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.diff import differences
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import Fact, InvertedDefinition, LoggedTable, ServerAnswer, StatementFact, TableVersion
from spark_jobs.schema.tracker import Tracker, as_of, definition_changes, key_of, listed_with_key
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.server import Server
from tests.fix_mysql import Database
from tests.fix_servers import Servers
from tests.spark_jobs.silver.test_table_timeline_on_server import Log
from tests.twins.ddl_stream import Stream

STRICT = Session(1 << 22, 33, explicit_timestamps=True)
T = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET latin1, b INT NOT NULL)"
ID, A, B = Column("id", 3, nullable=False), Column("a", 15, 9, charset=8), Column("b", 3, nullable=False)
LOGGED = TableDefinition(TableName("d", "t"), (ID, A, B), (0,))


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def statements_at(*statements: str, start: int = 100) -> list[Fact]:
    return [
        StatementFact(
            at(start + 10 * nth), classify(text, "d"), "d", STRICT, {"sql_mode": "STRICT_ALL_TABLES"}, f"g:{nth}"
        )
        for nth, text in enumerate(statements)
    ]


def rows(offset: int, definition: TableDefinition = LOGGED) -> LoggedTable:
    return LoggedTable(at(offset), definition)


def declared_at(offset: int, *definitions: TableDefinition) -> ServerAnswer:
    return ServerAnswer(at(offset), definitions)


def follow(*facts: Fact | Iterable[Fact]) -> list[TableVersion]:
    ordered: list[Fact] = []
    for fact in facts:
        ordered += (
            [fact] if isinstance(fact, StatementFact | LoggedTable | ServerAnswer | InvertedDefinition) else list(fact)
        )
    return Tracker().follow(ordered)


def listing(versions: Iterable[TableVersion], table: str = "t") -> str:
    """A table as it is at the end."""
    version = as_of(versions)[TableName("d", table)]
    if version.is_dropped:
        return f"-> {version.renamed_to}" if version.renamed_to else "dropped"
    return listed_with_key(version.definition) if version.definition else f"? {version.note}"


NO_KEY = "CREATE TABLE t (a INT, b INT)"
INT = "(id int not null, a varchar(9), b int not null), key: "


@pytest.mark.parametrize(
    "statements, expected",
    [
        ([T], INT + "id"),
        ([T, "ALTER TABLE t DROP PRIMARY KEY"], INT + "unknown"),
        ([T, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)"], INT + "b, id"),
        ([T, "ALTER TABLE t DROP PRIMARY KEY, ADD CONSTRAINT `p` PRIMARY KEY USING BTREE (b DESC)"], INT + "b"),
        ([T, "ALTER TABLE t DROP COLUMN id"], "(a varchar(9), b int not null), key: unknown"),
        (
            [T, "ALTER TABLE t DROP COLUMN id, ADD COLUMN n BIGINT PRIMARY KEY FIRST"],
            "(n bigint not null, a varchar(9), b int not null), key: n",
        ),
        ([NO_KEY], "(a int, b int), key: none"),
        ([NO_KEY, "ALTER TABLE t ADD UNIQUE (a)"], "(a int, b int), key: none"),
        ([NO_KEY, "ALTER TABLE t ADD n INT NOT NULL UNIQUE"], "(a int, b int, n int not null), key: n"),
        ([NO_KEY, "ALTER TABLE t MODIFY a INT NOT NULL"], "(a int not null, b int), key: unknown"),
        ([NO_KEY, "ALTER TABLE t ADD PRIMARY KEY (b)"], "(a int, b int not null), key: b"),
        (["CREATE TABLE t (a INT NOT NULL)", "CREATE UNIQUE INDEX i ON t (a)"], "(a int not null), key: a"),
        (["CREATE TABLE t (a INT NOT NULL)", "CREATE UNIQUE INDEX i ON d.t (a(3))"], "(a int not null), key: none"),
        (["CREATE TABLE t (a INT NOT NULL)", "CREATE INDEX i ON t (a)"], "(a int not null), key: none"),
        (["CREATE TABLE t (a INT NOT NULL, UNIQUE i (a))", "DROP INDEX i ON t"], "(a int not null), key: unknown"),
        (["CREATE TABLE t (a INT NOT NULL, UNIQUE i (a))", "DROP INDEX other ON t"], "(a int not null), key: a"),
        (["CREATE TABLE t (a INT NOT NULL, UNIQUE i (a))", "ALTER TABLE t MODIFY a INT"], "(a int), key: unknown"),
        (["CREATE TABLE t (a INT INVISIBLE, b INT)"], "(a int invisible, b int), key: none"),
        (["CREATE TABLE t (a INT INVISIBLE, b INT)", "ALTER TABLE t ALTER a SET VISIBLE"], "(a int, b int), key: none"),
        ([T, "CREATE TABLE u LIKE t", "DROP TABLE t", "RENAME TABLE u TO t"], INT + "id"),
        (["CREATE TABLE u (a INT)", T, "RENAME TABLE t TO v, u TO t, v TO u"], "(a int), key: none"),
        ([T, "ALTER TABLE t ADD c INT, RENAME TO e.t"], "-> e.t"),
        ([T, "DROP TABLES x, t"], "dropped"),
        ([T, "DROP DATABASE d"], "dropped"),
        ([T, "DROP DATABASE e"], INT + "id"),
        ([T, "DROP DATABASE D"], "? whether its schema is d is not in the log"),
        ([T, "DROP TABLE t", "CREATE TABLE IF NOT EXISTS t (a INT)"], "(a int), key: none"),
        ([T, "CREATE TABLE IF NOT EXISTS t (a INT)"], INT + "id"),
        ([T, "DROP TABLE t", "CREATE TABLE t AS SELECT 1 a"], "? its columns come from a query"),
        ([T, "ALTER TABLE t DROP PARTITION p1"], INT + "id"),
        ([T, "ALTER TABLE t COMMENT = 'x', ENGINE = MyISAM"], INT + "id"),
        ([T, "TRUNCATE t", "INSERT INTO t VALUES (1)", "CALL p()"], INT + "id"),
        ([T, "ALTER TABLE T ADD c INT"], "? the statement names d.T; whether it is d.t is not in the log"),
        ([T, "ALTER TABLE t ADD c NONSENSE"], "? not followed: column c: the type nonsense is not known"),
        (
            ["CREATE TABLE t (a INT)", "ALTER TABLE t DROP b"],
            "? not followed: the table had no column b, as far as is known: d.t (a int)",
        ),
        ([T, "ALTER TABLE t ADD c INT", "RENAME TABLE t u"], "? the statement cannot be read"),
        (["ALTER TABLE t ADD c INT"], "? its columns were not known before it"),
        (["CREATE TABLE t LIKE e.u"], "? the columns of e.u were not known"),
    ],
)  # fmt: skip
def test_what_statements_lead_to(statements: list[str], expected: str) -> None:
    assert listing(follow(statements_at(*statements))) == expected


def test_each_statement_is_kept_with_its_session() -> None:
    versions = follow(statements_at(T, "TRUNCATE t", "GRANT ALL ON *.* TO a", "ALTER TABLE mysql.t ADD a INT"))
    assert [version.statement for version in versions] == [T, "TRUNCATE t"]
    assert [(version.origin, version.gtid, version.database) for version in versions] == [
        ("ddl", "g:0", "d"),
        ("ddl", "g:1", "d"),
    ]
    assert versions[0].variables == {"sql_mode": "STRICT_ALL_TABLES"}


def test_names_are_kept_where_tables_are_renamed() -> None:
    versions = follow(statements_at(T, "RENAME TABLE t TO u"))
    old, new = TableName("d", "t"), TableName("d", "u")
    assert {version.name: (version.renamed_from, version.renamed_to) for version in versions[1:]} == {
        old: (None, new),
        new: (old, None),
    }


def test_rows_tell_what_statements_leave_open() -> None:
    versions = follow(
        statements_at("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'x', b INT NOT NULL)"), rows(200)
    )
    assert [version.origin for version in versions] == ["ddl", "table_map"]
    last = versions[-1].definition
    assert last is not None
    assert [(column.charset, column.default) for column in last.columns][1] == (8, "'x'")
    assert (last.key, last.index) == ((0,), "PRIMARY")
    assert (
        len(follow(statements_at(T), rows(200), rows(300))) == 2
    )  # the statement tells no collation, and rows it once


def test_rows_without_names_get_them_from_statements() -> None:
    bare = replace(
        LOGGED, columns=tuple(replace(column, name=None, charset=None) for column in LOGGED.columns), key=None
    )
    assert listing(follow(statements_at(T), rows(200, bare))) == INT + "id"
    assert listing(follow(rows(200, bare))) == "(@1 int not null, @2 varchar(9), @3 int not null), key: unknown"
    (_, version) = follow(statements_at(T), rows(200, replace(bare, columns=bare.columns[:2])))
    assert version.differs == (
        "its rows have types (@1 int, @2 varchar(9)), and it is followed as (id int, a varchar(9), b int)",
    )


@pytest.mark.parametrize(
    "logged, stated_by",
    [
        (replace(LOGGED, columns=(ID, A)), ["column b: the log of its rows does not have it"]),
        (replace(LOGGED, key=(2,)), ["the key is (id), in the log of its rows (b)"]),
        (
            replace(LOGGED, columns=(ID, A, Column("b", 8, nullable=False))),
            ["column b: is followed as int (type 3, 0), and the log of its rows declares bigint (type 8, 0)"],
        ),
    ],
)
def test_rows_that_contradict_statements_are_right_and_it_is_said(
    logged: TableDefinition, stated_by: list[str]
) -> None:
    versions = follow(statements_at(T), rows(200, logged))
    assert (list(versions[-1].differs), versions[-1].holds) == (stated_by, True)
    assert listing(versions) == listed_with_key(logged)


def test_a_column_that_went_unlogged_and_was_added_again() -> None:
    """A session without sql_log_bin drops a column, and the log has an ALTER that adds it."""
    second = replace(LOGGED, columns=(ID, B, replace(A, nullable=False)))
    versions = follow(statements_at(T), rows(200), statements_at("ALTER TABLE t ADD a INT", start=300))
    assert "not followed: the table has a column a already, as far as is known: d.t (id int, a" in listing(versions)
    assert (
        listing(Tracker(versions).follow([rows(400, second)]))
        == "(id int not null, b int not null, a varchar(9) not null), key: id"
    )
    # A lake of an earlier version has the column twice.
    twice = TableVersion(LOGGED.name, at(300), "ddl", replace(LOGGED, columns=(ID, A, B, A)))
    (version,) = Tracker([twice]).follow([rows(400)])
    assert version.differs == ("it is followed with 4 columns, and the log of its rows declares 3",)


def test_rows_of_a_table_that_was_dropped_say_so() -> None:
    versions = follow(statements_at(T, "DROP TABLE t"), rows(200))
    assert versions[-1].differs == ("the log has rows of it after the statement that dropped it",)


DECLARED = replace(LOGGED, index="PRIMARY", columns=(ID, A, replace(B, default="3")))


def test_a_server_tells_what_the_log_does_not() -> None:
    versions = follow(rows(100), declared_at(200, DECLARED))
    assert [(version.origin, version.holds) for version in versions] == [("table_map", True), ("server", True)]
    last = versions[-1].definition
    assert last is not None
    assert ([column.default for column in last.columns], last.index) == ([None, None, "3"], "PRIMARY")
    assert follow(rows(100), declared_at(200, DECLARED), declared_at(300, DECLARED)) == versions  # it is no news


@pytest.mark.parametrize(
    "facts, reason",
    [
        ([declared_at(200, replace(DECLARED, columns=(ID, A)))], ("column b: the server does not have it",)),
        ([*statements_at("DROP TABLE t", start=150), declared_at(200, DECLARED)], ("the log has dropped it",)),
        ([declared_at(200, replace(DECLARED, name=TableName("d", "other")))], ("the server does not have it",)),
    ],
)
def test_a_server_that_contradicts_the_log_is_not_believed(facts: list[Fact], reason: tuple[str, ...]) -> None:
    versions = follow(statements_at(T), facts)
    candidate = next(server_version for server_version in versions if server_version.differs)
    assert (candidate.differs, candidate.holds, candidate.name.table) == (reason, False, "t")
    assert listing(versions) == listing([version for version in versions if version.origin == "ddl"])


def test_what_a_server_said_while_the_table_changed_does_not_count() -> None:
    versions = follow(statements_at(T), declared_at(200, DECLARED), statements_at("ALTER TABLE t ADD c INT", start=210))
    server = next(version for version in versions if version.origin == "server")
    assert (server.holds, server.note) == (
        False,
        "the table was changed while the server was asked: ALTER TABLE t ADD c INT",
    )
    assert listing(versions) == "(id int not null, a varchar(9), b int not null, c int), key: id"


def test_what_a_server_said_of_later_does_not_count() -> None:
    versions = follow(statements_at(T), replace(declared_at(200, DECLARED), note="later", is_whole=False))
    assert [(version.holds, version.note) for version in versions] == [(True, None), (False, "later")]
    assert listing(versions) == INT + "id"


def test_a_type_that_is_not_known_is_said() -> None:
    (version,) = follow(declared_at(200, replace(LOGGED, columns=(ID, Column("a", -1)))))
    assert (version.holds, version.note) == (False, "the type of its column a is not known")


def test_following_in_parts_is_following_at_once() -> None:
    facts = [
        *statements_at(T, "CREATE TABLE u LIKE t", "RENAME TABLE t TO v"),
        rows(125),
        *statements_at("DROP TABLE u", start=150),
    ]
    versions = Tracker().follow(facts)
    for cut in range(len(facts) + 1):
        first = Tracker().follow(facts[:cut])
        assert [*first, *Tracker(first).follow(facts[cut:])] == versions


def test_changes_are_told_by_the_columns_names() -> None:
    after = replace(LOGGED, columns=(B, replace(ID, type_code=8), Column("c", 3)), key=None)
    assert definition_changes(LOGGED, after) == [
        "- a varchar(9)",
        "+ c int",
        "id: int not null -> bigint not null",
        "order: b, id, c",
        "key: id -> unknown",
    ]
    assert definition_changes(LOGGED, LOGGED) == definition_changes(LOGGED, None) == []
    older = replace(LOGGED, columns=(ID, A, replace(B, default="3")))
    assert definition_changes(older, replace(older, columns=(ID, A, replace(B, default="4")))) == [
        "b: 3 -> 4 if left out"
    ]
    assert definition_changes(None, LOGGED) == [listed_with_key(LOGGED)]
    assert key_of(replace(LOGGED, key=())) == "none"


FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
RUNS = int(os.environ.get("STRATALOG_RUNS", "2"))
KEYS = [
    "ALTER TABLE t DROP PRIMARY KEY",
    "ALTER TABLE t ADD COLUMN k{0} INT NOT NULL DEFAULT 0, ADD UNIQUE u{0} (k{0}, id)",
    "CREATE UNIQUE INDEX i{0} ON t (id)",
    "ALTER TABLE t ADD PRIMARY KEY (id)",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
    "RENAME TABLE t TO s; RENAME TABLE s TO t",
]


def with_keys(stream: Stream, count: int) -> Iterator[str]:
    """Random statements with changes of the key between them; a server refuses those that cannot be."""
    for nth, statement in enumerate(stream.statements(count)):
        yield statement
        if stream.generator.random() < 0.15:
            yield from stream.generator.choice(KEYS).format(nth).split("; ")


def facts_of(log: Log) -> list[Fact]:
    length = int.from_bytes(log.head[9:13], "little")
    format_ = FormatDescription.parse(log.head[:length], log.file)
    facts: list[Fact] = []
    for row in log.slices:
        position = log.at(row["start"])
        facts += [LoggedTable(position, parse_table_map(event, format_, log.file)) for event in row["maps"]]
        if row["kind"] == "statement":
            judged = classify(row["statement"], row["database"])
            session, stop = read_session(row["payload"]), log.at(row["stop"])
            facts.append(StatementFact(position, judged, row["database"], session, stop=stop))
    return facts


CASES = [("", "FULL"), ("", "MINIMAL"), ("mariadb-11.4", "FULL"), ("mariadb-11.4", "NO_LOG")]
"""Servers, the run's own one first, and what their logs tell of tables."""


@contextmanager
def opened(servers: Servers, server: str) -> Iterator[Database]:
    """A schema in a server of a version."""
    running = servers.get(server)
    with running.connect() as connection:
        database = Database("tracked", running, connection)
        database.execute("CREATE DATABASE tracked")
        try:
            connection.select_db("tracked")
            yield database
        finally:
            database.execute("DROP DATABASE tracked")


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
@pytest.mark.parametrize("server, metadata", CASES)
def test_random_statements_lead_to_the_server_s_table(
    request: pytest.FixtureRequest, server: str, seed: int, metadata: str, summary: list[str]
) -> None:
    if server:
        with opened(request.getfixturevalue("servers"), server) as database:
            line = require_same_as_on_server(database, seed, metadata)
    else:
        line = require_same_as_on_server(request.getfixturevalue("database"), seed, metadata)
    summary.append(f"schema history, {server or 'mysql-8.0'}, {metadata}, seed {seed}: {line}")


def require_same_as_on_server(database: Database, seed: int, metadata: str) -> str:
    """Says what was compared."""
    server = database.server
    login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
    source = Server("shop", MySQL(**login, password=server.password))
    database.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    database.execute("FLUSH BINARY LOGS")
    ((setting,),) = database.execute("SELECT @@GLOBAL.binlog_row_metadata")
    database.execute(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    name = TableName(database.name, "t")
    file = database.execute("SHOW MASTER STATUS")[0][0]
    compared = statements = unknown = 0
    try:
        for nth, statement in enumerate([*with_keys(Stream(seed), 60), "REPLACE INTO t (id) VALUES (1)"]):
            try:
                database.execute(statement)
            except pymysql.MySQLError:  # a key that is not there, values that are there twice
                continue
            statements += 1
            if nth % 15 and not statement.endswith("VALUES (1)"):
                continue
            log = Log(file, (server.data / file).read_bytes(), 4)
            current = as_of(Tracker().follow(facts_of(log)), log.at(log.stop)).get(name)
            declared = on_server(source).get(name)
            assert (current is None or current.is_dropped) == (declared is None), statement
            if current is None or declared is None:
                continue
            assert current.definition is not None, (statement, current.note)
            assert differences(current.definition, declared) == [], (statement, current)
            assert current.definition.key in (declared.key, None), (statement, current)
            unknown += current.definition.key is None
            compared += 1
    finally:
        database.execute(f"SET GLOBAL binlog_row_metadata = '{setting}'")
    return f"{statements} statements, equal at {compared} pauses, the key not known at {unknown}"


BARE = TableDefinition(
    TableName("d", "t"), tuple(replace(column, name=None, charset=None) for column in LOGGED.columns)
)


WHOLE = "(id int not null, a varchar(9), b int not null), key: id"


def dumped(offset: int, *definitions: TableDefinition, **fields: Any) -> ServerAnswer:
    return ServerAnswer(at(offset), definitions, is_whole=False, origin="dump", **fields)


@pytest.mark.parametrize(
    "facts, expected",
    [
        ([rows(10, BARE), dumped(50, LOGGED)], WHOLE),
        (
            [rows(10, BARE), dumped(50, LOGGED), *statements_at("ALTER TABLE t ADD c INT")],
            "(id int not null, a varchar(9), b int not null, c int), key: id",
        ),
        (
            [dumped(50, LOGGED), *statements_at("ALTER TABLE t RENAME COLUMN a TO x"), rows(200, BARE)],
            "(id int not null, x varchar(9), b int not null), key: id",
        ),
        ([*statements_at("ALTER TABLE t ADD c INT"), dumped(150, LOGGED)], WHOLE),
        ([rows(10, BARE), dumped(50, replace(LOGGED, columns=(ID, A)))],
         "(@1 int not null, @2 varchar(9), @3 int not null), key: unknown"),
        ([*statements_at(T, "DROP TABLE t"), dumped(150, LOGGED)], "dropped"),
        ([dumped(50, LOGGED), dumped(60, unread=((LOGGED.name, "line 3"),))], WHOLE),
    ],
)  # fmt: skip
def test_a_dump_tells_from_its_place_on(facts: list[Fact], expected: str) -> None:
    assert listing(follow(facts)) == expected


def test_what_a_dump_tells_stays_through_rows_that_say_less() -> None:
    """Each extraction has the TABLE_MAPs anew; they add no version, and take no default away."""
    definition = replace(LOGGED, columns=(ID, replace(A, default="'x'", computed=False), B))
    versions = follow(dumped(50, definition), rows(100, BARE), rows(200, BARE))
    assert [version.origin for version in versions] == ["dump"]
    assert as_of(versions)[LOGGED.name].definition == definition


def test_a_dump_that_contradicts_rows_or_statements_does_not_hold() -> None:
    definition = replace(LOGGED, columns=(ID, A))
    for facts in ([rows(10, BARE)], statements_at(T, start=10)):
        *_, last = follow(facts, dumped(60, definition))
        assert (last.origin, last.holds, last.definition) == ("dump", False, definition)
        assert last.differs
    (version,) = follow(dumped(60, unread=((LOGGED.name, "line 3"),)))
    assert (version.holds, version.note, version.definition) == (False, "line 3", None)


def test_what_was_led_back_counts_where_something_lacks_and_contradicts_nothing() -> None:
    versions = follow(rows(10, BARE), [InvertedDefinition(at(20), LOGGED, "not before")])
    assert [(version.origin, version.note) for version in versions] == [("table_map", None), ("inverted", "not before")]
    assert listing(versions) == WHOLE
    assert [version.origin for version in follow(statements_at(T), [InvertedDefinition(at(120), LOGGED)])] == ["ddl"]
    assert [
        version.origin for version in follow(statements_at("DROP TABLE t"), [InvertedDefinition(at(120), LOGGED)])
    ] == ["ddl"]
    without_charset = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT NOT NULL)"
    followed = follow(statements_at(without_charset), [InvertedDefinition(at(120), LOGGED)])
    assert followed[-1].definition == LOGGED
    definition = replace(LOGGED, columns=(ID, B))
    assert [
        version.origin for version in follow(statements_at(without_charset), [InvertedDefinition(at(120), definition)])
    ] == ["ddl"]


def test_columns_without_names_stay_so_behind_statements() -> None:
    (_, behind) = follow(rows(10, BARE), statements_at("ALTER TABLE t ADD c INT"))
    assert behind.definition is not None
    assert [column.name for column in behind.definition.columns] == [None, None, None, "c"]
