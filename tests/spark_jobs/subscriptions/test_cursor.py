from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor, EntryPlace


def place(offset: int, row: int, logged: int | None = None) -> EntryPlace:
    return EntryPlace(Position("b.000001", offset), Position("b.000001", logged or offset), row)


def test_entries_up_to_the_last_one_are_done() -> None:
    cursor = Cursor(Position("b.000001", 4), place(100, 1))
    assert [cursor.is_done(place(100, row)) for row in (0, 1, 2)] == [True, True, False]
    assert not cursor.is_done(place(200, 0))
    assert not cursor.is_done(place(300, 0, logged=50)), "it takes effect later than it was logged"
    assert not Cursor(Position("b.000001", 4)).is_done(place(4, 0))


def test_json() -> None:
    for cursor in (Cursor(Position("b.000001", 4, 2)), Cursor(Position("b.000001", 4), place(300, 2, logged=50))):
        assert Cursor.from_json(cursor.to_json()) == cursor
