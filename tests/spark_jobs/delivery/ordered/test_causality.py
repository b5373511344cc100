"""Groups by keys that changes have in common. Cases: TiDB Drainer's and DM's own, and what they leave out."""

import random

import pytest

from spark_jobs.delivery.ordered.causality import KeyGroups, levels


def added(*transactions: set[int], limit: int = 0) -> tuple[list[bool], list[list[int]]]:
    groups = KeyGroups(limit)
    return [groups.add(keys) for keys in transactions], groups.transactions()


A1, B2, A2, B3, B4 = 11, 22, 12, 23, 24


@pytest.mark.parametrize(
    "transactions, limit, accepted, members",
    [
        # Drainer: the third changes a row of the first, and goes to whoever has it.
        ([{3, 4}, {5, 2}, {3}], 0, [True, True, True], [[0, 2], [1]]),
        # DM: t(a primary key, b unique): four changes, then one that conflicts with both groups: a flush.
        (
            [{A1, B2}, {A2, B3}, {A2, B3, 13, B4}, {A1, B2}, {A1, B3}],
            0,
            [True, True, True, True, False],
            [[0, 3], [1, 2]],
        ),
        # The same where groups of five changes may be joined.
        ([{A1, B2}, {A2, B3}, {A2, B3, 13, B4}, {A1, B2}, {A1, B3}], 5, [True] * 5, [[0, 1, 2, 3, 4]]),
        # A chain of keys, each in two changes, is one group.
        ([{4, 3}, {3, 2}, {2, 1}], 0, [True] * 3, [[0, 1, 2]]),
        # Both ends of a chain that is one already.
        ([{1}, {2}, {1, 2}, {1}, {2}], 9, [True] * 5, [[0, 1, 2, 3, 4]]),
        ([set(), {1}, set()], 0, [True] * 3, [[0], [1], [2]]),
    ],
)
def test_groups(transactions: list[set[int]], limit: int, accepted: list[bool], members: list[list[int]]) -> None:
    assert added(*transactions, limit=limit) == (accepted, members)


@pytest.mark.parametrize("limit", [0, 3, 1000])
def test_groups_have_no_key_in_common(limit: int) -> None:
    generator = random.Random(limit)
    groups, accepted = KeyGroups(limit), []
    for _ in range(500):
        keys = {generator.randrange(400) for _ in range(generator.randint(1, 3))}
        if groups.add(keys):
            accepted.append(keys)
    owners: dict[int, int] = {}
    for group, members in enumerate(groups.transactions()):
        assert members == sorted(members)
        for key in set().union(*(accepted[member] for member in members)):
            assert owners.setdefault(key, group) == group
    assert sum(map(len, groups.transactions())) == len(accepted)


@pytest.mark.parametrize(
    "keys, expected",
    [
        ([[1], [2], [3]], [0, 0, 0]),
        ([[1], [1], [2], [1]], [0, 1, 0, 2]),
        ([[1, 5], [2, 5], [2], [1]], [0, 1, 2, 1]),
        ([[], [1], []], [0, 0, 0]),
    ],
)
def test_levels(keys: list[list[int]], expected: list[int]) -> None:
    assert levels(keys) == expected
