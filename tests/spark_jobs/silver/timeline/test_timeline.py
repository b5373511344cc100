from dataclasses import replace

import pytest

from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableExtent
from spark_jobs.ddl.classify import classify
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Range
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableState
from spark_jobs.silver.timeline.timeline import Timeline
from tests.binlogs.timelines import NAME, OLD, RULES, at


def timeline(state: TableState | None = None, *, has_rows: bool = True) -> Timeline:
    occurrences = {NAME: TableExtent(at(100), at(900), ((at(100), OLD),))} if has_rows else {}
    return Timeline.begin(RangeScan(occurrences, ()), NAME, Range(at(10), at(1000)), RULES, state)


def event(text: str, offset: int = 50) -> LoggedStatement:
    return LoggedStatement(at(offset), classify(text, "shop"), at(offset + 10), "shop")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("DROP TABLE u, t, v", "DropTable"),
        ("RENAME TABLE t TO tmp, u TO t", "Rename"),
        ("ALTER TABLE t ADD x INT, RENAME TO u", "AlterTable FreeName"),
        ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t", "ChangeStorage"),
        ("DROP DATABASE shop", "DropSchema"),
        ("DROP INDEX i ON T", "ChangeIndex"),
        ("CREATE TABLE u LIKE t", ""),
    ],
)
def test_the_effects_on_one_table(text: str, expected: str) -> None:
    assert " ".join(type(effect).__name__ for effect in timeline().effects(event(text))) == expected


@pytest.mark.parametrize(
    "text, reason",
    [
        ("DROP TABLE T", "names shop.T; whether that is shop.t is not in the log"),
        ("ALTER TABLE u RENAME TO T", "names shop.T; whether that is shop.t is not in the log"),
        ("DROP DATABASE Shop", "names the schema shop in other letters"),
        ("RENAME TABLE t", "cannot be read"),
        ("REFILL t", "changes the table, which is not applied yet"),
    ],
)
def test_an_effect_that_is_not_certain_stops_the_table_at_its_place(text: str, reason: str) -> None:
    with pytest.raises(TableStopped, match=reason) as stopped:
        timeline().effects(event(text))
    assert stopped.value.at == at(50)


def test_a_statement_before_the_first_row_is_early() -> None:
    added = "ALTER TABLE t ADD x INT"
    assert timeline().is_early(event(added))
    assert not timeline().is_early(event(added, 500))
    assert not timeline().is_early(event("INSERT INTO t VALUES (1)"))
    assert timeline(has_rows=False).is_early(event(added, 500))
    assert not timeline(TableState(OLD), has_rows=False).is_early(event(added))
    later = replace(timeline(has_rows=False), steps=(DataRange(Range(at(10), at(20)), TableState(OLD)),))
    assert not later.is_early(event(added))


def test_a_change_leaves_the_timeline_before_it_as_it_was() -> None:
    before = timeline(has_rows=False)
    changed = before.with_change(SchemaChange(Range(at(20), at(30)), TableState(OLD)))
    assert (before.steps, before.state) == ((), TableState(None))
    assert ([step.state for step in changed.steps], changed.state) == ([TableState(OLD)], TableState(OLD))
