"""Net rows of one window whose keys changed while their images lacked columns; random ones: test_partial_reduction."""

from spark_jobs.silver.moved_rows import within_window
from tests.binlogs.partial_changes import NAMES, SHAPE
from tests.spark_jobs.silver.test_partial_reduction import net_of
from tests.twins.plain_layers import RowChange


def minimal(key: int, **parts: int) -> RowChange:
    return RowChange({"id": key}, parts)


def completed(*changes: RowChange) -> list[tuple[int, int | None, int | None, list[str] | None]]:
    """Of the rows that are there after each change: key, columns, and the key that the rest is known by."""
    rows = within_window(net_of([*changes]), SHAPE.key, NAMES)
    here = rows.filter(rows.column("_exists"))
    return [(row["id"], row["a"], row["b"], row["_moved_from"]) for row in here.to_pylist()]


def test_rows_that_swap_their_keys_have_each_their_own_columns() -> None:
    rows = completed(minimal(1, a=5), minimal(1, id=9), minimal(2, id=1), minimal(9, id=2, b=7))
    assert rows[1:] == [(9, 5, None, ["v1"]), (1, None, None, ["v2"]), (2, 5, 7, None)]


def test_a_chain_names_the_key_from_before_the_window() -> None:
    assert completed(minimal(1, id=2), minimal(2, id=3), minimal(3, id=1))[-1] == (1, None, None, ["v1"])


def test_what_an_old_key_gets_later_is_of_another_row() -> None:
    rows = completed(minimal(1, id=2), RowChange(None, {"id": 1, "a": 3, "b": 4}), minimal(2, a=6))
    assert rows[0] == (2, None, None, ["v1"])


def test_what_a_key_that_was_gone_had_is_not_known() -> None:
    assert completed(RowChange({"id": 1}, None), minimal(1, id=2))[-1] == (2, None, None, [])


def test_what_a_row_of_an_unknown_insert_lacks_is_not_known_behind_a_change_of_its_key() -> None:
    rows = completed(RowChange({"id": 1}, None), minimal(1, a=7), minimal(1, id=2), minimal(2, id=3))
    assert rows[-1] == (3, 7, None, [])
