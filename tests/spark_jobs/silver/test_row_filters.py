"""Changes judged by rules, beside a twin that takes each by itself. Pipelines: tests/pipeline/test_filters.py."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog import Changes, Column, TableDefinition, TableName
from spark_jobs.config.filters import EventFilter, RowFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import TableStopped
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.tree import tree_of
from spark_jobs.silver.row_filters import ChangeFilters, ChangeJudge
from tests.twins.slow_expressions import FAULT, FaultError, truth_of

TABLE = TableDefinition(TableName("shop", "t"), (Column("id", 3), Column("n", 3), Column("day", 10)), key=(0,))
TEXTS = pa.map_(pa.string(), pa.string())
KINDS = {"insert": 1, "update": 2, "delete": 3}
CONDITIONS = ("n = 1", "n > 1 OR day IS NULL", "n IN (0, 2)", "day < '2024-03-01'", "n % 2 = 0 AND day IS NOT NULL")


def rule(name: str = "r", **conditions: str) -> RowFilter:
    return RowFilter(name, Scope(), **{key: Condition.parse(text) for key, text in conditions.items()})


def judge_of(filters: TableFilters, known_columns: frozenset[str] = frozenset()) -> ChangeJudge:
    return ChangeJudge(ChangeFilters.of(filters, TABLE, known_columns))


def random_changes(random: Random, count: int, *, faults: bool) -> tuple[Changes, list[dict[str, Any]]]:
    """Changes, and each as its kind with both images by name."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        images = [
            {
                "id": number,
                "n": random.choice((0, 1, 2, 3, None)),
                "day": random.choice((*DAYS, None, *((FAULT,) if faults else ()))),
            }
            for _ in range(2)
        ]
        rows.append({"kind": random.choice([*KINDS]), "after": images[0], "before": images[1]})
    return as_changes(rows), rows


DAYS = (np.datetime64("2024-02-29").item(), np.datetime64("2024-03-01").item())


def as_changes(rows: list[dict[str, Any]]) -> Changes:
    images = []
    for image in ("after", "before"):
        cells = {
            str(column.name): pa.array(
                [None if (cell := row[image][column.name]) is FAULT else cell for row in rows], column.arrow
            )
            for column in TABLE.columns
        }
        raw = pa.array([[("day", "0000-00-00")] if row[image]["day"] is FAULT else None for row in rows], TEXTS)
        images.append((pa.RecordBatch.from_pydict(cells), raw))
    (after, raw), (before, before_raw) = images
    count = len(rows)
    return Changes(
        op=pa.array([KINDS[row["kind"]] for row in rows], pa.uint8()),
        offset=pa.array(range(100, 100 + count), pa.int64()),
        row=pa.array(range(count), pa.int32()),
        committed_at=pa.repeat(pa.scalar(0, pa.timestamp("us", "UTC")), count),
        gtid=None,
        after=after,
        before=before,
        raw=raw,
        before_raw=before_raw,
    )


def slow_rule(change: dict[str, Any], rules: tuple[RowFilter, ...]) -> str | None:
    """The first rule that filters a change. Raises FaultError."""
    for row_filter in rules:
        conditions = {
            "insert": [(row_filter.insert, "after")],
            "update": [(row_filter.update_old, "before"), (row_filter.update_new, "after")],
            "delete": [(row_filter.delete, "after")],
        }[change["kind"]]
        tests = [(condition, image) for condition, image in conditions if condition]
        if tests and all(truth_of(tree_of(condition.text), change[image]) is True for condition, image in tests):
            return f"row_filters.{row_filter.name}"
    return None


@pytest.mark.parametrize("seed", range(40))
def test_changes_are_judged_as_by_the_slow_twin(seed: int) -> None:
    random = Random(seed)
    names = ("insert", "update_old", "update_new", "delete")
    rules = tuple(
        rule(f"r{number}", **{name: random.choice(CONDITIONS) for name in names if random.random() < 0.6})
        for number in range(random.randint(1, 3))
    )
    changes, rows = random_changes(random, 30, faults=seed % 4 == 0)
    judge = judge_of(TableFilters(rows=rules))
    try:
        expected = [slow_rule(row, rules) for row in rows]
    except FaultError:
        with pytest.raises(
            TableStopped, match=r"^b\.000001:1\d\d: row_filters\.r\d\..*: column day: its type in the lake"
        ):
            judge.remaining(changes, "b.000001")
        return
    remaining = judge.remaining(changes, "b.000001")
    remaining_numbers = [number for number, name in enumerate(expected) if name is None]
    assert (list(range(30)) if remaining is None else remaining.to_pylist()) == remaining_numbers
    assert judge.counts == {name: expected.count(name) for name in {*expected} if name}


def test_a_kind_that_is_filtered_whole_is_not_asked_about() -> None:
    events = (EventFilter("e", Scope(), ("insert",), (), "ignore"),)
    judge = judge_of(TableFilters(events, (rule(insert="n = 1", delete="n = 1"),)))
    image = {"id": 1, "n": 1, "day": None}
    changes = as_changes([{"kind": kind, "after": image, "before": image} for kind in KINDS])
    remaining = judge.remaining(changes, "b.000001")
    assert remaining is not None
    assert remaining.to_pylist() == [1]
    assert judge.counts == {"filters.e": 1, "row_filters.r": 1}


def test_what_an_earlier_rule_filters_no_later_one_is_asked_about() -> None:
    image = {"id": 1, "n": 1, "day": FAULT}
    changes = as_changes([{"kind": "insert", "after": image, "before": image}])
    rules = (rule("a", insert="n = 1"), rule("b", insert="day = '2024-02-29'"))
    judge = judge_of(TableFilters(rows=rules))
    assert judge.remaining(changes, "b.000001") is not None
    assert judge.counts == {"row_filters.a": 1}
    with pytest.raises(TableStopped, match=r"^b\.000001:100: row_filters\.b\.insert-value-expr: column day: its type"):
        judge_of(TableFilters(rows=rules[::-1])).remaining(changes, "b.000001")


def test_a_column_that_a_row_image_leaves_out_stops_the_table() -> None:
    image = {"id": 1, "n": None, "day": None}
    changes = as_changes([{"kind": "update", "after": image, "before": image}])
    judge = judge_of(TableFilters(rows=(rule(update_new="n = 1"),)))
    absent = pa.array([["n"]], pa.list_(pa.string()))
    reason = r"b\.000001:100: row_filters\.r\.update-new-value-expr: the row image leaves column n out"
    with pytest.raises(TableStopped, match=f"^{reason}, a rule asks for it, and neither a change of the row"):
        judge.remaining(changes, "b.000001", absent)
    assert judge.remaining(changes, "b.000001", pa.array([["day"]], pa.list_(pa.string()))) is None


def test_a_column_of_another_time_says_nothing_and_one_of_no_time_stops() -> None:
    filters = TableFilters(rows=(rule(insert="gone IS NULL"),))
    changes, _ = random_changes(Random(1), 20, faults=False)
    assert judge_of(filters, frozenset({"gone"})).remaining(changes, "b.000001") is None
    with pytest.raises(
        TableStopped, match=r"row_filters\.r\.insert-value-expr names column gone, which the table does"
    ):
        judge_of(filters)
    with pytest.raises(TableStopped, match=r"row_filters\.r\.delete-value-expr: `n = day` compares a whole number"):
        judge_of(TableFilters(rows=(rule(delete="n = day"),)))


def test_rules_need_the_row_before_where_one_asks_for_it() -> None:
    assert not ChangeFilters.of(TableFilters(), TABLE, frozenset())
    assert not ChangeFilters.of(TableFilters(rows=(rule(update_new="n"),)), TABLE, frozenset()).needs_before
    assert ChangeFilters.of(TableFilters(rows=(rule(update_old="n"),)), TABLE, frozenset()).needs_before
