"""Sets of GTIDs: the texts of MySQL and MariaDB, and operations on sets.

A MySQL set names transactions by source UUID, tag and number: ``uuid:1-5:7:tag:1-3,uuid:…`` (MySQL manual, "GTID
Sets"). A MariaDB position names, for every domain, its last transaction: ``0-1-100,1-2-50``; all that the domain had
before is meant with it (MariaDB documentation, "Global Transaction ID").

Put here: text, the bytes in a file's head, and algebra. Not here: where in a log a set leads to (source/seek.py).
"""

import re
import struct
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from spark_jobs.errors import ConfigError

LAST = (1 << 63) - 2
"""The highest transaction number that MySQL gives."""

_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")
_DOMAIN_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")

GtidSource = tuple[str, str]
"""Source UUID in lower case, and tag; no tag is ''."""
Interval = tuple[int, int]
"""First number, and the one after the last."""


class NoGtids(ValueError):
    """Bytes or text that are no set of GTIDs."""


@dataclass(frozen=True, slots=True)
class MysqlGtids:
    """A set of MySQL's transactions. Intervals are in order, apart from one another, and never empty."""

    intervals: Mapping[GtidSource, tuple[Interval, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[tuple[GtidSource, Interval]]) -> Self:
        """The union of intervals, in any order."""
        gathered: dict[GtidSource, list[Interval]] = {}
        for origin, interval in pairs:
            gathered.setdefault(origin, []).append(interval)
        return cls({origin: merged for origin, intervals in sorted(gathered.items()) if (merged := _merged(intervals))})

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of ``str()``; case, white space and hyphens in UUIDs as the server takes them. Raises NoGtids."""
        pairs: list[tuple[GtidSource, Interval]] = []
        for part in filter(None, (part.strip() for part in text.lower().split(","))):
            first, *rest = (word.strip() for word in part.split(":"))
            if not _UUID.fullmatch(first):
                raise NoGtids(f"{first!r} is not a UUID")
            if not rest:
                raise NoGtids(f"{part!r} names no transactions; write it like {part}:1-100")
            pairs += _tagged(str(uuid.UUID(first)), rest)
        return cls.of(pairs)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """The body of a PREVIOUS_GTIDS event without its checksum (sql/rpl_gtid_set.cc). Raises NoGtids.

        A count of origins, then for each UUID 16, where there are tags one with its length before, a count, and
        intervals [first, after) of 8 and 8 bytes. Sets with tags have a 1 in the count's first and last byte.
        """
        pairs: list[tuple[GtidSource, Interval]] = []
        try:
            # The count's outer bytes are 1 where sets have tags, and it has six bytes then.
            (count,) = struct.unpack_from("<Q", body)
            tagged = count >> 56 == 1
            count = (count >> 8) & 0xFFFFFFFFFFFF if tagged else count
            offset = 8
            for _ in range(count):
                (raw,) = struct.unpack_from("<16s", body, offset)
                tag, offset = _tag_at(body, offset + 16) if tagged else ("", offset + 16)
                (intervals,) = struct.unpack_from("<Q", body, offset)
                spans = [struct.unpack_from("<QQ", body, offset + 8 + 16 * at) for at in range(intervals)]
                pairs += [((str(uuid.UUID(bytes=raw)), tag), (first, after)) for first, after in spans]
                offset += 8 + 16 * intervals
        except (struct.error, IndexError, UnicodeDecodeError):
            raise NoGtids(f"{len(body)} bytes are not the sets that it announces") from None
        return cls.of(pairs)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __or__(self, other: Self) -> Self:
        return self.of([*self._pairs(), *other._pairs()])

    def __sub__(self, other: Self) -> Self:
        return self.of(
            (origin, rest)
            for origin, interval in self._pairs()
            for rest in _without(interval, other.intervals.get(origin, ()))
        )

    def __and__(self, other: Self) -> Self:
        return self - (self - other)

    def __le__(self, other: Self) -> bool:
        return not self - other

    def without(self, origin: str) -> Self:
        """The set without the transactions that one server began; ``origin`` is its UUID."""
        return type(self)({key: intervals for key, intervals in self.intervals.items() if key[0] != origin.lower()})

    def __str__(self) -> str:
        by_uuid: dict[str, list[str]] = {}
        for (source, tag), intervals in self.intervals.items():
            by_uuid.setdefault(source, []).append(":".join([*([tag] if tag else []), *map(_interval_text, intervals)]))
        return ",".join(":".join([source, *texts]) for source, texts in by_uuid.items())

    def _pairs(self) -> Iterable[tuple[GtidSource, Interval]]:
        return ((origin, interval) for origin, intervals in self.intervals.items() for interval in intervals)


@dataclass(frozen=True, slots=True)
class DomainGtids:
    """MariaDB: the last GTID of every domain, as server and number; all that the domain had before is in the set."""

    last: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of ``str()``. Raises NoGtids."""
        last: dict[int, tuple[int, int]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            match = _DOMAIN_GTID.fullmatch(part)
            if not match:
                raise NoGtids(f"{part!r} is not a GTID; write it like 0-1-100: domain, server, number")
            domain, server, number = map(int, match.groups())
            if domain >> 32 or server >> 32 or number >> 64:
                raise NoGtids(f"{part!r} is not a GTID: domain and server have 32 bits, the number 64")
            if domain in last:
                raise NoGtids(f"domain {domain} is there twice; name its last GTID only")
            last[domain] = server, number
        return cls(dict(sorted(last.items())))

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """The body of a GTID_LIST event (MariaDB, sql/log_event.h). Raises NoGtids.

        A count in 28 bits, then domain 4, server 4, number 8 for each; a domain's last stands behind its others.
        """
        count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
        if len(body) < 4 + 16 * count:
            raise NoGtids(f"{len(body)} bytes are not the {count} GTIDs that it announces")
        entries = (struct.unpack_from("<IIQ", body, 4 + 16 * k) for k in range(count))
        return cls(dict(sorted({domain: (server, number) for domain, server, number in entries}.items())))

    def __bool__(self) -> bool:
        return bool(self.last)

    def __le__(self, other: Self) -> bool:
        return not self - other

    def __sub__(self, other: Self) -> Self:
        """The last GTIDs of those domains of which something is not in the other."""
        return type(self)({domain: last for domain, last in self.last.items() if other._last_number(domain) < last[1]})

    def __or__(self, other: Self) -> Self:
        """The later of both, domain by domain."""
        later = {
            domain: max(self.last.get(domain, (0, -1)), other.last.get(domain, (0, -1)), key=lambda last: last[1])
            for domain in self.last.keys() | other.last.keys()
        }
        return type(self)(dict(sorted(later.items())))

    def without(self, origin: str) -> Self:
        """The set without the domains whose last transaction one server began; ``origin`` is its server id."""
        return type(self)({domain: last for domain, last in self.last.items() if str(last[0]) != origin})

    def _last_number(self, domain: int) -> int:
        return self.last.get(domain, (0, -1))[1]

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in self.last.items())


Gtids = MysqlGtids | DomainGtids


def union(left: Gtids, right: Gtids) -> Gtids:
    """The union of two sets of one kind; an empty set may be of either."""
    if left and right:
        return left | right  # type: ignore[operator] # both are of one type
    return left or right


def parse_gtids(text: str) -> Gtids:
    """A set of either server, known from its form. Raises ConfigError."""
    try:
        if re.match(r"\s*\d+-\d+-\d+\s*(,|$)", text):
            return DomainGtids.parse(text)
        gtids = MysqlGtids.parse(text)
    except NoGtids as error:
        raise ConfigError(f"{text!r} is not a GTID set: {error}") from error
    if not gtids:
        raise ConfigError("an empty GTID set; write earliest for the whole log")
    return gtids


def _tagged(source: str, words: list[str]) -> Iterable[tuple[GtidSource, Interval]]:
    """Intervals after a UUID, with a tag before those that have it."""
    # A word is a tag or an interval; None at the end asks whether the last tag has any.
    tag, is_named = "", 1
    for word in [*words, None]:
        if not is_named and (word is None or _TAG.fullmatch(word)):
            raise NoGtids(f"the tag {tag!r} has no transactions; write it like {tag}:1-100")
        if word is None:
            return
        if _TAG.fullmatch(word):
            tag, is_named = word, 0
            continue
        match = _INTERVAL.fullmatch(word)
        if not match:
            raise NoGtids(f"{word!r} is neither a number, an interval like 1-5, nor a tag")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= LAST:
            raise NoGtids(f"{word!r}: numbers go upward from 1 to {LAST}")
        is_named += 1
        yield (source, tag), (first, last + 1)


def _tag_at(body: bytes, offset: int) -> tuple[str, int]:
    """A tag, its length in seven bits above a zero bit before it, and where it ends."""
    end = offset + 1 + (body[offset] >> 1)
    return body[offset + 1 : end].decode("ascii"), end


def _merged(intervals: list[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, after in sorted(intervals):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], after)
        elif first < after:
            merged.append((first, after))
    return tuple(merged)


def _without(interval: Interval, holes: Iterable[Interval]) -> Iterable[Interval]:
    """Remainder of an interval; the others are in order."""
    first, after = interval
    for begin, end in holes:
        if first < begin:
            yield first, min(begin, after)
        first = max(first, end)
        if first >= after:
            return
    if first < after:
        yield first, after


def _interval_text(interval: Interval) -> str:
    first, after = interval
    return f"{first}" if after == first + 1 else f"{first}-{after - 1}"
