import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.course import Rows, Rules, Standing, Step, Turn, course, onwards, origins_of
from spark_jobs.errors import TableStopped
from spark_jobs.position import Position, Range
from spark_jobs.schema.statements import judge
from spark_jobs.survey import Said, Seen, Survey

NAME = TableName("shop", "t")
ID, V, NOTE = Column("id", 3, nullable=False), Column("v", 3), Column("note", 15, 80, charset=255)


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def definition(*columns: Column) -> TableDefinition:
    return TableDefinition(NAME, columns, (0,))


OLD = definition(ID, V)


def as_logged(logged: TableDefinition, _: Position | None) -> TableDefinition:
    return logged


RULES = Rules(as_logged)


def steps(
    *statements: tuple[int, str],
    maps: tuple[tuple[int, TableDefinition], ...] = ((100, OLD),),
    standing: Standing | None = None,
    last: int = 900,
    rules: Rules = RULES,
) -> list[Step]:
    """The course of shop.t from 10 to 1000; every statement is 10 bytes long."""
    seen = Seen(at(maps[0][0]), at(last), tuple((at(offset), one) for offset, one in maps)) if maps else None
    said = tuple(Said(at(offset), judge(text, "shop"), at(offset + 10), "shop") for offset, text in statements)
    found = Survey({NAME: seen} if seen else {}, said)
    return course(found, NAME, Range(at(10), at(1000)), standing, rules)


def shown(found: list[Step]) -> list[str]:
    """Each step in a few characters: rows by their columns, turns by what they do."""
    texts = []
    for step in found:
        known = step.standing.definition
        names = ",".join(known.column_names()) if known else "?"
        if isinstance(step, Rows):
            texts.append(f"{step.range.start.offset}-{step.range.stop.offset} {names}")
        else:
            what = "empties " * step.empties + "dropped " * step.standing.is_dropped
            texts.append(f"at {step.range.start.offset} {what}{names}")
    return texts


@pytest.mark.parametrize(
    "found, wanted",
    [
        (steps(), ["10-1000 id,v"]),
        (steps((500, "ALTER TABLE other ADD x INT")), ["10-1000 id,v"]),
        (steps((500, "CREATE TABLE other LIKE t")), ["10-1000 id,v"]),
        (steps((500, "CREATE TABLE IF NOT EXISTS t (a INT)"), standing=Standing(OLD)), ["10-1000 id,v"]),
        (steps((500, "ALTER TABLE t ADD INDEX (v), ENGINE = InnoDB")), ["10-1000 id,v"]),
        (steps((500, "ALTER TABLE u ADD FOREIGN KEY (a) REFERENCES t (id)")), ["10-1000 id,v"]),
        (steps((50, "ALTER TABLE t ADD x INT")), ["10-1000 id,v"]),
        (steps((50, "ALTER TABLE t ADD x INT"), maps=()), []),
        (steps((50, "TRUNCATE t"), maps=()), []),
        (steps((5, "ALTER TABLE t ADD x INT"), standing=Standing(OLD)), ["10-1000 id,v"]),
        (steps((500, "TRUNCATE TABLE t")), ["10-500 id,v", "at 500 empties id,v", "510-1000 id,v"]),
        (steps((500, "TRUNCATE t"), maps=(), standing=Standing(OLD)), ["at 500 empties id,v"]),
        (steps((500, "DROP TABLE other, t"), last=400), ["10-500 id,v", "at 500 dropped ?"]),
        (steps((500, "DROP DATABASE shop"), last=400), ["10-500 id,v", "at 500 dropped ?"]),
        (
            steps((500, "DROP TABLE t"), last=400, rules=Rules(as_logged, on_drop_empties=True)),
            ["10-500 id,v", "at 500 empties dropped ?"],
        ),
        (
            steps((500, "DROP TABLE t"), (600, "CREATE TABLE t (k INT PRIMARY KEY)"), last=400),
            ["10-500 id,v", "at 500 dropped ?", "at 600 empties k"],
        ),
        (
            steps(
                (500, "DROP TABLE t"), (600, "CREATE TABLE t LIKE u"), maps=((100, OLD), (700, definition(ID, NOTE)))
            ),
            ["10-500 id,v", "at 500 dropped ?", "at 600 empties id,note", "610-1000 id,note"],
        ),
        (
            steps((500, "CREATE OR REPLACE TABLE t (k INT PRIMARY KEY)"), last=400),
            ["10-500 id,v", "at 500 empties k"],
        ),
        (
            steps((500, "ALTER TABLE t ADD note VARCHAR(20)"), maps=((100, OLD), (600, definition(ID, V, NOTE)))),
            ["10-500 id,v", "at 500 id,v,note", "510-1000 id,v,note"],
        ),
        (
            steps((500, "ALTER TABLE t DROP v"), (600, "ALTER TABLE t RENAME COLUMN id TO k"), last=400),
            ["10-500 id,v", "at 500 id", "at 600 k"],
        ),
    ],
)  # fmt: skip
def test_a_range_is_cut_where_statements_change_the_table(found: list[Step], wanted: list[str]) -> None:
    assert shown(found) == wanted


@pytest.mark.parametrize(
    "statement, why",
    [
        ("RENAME TABLE t TO u", "changes the table, which is not applied yet"),
        ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t", "changes the table, which is not applied yet"),
        (
            "ALTER TABLE t MODIFY v SMALLINT",
            "does not keep every value of column v: the table was (id int, v int) and is (id int, v smallint)",
        ),
        (
            "ALTER TABLE t ADD u DATETIME DEFAULT NOW()",
            (
                "changes the table, which is not applied: what rows written before column u have in it is not in the "
                "log (its default: NOW ( )): it is no constant"
            ),
        ),
        ("ALTER TABLE t DROP PRIMARY KEY", "changes the table, which is not applied: the primary key changes"),
        (
            "INSERT INTO t VALUES (1)",
            "changes rows in statement format, which says what was asked, not what happened",
        ),
        (
            "SELECT `shop`.`f`()",
            ("runs a routine, logged in statement format: which rows of which tables it changed, it does not say"),
        ),
        (
            "XA COMMIT X'01',X'',1",
            "decides about rows logged before it (XA, or a rollback past them), which is not handled yet",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_said_with_its_place(statement: str, why: str) -> None:
    with pytest.raises(TableStopped) as stopped:
        steps((500, statement), last=400)
    verb = judge(statement, "shop").verb
    assert str(stopped.value) == f"{verb} at b.000001:500 {why}: {statement}"


def test_a_statement_and_the_rows_behind_it_must_agree() -> None:
    with pytest.raises(TableStopped) as stopped:
        steps((500, "ALTER TABLE t ADD x BIGINT"), maps=((100, OLD), (600, definition(ID, V, NOTE))))
    assert "leads to (id int, v int, x bigint), but the rows behind it have (id int, v int, note" in str(stopped.value)


def test_rows_that_no_statement_explains_stop_the_table() -> None:
    with pytest.raises(TableStopped) as stopped:
        steps(maps=((100, definition(ID, NOTE)),), standing=Standing(OLD))
    assert "up to b.000001:10 they were (id int, v int), and rows behind it have (id int, note" in str(stopped.value)
    with pytest.raises(TableStopped, match="the log has dropped the table and not created it again"):
        steps(standing=Standing(None, is_dropped=True))


def test_names_that_the_log_leaves_out_are_carried_through_statements() -> None:
    unnamed = definition(Column(None, 3), Column(None, 3), Column(None, 8))
    found = steps(
        (500, "ALTER TABLE t ADD n BIGINT FIRST, CHANGE v w INT"),
        maps=((600, definition(Column(None, 8), Column(None, 3), Column(None, 3))),),
        standing=Standing(OLD),
    )
    assert shown(found) == ["at 500 n,id,w", "510-1000 n,id,w"]
    assert isinstance(found[0], Turn)
    assert found[0].origins == {"n": None, "id": "id", "w": "v"}
    with pytest.raises(TableStopped, match="does not name its columns, and has types"):
        steps((500, "ALTER TABLE t ADD n BIGINT FIRST"), maps=((600, unnamed),), standing=Standing(OLD))


def test_a_standing_is_read_back_from_a_commit() -> None:
    for one in (Standing(OLD, emptied=at(77)), Standing(None, is_dropped=True)):
        assert Standing.from_notes(one.to_notes()) == one
    assert Standing.from_notes({}) == Standing(None)


def test_old_rows_are_led_on_to_the_present_columns() -> None:
    found = steps(
        (500, "ALTER TABLE t ADD note CHAR(3) NOT NULL DEFAULT 'abc', RENAME COLUMN v TO w"),
        (600, "ALTER TABLE t MODIFY w BIGINT FIRST"),
        (700, "TRUNCATE t"),
        last=400,
    )
    turns = [step for step in found if isinstance(step, Turn)]
    assert onwards({"id": "INT", "v": "INT"}, turns) == {
        "w": "CAST(`v` AS BIGINT)",
        "id": "`id`",
        "note": "CAST('abc' AS STRING)",
        "_raw": "transform_keys(_raw, (k, v) -> CASE k WHEN 'v' THEN 'w' ELSE k END)",
    }
    assert onwards({"id": "INT"}, []) == {"id": "`id`", "_raw": "_raw"}


def test_a_table_made_anew_keeps_columns_of_the_same_name_and_type() -> None:
    anew = Turn(Range(at(5), at(9)), Standing(definition(ID, NOTE)), empties=True)
    assert origins_of(anew, {"id": "INT", "note": "INT"}, {"id": "INT", "note": "STRING"}) == {"id": "id", "note": None}
