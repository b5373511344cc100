import pytest

from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableOccurrence
from spark_jobs.ddl.classify import classify
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Range
from spark_jobs.silver.table_timeline import DataRange, TableState
from spark_jobs.silver.timeline.progress import TimelineProgress
from tests.timelines import NAME, OLD, RULES, at


def progress(state: TableState | None = None, *, has_rows: bool = True) -> TimelineProgress:
    occurrences = {NAME: TableOccurrence(at(100), at(900), ((at(100), OLD),))} if has_rows else {}
    return TimelineProgress.begin(RangeScan(occurrences, ()), NAME, Range(at(10), at(1000)), RULES, state)


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
    assert " ".join(type(effect).__name__ for effect in progress().effects(event(text))) == expected


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
        progress().effects(event(text))
    assert stopped.value.at == at(50)


def test_a_statement_before_the_first_row_is_early() -> None:
    added = "ALTER TABLE t ADD x INT"
    assert progress().is_early(event(added))
    assert not progress().is_early(event(added, 500))
    assert not progress().is_early(event("INSERT INTO t VALUES (1)"))
    assert progress(has_rows=False).is_early(event(added, 500))
    assert not progress(TableState(OLD), has_rows=False).is_early(event(added))
    later = progress(has_rows=False)
    later.steps.append(DataRange(Range(at(10), at(20)), TableState(OLD)))
    assert not later.is_early(event(added))
