"""Windows, parts and statements of changes that are given as rows: (transaction, before, after) of t(id, u)."""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.ordered.plan import (
    DELETE,
    INSERT,
    UPDATE,
    LogWindow,
    PlannedPortion,
    Sizes,
    TableTexts,
    windows,
)
from spark_jobs.delivery.statements import Writer
from spark_jobs.log.position import Position

Row = tuple[int, int]
Change = tuple[int, Row | None, Row | None]
COLUMNS = (OutputColumn("id", "int"), OutputColumn("u", "int"))


def planned(changes: list[Change], *, has_own_columns: bool = False) -> PlannedPortion:
    old = [before or (0, 0) for _, before, _ in changes]
    new = [after or before or (0, 0) for _, before, after in changes]  # of a delete the row that it deletes
    before_rows, after_rows = (
        pa.table({"id": [row[0] for row in rows], "u": [row[1] for row in rows]}) for rows in (old, new)
    )
    writer = Writer("s", "t", COLUMNS, ("id",), 1000, 1 << 20)
    op = np.array([INSERT if not change[1] else UPDATE if change[2] else DELETE for change in changes], np.uint8)
    # The keys of both unique indexes; those of u are told from those of id by their sign.
    keys = [sorted({key for row in change[1:] if row for key in (row[0], -row[1])}) for change in changes]
    is_moved = np.array([bool(a and b and a[0] != b[0]) for _, a, b in changes])
    texts = TableTexts(
        0,
        writer,
        op,
        is_moved,
        writer.row_texts(after_rows),
        writer.key_texts(before_rows),
        before_rows,
        after_rows,
        has_own_columns,
        True,
        False,
        keys,
    )
    transactions = [transaction for transaction, _, _ in changes]
    firsts = [transactions.index(transaction) for transaction, _ in groupby(transactions)]
    begins = tuple(Position("log.000001", 100 + transactions[first]) for first in firsts)
    rows = np.arange(len(changes))
    end, bounds, indexes = Position("log.000001", 999), (*firsts, len(changes)), (rows * 0, rows, rows * 0)
    return PlannedPortion((texts,), np.zeros(len(changes), np.int64), rows, keys, bounds, begins, end, indexes)


def sizes(**keys: int) -> Sizes:
    settings = Delivery.model_validate({"mysql": {"user": "w"}} | keys)
    return Sizes.of(settings)


def parts(window: LogWindow) -> list[list[int]]:
    return [part.tolist() for part in window.parts]


def statements(window: LogWindow, *, is_safe: bool = False) -> list[str]:
    return [
        statement.text.decode().replace("`s`.`t`", "t").replace("`", "")
        for part in range(len(window.parts))
        for statement in window.statements(part, is_safe=is_safe)
    ]


def test_a_transaction_that_conflicts_with_several_groups_waits() -> None:
    """As DM: four changes, a flush, and one."""
    changes: list[Change] = [
        (1, None, (1, 2)), (2, None, (2, 3)), (3, (2, 3), (3, 4)), (4, (1, 2), None), (5, None, (1, 3)),
    ]  # fmt: skip
    first, second = windows(planned(changes), sizes(batch_rows=1, workers=2))
    assert parts(first) == [[0, 3], [1, 2]]
    assert (parts(second), first.end) == ([[4]], Position("log.000001", 105))
    # Where groups may be joined, it is one part, in which order decides.
    [window] = windows(planned(changes), sizes(batch_rows=10))
    assert parts(window) == [[0, 1, 2, 3, 4]]
    assert statements(window) == [
        "INSERT INTO t (id, u) VALUES (1,2),(2,3)",
        "DELETE FROM t WHERE id IN (2,1)",
        "INSERT INTO t (id, u) VALUES (3,4)",
        "INSERT INTO t (id, u) VALUES (1,3)",
    ]


def test_a_transaction_is_never_split() -> None:
    changes: list[Change] = [(at // 5, None, (at, at)) for at in range(1, 26)]
    [window] = windows(planned(changes), sizes(batch_rows=1, workers=5))
    assert [[at + 1 for at in part] for part in parts(window)] == [
        [1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19], [20, 21, 22, 23, 24], [25],
    ]  # fmt: skip


@pytest.mark.parametrize("is_safe", [False, True])
def test_values_that_change_places(is_safe: bool) -> None:
    """In safe mode the rows go first, since their values may be other rows' by now."""
    changes: list[Change] = [(1, (1, 1), (1, 9)), (1, (2, 2), (2, 1)), (1, (1, 9), (1, 2))]
    [window] = windows(planned(changes), sizes())
    texts = [text.partition(" ON ")[0] for text in statements(window, is_safe=is_safe)]
    if is_safe:
        keys = ") OR (".join(f"id = {key}" for key in (1, 2, 1, 1, 2, 1))
        assert texts == [
            f"DELETE FROM t WHERE ({keys})",
            *(f"INSERT INTO t (id, u) VALUES {row}" for row in ("(1,9)", "(2,1)", "(1,2)")),
        ]
    else:
        assert texts == [f"UPDATE t SET id = {key}, u = {u} WHERE id = {key}" for key, u in ((1, 9), (2, 1), (1, 2))]


def test_keys_that_move_up() -> None:
    """(3)>(4), (2)>(3), (1)>(2): no row is lost, whoever writes them."""
    changes: list[Change] = [(1, (3, 3), (4, 3)), (1, (2, 2), (3, 2)), (1, (1, 1), (2, 1))]
    [window] = windows(planned(changes), sizes())
    assert [text.split()[0] for text in statements(window)] == ["DELETE", "INSERT"] * 3
    [window] = windows(planned(changes, has_own_columns=True), sizes())
    assert statements(window)[0] == "UPDATE t SET id = 4, u = 3 WHERE id = 3"


def test_changes_of_a_level_are_written_in_the_order_of_their_key() -> None:
    """Those of a few rows stay in the log's order."""
    keys = [at * 37 % 100 for at in range(100)]
    inserts: list[Change] = [(1, None, (key, key)) for key in keys]
    [window] = windows(planned(inserts), sizes())
    assert statements(window) == [f"INSERT INTO t (id, u) VALUES {','.join(f'({key},{key})' for key in range(100))}"]
    deletes: list[Change] = [(1, (key, key), None) for key in keys]
    [window] = windows(planned(deletes), sizes())
    assert statements(window) == [f"DELETE FROM t WHERE id IN ({','.join(map(str, range(100)))})"]
    [window] = windows(planned(inserts[:9]), sizes())
    assert [text.partition("VALUES ")[2] for text in statements(window)] == [
        ",".join(f"({key},{key})" for key in keys[:9])
    ]


def test_a_window_that_was_begun_has_its_parts_again() -> None:
    changes: list[Change] = [(at, None, (at, at)) for at in range(1, 101)]
    [window] = windows(planned(changes), sizes(batch_rows=10, workers=3))
    [same_window] = windows(planned(changes), Sizes.for_open_window(window.part_rows))
    assert (window.part_rows, parts(window)) == (34, parts(same_window))
    assert window.digest == same_window.digest
    [other_window] = windows(planned(changes[:-1]), Sizes.for_open_window(window.part_rows))
    assert window.digest != other_window.digest
    # A window is identified by which changes its parts have, however their keys were numbered.
    portion = planned(changes)
    other_numbers = replace(portion, keys=[[key * 7 for key in keys] for keys in portion.keys])
    [same_window] = windows(other_numbers, Sizes.for_open_window(window.part_rows))
    assert window.digest == same_window.digest
    [other_parts] = windows(portion, Sizes.for_open_window(window.part_rows + 1))
    assert window.digest != other_parts.digest
