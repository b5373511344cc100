"""The schema history as a table: its rows, what a server is asked for it, and what is read out of it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.model import SchemaDump
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.classify import classify
from spark_jobs.errors import LakeError, LostRace, StratalogError, TableStopped
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.schema import dump, history_rows
from spark_jobs.schema import history as schema_history
from spark_jobs.schema.commit import HistoryCommit
from spark_jobs.schema.facts import Fact, LoggedTable, ServerAnswer, StatementFact, TableVersion
from spark_jobs.schema.history import (
    ServerDefinitions,
    ServerReading,
    ask_server,
    by_history,
    declared_facts,
    follow,
    new_facts,
    read,
    reading_of,
)
from spark_jobs.source.files import Files
from spark_jobs.source.information_schema import ask
from spark_jobs.source.server import Server
from tests.binlogs.segment_spec import Change, Insert, SegmentSpec, Statement
from tests.binlogs.segment_spec import Table as SpecTable
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_rows
from tests.fix_mysql import Database

NAME = TableName("shop", "t.`x")
UNNAMED = TableDefinition(NAME, (Column(None, 3), Column(None, 15, 40, charset=255)))
KNOWN = TableDefinition(
    NAME,
    (
        Column("id", 3, nullable=True, default="NULL", computed=False, invisible=True),
        Column("note", 15, 40, charset=255),
    ),
    (0,),
    "PRIMARY",
)


def at(offset: int) -> Position:
    return Position("mysql-bin.000003", offset, 2)


def store(lake: Lake, *versions: TableVersion, **notes: Any) -> None:
    """What ``follow`` writes, written without Spark."""
    rows = pa.Table.from_pylist([history_rows.row_of(version) for version in versions], schema=history_rows.ARROW)
    commit = HistoryCommit(at(900), "batch", begin=at(4), **notes)
    metadata = deltalake.CommitProperties(custom_metadata={"userMetadata": commit.to_json()})
    deltalake.write_deltalake(lake.schema("shop").path, rows, commit_properties=metadata)


STATED = TableVersion(
    NAME,
    at(100),
    "ddl",
    KNOWN,
    note="why",
    differs=("a", "b"),
    renamed_from=TableName("a`b", "c.d"),
    statement="CREATE",
    database="shop",
    variables={"sql_mode": "ANSI"},
    gtid="g:1",
    committed_at=datetime(2026, 11, 22, 8, 0, 0, 123456, UTC),
)


def test_a_history_is_asked_within_its_reach(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with pytest.raises(LakeError, match=r"shop: there is no schema history yet; stratalog extract writes it"):
        read(lake, "shop")
    store(lake, STATED, TableVersion(NAME, at(500), "ddl", is_dropped=True))
    history = read(lake, "shop")
    assert [version.at.offset for version in history.of(NAME)] == [100, 500]
    assert [history.at(position)[NAME].is_dropped for position in (at(101), at(500), at(501), None)] == [
        False,
        False,
        True,
        True,
    ]
    assert history.at(at(100)) == {}
    for position in (Position("mysql-bin.000003", 500), at(901)):
        with pytest.raises(LakeError, match=r"is not in the schema history, from 2/mysql-bin\.000003:4 to"):
            history.at(position)


STATED_BY_SERVER = TableVersion(NAME, at(200), "server", KNOWN)


def test_names_come_from_what_a_server_told_last(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    older = replace(KNOWN, columns=(replace(KNOWN.columns[0], name="old"), KNOWN.columns[1]))
    store(
        lake,
        replace(STATED_BY_SERVER, definition=older, at=at(100)),
        STATED_BY_SERVER,
        asked_at=at(700),
        completes_log=True,
    )
    assert ServerDefinitions(lake, "shop").complete(UNNAMED, at(700)) == KNOWN
    with pytest.raises(TableStopped, match=r"was read at 2/mysql-bin\.000003:700, before a change at .*:701"):
        ServerDefinitions(lake, "shop").complete(UNNAMED, at(701))


@pytest.mark.parametrize(
    "version, notes",
    [
        (STATED_BY_SERVER, {}),
        (STATED_BY_SERVER, {"asked_at": at(700), "completes_log": False}),
        (replace(STATED_BY_SERVER, definition=None, holds=False), {"asked_at": at(700), "completes_log": True}),
        (replace(STATED_BY_SERVER, name=TableName("shop", "T")), {"asked_at": at(700), "completes_log": True}),
        (replace(STATED_BY_SERVER, origin="ddl"), {"asked_at": at(700), "completes_log": True}),
    ],
)
def test_what_no_server_told_names_nothing(tmp_path: Path, version: TableVersion, notes: dict[str, Any]) -> None:
    lake = Lake(str(tmp_path))
    store(lake, version, **notes)
    with pytest.raises(TableStopped, match="no definition was read from a server"):
        ServerDefinitions(lake, "shop").complete(UNNAMED, None)


class Later(Server):
    """A server whose log names the character set of labels, by its version."""

    def variables(self, connection: Any) -> dict[str, str]:
        return super().variables(connection) | {"version": "8.0.17"}


@pytest.mark.mysql
def test_a_server_is_asked_once_or_whenever_its_log_does_not_tell_all(database: Database, tmp_path: Path) -> None:
    server, lake = database.server, Lake(str(tmp_path))
    login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
    settings = MySQL(**login, password=server.password)
    source = Later("shop", settings)
    database.execute("CREATE TABLE t (a INT DEFAULT 5)")
    reading = ask_server(lake, source)
    assert reading is not None
    assert not reading.completes
    assert TableName(database.name, "t") in {definition.name for definition in reading.answer.definitions}
    assert reading.answer.variables["version"].startswith("8.0")
    store(lake, STATED_BY_SERVER, asked_at=reading.answer.at, completes_log=False)
    assert ask_server(lake, source) is None
    assert ask_server(lake, Files("shop", tmp_path)) is None
    without_charsets = ask_server(lake, Server("shop", settings))
    assert without_charsets is not None
    assert without_charsets.completes, "before 8.0.17 the log does not name the character set of labels"
    database.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        second = ask_server(lake, source)
    finally:
        database.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    assert second is not None
    assert second.completes
    assert second.answer.at <= source.log().end


@pytest.mark.mysql
def test_a_server_is_asked_behind_the_position_that_its_word_is_of(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change between the two stands behind that position, and what was told does not count."""
    server = database.server
    login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
    source = Server("shop", MySQL(**login, password=server.password))
    database.execute("CREATE TABLE t (a INT)")

    def altered_meanwhile(*arguments: Any) -> Any:
        database.execute("ALTER TABLE t RENAME COLUMN a TO b")
        return ask(*arguments)

    monkeypatch.setattr(schema_history, "ask", altered_meanwhile)
    reading = ask_server(Lake(str(tmp_path)), source)
    assert reading is not None
    assert reading.answer.at < source.log().end


DUMPED = TableVersion(NAME, at(300), "dump", KNOWN)
WIDER = replace(KNOWN, columns=(*KNOWN.columns, Column("more", 3)))


def test_what_a_dump_tells_is_moved_on_by_statements(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    new = TableName("shop", "new")
    store(
        lake,
        TableVersion(NAME, at(100), "table_map", UNNAMED),
        DUMPED,
        TableVersion(NAME, at(400), "ddl", WIDER),
        TableVersion(NAME, at(500), "ddl", is_dropped=True, renamed_to=new),
        TableVersion(new, at(500), "ddl", replace(WIDER, name=new)),
        TableVersion(TableName("shop", "unread"), at(300), "dump", holds=False, note="line 9: why"),
        TableVersion(TableName("shop", "other"), at(300), "dump", KNOWN, holds=False, differs=("column a: b",)),
    )
    lookup = by_history(lake, "shop")
    for offset in (4, 300):
        answer = lookup(NAME, at(offset))
        assert answer is not None
        assert (answer.at, answer.definition, answer.reason) == (at(300), KNOWN, None)
    for name, offset in ((NAME, 450), (new, 550)):
        answer = lookup(name, at(offset))
        assert answer is not None
        assert (answer.at, answer.definition, answer.reason) == (at(offset), replace(WIDER, name=name), None)
    assert lookup(new, at(4)) is None
    for table, reason in (("unread", "line 9: why"), ("other", "column a: b, and the dump, at 2/mysql-bin.000003:300")):
        answer = lookup(TableName("shop", table), at(4))
        assert answer is not None
        assert answer.reason is not None
        assert answer.reason.startswith(reason)
    answer_after_gap = lookup(NAME, at(600))
    assert answer_after_gap is not None
    assert answer_after_gap.reason == "what followed from it up to 2/mysql-bin.000003:600 is not known"


def test_a_server_s_word_alone_is_not_told(tmp_path: Path) -> None:
    """It is asked for as ``ServerDefinitions``, which knows whether a statement came since."""
    lake = Lake(str(tmp_path))
    store(lake, STATED_BY_SERVER)
    assert by_history(lake, "shop")(NAME, at(300)) is None


def test_what_statements_led_to_is_told_without_a_dump(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    store(lake, STATED_BY_SERVER, TableVersion(NAME, at(400), "ddl", WIDER))
    answer = by_history(lake, "shop")(NAME, at(450))
    assert answer is not None
    assert (answer.at, answer.definition, answer.by) == (at(450), WIDER, "the schema history")


def test_what_was_led_back_is_told_from_its_place_on_with_why_not_before(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    store(
        lake,
        TableVersion(NAME, at(100), "table_map", UNNAMED),
        TableVersion(NAME, at(150), "ddl", note="its columns were not known before it"),
        TableVersion(NAME, at(200), "inverted", KNOWN, note="it drops column x"),
        TableVersion(NAME, at(300), "ddl", WIDER),
        TableVersion(NAME, at(400), "server", WIDER),
    )
    lookup = by_history(lake, "shop")
    early, later = lookup(NAME, at(100)), lookup(NAME, at(250))
    assert early is not None
    assert (early.at, early.definition, early.not_before) == (at(200), KNOWN, "it drops column x")
    assert later is not None
    assert (later.at, later.definition) == (at(250), KNOWN)


def test_a_dump_that_the_history_has_is_not_read_again(tmp_path: Path) -> None:
    lake, source = Lake(str(tmp_path / "lake")), Files("shop", tmp_path)
    path = tmp_path / "schema.sql"
    path.write_text("-- CHANGE MASTER TO MASTER_LOG_FILE='bin.000001', MASTER_LOG_POS=4;\nCREATE TABLE d.t (a INT);\n")
    (tmp_path / "bin.000001").write_bytes(b"")
    schema_dump = SchemaDump(file=path)
    store(lake, STATED_BY_SERVER, dump=dump.mark(schema_dump, path.read_bytes()))
    assert reading_of(lake, source, schema_dump) is None
    with pytest.raises(StratalogError):  # it is read, and its position is looked for in the log
        reading_of(lake, source, schema_dump.model_copy(update={"at": "bin.000001:5"}))


LOG = [
    [Statement("shop", "CREATE TABLE a (id INT PRIMARY KEY)"), Statement("shop", "CREATE TABLE b (v INT)")],
    [Statement("shop", "ALTER TABLE a ADD COLUMN note INT"), Statement("shop", "CREATE TABLE c LIKE b")],
    [Statement("shop", "DROP TABLE b"), Statement("shop", "RENAME TABLE c TO d")],
]


def land_file(lake: Lake, number: int, **answers: Any) -> None:
    """A file of ``LOG`` in bronze. says: what the commit says besides, as one that puts files before others."""
    file, table = f"bin.{number:06d}", lake.bronze("shop")
    rows = bronze_rows(file, SegmentSpec([], LOG[number - 1], rotate_to=f"bin.{number + 1:06d}").to_bytes(), target=1)
    head, end = table.head(), Position(file, rows["stop"][-1].as_py())
    begin, last = (
        (bronze.begin(head.checkpoint), head.position) if head and head.checkpoint else (Position(file, 4), end)
    )
    assert last
    commit = BronzeCommit(max(last, end), new_batch(), start=begin, begin=begin, **answers)
    table.append_rows(rows, head or table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES), commit)


def history_rows_of(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.schema("shop").rows(), key=lambda row: (row["number"], row["offset"], row["table"]))


def test_a_history_that_is_rebuilt_has_the_rows_of_one_that_was_followed_from_the_beginning(tmp_path: Path) -> None:
    followed, pieces = (Lake(str(tmp_path / name)) for name in ("followed", "pieces"))
    for number in (1, 2, 3):
        land_file(followed, number)
        follow(followed, "shop")
    for number in (2, 3):
        land_file(pieces, number)
        follow(pieces, "shop")
    expected = history_rows_of(followed)
    assert len(expected) == 7
    assert history_rows_of(pieces) != expected, "of a table whose CREATE is not there nothing is known"
    land_file(pieces, 1, kind=CommitKind.RESTORED, oldest=Position("bin.000001", 4))
    assert len(follow(pieces, "shop")) == 7
    assert history_rows_of(pieces) == expected
    assert read(pieces, "shop") == read(followed, "shop")


def land_changes(lake: Lake, number: int, changes: Sequence[Change], tables: Sequence[SpecTable] = ()) -> None:
    """A file of some changes in bronze."""
    file, table = f"bin.{number:06d}", lake.bronze("shop")
    content = SegmentSpec(tables, changes).to_bytes()
    commit = BronzeCommit(Position(file, len(content)), new_batch(), begin=Position("bin.000001", 4))
    head = table.head() or table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
    table.append_rows(bronze_rows(file, content, target=1), head, commit)


def test_a_run_that_another_one_overtakes_while_it_follows_the_log_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    land_changes(lake, 1, [Statement("shop", "CREATE TABLE a (id INT PRIMARY KEY)")])
    follow(lake, "shop")
    with_note = SpecTable("shop.a", key=["id"], id=INT.NOT_NULL, note=INT)
    added = Statement("shop", "ALTER TABLE a ADD COLUMN note INT")
    land_changes(lake, 2, [added, Insert("shop.a", (1, 2))], [with_note])
    planned = schema_history._Update.of

    def overtaken(*inputs: Any) -> Any:
        update = planned(*inputs)
        monkeypatch.undo()
        assert follow(lake, "shop")
        return update

    monkeypatch.setattr(schema_history._Update, "of", overtaken)
    with pytest.raises(LostRace):
        follow(lake, "shop")


def test_a_later_run_knows_the_collations_that_schemas_were_given(tmp_path: Path) -> None:
    lake, texts = Lake(str(tmp_path)), ("CREATE DATABASE d COLLATE latin1_bin", "CREATE TABLE d.t (a CHAR(3))")
    for number, text in enumerate((*texts, "DROP DATABASE d", "CREATE TABLE d.u (a CHAR(3))"), 1):
        land_changes(lake, number, [Statement("d", text)])
        follow(lake, "shop")
    versions = read(lake, "shop").versions
    collations = {str(version.name): version.definition for version in versions if version.definition}
    assert [definition.columns[0].charset for definition in collations.values()] == [47, None]


def test_what_is_before_the_place_that_a_history_is_rebuilt_from_stays(tmp_path: Path) -> None:
    """The first file went by gc, and then a dump comes."""
    lake, oldest = Lake(str(tmp_path)), Position("bin.000002", 4)
    for number in (1, 2, 3):
        land_file(lake, number, **({"oldest": oldest, "removed_to": oldest} if number == 3 else {}))
        follow(lake, "shop") if number == 2 else None
    before = history_rows_of(lake)
    dumped = TableDefinition(TableName("shop", "dumped"), (Column("id", 3),), ())
    follow(lake, "shop", ServerReading(ServerAnswer(oldest, (dumped,), origin="dump", is_whole=False), False, "dump"))
    rows = history_rows_of(lake)
    assert [row for row in rows if row["number"] == 1] == [row for row in before if row["number"] == 1] != []
    assert [(row["table"], row["origin"]) for row in rows if row["table"] == "dumped"] == [("dumped", "dump")]
    assert [row for row in rows if row["number"] == 2 and row["origin"] == "ddl"] == before[2:]
    assert [row["dropped"] for row in rows if row["number"] == 3] == [True, True, False]


def ddl_at(offset: int, text: str) -> StatementFact:
    session = Session(1 << 22, 33, explicit_timestamps=True)
    return StatementFact(at(offset), classify(text, "shop"), "shop", session, stop=at(offset + 50))


def test_what_a_run_could_not_know_is_known_further_back_when_the_server_tells() -> None:
    """A table that changed while the server was asked: the next run writes the history anew, and the one behind not."""
    name = TableName("shop", "t")
    v, w, x = (
        TableDefinition(name, (Column("id", 3, nullable=False), Column(letter, 3)), (0,), "PRIMARY") for letter in "vwx"
    )
    bare = replace(v, columns=tuple(replace(column, name=None) for column in v.columns), key=None, index=None)
    facts: list[Fact] = [
        LoggedTable(at(100), bare),
        ddl_at(200, "ALTER TABLE t RENAME COLUMN v TO w"),
        ServerAnswer(at(300), (w,)),
    ]
    later: list[Fact] = [ddl_at(350, "ALTER TABLE t RENAME COLUMN w TO x"), LoggedTable(at(420), bare)]
    first, lacking, _ = schema_history._followed([], [*facts, *later], at(4), {})
    assert lacking == []
    assert [
        version.origin for version in first if version.holds and version.definition and version.definition.has_names()
    ] == []

    answer = ServerAnswer(at(600), (x,))
    second, lacking, _ = schema_history._followed(first, [answer], at(500), {})
    assert lacking == [str(name)]
    assert [version.origin for version in second] == ["server"]
    rebuilt, *_ = schema_history._followed([], [*facts, *later, answer], at(4), {})
    named_versions = [
        (version.at.offset, version.definition.column_names())
        for version in rebuilt
        if version.definition and version.holds
    ]
    assert named_versions[0] == (4, ["id", "v"])
    assert (200, ["id", "w"]) in named_versions
    assert named_versions[-1] == (600, ["id", "x"])
    assert schema_history._followed(
        rebuilt, [LoggedTable(at(700), bare), ServerAnswer(at(800), (x,))], at(650), {}
    ) == (
        [],
        [],
        {},
    )


def test_a_later_run_leads_back_what_it_is_told_as_far_as_the_one_before() -> None:
    name = TableName("shop", "t")
    definition = TableDefinition(name, (Column("id", 3, nullable=False),), (0,), "PRIMARY")
    two = replace(definition, columns=(*definition.columns, Column("h", 15, 9, charset=8)))
    bare = replace(two, columns=tuple(replace(c, name=None, charset=None) for c in two.columns), key=None, index=None)
    stored, *_ = schema_history._followed([], [ServerAnswer(at(100), (definition,))], at(4), {})
    facts: list[Fact] = [
        ddl_at(200, "ALTER TABLE t ADD h VARCHAR(9)"),
        LoggedTable(at(300), bare),
        ServerAnswer(at(400), (two,)),
    ]
    versions, lacking, _ = schema_history._followed(stored, facts, at(150), {})
    assert lacking == []
    assert [(version.origin, version.at.offset) for version in versions][:2] == [("ddl", 200), ("inverted", 250)]
    answer = schema_history.answer_at([*stored, *versions], at(300))
    assert answer is not None
    assert answer.definition == two


@pytest.mark.mysql
def test_what_the_log_does_not_tell_is_asked_once_and_of_tables_in_scope_or_not(
    database: Database, tmp_path: Path
) -> None:
    server, lake = database.server, Lake(str(tmp_path))
    source = Server("shop", MySQL(host=server.host, port=server.port, user=server.user, password=server.password))
    database.execute("CREATE TABLE p (id INT PRIMARY KEY)")
    database.execute("CREATE TABLE c (id INT, CONSTRAINT f FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE)")
    facts = new_facts(lake, source)
    assert facts is not None
    constraints = [(child.table, key.name) for child, key in facts.foreign_keys if child.schema == database.name]
    assert constraints == [("c", "f")]
    store(lake, STATED, facts=facts)
    assert declared_facts(lake, "shop") == facts
    assert new_facts(lake, source) is None
    changed = replace(facts, logs_cascades=True)
    second_lake = Lake(str(tmp_path / "other"))
    store(second_lake, STATED, facts=changed)
    assert new_facts(second_lake, source) is not None, "the server logs cascades otherwise than it did"
