from dataclasses import replace

import pytest

from spark_jobs.config.filters import Filters
from spark_jobs.errors import TableStopped
from spark_jobs.silver.table_timeline import SchemaChange, TimelineStep
from spark_jobs.silver.timeline.inputs import TimelineInputs
from tests.binlogs.timelines import (
    CUT_OVER,
    ID,
    NOTE,
    OLD,
    as_logged,
    at,
    definition,
    filled,
    listing,
    nowhere,
    ruled,
    steps,
    stored,
)

ANEW = (500, "DROP TABLE t"), (600, "CREATE TABLE t (id INT PRIMARY KEY)")


@pytest.mark.parametrize(
    "timeline, expected, left_out",
    [
        (steps((500, "TRUNCATE t"), rules=ruled("truncate table")), ["10-500 id,v", "at 500 id,v"], [500]),
        (steps((500, "TRUNCATE t -- nightly"), rules=ruled()), ["10-500 id,v", "at 500 id,v"], [500]),
        (steps((500, "TRUNCATE t"), rules=ruled("drop table")), ["10-500 id,v", "at 500 empties id,v"], []),
        (
            steps((500, "DROP TABLE t"), last=400, rules=ruled("drop table", empties=True)),
            ["10-500 id,v", "at 500 dropped ?"],
            [500],
        ),
        (
            steps((500, "DROP DATABASE shop"), last=400, rules=ruled("drop database", empties=True)),
            ["10-500 id,v", "at 500 dropped ?"],
            [500],
        ),
        (steps(*ANEW, last=400, rules=ruled("drop table")), ["10-500 id,v", "at 500 dropped ?", "at 600 id"], [500]),
        (steps(*ANEW, last=400, rules=ruled("create table")), ["10-500 id,v", "at 500 dropped ?", "at 600 id"], [600]),
        (
            steps((500, "DROP TABLE t"), (600, "CREATE TABLE t LIKE u"), last=400, rules=ruled("drop table")),
            ["10-500 id,v", "at 500 dropped ?", "at 600 ?"],
            [500],
        ),
    ],
)
def test_a_statement_that_is_left_out_takes_no_row_away(
    timeline: list[TimelineStep], expected: list[str], left_out: list[int]
) -> None:
    assert listing(timeline) == expected
    changes = [step for step in timeline if isinstance(step, SchemaChange)]
    assert [change.range.start.offset for change in changes if change.left_out_by == "filters.r"] == left_out
    assert all(change.state.emptied is None for change in changes if change.range.start.offset in left_out)


def test_a_table_made_anew_after_a_drop_that_was_left_out_keeps_its_rows_in_a_later_run() -> None:
    before = steps(ANEW[0], last=400, rules=ruled("drop table"))[-1].state
    state = stored(before)
    (change,) = steps(ANEW[1], maps=(), state=state, rules=ruled("drop table"))
    assert isinstance(change, SchemaChange)
    assert (change.keeps, change.empties, change.state.is_kept) == (True, False, False)


@pytest.mark.parametrize(
    "statement, rules, reason",
    [
        ("TRUNCATE t", ruled("all ddl", action="stop"), "is to stop the table, by filters.r: TRUNCATE t"),
        ("ALTER TABLE t ADD x INT", ruled("alter table", action="stop"), "is to stop the table, by filters.r"),
        ("ALTER TABLE t ADD x INT -- nightly", ruled(), "is filtered by filters.r, and cannot be: the rows after it"),
        (CUT_OVER, ruled("rename table", action="stop"), "is to stop the table, by filters.r"),
        (
            CUT_OVER,
            replace(ruled("delete"), contents=filled),
            "gives the table the rows of shop._t_gho, and filters.r would have to judge them, which is not supported",
        ),
    ],
)
def test_a_statement_that_a_rule_stops_or_must_not_leave_out(
    statement: str, rules: TimelineInputs, reason: str
) -> None:
    with pytest.raises(TableStopped) as error:
        steps((500, statement), rules=rules)
    assert reason in str(error.value)


def test_a_truncate_before_the_first_row_that_is_left_out_makes_no_table_complete() -> None:
    assert steps((50, "TRUNCATE t"))[-1].state.is_complete
    assert not steps((50, "TRUNCATE t"), rules=ruled("truncate table"))[-1].state.is_complete


def passing_over(*offsets: int) -> TimelineInputs:
    skips = {("shop", "t"): frozenset(map(at, offsets)), ("shop", "u"): frozenset([at(500)])}
    return TimelineInputs(as_logged, nowhere, filters=Filters(skips=skips))


@pytest.mark.parametrize(
    "timeline, expected, left_out",
    [
        (steps((500, "INSERT INTO t VALUES (1)"), rules=passing_over(500)), ["10-500 id,v", "at 500 id,v"], [500]),
        (steps((500, "XA ROLLBACK 'x'"), rules=passing_over(500)), ["10-500 id,v", "at 500 id,v"], [500]),
        (steps((500, "TRUNCATE t"), rules=passing_over(500)), ["10-500 id,v", "at 500 id,v"], [500]),
        (steps((500, "TRUNCATE t"), rules=passing_over(510)), ["10-500 id,v", "at 500 empties id,v"], []),
        (steps((50, "INSERT INTO t VALUES (1)"), rules=passing_over(50)), ["10-1000 id,v"], []),
        (
            steps((500, "ALTER TABLE t MODIFY v TINYINT"), (600, "TRUNCATE t"), rules=passing_over(500)),
            ["10-500 id,v", "at 500 id,v", "at 600 empties id,v"],
            [500],
        ),
    ],
)
def test_a_statement_that_is_passed_over_changes_nothing(
    timeline: list[TimelineStep], expected: list[str], left_out: list[int]
) -> None:
    assert listing(timeline) == expected
    changes = [step for step in timeline if isinstance(step, SchemaChange) and step.left_out_by]
    assert [step.left_out_by for step in changes] == [f"skip b.000001:{offset}" for offset in left_out]


def test_columns_that_follow_a_statement_that_is_passed_over_stop_the_table() -> None:
    after = (700, definition(ID, NOTE))
    with pytest.raises(TableStopped, match="its columns differ"):
        steps((500, "ALTER TABLE t ADD x INT"), maps=((100, OLD), after), rules=passing_over(500))


def test_what_is_passed_over_for_another_table_counts() -> None:
    with pytest.raises(TableStopped, match="in statement format"):
        steps((500, "INSERT INTO t VALUES (1)"), rules=passing_over())
