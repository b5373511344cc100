"""Buckets."""

import numpy as np

from spark_jobs.checks.verify.protocol import Buckets


def filled(*parts: tuple[list[int], list[int], list[int]]) -> Buckets:
    bucket_list = Buckets.empty(4)
    for buckets, rows, digests in parts:
        bucket_list.add(*(np.array(column, np.int64) for column in (buckets, rows, digests)))
    return bucket_list


def test_parts_of_a_table_add_up() -> None:
    all_buckets = filled(([0, 3], [2, 1], [5 ^ 6, 7]))
    parts = filled(([0], [1], [5]), ([3, 0], [1, 1], [7, 6]))
    assert list(all_buckets.unlike(parts)) == []


def test_a_row_more_and_another_digest_are_seen() -> None:
    all_buckets = filled(([0, 1, 2], [2, 1, 0], [0, 7, 0]))
    assert list(all_buckets.unlike(filled(([0, 1], [4, 1], [0, 7])))) == [0]
    assert list(all_buckets.unlike(filled(([0, 1], [2, 1], [0, 6])))) == [1]
