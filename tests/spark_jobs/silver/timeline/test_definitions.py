import re
from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableExtent
from spark_jobs.config.filters import EventFilter, Filters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.definitions import HistoryAnswer
from spark_jobs.errors import NamesUnknown, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableState
from spark_jobs.silver.timeline.build import build_until_stopped
from spark_jobs.silver.timeline.inputs import TimelineInputs
from tests.binlogs.timelines import (
    BARE,
    ID,
    KEYLESS,
    NAME,
    NUMBERED,
    OF_NUMBERS,
    OFTEN,
    OLD,
    UNNAMED,
    V,
    as_logged,
    at,
    definition,
    keyed,
    keys,
    listing,
    nowhere,
    steps,
    stored,
    unknown,
)


def test_names_that_the_log_leaves_out_are_carried_through_statements() -> None:
    unnamed = definition(Column(None, 3), Column(None, 3), Column(None, 8))
    timeline = steps(
        (500, "ALTER TABLE t ADD n BIGINT FIRST, CHANGE v w INT"),
        maps=((600, definition(Column(None, 8), Column(None, 3), Column(None, 3))),),
        state=TableState(OLD),
    )
    assert listing(timeline) == ["at 500 n,id,w", "510-1000 n,id,w"]
    assert isinstance(timeline[0], SchemaChange)
    assert timeline[0].origins == {"n": None, "id": "id", "w": "v"}
    with pytest.raises(TableStopped, match="does not name its columns, and has types"):
        steps((500, "ALTER TABLE t ADD n BIGINT FIRST"), maps=((600, unnamed),), state=TableState(OLD))


def test_json_of_mariadb_is_a_longtext_in_its_log() -> None:
    unnamed = definition(Column(None, 3), Column(None, 3), Column(None, 252, 4, charset=46))
    timeline = steps((500, "ALTER TABLE t ADD j JSON"), maps=((600, unnamed),), state=TableState(OLD))
    assert listing(timeline) == ["at 500 id,v,j", "510-1000 id,v,j"]
    assert isinstance(timeline[-1], DataRange)
    assert timeline[-1].definition.columns[2].sql_type == "longtext"


def test_names_of_a_table_s_first_rows_come_from_statements_before_them() -> None:
    unnamed = definition(Column(None, 3), Column(None, 8))

    def names(*statements: str) -> list[str]:
        logged_statements = [(20 + 10 * at, text) for at, text in enumerate(statements)]
        return listing(steps(*logged_statements, maps=((500, unnamed),)))

    create = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"
    assert names(create, "ALTER TABLE t CHANGE v w BIGINT") == ["40-1000 id,w"]
    assert names(create, "DROP TABLE t", "CREATE TABLE t (k INT, n BIGINT, PRIMARY KEY (k))") == ["50-1000 k,n"]
    for text in ("RENAME TABLE t TO u, v TO t", "DROP DATABASE shop", "ALTER TABLE t DROP COLUMN zz"):
        assert names(create.replace("v INT", "v BIGINT"), text) == ["40-1000 @1,@2"], "no name is guessed"


def test_a_bag_stays_one_whatever_index_is_made() -> None:
    added = "ALTER TABLE t ADD UNIQUE (id)"
    assert keys(steps(maps=((100, KEYLESS), (600, keyed(0))))) == [()], "CREATE UNIQUE INDEX is not looked at"
    assert keys(steps((500, added), maps=((100, KEYLESS), (600, keyed(0))))) == [()]
    assert keys(steps((500, "ALTER TABLE t ADD x INT"), maps=((100, KEYLESS), (600, keyed(0, has_more=True))))) == [
        (),
        (),
    ]
    assert keys(steps(maps=((100, keyed(0)),), state=TableState(KEYLESS))) == [()]
    assert keys(steps(maps=((100, keyed(0)),), rules=TimelineInputs(as_logged, nowhere, is_keyless=True))) == [()]


def test_a_table_made_anew_or_never_seen_has_the_key_that_its_log_tells() -> None:
    create, added = "CREATE TABLE t (id INT, v INT)", "ALTER TABLE t ADD PRIMARY KEY (id)"
    assert keys(steps((20, create), (40, added), maps=((100, keyed(0)),))) == [(0,)]
    timeline = steps((500, "DROP TABLE t"), (600, create), maps=((100, KEYLESS), (700, keyed(1))))
    assert keys(timeline) == [(), (1,)]


def test_a_server_s_unique_index_is_believed_where_no_statement_may_have_made_it() -> None:
    def complete(logged: TableDefinition, _: Position | None) -> TableDefinition:
        return keyed(0, index="u")

    rules = TimelineInputs(complete, nowhere)
    assert keys(steps(maps=((100, UNNAMED),), rules=rules)) == [(0,)]
    for statement in ("CREATE UNIQUE INDEX u ON t (id)", "ALTER TABLE t ADD UNIQUE u (id)", "DROP INDEX w ON t"):
        assert keys(steps((500, statement), maps=((100, UNNAMED),), rules=rules)) == [()]


def test_a_default_that_changes_between_rows_is_that_of_its_own_rows() -> None:
    timeline = steps(
        (50, "CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 1)"),
        (500, "ALTER TABLE t ALTER v SET DEFAULT 2"),
        rules=OFTEN,
    )
    rows = [step for step in timeline if isinstance(step, DataRange)]
    assert [(row.range.start, row.definition.columns[1].default) for row in rows] == [(at(60), "1"), (at(510), "2")]


def with_v(default: str | None) -> TableDefinition:
    return definition(ID, replace(V, default=default))


DROPS = ((500, "ALTER TABLE t ALTER v DROP DEFAULT"),)


@pytest.mark.parametrize(
    "statements, state, beginning, expected",
    [
        ((), None, None, ["7"]),
        (DROPS, None, None, [None, "7"]),
        (DROPS, None, with_v("6"), ["6", "7"]),
        (((500, "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)"),), TableState(with_v(None)), None, [None, "7"]),
        ((), TableState(with_v("5")), None, ["5"]),
        (DROPS, TableState(with_v("5")), None, ["5", "7"]),
    ],
)
def test_a_server_tells_the_defaults_behind_the_last_statement(
    statements: tuple[tuple[int, str], ...],
    state: TableState | None,
    beginning: TableDefinition | None,
    expected: list[str | None],
) -> None:
    def on_server(logged: TableDefinition, _: Position | None) -> TableDefinition:
        return replace(logged, columns=with_v("7").columns)

    rules = replace(OFTEN, complete=on_server, first_definition=beginning)
    timeline = steps(*statements, state=state, rules=rules)
    assert [step.definition.columns[1].default for step in timeline if isinstance(step, DataRange)] == expected


def by_history(
    offset: int, table_definition: TableDefinition | None = OLD, reason: str | None = None
) -> TimelineInputs:
    """Inputs with a dump that was taken at an offset, and nothing else that names columns."""

    def complete(logged: TableDefinition, _: Position | None) -> TableDefinition:
        raise TableStopped("nothing names them")

    answer = HistoryAnswer(at(offset), table_definition, reason)
    return TimelineInputs(
        complete, nowhere, contents=unknown, by_history=lambda name, _: answer if name == NAME else None
    )


WIDER = definition(ID, V, Column("x", 3))


ADDED = (500, "ALTER TABLE t ADD x INT")


BARE_WIDER = replace(WIDER, columns=tuple(replace(column, name=None) for column in WIDER.columns))


@pytest.mark.parametrize(
    "statements, maps, rules, expected",
    [
        ((), ((100, UNNAMED),), by_history(50), ["10-1000 id,v"]),
        ((), ((100, UNNAMED),), by_history(900), ["10-1000 id,v"]),
        ((ADDED,), ((100, UNNAMED), (600, BARE_WIDER)), by_history(200),
         ["10-500 id,v", "at 500 id,v,x", "510-1000 id,v,x"]),
        ((ADDED,), ((600, BARE_WIDER),), by_history(200), ["510-1000 id,v,x"]),
        ((ADDED,), ((600, BARE_WIDER),), by_history(510, WIDER), ["510-1000 id,v,x"]),
        ((ADDED,), ((600, BARE_WIDER),), by_history(500), ["510-1000 id,v,x"]),
        (((500, "CREATE TABLE IF NOT EXISTS t (y INT)"),), ((600, UNNAMED),), by_history(200), ["510-1000 id,v"]),
        (((300, "DROP TABLE t"), (500, "CREATE TABLE t (y INT, z INT)")), ((600, UNNAMED),), by_history(200),
         ["510-1000 y,z"]),
        ((), ((100, OLD),), by_history(50, None, "it is not asked"), ["10-1000 id,v"]),
    ],
)  # fmt: skip
def test_a_dump_names_columns_from_its_place_on_and_before_it_up_to_a_statement(
    statements: tuple[tuple[int, str], ...],
    maps: tuple[tuple[int, TableDefinition], ...],
    rules: TimelineInputs,
    expected: list[str],
) -> None:
    if rules.by_history(NAME, at(10)) and maps == ((100, OLD),):
        rules = replace(rules, complete=as_logged)
    assert listing(steps(*statements, maps=maps, rules=rules)) == expected


@pytest.mark.parametrize(
    "statements, maps, rules, reason",
    [
        ((ADDED,), ((100, UNNAMED), (600, BARE_WIDER)), by_history(600, WIDER), "ALTER TABLE at b.000001:500 chang"),
        ((), ((100, BARE_WIDER),), by_history(50), "dump, at b.000001:50, does not fit: .*@3.* it says .*id"),
        ((), ((100, UNNAMED),), by_history(50, None, "line 9: no"), "the schema dump does not tell them: line 9: no"),
        ((), ((100, UNNAMED),), by_history(1001), "nothing names them"),
        ((ADDED,), ((600, UNNAMED),), by_history(200), "has types .*@1.* known as .*id"),
    ],
)  # fmt: skip
def test_a_table_that_a_dump_does_not_name_stops(
    statements: tuple[tuple[int, str], ...],
    maps: tuple[tuple[int, TableDefinition], ...],
    rules: TimelineInputs,
    reason: str,
) -> None:
    with pytest.raises(TableStopped, match=reason):
        steps(*statements, maps=maps, rules=rules)


def test_a_table_whose_definition_goes_back_to_a_statement_alone_stops_with_why() -> None:
    answer = HistoryAnswer(
        at(510), WIDER, not_before="what it was before ALTER TABLE at b.000001:500 is not known: why"
    )
    rules = replace(by_history(510), by_history=lambda *_: answer)
    with pytest.raises(TableStopped, match=r"500 is not known: why; start after it \(start: b\.000001:510, and load"):
        steps(ADDED, maps=((100, UNNAMED), (600, BARE_WIDER)), rules=rules)
    assert listing(steps(ADDED, maps=((600, BARE_WIDER),), rules=rules)) == ["510-1000 id,v,x"]


def test_a_character_set_that_a_statement_leaves_out_is_the_history_s() -> None:
    texts = replace(WIDER, columns=(ID, V, Column("x", 15, 9, charset=8)))
    bare = replace(texts, columns=tuple(replace(column, name=None, charset=None) for column in texts.columns))

    def answer_of(_: TableName, position: Position) -> HistoryAnswer:
        return HistoryAnswer(position, texts if position > at(500) else OLD)

    rules = replace(by_history(50), by_history=answer_of)
    timeline = steps((500, "ALTER TABLE t ADD x VARCHAR(9)"), maps=((100, UNNAMED), (600, bare)), rules=rules)
    assert isinstance(timeline[-1], DataRange)
    assert timeline[-1].definition.columns[2].charset == 8


BARE_ADDED = replace(BARE, columns=(*BARE.columns, Column(None, 3)))


@pytest.mark.parametrize(
    "statements, maps, expected",
    [
        ((), ((100, BARE),), ["10-1000 @1,@2"]),
        (((500, "TRUNCATE t"),), ((100, BARE), (600, BARE)),
         ["10-500 @1,@2", "at 500 empties @1,@2", "510-1000 @1,@2"]),
        (((50, "CREATE TABLE u LIKE t"),), ((100, BARE),), ["10-1000 @1,@2"]),
        (((500, "ALTER TABLE t ADD INDEX (v), DROP INDEX w, ENGINE = InnoDB"),), ((100, BARE), (600, BARE)),
         ["10-1000 @1,@2"]),
        (((500, "ALTER TABLE t ADD x INT"),), ((100, BARE), (600, BARE_ADDED)),
         ["10-500 @1,@2", "at 500 @1,@2,x", "510-1000 @1,@2,x"]),
        (((500, "DROP TABLE t"),), ((100, BARE),), ["10-500 @1,@2", "at 500 dropped ?"]),
        (((400, "DROP TABLE t"), (500, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")), ((100, BARE), (600, BARE)),
         ["10-400 @1,@2", "at 400 dropped ?", "at 500 empties id,v", "510-1000 id,v"]),
    ],
)  # fmt: skip
def test_columns_that_nothing_names_are_numbered_where_that_is_chosen(
    statements: tuple[tuple[int, str], ...], maps: tuple[tuple[int, TableDefinition], ...], expected: list[str]
) -> None:
    timeline = steps(*statements, maps=maps, rules=NUMBERED)
    assert listing(timeline) == expected
    assert keys(timeline)[0] == ()
    assert timeline[0].state.is_numbered
    with pytest.raises(NamesUnknown):
        steps(*statements, maps=maps, rules=replace(NUMBERED, numbers=False))


def test_a_numbered_table_that_is_dropped_is_one_until_it_is_made_again() -> None:
    (_, dropped) = steps((500, "DROP TABLE t"), maps=((100, BARE),), rules=NUMBERED)
    assert dropped.state.is_numbered
    assert stored(dropped.state) == dropped.state
    (created,) = steps((500, "CREATE TABLE t (id INT)"), maps=(), state=dropped.state, rules=NUMBERED)
    assert not created.state.is_numbered


@pytest.mark.parametrize(
    "statement, behind, reason",
    [
        ("ALTER TABLE t DROP COLUMN v", BARE, "is about columns or keys by name.*stratalog reset"),
        ("ALTER TABLE t DROP COLUMN IF EXISTS x", BARE, "is about columns or keys by name"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS x INT", BARE_ADDED, "is about columns or keys by name"),
        ("ALTER TABLE t RENAME COLUMN v TO w", BARE, "is about columns or keys by name"),
        ("ALTER TABLE t MODIFY v BIGINT", BARE, "is about columns or keys by name"),
        ("ALTER TABLE t ADD PRIMARY KEY (id)", BARE, "is about columns or keys by name"),
        ("ALTER TABLE t ADD x INT AFTER v", BARE_ADDED, "not applied"),
        ("ALTER TABLE t ENGINE = InnoDB", BARE, None),
    ],
)
def test_a_numbered_table_goes_on_up_to_a_statement_that_needs_names(
    statement: str, behind: TableDefinition, reason: str | None
) -> None:
    occurrence = TableExtent(at(100), at(900), ((at(100), BARE), (at(600), behind)))
    scan = RangeScan(
        {NAME: occurrence}, (LoggedStatement(at(500), classify(statement, "shop"), at(510), "shop", session=Session()),)
    )
    content, ended = build_until_stopped(scan, NAME, Range(at(10), at(1000)), None, NUMBERED)
    assert listing(list(content.steps)) == ["10-1000 @1,@2" if reason is None else "10-500 @1,@2"]
    assert (ended is None) == (reason is None)
    if ended and reason:
        assert ended.at == at(500)
        assert re.search(reason, ended.reason)
        contents, still = build_until_stopped(scan, NAME, Range(at(500), at(1000)), content.state, NUMBERED)
        assert (list(contents.steps), still and (still.at, still.reason)) == ([], (ended.at, ended.reason))
        with pytest.raises(TableStopped, match=reason):
            steps((500, statement), maps=((100, BARE), (600, behind)), rules=NUMBERED)


@pytest.mark.parametrize(
    "rules, maps, reason",
    [
        (
            replace(NUMBERED, by_history=lambda _name, position: HistoryAnswer(position, OLD)),
            ((100, BARE),),
            "schema dump names them",
        ),
        (
            replace(NUMBERED, by_history=lambda *_: HistoryAnswer(at(500), OLD)),
            ((100, BARE),),
            "schema dump names them",
        ),
        (replace(NUMBERED, complete=lambda *_: OLD), ((100, BARE),), "the server names them now.*stratalog reset"),
        (NUMBERED, ((100, OLD),), "the log names them now"),
        (NUMBERED, ((100, BARE_ADDED),), "which of them are the same is not known"),
    ],
)
def test_a_numbered_table_stops_where_its_columns_get_names_or_are_others(
    rules: TimelineInputs, maps: tuple[tuple[int, TableDefinition], ...], reason: str
) -> None:
    state = TableState(OF_NUMBERS)
    assert listing(steps(maps=((100, BARE),), state=state, rules=NUMBERED)) == ["10-1000 @1,@2"]
    with pytest.raises(TableStopped, match=reason):
        steps(maps=maps, state=state, rules=rules)


def test_rules_are_not_about_columns_without_names() -> None:
    rule = EventFilter("some", Scope(), ("insert",), (), "ignore")
    rules = replace(NUMBERED, filters=Filters((rule,)))
    for state in (None, TableState(OF_NUMBERS)):
        with pytest.raises(TableStopped, match=r"filters\.some would have to judge them by name"):
            steps(maps=((100, BARE),), state=state, rules=rules)
