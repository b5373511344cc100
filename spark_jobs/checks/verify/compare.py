"""Comparison of one table: from buckets that differ to the keys that really do.

Put here: narrowing down, and reading again until what is only on its way has gone. Not here: how a side answers
(server_rows.py, lake_rows.py), which tables there are and what else is said of them (assets/checks/equals_source.py).

Rows are read at different moments on the two sides, while others write. What differs is therefore only suspected, and
compared again in rounds. In each the server's rows are read, the lake is brought up to where the log ended after that
reading, and its rows are read. A key that still differs is a difference if the log has no change of it since the round
before began; if it has, it goes into the next round. (Since then, and not since this round began, because a server
logs a transaction a moment before others can see it.)
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.checks.verify.protocol import HASH, Buckets, ComparedSide, KeySet, Values
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.verified import DifferingRows

log = logging.getLogger(__name__)

_ROUNDS = 6
_BUCKET = 150
"""Rows that are meant to lie in a bucket: of ten that differ fewer keys than ``_FEW``."""
_FEWEST, _MOST = 64, 65_536
"""Buckets of a table."""
_LOOKED_INTO = 1_000_000
"""Rows of differing buckets that are compared one by one; more are counted by bucket."""
READ_AGAIN = 100_000
"""Keys that are suspected, or have changed, and are read one by one."""
_FEW_ROWS = 50_000
"""Rows of differing buckets whose keys alone are looked for, and then read again, without digests of all before; twice
as many, where the sides have no key in common, are no more than READ_AGAIN."""
_FEW = 2_000
"""Suspected keys whose values are read at once, without comparing digests before."""
_SHOWN = 10_000
"""Differing keys whose values are read."""

Answer = TypeVar("Answer")

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"


class ServerSide(ComparedSide, Protocol):
    """The server's side."""

    def extra_values_of(self, keys: KeySet) -> dict[bytes, list[Values]]: ...


@dataclass(frozen=True, slots=True)
class KeyRowCounts:
    """A key that is not the same on both sides, and how many rows each has of it; the lake may have it twice."""

    key: bytes
    source: int
    lake: int

    @property
    def kind(self) -> str:
        if not self.lake:
            return MISSING
        return EXTRA if self.lake > self.source else DIFFERENT


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key that differs. ``columns``: where both sides have the row, by column the source's and the lake's value."""

    kind: str
    key: dict[str, str]
    columns: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Difference, and the key."""
        key = ", ".join(f"{name}={value}" for name, value in self.key.items())
        return f"{self.kind} {key}"

    @property
    def inverted(self) -> "KeyDifference":
        """The same difference, with the other side as the right one."""
        kind = {MISSING: EXTRA, EXTRA: MISSING}.get(self.kind, self.kind)
        return KeyDifference(kind, self.key, {name: (lake, source) for name, (source, lake) in self.columns.items()})

    def to_json(self) -> dict[str, Any]:
        pairs = {name: {"source": source, "lake": lake} for name, (source, lake) in self.columns.items()}
        return {"kind": self.kind, "key": self.key, "columns": pairs}


@dataclass(frozen=True, slots=True)
class TableComparison(DifferingRows):
    """Result of comparing a table, in rows."""

    source: int
    lake: int
    """``source`` and ``lake``: all rows of each side, each counted as it was read."""
    differences: tuple[KeyDifference, ...] = ()
    """The first of them, with their values."""
    keys: KeySet = field(default_factory=KeySet)
    """All keys that differ for sure."""
    older: int = 0
    """Keys that only the source has, because they are older than the log."""
    changing: int = 0
    """Keys that changed in every round."""


class Lag(Protocol):
    """Facts that a comparison needs to tell lag from difference."""

    def end(self) -> Position:
        """Position where the server's log ends now."""
        ...

    def caught_up(self, position: Position) -> ComparedSide:
        """The lake's side, once it holds the log up to a position."""
        ...

    def changed_since(self, keys: Collection[bytes], since: Position) -> set[bytes]:
        """The given keys that changed in the lake's log since a position."""
        ...

    def older(self, keys: Collection[bytes]) -> set[bytes]:
        """The given keys, missing in the lake, that are older than its log."""
        ...


@dataclass(frozen=True, slots=True)
class ComparedKeys:
    """Keys that differ for sure, and those that changed in every round; where the log ended when the last one began."""

    sure: dict[bytes, KeyRowCounts]
    moving: dict[bytes, KeyRowCounts]
    since: Position


def buckets_for(rows: int) -> int:
    """Number of buckets that a table of so many rows is compared in."""
    return min(max(_FEWEST, rows // _BUCKET), _MOST)


def compare(layout: DigestLayout, source: ServerSide, lag: Lag, since: Position, buckets: int) -> TableComparison:
    """Compare a table. ``since``: where the log ended some time before now; the lake holds at least that."""
    # Sums of all rows by bucket, then the rows of the buckets that differ, then the keys of these that are suspected.
    lake = lag.caught_up(since)
    source_buckets, here = _answers_of_both_sides(lambda: source.buckets(buckets), lambda: lake.buckets(buckets))
    differing = source_buckets.unlike(here)
    counts = TableComparison(int(source_buckets.rows.sum()), int(here.rows.sum()))
    if not len(differing):
        return counts
    looked_at = _bounded(differing, source_buckets, here)
    log.info("%s: %d of %d buckets differ; looking into %d", layout, len(differing), buckets, len(looked_at))
    rows = np.maximum(source_buckets.rows, here.rows)
    narrowed = _suspects_of_few_rows if int(rows[looked_at].sum()) <= _FEW_ROWS else _suspects_of_many_rows
    lake.start()
    suspected, missing = narrowed(source, lake, looked_at, buckets)
    older = lag.older(missing)
    open_ = [key for key in suspected if key not in older]
    unread = len(open_[READ_AGAIN:]) + int(rows[np.setdiff1d(differing, looked_at)].sum())
    log.info("%s: %d keys may differ; reading them again", layout, len(open_[:READ_AGAIN]))
    counted = replace(counts, unread=unread, older=len(older))
    return _judged(layout, source, lag, since, suspected.only(open_[:READ_AGAIN]), counts=counted)


def _suspects_of_few_rows(
    source: ComparedSide, lake: ComparedSide, buckets: Sequence[int], count: int
) -> tuple[KeySet, Collection[bytes]]:
    """All keys in some buckets, and those that the lake lacks: of a few rows the keys alone are looked for."""
    at_source, here = _answers_of_both_sides(
        lambda: source.keys_in(buckets, count), lambda: lake.keys_in(buckets, count)
    )
    keys = KeySet.of(at_source.texts | here.texts, at_source.hashes, here.hashes)
    return keys, at_source.texts - here.texts


def _suspects_of_many_rows(
    source: ComparedSide, lake: ComparedSide, buckets: Sequence[int], count: int
) -> tuple[KeySet, Collection[bytes]]:
    """The keys in some buckets whose rows have other hashes, and those that the lake lacks."""
    digests = _answers_of_both_sides(lambda: source.digests_in(buckets, count), lambda: lake.digests_in(buckets, count))
    suspected = differing_keys(*digests)
    wanted = pa.array(suspected, pa.binary())
    rows = (table.filter(pc.is_in(table.column("key"), wanted)) for table in digests)
    keys = KeySet.of(suspected, *(np.asarray(table.column(HASH)) for table in rows))
    return keys, [key for key, difference in suspected.items() if difference.kind == MISSING]


def _answers_of_both_sides(source: Callable[[], Answer], lake: Callable[[], Answer]) -> tuple[Answer, Answer]:
    """Answers of both sides, read at the same time: each side has machines of its own, or at least a core."""
    with ThreadPoolExecutor(1) as executor:
        reading = executor.submit(source)
        here = lake()
        return reading.result(), here


def compare_keys(layout: DigestLayout, source: ServerSide, lag: Lag, since: Position, keys: KeySet) -> TableComparison:
    """Compare the rows of some keys. since: as in ``compare``. The counts are those of the keys."""
    counts = TableComparison(len(keys), len(keys))
    return _judged(layout, source, lag, since, keys, counts=counts) if keys else counts


def _bounded(differing: np.ndarray, source_buckets: Buckets, here: Buckets) -> list[int]:
    """The first differing buckets, up to so many rows, and at least one."""
    rows = np.maximum(source_buckets.rows, here.rows)[differing]
    fits = int(np.searchsorted(np.cumsum(rows), _LOOKED_INTO, "right"))
    return [int(bucket) for bucket in differing[: max(fits, 1)]]


def _judged(
    layout: DigestLayout,
    source: ServerSide,
    lag: Lag,
    since: Position,
    suspected: KeySet,
    *,
    counts: TableComparison,
) -> TableComparison:
    """Compare the suspected keys by their values; where they are many, first by their digests."""
    # Digests first where there are many keys: they are a few bytes each, whatever the rows have.
    by_digest = ComparedKeys({}, {}, since)
    if len(suspected) > _FEW:
        by_digest = compare_in_rounds(suspected, lag, since, lambda keys: _digests_looked_at(source, keys))
        suspected = suspected.only(by_digest.sure)
    # Keys beyond those that are shown count by what their digests say.
    values, texts = _ValueComparison(layout, source), [*suspected]
    by_value = compare_in_rounds(suspected.only(texts[:_SHOWN]), lag, by_digest.since, values.looked_at)
    sure = [*(by_digest.sure[key] for key in texts[_SHOWN:]), *by_value.sure.values()]
    kinds = Counter(difference.kind for difference in sure)
    return replace(
        counts,
        missing=kinds[MISSING],
        extra=kinds[EXTRA],
        different=kinds[DIFFERENT],
        differences=tuple(values.difference(difference) for _, difference in sorted(by_value.sure.items())),
        keys=suspected.only(difference.key for difference in sure),
        changing=len(by_digest.moving) + len(by_value.moving),
    )


Look = Callable[[KeySet], Callable[[ComparedSide], dict[bytes, KeyRowCounts]]]
"""Reads the source's rows of some keys; what it returns tells which of them are unlike those of the lake's side."""


def compare_in_rounds(suspected: KeySet, lag: Lag, since: Position, look: Look) -> ComparedKeys:
    """Read keys again, round by round, until each is equal, differs for sure, or has changed in every round."""
    keys, sure, unlike_now = suspected, dict[bytes, KeyRowCounts](), dict[bytes, KeyRowCounts]()
    for _ in range(_ROUNDS if keys else 0):
        position = lag.end()
        against = look(keys)
        unlike_now = against(lag.caught_up(lag.end()))
        moved = lag.changed_since(unlike_now, since) if unlike_now else set()
        log.debug("of %d keys %d differ, %d of them changed meanwhile", len(keys), len(unlike_now), len(moved))
        sure |= {key: difference for key, difference in unlike_now.items() if key not in moved}
        keys, since = keys.only(unlike_now.keys() & moved), position
        if not keys:
            break
    return ComparedKeys(sure, {key: unlike_now[key] for key in keys}, since)


def differing_keys(source: pa.Table, lake: pa.Table) -> dict[bytes, KeyRowCounts]:
    """The keys of two tables of DIGESTS that are not the same in both, in the keys' order."""
    source_rows, lake_rows = (_by_key(rows, side) for rows, side in ((source, "source"), (lake, "lake")))
    joined = source_rows.join(lake_rows, "key", join_type="full outer")
    is_same = pc.fill_null(pc.and_(_equal_values(joined, "count"), _equal_values(joined, "digest")), False)
    differing = joined.filter(pc.invert(is_same)).sort_by("key")
    in_source, here = (pc.fill_null(differing.column(f"{side}_count"), 0).to_pylist() for side in ("source", "lake"))
    keys = differing.column("key").to_pylist()
    return {key: KeyRowCounts(key, *counts) for key, *counts in zip(keys, in_source, here, strict=True)}


def _by_key(rows: pa.Table, side: str) -> pa.Table:
    sums = rows.group_by("key").aggregate([("digest", "count"), ("digest", "min")])
    return sums.select(["key", "digest_count", "digest_min"]).rename_columns(["key", f"{side}_count", f"{side}_digest"])


def _equal_values(joined: pa.Table, column: str) -> pa.ChunkedArray:
    return pc.equal(joined.column(f"source_{column}"), joined.column(f"lake_{column}"))


def _digests_looked_at(source: ComparedSide, keys: KeySet) -> Callable[[ComparedSide], dict[bytes, KeyRowCounts]]:
    digests = source.digests_of(keys)
    return lambda lake: differing_keys(digests, lake.digests_of(keys))


class _ValueComparison:
    """Rows compared column by column, as values: documents and numbers may be written in several ways."""

    def __init__(self, layout: DigestLayout, source: ServerSide) -> None:
        self.layout = layout
        self.source = source
        self.columns: dict[bytes, dict[str, tuple[str | None, str | None]]] = {}

    def looked_at(self, keys: KeySet) -> Callable[[ComparedSide], dict[bytes, KeyRowCounts]]:
        # The server is asked once; the lake is asked again after every round, as it catches up.
        source_values = self.source.values_of(keys)
        extra_value = (
            self.source.extra_values_of(keys) if any(column.extra_value for column in self.layout.columns) else {}
        )

        def against(lake: ComparedSide) -> dict[bytes, KeyRowCounts]:
            lake_values = lake.values_of(keys)
            differences = {}
            for key in keys:
                rows, lake_rows = source_values.get(key, []), lake_values.get(key, [])
                # One row on each side is compared by values; otherwise the numbers of rows differ.
                if len(rows) == len(lake_rows) == 1:
                    self.columns[key] = self._unlike(rows[0], lake_rows[0], extra_value.get(key, [()])[0])
                    if not self.columns[key]:
                        continue
                if rows or lake_rows:
                    differences[key] = KeyRowCounts(key, len(rows), len(lake_rows))
            return differences

        return against

    def difference(self, difference: KeyRowCounts) -> KeyDifference:
        columns = self.columns.get(difference.key, {}) if difference.kind == DIFFERENT else {}
        return KeyDifference(difference.kind, self.layout.shown_key(difference.key), columns)

    def _unlike(self, row: Values, lake_row: Values, extra_value: Values) -> dict[str, tuple[str | None, str | None]]:
        differences = {}
        for at, column in enumerate(self.layout.columns):
            in_source, in_lake = row[at], lake_row[at]
            if in_source == in_lake:
                continue
            form = column.form
            if (
                in_source is None
                or in_lake is None
                or not form.is_equal(in_source, in_lake, extra_value[at] if extra_value else None)
            ):
                differences[column.name] = (column.display(in_source), column.display(in_lake))
        return differences
