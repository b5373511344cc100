"""Conflicts between transactions, and the order in which the changes of several of them are written together.

Put here: groups of transactions by keys that they have in common, and levels of changes. Not here: what the keys of a
change are (unique_keys.py), or who writes a group (plan.py).

A key is a number. Two changes conflict where they have one in common, by any unique index, before or after the change.
"""

from collections.abc import Collection, Iterable, Sequence


class KeyGroups:
    """Groups of transactions that have keys in common. Different groups can be written side by side, in any order.

    A transaction that joins several groups makes one of them while that stays within ``limit`` rows; where it does not,
    what is in the groups has to be written first (a flush).
    """

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._group_of: dict[int, int] = {}
        """Group of the last transaction with a key, by key."""
        self._parents: list[int] = []
        self._sizes: list[int] = []
        self._members: list[int] = []
        """Group that each transaction came into, in order."""

    def add(self, keys: Collection[int], rows: int = 1) -> bool:
        """Add the next transaction; False where it conflicts with several groups, and has to wait for a flush."""
        roots = {self._root(self._group_of[key]) for key in keys if key in self._group_of}
        joined_rows = rows + sum(self._sizes[root] for root in roots)
        if len(roots) > 1 and joined_rows > self._limit:
            return False
        # The oldest group takes the others, so that groups are in the order of their first transactions.
        group = min(roots, default=len(self._parents))
        if not roots:
            self._parents.append(group)
            self._sizes.append(0)
        for root in roots:
            self._parents[root] = group
        self._sizes[group] = joined_rows
        self._members.append(group)
        self._group_of.update(dict.fromkeys(keys, group))
        return True

    def transactions(self) -> list[list[int]]:
        """The numbers of each group's transactions, both in order."""
        groups: dict[int, list[int]] = {}
        for transaction, group in enumerate(self._members):
            groups.setdefault(self._root(group), []).append(transaction)
        return [groups[group] for group in sorted(groups)]

    def _root(self, group: int) -> int:
        while self._parents[group] != group:
            self._parents[group] = self._parents[self._parents[group]]
            group = self._parents[group]
        return group


def levels(keys: Iterable[Sequence[int]]) -> list[int]:
    """The level of each change, given its keys: above those of all earlier changes that it conflicts with.

    Changes of one level have no key in common, so that one statement may write many of them; levels are written one
    after the other.
    """
    last: dict[int, int] = {}
    numbers = []
    for change_keys in keys:
        level = max([last.get(key, 0) for key in change_keys], default=0)
        numbers.append(level)
        last.update(dict.fromkeys(change_keys, level + 1))
    return numbers
