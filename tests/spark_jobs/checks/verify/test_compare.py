"""Comparing, over two sides that are dictionaries and a log that is a list."""

import hashlib
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import compare as module
from spark_jobs.checks.verify.compare import TableComparison, buckets_for, compare
from spark_jobs.checks.verify.protocol import DIGESTS, HASH, HASHED_DIGESTS, Buckets, KeySet, Values
from spark_jobs.checks.verify.row_digest import DIGITS, layout
from spark_jobs.log.position import Position

LAYOUT = layout(
    TableName("shop", "t"),
    [{"name": name, "kind": "int", "declared": "int", "charset": None, "fraction": None} for name in ("id", "n")],
    {"id": "INT", "n": "INT"},
    ("id",),
)
Rows = dict[int, int]


def key(number: int) -> bytes:
    return b"%d," % number


def digest(text: bytes) -> int:
    """As the two sides make it: of CRCs, rows 1 and 39 that both change from 0 to 4 leave a bucket's XOR as it was."""
    return int(hashlib.sha256(text).hexdigest()[:DIGITS], 16)


@dataclass
class CountedRows:
    """A side that holds rows, each with how often."""

    rows: Rows
    twice: set[int] = field(default_factory=set)
    has_started: bool = False

    def start(self) -> None:
        self.has_started = True

    def count(self) -> int:
        return len(self.rows)

    def _digests(self) -> list[tuple[bytes, int]]:
        once = [(key(id_), digest(b"%d,%d" % (id_, n))) for id_, n in self.rows.items()]
        return once + [pair for pair in once if int(pair[0][:-1]) in self.twice]

    def buckets(self, count: int) -> Buckets:
        result = Buckets.empty(count)
        for text, digest in self._digests():
            result.add_rows(np.array([zlib.crc32(text) % count]), np.array([digest]))
        return result

    def keys_in(self, buckets: Sequence[int], count: int) -> KeySet:
        rows = self.digests_in(buckets, count)
        return KeySet.of(rows["key"].to_pylist(), np.asarray(rows[HASH]))

    def digests_in(self, buckets: Sequence[int], count: int) -> pa.Table:
        pairs = [pair for pair in self._digests() if zlib.crc32(pair[0]) % count in buckets]
        hashes = pa.array([zlib.crc32(text) for text, _ in pairs], pa.uint64())
        return self._digest_table(pairs).append_column(HASH, hashes).cast(HASHED_DIGESTS)

    def digests_of(self, keys: KeySet) -> pa.Table:
        self.require_hashes(keys)
        return self._digest_table([pair for pair in self._digests() if pair[0] in keys])

    def _digest_table(self, pairs: list[tuple[bytes, int]]) -> pa.Table:
        return pa.table([[pair[0] for pair in pairs], [pair[1] for pair in pairs]], schema=DIGESTS)

    def require_hashes(self, keys: KeySet) -> None:
        """By which a lake finds rows."""
        assert {zlib.crc32(text) for text in keys} <= {*keys.hashes.tolist()}

    def values_of(self, keys: KeySet) -> dict[bytes, list[Values]]:
        self.require_hashes(keys)
        all_rows: dict[bytes, list[Values]] = {
            key(id_): [(b"%d" % id_, b"%d" % n)] for id_, n in self.rows.items() if key(id_) in keys
        }
        return {text: rows * (1 + (int(text[:-1]) in self.twice)) for text, rows in all_rows.items()}

    extra_values_of = values_of


class World:
    """A server, its log, and a lake that follows it when it is told to; ``wrong``: what is done to the lake's rows."""

    def __init__(
        self, rows: Rows, wrong: Rows | None = None, missing: Collection[int] = (), busy: Collection[int] = ()
    ) -> None:
        self.source = CountedRows(dict(rows))
        self.log: list[tuple[int, int | None]] = list(rows.items())
        self.wrong, self.missing, self.busy = wrong or {}, set(missing), busy
        self.twice: set[int] = set()
        self.quiet_after = 10**9
        self.lately: set[int] = set()
        self.position = 0

    def write(self, id_: int, n: int | None) -> None:
        self.log.append((id_, n))
        if n is None:
            self.source.rows.pop(id_, None)
        else:
            self.source.rows[id_] = n

    def end(self) -> Position:
        for id_ in self.busy if len(self.log) < self.quiet_after else ():  # somebody writes whenever somebody looks
            self.write(id_, len(self.log))
        return Position("bin.000001", 4 + len(self.log))

    def caught_up(self, position: Position) -> CountedRows:
        self.position = max(self.position, position.offset - 4)
        rows: Rows = {}
        for id_, n in self.log[: self.position]:
            rows |= {id_: n} if n is not None else {}
            if n is None:
                rows.pop(id_, None)
        right = {id_: n for id_, n in rows.items() if id_ not in self.missing}
        return CountedRows(right | self.wrong, self.twice)

    def changed_since(self, keys: Collection[bytes], since: Position) -> set[bytes]:
        return {key(id_) for id_, _ in self.log[since.offset - 4 : self.position]} & set(keys)

    def older(self, keys: Collection[bytes]) -> set[bytes]:
        return set()

    def compared(self, buckets: int = 64) -> TableComparison:
        return compare(LAYOUT, self.source, self, self.end(), buckets)


ROWS = {n: n * n for n in range(300)}


def test_equal_tables_are_equal_and_no_row_is_read() -> None:
    assert World(ROWS).compared() == TableComparison(300, 300)


def test_every_kind_of_difference_is_found_by_its_key() -> None:
    world = World(ROWS, wrong={7: 50, 1000: 1}, missing={9})
    world.twice = {11}
    result = world.compared()
    assert (result.missing, result.extra, result.different, result.changing) == (1, 2, 1, 0)
    assert [(difference.kind, difference.key["id"], difference.columns) for difference in result.differences] == [
        ("extra", "1000", {}),
        ("extra", "11", {}),
        ("different", "7", {"n": ("49", "50")}),
        ("missing", "9", {}),
    ]


def test_what_is_only_on_its_way_is_no_difference() -> None:
    world = World(ROWS, busy=(5, 6))
    world.quiet_after = 310
    assert world.compared() == TableComparison(300, 300)


def test_a_difference_is_found_beside_rows_that_never_rest() -> None:
    result = World(ROWS, wrong={7: 50}, busy=(5, 6)).compared()
    assert (result.different, result.missing, result.extra) == (1, 0, 0)
    assert [difference.key for difference in result.differences] == [{"id": "7"}]


def test_a_wrong_row_that_never_rests_is_not_called_equal() -> None:
    result = World(ROWS, wrong={5: -1}, busy=(5,)).compared()
    assert (result.different, result.changing) == (0, 1)


def test_a_commit_that_others_see_late_is_no_difference() -> None:
    """The log has a change that the server's rows show only a moment later."""
    world = World(ROWS)
    since = world.end()
    world.log.append((3, 33))
    looks = []

    def end() -> Position:
        looks.append(1)
        if len(looks) == 3:  # when the second round begins
            world.source.rows[3] = 33
        return Position("bin.000001", 4 + len(world.log))

    world.end = end  # type: ignore[method-assign]
    world.position = len(world.log)
    assert compare(LAYOUT, world.source, world, since, 64) == TableComparison(300, 300)


def test_many_suspects_are_read_again_by_their_digests_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", 1)
    monkeypatch.setattr(module, "_SHOWN", 2)
    world = World(ROWS, wrong={7: 50, 8: 50}, missing={9, 10}, busy=(5,))
    result = world.compared()
    assert (result.missing, result.different, len(result.differences)) == (2, 2, 2)


def test_what_is_too_much_is_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_AGAIN", 10)
    monkeypatch.setattr(module, "_LOOKED_INTO", 100)
    result = World(ROWS, missing=range(300)).compared()
    assert result.missing == 10
    assert result.unread == 290


@given(
    rows=st.dictionaries(st.integers(0, 40), st.integers(0, 3)),
    wrong=st.dictionaries(st.integers(0, 40), st.integers(4, 6), max_size=3),
    missing=st.sets(st.integers(0, 40), max_size=3),
    are_many=st.booleans(),
)
def test_differences_are_those_of_the_two_dictionaries(
    rows: Rows, wrong: Rows, missing: set[int], *, are_many: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_ROWS", 0 if are_many else 1000)
        result = World(rows, wrong, missing).compared(4)
    lake = {id_: n for id_, n in rows.items() if id_ not in missing} | wrong
    assert result.missing == len(rows.keys() - lake.keys())
    assert result.extra == len(lake.keys() - rows.keys())
    assert result.different == sum(rows[id_] != lake[id_] for id_ in rows.keys() & lake.keys())


def test_buckets_grow_with_the_table() -> None:
    assert [buckets_for(rows) for rows in (0, 150_000, 10_000_000)] == [64, 1000, 65_536]
