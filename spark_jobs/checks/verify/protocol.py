"""Interface of the two sides of a comparison: the types of their answers.

Put here: the shapes. Not here: how either side answers (server_rows.py, lake_rows.py), or comparing (compare.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

DIGESTS = pa.schema([("key", pa.binary()), ("digest", pa.int64())])
"""Rows by the text of their keys (row_digest.py)."""
HASH = "hash"
HASHED_DIGESTS = DIGESTS.append(pa.field(HASH, pa.uint64()))
"""The same with the hash of each row's key (engine/jobs/key_hash.py)."""

Values = tuple[bytes | None, ...]
"""A row: the text of each column's value, None for NULL."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys by their texts, and hashes by which data files are searched for their rows.

    hashes: uint64, sorted; those of all keys, and perhaps of others.
    """

    texts: frozenset[bytes] = frozenset()
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64), compare=False, repr=False)

    @classmethod
    def of(cls, texts: Iterable[bytes], *hashes: NDArray[np.uint64]) -> "KeySet":
        return cls(frozenset(texts), np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes])))

    def only(self, texts: Iterable[bytes]) -> "KeySet":
        """Some of the keys."""
        return replace(self, texts=self.texts.intersection(texts))

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[bytes]:
        """The texts in order."""
        return iter(sorted(self.texts))

    def __contains__(self, text: object) -> bool:
        return text in self.texts


@dataclass(frozen=True, slots=True)
class Buckets:
    """Number of rows in every bucket, and the sum of their hashes modulo 2**64; both int64."""

    rows: NDArray[np.int64]
    digests: NDArray[np.int64]

    @classmethod
    def empty(cls, count: int) -> "Buckets":
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64))

    def add_rows(self, buckets: NDArray[np.int64], digests: NDArray[np.int64]) -> None:
        """Take in rows, by their buckets and hashes."""
        self.rows[:] += np.bincount(buckets, minlength=len(self.rows))
        np.add.at(self.digests, buckets, digests)

    def add(self, other: "Buckets") -> None:
        """Take in the sums of other rows."""
        self.rows[:] += other.rows
        self.digests[:] += other.digests

    def unlike(self, other: "Buckets") -> NDArray[np.int64]:
        """The buckets in which the two differ."""
        return np.flatnonzero((self.rows != other.rows) | (self.digests != other.digests))


class ComparedSide(Protocol):
    """A table's rows as one side has them now."""

    def count(self) -> int: ...

    def start(self) -> None:
        """Start what makes texts of rows, by this thread: others ask for them."""
        ...

    def buckets(self, count: int) -> Buckets:
        """All rows, over so many buckets."""
        ...

    def keys_in(self, buckets: Sequence[int], count: int) -> KeySet:
        """The keys in some of the buckets."""
        ...

    def digests_in(self, buckets: Sequence[int], count: int) -> pa.Table:
        """The rows of some of the buckets, as HASHED_DIGESTS; a key stands once for every row of it."""
        ...

    def digests_of(self, keys: KeySet) -> pa.Table:
        """The rows of some keys, as DIGESTS."""
        ...

    def values_of(self, keys: KeySet) -> dict[bytes, list[Values]]:
        """The rows of some keys."""
        ...
