from random import Random

import pytest

from spark_jobs.row_history.key_life import KeyEvent, KeyLives, keys_met


def moves(*pairs: tuple[int, str | None, str | None]) -> list[KeyEvent]:
    return [KeyEvent((at, 0), old, new) for at, old, new in pairs]


def orders_of(seed: str, events: list[KeyEvent], emptied: tuple[int, ...] = ()) -> list[int]:
    lives = KeyLives.of({seed}, events, [(at, 0) for at in emptied])
    return [event.order[0] for event in events if lives.holds(event.order, event.old, event.new)]


EVENTS = moves(
    (1, None, "a"), (2, "a", "b"), (3, None, "a"), (4, "b", "c"), (5, "c", None), (6, None, "b"), (7, "a", None),
)  # fmt: skip


def test_a_row_is_followed_forward_and_back() -> None:
    assert keys_met({"c"}, EVENTS) == {"a", "b", "c"}
    # The row that came to c by way of a and b, and neither the later row of a nor that of b.
    assert orders_of("c", EVENTS) == [1, 2, 4, 5]
    # All of a's changes, at any time, and the row that left it.
    assert orders_of("a", EVENTS) == [1, 2, 3, 4, 5, 7]
    assert orders_of("b", EVENTS) == [1, 2, 4, 5, 6]


def test_what_emptied_the_table_ended_the_row() -> None:
    events = moves((1, None, "a"), (2, "a", "b"), (4, "b", None), (5, None, "b"))
    assert orders_of("a", events) == [1, 2, 4]
    assert orders_of("a", events, (3,)) == [1, 2]
    events = moves((1, None, "a"), (4, "a", "b"))
    assert orders_of("b", events, (2,)) == [4]


def test_keys_that_swap_are_followed_through_the_key_between() -> None:
    events = moves((1, None, "a"), (2, None, "b"), (3, "a", "x"), (4, "b", "a"), (5, "x", "b"), (6, "b", None))
    assert orders_of("x", events) == [1, 3, 5, 6]


def test_a_key_that_comes_back_to_itself_ends() -> None:
    events = moves(*((at, "ab"[at % 2], "ab"[1 - at % 2]) for at in range(50)))
    assert orders_of("a", events) == list(range(50))


@pytest.mark.parametrize("seed", range(40))
def test_random_rows_against_rows_with_a_name(seed: int) -> None:
    """The twin gives each row a name at its birth, and asks which rows ever had the key."""
    random = Random(seed)
    rows: dict[str, int] = {}
    events, owners = list[KeyEvent](), list[int]()
    for at in range(60):
        key, born = random.choice("abcdef"), random.choice("abcdef")
        if key in rows and random.random() < 0.3:
            owners.append(rows.pop(key))
            events.append(KeyEvent((at, 0), key, None))
        elif key in rows and born not in rows:
            owners.append(rows.pop(key))
            rows[born] = owners[-1]
            events.append(KeyEvent((at, 0), key, born))
        elif born not in rows:
            rows[born] = at
            owners.append(at)
            events.append(KeyEvent((at, 0), None, born))
    # Rows that come to a chosen key are followed back, those that leave it forward; a row that had it is both.
    chosen_rows = {owner for event, owner in zip(events, owners, strict=True) if "a" in (event.old, event.new)}
    expected = [event.order[0] for event, owner in zip(events, owners, strict=True) if owner in chosen_rows]
    assert orders_of("a", events) == expected
