"""Portions of the log: whole transactions, in order, with statements between them."""

from itertools import pairwise
from pathlib import Path

import pytest

from spark_jobs.delivery.ordered.log_changes import Portion, Statements, Step, steps
from spark_jobs.delivery.ordered.log_tables import Logged, OrderedTable
from spark_jobs.log.position import Range
from tests.binlogs.segment_spec import Change, Commit, Insert, Statement
from tests.spark_jobs.delivery.ordered.logged import NAMES, SOURCE, LoggedLake, at

FIRST: list[Change] = [Insert("shop.orders", (1, "a")), Insert("shop.lines", (2, 0)), Commit()]
LARGE: list[Change] = [
    *(Insert("shop.orders", (number, "x" * 30)) for number in range(10, 18)),
    Insert("shop.lines", (18, 0)),
]
LAST: list[Change] = [Insert("shop.lines", (20, 0)), Commit(), Insert("shop.orders", (21, "")), Commit()]
LOG: list[Change] = [*FIRST, *LARGE, Commit(), *LAST]
TRANSACTIONS = [{1, 2}, {*range(10, 19)}, {20}, {21}]


def transactions(portion: Portion) -> dict[int, set[int]]:
    """By the offset where it begins, the ids of a transaction's rows."""
    ids: dict[int, set[int]] = {}
    for table in portion.tables:
        rows = [number for changes in table.changes for number in changes.after.column("id").to_pylist()]
        for begin, number in zip(table.transaction.tolist(), rows, strict=True):
            ids.setdefault(begin, set()).add(number)
    return dict(sorted(ids.items()))


def listing(log: list[Step]) -> list[list[int] | str]:
    """Of portions the ids of their rows, of statements their tables' names."""
    texts: list[list[int] | str] = []
    for step in log:
        if isinstance(step, Portion):
            texts.append(sorted(number for ids in transactions(step).values() for number in ids))
        else:
            names = [str(statement.step.state.definition) for statement in step.statements]
            texts.append(" ".join(name.partition(" ")[0] for name in names))
    return texts


@pytest.mark.parametrize(
    "target, rows, sizes",
    [
        # The large transaction is five slices; a portion ends before it or behind it, and not inside.
        (300, 1, [2, 9, 2]),
        (300, 3, [11, 2]),
        (300, 12, [13]),
        # One slice has all: it is not cut.
        (1 << 20, 1, [13]),
    ],
)
def test_portions_end_between_transactions(tmp_path: Path, target: int, rows: int, sizes: list[int]) -> None:
    lake = LoggedLake.of(tmp_path, LOG, target)
    portions = [step for step in steps(lake.logged(), rows) if isinstance(step, Portion)]
    assert [portion.rows for portion in portions] == sizes
    by_portion = [transactions(portion) for portion in portions]
    assert [ids for portion in by_portion for ids in portion.values()] == TRANSACTIONS
    ends = [portion.end.offset for portion in portions]
    assert ends[:-1] == [min(portion) for portion in by_portion[1:]]
    assert ends[-1] == lake.end.offset


def test_a_portion_ends_before_a_transaction_whose_first_slices_have_other_tables_rows(tmp_path: Path) -> None:
    """Every slice of the delivered table begins inside a transaction; memory is bounded all the same."""
    log: list[Change] = []
    for first in range(10, 40, 10):
        log += [Insert("shop.lines", (number, 0)) for number in range(40)]
        log += [*(Insert("shop.orders", (first + number, "x" * 30)) for number in range(8)), Commit()]
    lake = LoggedLake.of(tmp_path, log, target=300)
    orders = OrderedTable(NAMES[0], lake.into(NAMES[0]), at(4), lake.end)
    logged = Logged.of(lake.pipeline, lake.lake, SOURCE, Range(at(4), lake.end), [orders])
    portions = [step for step in steps(logged, 1) if isinstance(step, Portion)]
    assert [portion.rows for portion in portions] == [8, 8, 8]
    by_portion = [transactions(portion) for portion in portions]
    assert [portion.end.offset for portion in portions[:-1]] == [min(portion) for portion in by_portion[1:]]


def test_a_slice_begins_inside_a_transaction(tmp_path: Path) -> None:
    """Every row of a transaction is of the one position where that begins, however many slices it has."""
    lake = LoggedLake.of(tmp_path, LOG, target=1)
    logged = lake.logged()
    begins = {*logged.index.slices.column("transaction_start").to_pylist()}
    assert len(logged.index) > len(begins)
    [portion] = steps(logged, 1000)
    assert isinstance(portion, Portion)
    assert {*transactions(portion)} <= begins
    assert [*transactions(portion).values()] == TRANSACTIONS


@pytest.mark.parametrize("target", [1, 1 << 20])
@pytest.mark.parametrize(
    "statement, expected",
    [
        ("TRUNCATE orders", [[1, 2], "shop.orders", [20, 21]]),
        ("ALTER TABLE `lines` ADD INDEX (amount)", [[1, 2, 20, 21]]),
        ("RENAME TABLE other TO another", [[1, 2, 20, 21]]),
        ("CREATE TABLE other LIKE orders", [[1, 2, 20, 21]]),
    ],
)
def test_a_statement_stands_at_its_place(
    tmp_path: Path, target: int, statement: str, expected: list[list[int] | str]
) -> None:
    lake = LoggedLake.of(tmp_path, [*FIRST, Statement("shop", statement), *LAST], target)
    log = [*steps(lake.logged(), 1000)]
    assert listing(log) == expected
    for step, following in pairwise(log):
        if isinstance(following, Statements):
            assert step.end == following.statements[0].step.range.start
            assert following.end == following.statements[0].step.range.stop


def test_a_table_begins_where_the_target_has_it(tmp_path: Path) -> None:
    lake = LoggedLake.of(tmp_path, LOG, target=1)
    [portion] = steps(lake.logged(), 1000)
    assert isinstance(portion, Portion)
    begin = [*transactions(portion)][2]
    assert listing([*steps(lake.logged(since=begin), 1000)]) == [[1, *range(10, 18), 20, 21]]
