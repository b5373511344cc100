"""Which definition completes what a log leaves out, and what is written where none does."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.changes.table_definitions import (
    FollowedDefinitions,
    HistoryDefinitions,
    completed_by,
    lacking,
    open_signs,
)
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import TableVersion
from tests.binlogs import segment_types as t
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Raw, SegmentSpec, Statement, Table, Update

NAME = TableName("s", "t")
INT, ENUM, TEXT = Column(None, 3, unsigned=None), Column(None, 247, 1), Column(None, 15, 40)
LOGGED = TableDefinition(NAME, (INT, ENUM, TEXT))


def declared(*columns: str, charset: str = "utf8mb4") -> TableDefinition:
    followed = FollowedDefinitions()
    followed.read(f"CREATE TABLE t ({', '.join(columns)}) DEFAULT CHARSET {charset}", "s", Session(0, 45))
    definition = followed._tracker.definition(NAME)
    assert definition
    return definition


FIRST = declared("a INT UNSIGNED", "e ENUM('x', 'y')", "v VARCHAR(10)")


def names(followed: FollowedDefinitions, logged: TableDefinition = LOGGED) -> list[str]:
    return followed.complete(logged).column_names()


def test_a_create_tells_names_signs_labels_and_character_sets() -> None:
    completed = completed_by(LOGGED, FIRST)
    assert completed
    assert [(c.name, c.unsigned, c.labels, c.charset) for c in completed.columns] == [
        ("a", True, None, None),
        ("e", False, ("x", "y"), FIRST.columns[1].charset),
        ("v", False, None, FIRST.columns[2].charset),
    ]
    assert lacking(completed) == []


@pytest.mark.parametrize(
    "columns",
    [
        ("a INT", "e ENUM('x', 'y')"),
        ("a BIGINT", "e ENUM('x', 'y')", "v VARCHAR(10)"),
        ("a INT", "e ENUM('x', 'y')", "v VARCHAR(11)"),
        ("a INT NOT NULL", "e ENUM('x', 'y')", "v VARCHAR(10)"),
    ],
)
def test_a_definition_of_other_columns_completes_nothing(columns: Sequence[str]) -> None:
    assert completed_by(LOGGED, declared(*columns)) is None


def test_text_without_a_known_character_set_may_be_as_long_as_the_log_says() -> None:
    followed = FollowedDefinitions()
    followed.read("CREATE TABLE t (a INT, e ENUM('x', 'y'), v VARCHAR(10))", "s", Session(0, 45))
    assert names(followed) == ["a", "e", "v"]
    assert lacking(followed.complete(LOGGED)) == ["character sets (text that is no UTF-8 is base64)"]


def test_what_the_event_says_itself_comes_first() -> None:
    logged = TableDefinition(NAME, (Column("id", 3, unsigned=False, nullable=False),), (0,))
    assert completed_by(logged, declared("id INT UNSIGNED NOT NULL")) is None
    assert completed_by(logged, declared("other INT NOT NULL")) is None
    completed = completed_by(logged, declared("id INT", "PRIMARY KEY (id)"))
    assert completed
    assert (completed.columns, completed.key) == (logged.columns, logged.key)


ALTER = "ALTER TABLE t RENAME COLUMN a TO b"


@pytest.mark.parametrize(
    "dump, statements, expected",
    [
        ([], [], ["@1", "@2", "@3"]),
        ([FIRST], [], ["a", "e", "v"]),
        ([FIRST], [ALTER], ["b", "e", "v"]),  # a dump from before the statement
        ([declared("b INT", "e ENUM('x', 'y')", "v VARCHAR(10)")], [ALTER], ["b", "e", "v"]),  # and from after it
        ([declared("b INT", "v VARCHAR(10)")], ["ALTER TABLE t DROP COLUMN e"], ["@1", "@2", "@3"]),
        ([FIRST], ["CREATE TABLE t (x INT, y ENUM('q'), z VARCHAR(40) CHARACTER SET latin1)"], ["x", "y", "z"]),
        ([FIRST], ["RENAME TABLE t TO u", "RENAME TABLE u TO t"], ["a", "e", "v"]),
        ([], [ALTER], ["@1", "@2", "@3"]),
        ([], ["CREATE TABLE t (a INT, e ENUM('x'), v VARBINARY(40))", ALTER], ["b", "e", "v"]),
        ([], ["CREATE TABLE t (a INT, e ENUM('x'), v VARBINARY(40))", "DROP TABLE t"], ["@1", "@2", "@3"]),
        ([], ["CREATE TABLE u (a INT, e ENUM('x'), v VARBINARY(40))", "CREATE TABLE t LIKE u"], ["a", "e", "v"]),
        ([], ["this is no statement"], ["@1", "@2", "@3"]),
    ],
)
def test_statements_then_the_dump(dump: list[TableDefinition], statements: list[str], expected: list[str]) -> None:
    followed = FollowedDefinitions(dump)
    for statement in statements:
        assert names(followed)  # what was completed before a statement does not stay
        followed.read(statement, "s", Session(0, 45))
    assert names(followed) == expected


def version(offset: int, origin: Any, definition: TableDefinition | None, **fields: Any) -> TableVersion:
    return TableVersion(NAME, Position("b.000001", offset), origin, definition, **fields)


SECOND = declared("b INT", "e ENUM('x', 'y')", "v VARCHAR(10)")


@pytest.mark.parametrize(
    "versions, at, expected",
    [
        ([], 500, "@1"),
        ([version(100, "ddl", FIRST)], 500, "a"),
        ([version(100, "ddl", FIRST)], 50, "@1"),
        ([version(100, "ddl", FIRST), version(400, "ddl", SECOND)], 300, "a"),
        ([version(100, "ddl", FIRST), version(400, "ddl", SECOND)], 500, "b"),
        ([version(900, "server", SECOND)], 500, "b"),
        ([version(900, "dump", SECOND, holds=False)], 500, "@1"),
        ([version(600, "ddl", None), version(900, "server", SECOND)], 500, "@1"),
        ([version(100, "ddl", None), version(900, "server", SECOND)], 500, "b"),
    ],
)
def test_the_history_as_of_a_position(versions: list[TableVersion], at: int, expected: str) -> None:
    definitions = HistoryDefinitions(lambda: {NAME: versions})
    assert definitions.complete(LOGGED, Position("b.000001", at)).column_names()[0] == expected


def test_what_is_missing_is_listed() -> None:
    assert [text.partition(" (")[0] for text in lacking(LOGGED)] == [
        "names",
        "the signs of integers",
        "the labels of ENUM and SET",
        "character sets",
    ]
    assert open_signs(LOGGED) == (0,)


BARE = Table("s.t", metadata=False, a=t.INT, b=t.TINYINT, e=t.ENUM("x", "y"))
EDGES: list[Change] = [
    Insert("s.t", (-1, 5, "y")),
    Update("s.t", (-1, 5, "y"), (7, -128, "x")),
    Delete("s.t", (7, -128, "x")),
    Insert("s.t", (None, 0, None)),
    Commit(),
]


def changes(*before: Change, form: str = "stratalog", dump: Sequence[TableDefinition] = ()) -> list[dict[str, Any]]:
    spec = SegmentSpec(tables=[BARE], changes=[*before, *EDGES])
    output = Output.of(form)
    pieces = changes_of_files([("log", iter([spec.to_bytes()]))], wanted_tables([]), output=output, dump=dump)
    return [json.loads(line) for line in "".join(pieces).splitlines()]


def test_both_readings_of_values_whose_sign_nothing_tells(caplog: pytest.LogCaptureFixture) -> None:
    insert, update, delete, nulls = changes()
    assert (insert["before"], insert["after"]) == (None, {"@1": -1, "@2": 5, "@3": 2})
    assert insert["unsigned"] == {"before": None, "after": {"@1": 4294967295}}
    assert update["unsigned"] == {"before": {"@1": 4294967295}, "after": {"@2": 128}}
    assert (update["before"]["@1"], update["after"]["@2"]) == (-1, -128)
    assert delete["unsigned"] == {"before": {"@2": 128}, "after": None}
    assert "unsigned" not in nulls
    (message,) = caplog.messages
    assert message.startswith("log:")
    assert ": s.t: the log does not have names (columns are @1, @2, …); the signs of integers" in message
    assert message.endswith("give a dump by mysqldump --no-data (--schema)")


@pytest.mark.parametrize("form", ["debezium", "canal-json", "maxwell"])
def test_formats_of_tools_have_the_signed_reading(form: str) -> None:
    text = json.dumps(changes(form=form)[0])
    assert "-1" in text
    assert "4294967295" not in text


def test_a_statement_before_the_rows_gives_one_reading(caplog: pytest.LogCaptureFixture) -> None:
    create = Statement("s", "CREATE TABLE t (a INT UNSIGNED, b TINYINT UNSIGNED, e ENUM('x', 'y'))")
    insert, update, delete, _ = changes(create)
    assert insert["after"] == {"a": 4294967295, "b": 5, "e": "y"}
    assert update["after"] == delete["before"] == {"a": 7, "b": 128, "e": "x"}
    assert not any("unsigned" in change for change in (insert, update, delete))
    assert caplog.messages == []


def test_bytes_of_unknown_character_set_stay_bytes() -> None:
    table = Table("s.t", metadata=False, v=t.VARCHAR(10))
    spec = SegmentSpec(tables=[table], changes=[Insert("s.t", (Raw(b"\x01\xe9"),))])
    (line,) = changes_of_files([("log", iter([spec.to_bytes()]))], wanted_tables([]))
    assert json.loads(line)["after"] == {"@1": {"base64": "6Q=="}}
