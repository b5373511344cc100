"""Buckets."""

import numpy as np

from spark_jobs.checks.verify.protocol import Buckets


def filled(*rows: tuple[int, int]) -> Buckets:
    """Buckets with rows, each by its bucket and hash."""
    buckets = Buckets.empty(4)
    buckets.add_rows(*(np.array([row[at] for row in rows], np.int64) for at in (0, 1)))
    return buckets


def test_parts_of_a_table_add_up() -> None:
    parts = filled((0, 5), (3, 7))
    parts.add(filled((0, -6)))
    assert list(parts.rows) == [2, 0, 0, 1]
    assert list(parts.unlike(filled((0, -6), (3, 7), (0, 5)))) == []


def test_sums_of_large_hashes_wrap() -> None:
    largest = 2**63 - 1
    assert list(filled((1, largest), (1, largest), (1, 2)).digests) == [0, 0, 0, 0]


def test_a_row_more_and_another_hash_are_seen() -> None:
    rows = filled((0, 0), (0, 0), (1, 7))
    assert list(rows.unlike(filled(*[(0, 0)] * 4, (1, 7)))) == [0]
    assert list(rows.unlike(filled((0, 0), (0, 0), (1, 6)))) == [1]


def test_a_row_that_stands_twice_in_place_of_two_others_is_seen() -> None:
    """By XOR both sides would have no hash but the last one's."""
    assert list(filled((2, 5), (2, 5), (2, 9)).unlike(filled((2, 7), (2, 7), (2, 9)))) == [2]
