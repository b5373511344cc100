from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, TableName
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver.retired_columns import RetiredColumn
from spark_jobs.silver.table_timeline import TableContents, TableState, TimelineStep
from tests.binlogs.timelines import (
    CUT_OVER,
    FILLED,
    ID,
    NOTE,
    OFTEN,
    OLD,
    RULES,
    UNNAMED,
    V,
    at,
    definition,
    keys,
    listing,
    steps,
)


@pytest.mark.parametrize(
    "timeline, expected",
    [
        (steps((500, "RENAME TABLE t TO u"), last=400), ["10-500 id,v", "at 500 dropped ?"]),
        (steps((500, "ALTER TABLE t RENAME u, ADD x INT"), last=400), ["10-500 id,v", "at 500 dropped ?"]),
        (
            steps((500, "RENAME TABLE t TO u"), last=400, rules=replace(RULES, on_drop_empties=True)),
            ["10-500 id,v", "at 500 empties dropped ?"],
        ),
        (steps((500, "RENAME TABLE t TO u, u TO t"), rules=OFTEN), ["10-1000 id,v"]),
        (steps((500, "RENAME TABLE a TO b"), (600, "ALTER TABLE a RENAME `T t`")), ["10-1000 id,v"]),
        (steps((500, CUT_OVER), last=400), ["10-500 id,v", "at 500 empties ?"]),
        (steps((500, CUT_OVER), last=400, rules=FILLED), ["10-500 id,v", "at 500 empties id,v,note from _t_gho"]),
        (
            steps((500, CUT_OVER), maps=((100, OLD), (600, definition(ID, V, NOTE))), rules=FILLED),
            ["10-500 id,v", "at 500 empties id,v,note from _t_gho", "510-1000 id,v,note"],
        ),
        (
            steps((500, "ALTER TABLE u RENAME TO t, DROP v, DROP INDEX i"), last=400, rules=FILLED),
            ["10-500 id,v", "at 500 empties id,note from u"],
        ),
        (steps((50, "RENAME TABLE u TO t"), maps=()), []),
        (steps((50, "RENAME TABLE u TO t"), maps=(), rules=FILLED), ["at 50 empties id,v,note from u"]),
        (
            steps((50, "RENAME TABLE u TO t"), (60, "ALTER TABLE t DROP v"), maps=(), rules=FILLED),
            ["at 50 empties id,v,note from u", "at 60 id,note"],
        ),
        (
            steps((50, "RENAME TABLE u TO t"), (60, "CREATE TABLE x LIKE t"), (70, "RENAME TABLE t TO y"), maps=(),
                  rules=FILLED),
            ["at 50 empties id,v,note from u", "at 70 dropped ?"],
        ),
    ],
)  # fmt: skip
def test_a_name_has_what_the_table_holds_that_is_given_it(timeline: list[TimelineStep], expected: list[str]) -> None:
    assert listing(timeline) == expected


def test_a_table_that_takes_a_name_is_as_complete_as_it_was() -> None:
    for rules, complete in ((RULES, False), (FILLED, True)):
        step = steps((500, CUT_OVER), last=400, state=TableState(OLD, is_complete=True), rules=rules)[-1]
        assert (step.state.is_complete, step.state.emptied) == (complete, at(500))


def test_rows_behind_a_rename_must_be_of_the_table_that_has_the_name() -> None:
    with pytest.raises(TableStopped, match=r"up to b.000001:510 they were \(id int, v int, note .*\), and rows after"):
        steps((500, CUT_OVER), maps=((100, OLD), (600, OLD)), rules=FILLED)


def test_a_name_of_a_table_that_is_gone_is_refused() -> None:
    def refuse(name: TableName, until: Position) -> TableContents:
        return TableContents(name, None, (), TableState(None, is_dropped=True), until)

    with pytest.raises(
        TableStopped, match=r"gives the table the rows of shop\._t_gho, which the log has dropped before"
    ):
        steps((500, CUT_OVER), last=400, rules=replace(RULES, contents=refuse))
    with pytest.raises(TableStopped, match="changes the table, which is not applied yet"):
        steps((500, CUT_OVER), last=400, rules=replace(RULES, contents=None))


def test_a_table_made_like_another_has_its_names_where_the_log_has_none() -> None:
    unnamed = definition(Column(None, 3), Column(None, 3), Column(None, 15, 80))
    creation = (20, "CREATE TABLE t LIKE u")
    assert listing(steps(creation, maps=((500, unnamed),), rules=FILLED)) == ["30-1000 id,v,note"]
    assert listing(steps(creation, maps=((500, unnamed),))) == ["30-1000 @1,@2,@3"]

    def refused(name: TableName, until: Position) -> TableContents:
        raise AssertionError("the log tells it")

    rules = replace(RULES, contents=refused)
    assert listing(steps(creation, maps=((500, OLD),), rules=rules)) == ["30-1000 id,v"]


@pytest.mark.parametrize(
    "statements, complete",
    [
        ([], False),
        (["CREATE TABLE t (id INT, v INT)"], True),
        (["CREATE TABLE IF NOT EXISTS t (id INT, v INT)"], False),
        (["CREATE TABLE t (id INT, v INT)", "CREATE TABLE IF NOT EXISTS t (id INT, v INT)"], True),
        (["CREATE TABLE t (id INT)", "ALTER TABLE t ADD v INT"], True),
        (["CREATE TABLE u (id INT)", "TRUNCATE u"], False),
        (["CREATE TABLE u LIKE t"], False),
        (["TRUNCATE TABLE t"], True),
        (["DROP TABLE IF EXISTS t", "CREATE TABLE IF NOT EXISTS t (id INT, v INT)"], True),
        (["DROP INDEX a ON t"], False),
        (["CREATE TABLE t (id INT, v INT)", "RENAME TABLE u TO t"], False),
        (["CREATE TABLE t (id INT, v INT)", "ALTER TABLE u RENAME TO t"], False),
        (["CREATE TABLE t (id INT, v INT)", "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u"], False),
        (["CREATE TABLE t (id INT, v INT)", "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t"], False),
        (["CREATE TABLE t (id INT, v INT)", "ALTER TABLE t DROP PARTITION p, q"], True),
    ],
)
def test_a_table_is_complete_whose_beginning_is_in_the_log(statements: list[str], complete: bool) -> None:
    timeline = steps(*((20 + 10 * number, text) for number, text in enumerate(statements)))
    assert [step.state.is_complete for step in timeline] == [complete]


@pytest.mark.parametrize(
    "statement, complete", [("TRUNCATE t", True), ("ALTER TABLE t ADD w INT", False), ("DROP TABLE t", False)]
)
def test_a_table_becomes_complete_where_it_is_emptied(statement: str, complete: bool) -> None:
    (step,) = steps((500, statement), maps=(), state=TableState(OLD))
    assert step.state.is_complete is complete
    (step,) = steps((500, statement), maps=(), state=TableState(OLD, is_complete=True))
    assert step.state.is_complete


def test_an_index_that_goes_before_the_first_row_leaves_a_bag() -> None:
    create = "CREATE TABLE t (id INT NOT NULL, v INT, UNIQUE u (id))"
    assert keys(steps((20, create), maps=((100, UNNAMED),))) == [(0,)]
    assert keys(steps((20, create), (40, "DROP INDEX u ON t"), maps=((100, UNNAMED),))) == [()]


def test_a_name_does_not_get_the_rows_of_a_table_with_kept_columns() -> None:
    state = TableState(OLD, retired=(RetiredColumn("_v_until_1_2", "INT", "v", at(2)),))
    rules = replace(RULES, contents=lambda name, until: TableContents(name, None, (), state, until))
    with pytest.raises(TableStopped, match=r"the rows of shop\.u, which has retired columns \(_v_until_1_2\): not sup"):
        steps((500, "RENAME TABLE u TO t"), last=400, rules=rules)
