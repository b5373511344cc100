from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.bronze.log_key_index import Hashes, LogKeyIndex, to_bytes
from spark_jobs.delta.index_files import Damaged
from tests.fix_hypothesis import examples

NOTE = {"identity": "x", "more": ["ä"]}


def hashed(keys: list[int]) -> Hashes:
    """Numbers as well spread as hashes."""
    return np.array([key * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for key in keys], np.uint64)


def content_of(slices: list[list[int]], count: int | None = None) -> bytes:
    return to_bytes(NOTE, [(at, hashed(keys)) for at, keys in enumerate(slices)], count or len(slices))


@examples(60)
@given(st.lists(st.lists(st.integers(0, 300), max_size=40), min_size=1, max_size=12), st.integers(0, 300))
def test_a_lookup_names_the_slices_of_a_key(slices: list[list[int]], key: int) -> None:
    index = LogKeyIndex.read(content_of(slices))
    assert index.slices(hashed([key])).tolist() == [at for at, keys in enumerate(slices) if key in keys]
    assert index.description == NOTE


def test_many_keys_and_slices_lead_to_few_others(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    count, keys = 3000, dice.integers(0, 1 << 40, (3000, 100))
    path = tmp_path / "i"
    path.write_bytes(content_of(keys.tolist()))
    assert path.stat().st_size < 5 * keys.size
    index = LogKeyIndex.opened(path)
    for at in range(0, count, 97):
        assert at in index.slices(hashed(keys[at, :1].tolist())).tolist()
    # A key that is nowhere is told from the others by some thirty bits.
    unknown = dice.integers(1 << 41, 1 << 42, 2000).tolist()
    assert len(index.slices(hashed(unknown))) < 10


def test_the_numbers_of_a_large_file_fit(tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.write_bytes(to_bytes(NOTE, [(1_000_000, hashed([7])), (3, hashed([7, 8]))], 1_000_001))
    assert LogKeyIndex.opened(path).slices(hashed([7])).tolist() == [3, 1_000_000]


def test_a_damaged_byte_never_hides_a_slice() -> None:
    slices = [[*range(at, at + 40)] for at in range(0, 400, 40)]
    content = content_of(slices)
    expected = LogKeyIndex.read(content).slices(hashed([5, 77, 399])).tolist()
    assert expected == [0, 1, 9]
    undamaged = 0
    for at in range(len(content)):
        damaged = content[:at] + bytes([content[at] ^ 0x21]) + content[at + 1 :]
        with suppress(Damaged):
            assert LogKeyIndex.read(damaged).slices(hashed([5, 77, 399])).tolist() == expected
            undamaged += 1
    # Most bytes are of other buckets.
    assert 0 < undamaged < len(content)
    for size in range(0, len(content), 7):
        with suppress(Damaged):
            assert LogKeyIndex.read(content[:size]).slices(hashed([5, 77, 399])).tolist() == expected


@pytest.mark.parametrize("content", [b"", b"STRLOGK1", b"x" * 64], ids=["empty", "short", "another"])
def test_what_is_no_index_is_damaged(content: bytes) -> None:
    with pytest.raises(Damaged):
        LogKeyIndex.read(content)


def test_an_index_of_no_changes_names_no_slice() -> None:
    assert LogKeyIndex.read(to_bytes(NOTE, [], 40)).slices(hashed([1])).tolist() == []
