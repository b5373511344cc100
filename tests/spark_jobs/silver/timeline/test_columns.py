from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, Moment, Session, TableDefinition
from spark_jobs.config.filters import ColumnRule, Filters, Mask
from spark_jobs.config.table_patterns import Scope
from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.silver import table as silver
from spark_jobs.silver.table_timeline import (
    DataRange,
    SchemaChange,
    SilverSnapshot,
    TableContents,
    TableState,
    TimelineStep,
)
from spark_jobs.silver.timeline.inputs import ReplayState
from tests.binlogs.timelines import (
    BARE,
    BEGINNING,
    CHANGE,
    ID,
    KEYLESS,
    NAME,
    NOTE,
    OLD,
    RULES,
    STRICT,
    V,
    at,
    definition,
    keyed,
    keys,
    ruled,
    steps,
    unknown,
)


def test_a_statement_and_the_rows_behind_it_must_agree() -> None:
    with pytest.raises(TableStopped) as stopped:
        steps((500, "ALTER TABLE t ADD x BIGINT"), maps=((100, OLD), (600, definition(ID, V, NOTE))))
    assert "leads to (id int, v int, x bigint), but the rows after it have (id int, v int, note" in str(stopped.value)


@pytest.mark.parametrize("nullable", [True, False])
def test_rows_have_the_time_of_the_statement(nullable: bool) -> None:
    """Check whether NULL is a value of a bare TIMESTAMP depends on the server; what it was given does not."""
    new = replace(OLD, columns=(*OLD.columns, Column("u", 17, 0, nullable=nullable)))
    _, step, _ = steps(
        (500, "ALTER TABLE t ADD u TIMESTAMP DEFAULT NOW()"),
        maps=((100, OLD), (600, new)),
        session=Session(moment=Moment(60)),
    )
    assert isinstance(step, SchemaChange)
    assert step.fills == {"u": Fill("TIMESTAMP'1970-01-01 00:01:00Z'")}


@pytest.mark.parametrize(
    "statement, before, behind, key",
    [
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)", keyed(0), keyed(1), (1,)),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)", keyed(0), BARE, (1,)),
        ("ALTER TABLE t DROP PRIMARY KEY", keyed(0), BARE, ()),
        ("ALTER TABLE t DROP PRIMARY KEY", keyed(0), keyed(1), (1,)),
        ("ALTER TABLE t ADD PRIMARY KEY (v)", KEYLESS, keyed(1), (1,)),
        ("ALTER TABLE t ADD PRIMARY KEY (v)", KEYLESS, None, (1,)),
        ("ALTER TABLE t DROP KEY U", keyed(0, index="u"), BARE, ()),
        ("ALTER TABLE t MODIFY id INT", keyed(0, index="u"), BARE, ()),
        ("ALTER TABLE t RENAME INDEX a TO b", keyed(0, index=""), BARE, ()),
        ("DROP INDEX u ON t", keyed(0, index="u"), None, ()),
        ("DROP INDEX u ON t", keyed(0, index="u"), keyed(1), (1,)),
        ("DROP INDEX u ON t", keyed(0), keyed(1), (1,)),
        ("DROP INDEX `PRIMARY` ON t", keyed(0), KEYLESS, ()),
    ],
)
def test_rows_are_taken_over_where_they_are_told_apart_otherwise(
    statement: str, before: TableDefinition, behind: TableDefinition | None, key: tuple[int, ...]
) -> None:
    base = SilverSnapshot(Silver(), 7, silver.columns(before), None)
    maps = ((100, before), (600, behind)) if behind else ((100, before),)
    timeline = steps(
        (500, statement),
        maps=maps,
        state=TableState(before, is_complete=True),
        rules=replace(RULES, base=lambda: base),
        last=900 if behind else 400,
        session=STRICT,
    )
    rows, change, *later = timeline
    assert isinstance(rows, DataRange)
    assert isinstance(change, SchemaChange)
    assert (change.empties, change.state.emptied, change.state.is_complete) == (True, at(500), True)
    assert change.inherited == TableContents(
        NAME, base, (rows,), rows.state, at(10), change.inherited.size if change.inherited else 0
    )
    assert change.origins == {"id": "id", "v": "v"}
    assert [step.state.definition.key for step in (change, *later) if step.state.definition] == [key] * (
        1 + bool(behind)
    )
    rules = replace(ruled("truncate table"), base=lambda: base)
    with pytest.raises(TableStopped, match=r"changes what the table's rows are identified by, and filters\.r would"):
        steps((500, statement), maps=maps, state=TableState(before), rules=rules, session=STRICT)


def test_a_key_in_another_order_is_the_same_key() -> None:
    """Rows of silver name keys of theirs by texts in the order of the key."""
    timeline = steps(
        (500, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v, id), ADD x INT FIRST"),
        maps=((100, keyed(0, 1)), (600, replace(keyed(2, 1), columns=(Column("x", 3), ID, V)))),
        state=TableState(keyed(0, 1)),
    )
    step_keys = [step.state.definition and step.state.definition.key for step in timeline]
    assert step_keys == [(0, 1), (1, 2), (1, 2)]
    assert [step for step in timeline if isinstance(step, SchemaChange) and step.empties] == []


class Silver(Table):
    """A silver table of which nothing is read."""

    def __init__(self) -> None:
        super().__init__("", plain=False)

    def file_sizes(self) -> list[int]:
        return [3, 4]


def test_a_range_done_again_takes_rows_over_where_silver_did() -> None:
    statements = (300, "ALTER TABLE t DROP PRIMARY KEY"), (500, "ALTER TABLE t ADD PRIMARY KEY (v)")
    maps = ((100, keyed(0)), (400, KEYLESS), (600, keyed(1)))
    for is_keyless in (False, True):
        rules = replace(RULES, replay=ReplayState(at(500)), contents=unknown, is_keyless=is_keyless)
        timeline = steps(*statements, maps=maps, rules=rules)
        key_changes = [step.state.definition.key for step in timeline if step.state.definition]
        assert key_changes == ([(0,), (), (), (), ()] if is_keyless else [(0,), (), (), (1,), (1,)])
    behind = steps(*statements, maps=maps, rules=replace(RULES, replay=ReplayState(None), is_keyless=True))
    assert keys(behind) == [(), (), ()]
    assert [step for step in behind if isinstance(step, SchemaChange) and step.empties] == [], (
        "silver has a bag all along"
    )


def kept_by(*statements: tuple[int, str], state: TableState | None = None) -> tuple[list[str], list[str]]:
    """Origins of columns after the last statement, and what the table keeps: which name is of which column."""
    change = steps(*statements, last=400, rules=BEGINNING, state=state)[-1]
    assert isinstance(change, SchemaChange)
    origins = [f"{name}<{origin}" for name, origin in (change.origins or {}).items()]
    return origins, [f"{column.name} {column.type} {column.of}" for column in change.state.retired]


@pytest.mark.parametrize(
    "statements, origins, retired",
    [
        ([], ["id<id", "v<None", "_v_until_1_500<v"], ["_v_until_1_500 INT v"]),
        (["ADD x INT"], ["id<id", "v<v", "x<None", "_v_until_1_500<_v_until_1_500"], ["_v_until_1_500 INT v"]),
        (
            ["MODIFY v DATE"],
            ["id<id", "v<None", "_v_until_1_500<_v_until_1_500", "_v_until_1_600<v"],
            ["_v_until_1_500 INT v", "_v_until_1_600 STRING v"],
        ),
        (
            ["RENAME COLUMN v TO w", "CHANGE w v INT FIRST"],
            ["v<None", "id<id", "_v_until_1_500<_v_until_1_500", "_w_until_1_700<w"],
            ["_v_until_1_500 INT v", "_w_until_1_700 STRING v"],
        ),
        (["DROP v"], ["id<id", "_v_until_1_500<_v_until_1_500"], ["_v_until_1_500 INT None"]),
        (
            ["DROP v", "ADD v INT"],
            ["id<id", "v<None", "_v_until_1_500<_v_until_1_500"],
            ["_v_until_1_500 INT None"],
        ),
    ],
)
def test_a_column_begins_anew_and_the_old_one_is_kept(
    statements: list[str], origins: list[str], retired: list[str]
) -> None:
    clauses = ["MODIFY v VARCHAR(9) CHARACTER SET utf8mb4", *statements]
    result = kept_by(*((500 + 100 * at, f"ALTER TABLE t {clause}") for at, clause in enumerate(clauses)))
    assert result == (origins, retired)


@pytest.mark.parametrize("statement", ["MODIFY v INT NOT NULL", "CHANGE v v SMALLINT", "MODIFY V SMALLINT"])
def test_whatever_may_have_changed_values_begins_anew(statement: str) -> None:
    assert kept_by((500, f"ALTER TABLE t {statement}"))[1][0].startswith("_v_until_1_500 INT ")


def test_what_is_made_anew_keeps_nothing_and_what_is_emptied_does() -> None:
    change = (500, "ALTER TABLE t MODIFY v SMALLINT")
    emptied = steps(change, (600, "TRUNCATE t"), last=400, rules=BEGINNING)[-1]
    timeline = steps(
        change, (600, "DROP TABLE t"), (700, "CREATE TABLE t (id INT PRIMARY KEY)"), last=400, rules=BEGINNING
    )
    assert (len(emptied.state.retired), timeline[-1].state.retired) == (1, ())


COUNTING = replace(STRICT, sql_mode=(STRICT.sql_mode or 0) | 1 << 19)
"""A session with NO_AUTO_VALUE_ON_ZERO."""


@pytest.mark.parametrize(
    "clause, old, session, reason",
    [
        ("MODIFY v INT NOT NULL AUTO_INCREMENT UNIQUE", OLD, STRICT, "may have changed NULL in column v"),
        ("CHANGE v w INT NOT NULL AUTO_INCREMENT", OLD, COUNTING, "may have changed NULL in column w"),
        ("MODIFY id INT AUTO_INCREMENT", OLD, STRICT, None),
        ("MODIFY id INT AUTO_INCREMENT", definition(replace(ID, computed=False), V), STRICT, None),
        ("MODIFY id INT AUTO_INCREMENT", definition(replace(ID, default="0"), V), STRICT, "may have changed 0 in"),
        ("MODIFY id INT AUTO_INCREMENT", definition(replace(ID, default="0"), V), COUNTING, None),
        ("MODIFY id BIGINT", definition(replace(ID, default="0"), V), STRICT, None),
    ],
)
def test_a_column_that_counts_from_a_statement_on_gives_rows_numbers(
    clause: str, old: TableDefinition, session: Session, reason: str | None
) -> None:
    """Check what NULL and 0 become when the server copies the table, of which the log has nothing."""

    def timeline(*before: tuple[int, str], maps: tuple[tuple[int, TableDefinition], ...]) -> list[TimelineStep]:
        alter = (500, f"ALTER TABLE t {clause}")
        return steps(*before, alter, maps=maps, state=TableState(old), last=400, session=session)

    if reason is None:
        assert len(timeline(maps=((100, old),))) == 2
        return
    with pytest.raises(TableStopped, match=reason):
        timeline(maps=((100, old),))
    if "0" in reason:
        assert len(timeline((20, "TRUNCATE t"), maps=())) == 2, "there is no row to number"


AT, FLOAT = Column("v", 17), Column("v", 4, 4)
MYSQL, MARIADB = (replace(STRICT, is_mariadb=is_mariadb) for is_mariadb in (False, True))


@pytest.mark.parametrize(
    "clause, old, session, reason",
    [
        ("MODIFY v TIMESTAMP NOT NULL DEFAULT NOW()", AT, MYSQL, None),
        ("MODIFY v TIMESTAMP NOT NULL DEFAULT NOW()", AT, MARIADB, "may have changed NULL in column v: in a TIMESTAMP"),
        ("MODIFY v TIMESTAMP NOT NULL DEFAULT NOW(), MODIFY id BIGINT", AT, MYSQL, "may have changed NULL in column v"),
        ("MODIFY v TIMESTAMP NOT NULL DEFAULT NOW(), ALGORITHM=COPY", AT, MYSQL, "may have changed NULL in column v"),
        ("CHANGE v w TIMESTAMP(3) NOT NULL DEFAULT NOW(3)", AT, MYSQL, "may have changed NULL in column w"),
        ("MODIFY v TIMESTAMP(3) NOT NULL DEFAULT NOW(3)", replace(AT, nullable=False), MARIADB, None),
        ("MODIFY v DOUBLE(10,2)", FLOAT, MYSQL, "may have changed numbers of column v: it is rounded to 2 digits"),
        ("MODIFY v FLOAT(10,2), FORCE", FLOAT, MYSQL, None),
        ("MODIFY v FLOAT(10,2), ENGINE = InnoDB", FLOAT, MYSQL, "may have changed numbers of column v"),
    ],
)
def test_values_that_servers_change_where_they_copy_a_table(
    clause: str, old: Column, session: Session, reason: str | None
) -> None:
    arguments = {"maps": ((100, definition(ID, old)),), "last": 400, "session": session}
    if reason is None:
        assert len(steps((500, f"ALTER TABLE t {clause}"), **arguments)) == 2  # type: ignore[arg-type]
        return
    with pytest.raises(TableStopped) as stopped:
        steps((500, f"ALTER TABLE t {clause}"), **arguments)  # type: ignore[arg-type]
    assert reason in str(stopped.value)


LOGGED_JSON, LOGGED_VECTOR = Column("v", 252, 4, charset=46), Column("v", 15, 12, charset=63)


@pytest.mark.parametrize(
    "clauses, old, session",
    [
        (["CHANGE v w JSON"], LOGGED_JSON, MARIADB),
        (["MODIFY v JSON NOT NULL", "ADD x INT", "MODIFY v JSON"], LOGGED_JSON, MARIADB),
        (["ADD w JSON", "MODIFY w JSON NOT NULL"], LOGGED_JSON, MARIADB),
        (["CHANGE v w VECTOR(3)"], LOGGED_VECTOR, MARIADB),
        (["CHANGE v w VECTOR(3)"], replace(LOGGED_VECTOR, declared="vector(3)"), MARIADB),
        (["CHANGE v w VECTOR(3)"], Column("v", 242, 4, charset=63), MYSQL),
    ],
)
def test_columns_that_a_log_has_as_others_stay_where_no_row_follows(
    clauses: list[str], old: Column, session: Session
) -> None:
    statements = [(500 + 100 * at, f"ALTER TABLE t {clause}") for at, clause in enumerate(clauses)]
    before = definition(ID, old)
    *_, last = steps(*statements, maps=((100, before),), last=400, rules=BEGINNING, session=session)
    assert last.state.definition
    assert last.state.retired == ()
    assert last.state.definition.columns[1].arrow == old.arrow


def test_text_of_a_character_set_that_the_next_row_tells() -> None:
    """Check that a session that is not strict ends no column, and stops it for as long as nothing tells the set."""
    text, alter = Column("v", 15, 200, charset=255), (500, "ALTER TABLE t MODIFY v VARCHAR(60)")
    before, longer = definition(ID, text), definition(ID, replace(text, meta=240))
    with pytest.raises(TableStopped, match="the character set that the column has after it is not known before the ta"):
        steps(alter, maps=((100, before),), last=400, rules=BEGINNING)
    later = replace(longer, columns=(*longer.columns, Column("x", 3)))
    timeline = steps(alter, (600, "ALTER TABLE t ADD x INT"), maps=((100, before), (700, later)), rules=BEGINNING)
    assert [step.state.definition.columns[1] for step in timeline[1:] if step.state.definition] == [
        longer.columns[1]
    ] * 3
    latin = definition(ID, replace(text, meta=60, charset=8), Column("x", 3))
    timeline = steps(alter, (600, "ALTER TABLE t ADD x INT"), maps=((100, before), (700, latin)), rules=BEGINNING)
    assert [len(step.state.retired) for step in timeline] == [0, 1, 1, 1]


HASHED = ColumnRule("privacy", Scope.parse(["shop.*"]), masks={"v": Mask("hash", "salt")})


@pytest.mark.parametrize("kind, is_other", [("DECIMAL(12,2)", True), ("DECIMAL(12,0)", False), ("BIGINT", False)])
def test_a_hashed_number_keeps_its_decimals(kind: str, is_other: bool) -> None:
    rules = replace(RULES, filters=Filters(columns=(HASHED,)))
    statement = (500, f"ALTER TABLE t MODIFY v {kind}")
    before = definition(ID, V if kind == "BIGINT" else Column("v", 246, 10 << 8))
    if not is_other:
        assert len(steps(statement, maps=((100, before),), last=400, rules=rules)) == 2
        return
    with pytest.raises(TableStopped, match="gives column v other decimals, and its values are hashed as text"):
        steps(statement, maps=((100, before),), last=400, rules=rules)


@pytest.mark.parametrize(
    "statements, old, rules, reason",
    [
        (
            [(500, "ALTER TABLE t MODIFY id SMALLINT")],
            OLD,
            {},
            "no new column begins, because rows are identified by it",
        ),
        ([CHANGE], replace(OLD, key=()), {}, "no new column begins, because the table has no key"),
        ([CHANGE], OLD, {"why_not": "of routes"}, "is (id int, v smallint); no new column begins, because of routes"),
        ([CHANGE], OLD, {"begins_anew": False}, "does not keep every value of column v"),
        (
            [CHANGE, (600, "ALTER TABLE t DROP PRIMARY KEY")],
            OLD,
            {},
            "changes the key of a table with retired columns (_v_until_1_500)",
        ),
        (
            [CHANGE, (600, "ALTER TABLE t ADD _V_until_1_500 INT")],
            OLD,
            {},
            "gives a column the name _v_until_1_500, under which the lake keeps another one",
        ),
    ],
)
def test_where_no_column_begins_anew_the_table_stops(
    statements: list[tuple[int, str]], old: TableDefinition, rules: dict[str, object], reason: str
) -> None:
    with pytest.raises(TableStopped) as stopped:
        steps(*statements, maps=((100, old),), last=400, rules=replace(BEGINNING, **rules))  # type: ignore[arg-type]
    assert reason in str(stopped.value)
