from spark_jobs.changes.formats.base import COMPLETE, ChangeLine
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor, EntryPosition

START = Position("b.000001", 4)


def entry_position(
    offset: int, row: int, logged: int | None = None, rows: int = 1, part: int = COMPLETE
) -> EntryPosition:
    line = ChangeLine(logged or offset, row, (), rows=rows, part=part)
    return EntryPosition.of(line, Position("b.000001", offset), Position("b.000001", logged or offset))


def test_entries_up_to_the_last_one_are_done() -> None:
    cursor = Cursor(START, entry_position(100, 1))
    assert [cursor.is_done(entry_position(100, row)) for row in (0, 1, 2)] == [True, True, False]
    assert not cursor.is_done(entry_position(200, 0))
    assert not cursor.is_done(entry_position(300, 0, logged=50)), "it takes effect later than it was logged"
    assert not Cursor(START).is_done(entry_position(4, 0))


def test_json() -> None:
    for cursor in (Cursor(Position("b.000001", 4, 2)), Cursor(START, entry_position(300, 2, logged=50))):
        assert Cursor.from_json(cursor.to_json()) == cursor


def test_an_entry_is_done_only_if_its_last_row_is() -> None:
    message = entry_position(100, 0, rows=3)
    assert [Cursor(START, entry_position(100, row)).is_done(message) for row in (0, 1, 2)] == [False, False, True]
    assert [Cursor(START, message).is_done(entry_position(100, row)) for row in (0, 1, 2, 3)] == [
        True,
        True,
        True,
        False,
    ]


def test_a_row_is_done_only_if_both_of_its_lines_are() -> None:
    first, second, row = entry_position(100, 1, part=0), entry_position(100, 1), entry_position(100, 1)
    assert not Cursor(START, first).is_done(row)
    assert not Cursor(START, first).is_done(second)
    assert Cursor(START, second).is_done(row)
    assert Cursor(START, row).is_done(first)
