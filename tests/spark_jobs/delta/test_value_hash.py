"""The hash; what it tells apart of keys and rows: tests/spark_jobs/engine/jobs/test_key_hash.py."""

import numpy as np
import pyarrow as pa

from spark_jobs.delta.value_hash import SECOND_SEED, hashes_of


def test_a_hash_is_of_the_values_and_their_order_and_not_of_their_place() -> None:
    texts, numbers = pa.array(["a", "b", "a", None]), pa.array([1, 2, 1, 2], pa.int32())
    hashes = hashes_of([texts, numbers], 4)
    assert hashes[0] == hashes[2]
    assert len(set(hashes.tolist())) == 3
    assert (hashes_of([texts.slice(1, 2), pa.chunked_array([numbers]).slice(1, 2)], 2) == hashes[1:3]).all()
    assert not np.isin(hashes_of([numbers, texts], 4), hashes).any()


def test_the_second_seed_gives_hashes_of_its_own() -> None:
    numbers = pa.array(range(1_000), pa.int64())
    assert not np.isin(hashes_of([numbers], 1_000, SECOND_SEED), hashes_of([numbers], 1_000)).any()
