"""GTID sets against plain sets of transactions."""

import struct
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import ConfigError
from spark_jobs.log.gtid import DomainGtids, GtidSource, MysqlGtids, NoGtids, parse_gtids

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4350f323-7565-4e59-8763-4b1b83a0ce0e"
Spans = list[tuple[GtidSource, int, int]]
Plain = frozenset[tuple[GtidSource, int]]

origins = st.tuples(st.sampled_from([A, B]), st.sampled_from(["", "blue", "_x9"]))
spans = st.tuples(origins, st.integers(1, 20), st.integers(1, 6))
span_lists = st.lists(spans, max_size=12)


def plain(given_spans: Spans) -> Plain:
    return frozenset((origin, n) for origin, first, count in given_spans for n in range(first, first + count))


def gtids(given_spans: Spans) -> MysqlGtids:
    return MysqlGtids.of((origin, (first, first + count)) for origin, first, count in given_spans)


def members(gtid_set: MysqlGtids) -> Plain:
    return frozenset(
        (o, n) for o, intervals in gtid_set.intervals.items() for first, after in intervals for n in range(first, after)
    )


@given(left=span_lists, right=span_lists)
def test_algebra_is_that_of_plain_sets(left: Spans, right: Spans) -> None:
    a, b = gtids(left), gtids(right)
    assert members(a) == plain(left)
    assert members(a | b) == plain(left) | plain(right)
    assert members(a - b) == plain(left) - plain(right)
    assert members(a & b) == plain(left) & plain(right)
    assert (a <= b) == (plain(left) <= plain(right))
    assert bool(a) == bool(plain(left))


@given(given_spans=span_lists)
def test_sets_are_equal_where_their_members_are(given_spans: Spans) -> None:
    gtid_set = gtids(given_spans)
    assert MysqlGtids.of((origin, (n, n + 1)) for origin, n in plain(given_spans)) == gtid_set
    for spans in gtid_set.intervals.values():
        assert all(first < after for first, after in spans)
        assert all(after < later for (_, after), (later, _) in pairwise(spans)), "apart, in order"


@given(given_spans=span_lists)
def test_text_reads_back(given_spans: Spans) -> None:
    gtid_set = gtids(given_spans)
    assert MysqlGtids.parse(str(gtid_set)) == gtid_set


def encoded(gtid_set: MysqlGtids) -> bytes:
    """As the server writes it, in plain Python."""
    tagged = any(tag for _, tag in gtid_set.intervals)
    count = len(gtid_set.intervals)
    body = struct.pack("<Q", 1 << 56 | count << 8 | 1 if tagged else count)
    for (source, tag), spans in gtid_set.intervals.items():
        body += uuid.UUID(source).bytes + (bytes([len(tag) << 1]) + tag.encode() if tagged else b"")
        body += struct.pack("<Q", len(spans)) + b"".join(struct.pack("<QQ", *span) for span in spans)
    return body


@given(given_spans=span_lists)
def test_bytes_read_back(given_spans: Spans) -> None:
    body = encoded(gtids(given_spans))
    assert MysqlGtids.decode(body) == gtids(given_spans)
    for length in range(len(body)):
        with pytest.raises(NoGtids):
            MysqlGtids.decode(body[:length])


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"{A}:1-5", f"{A}:1-5"),
        (f" {A.upper()} : 1 - 5 : 7 ,\n{B}:3", f"{A}:1-5:7,{B}:3"),
        (f"{A}:5:3-4:6", f"{A}:3-6"),
        (f"{A.replace('-', '')}:1", f"{A}:1"),
        (f"{A}:1-3:Blue:1:3-4:_x9:2", f"{A}:1-3:_x9:2:blue:1:3-4"),
        (f"{A}:blue:1", f"{A}:blue:1"),
        (f"{A}:1,{A}:2", f"{A}:1-2"),
        ("0-1-100", "0-1-100"),
        ("1-2-50, 0-1-100", "0-1-100,1-2-50"),
        ("0-4294967295-18446744073709551615", "0-4294967295-18446744073709551615"),
    ],
)
def test_text_as_servers_take_it(text: str, expected: str) -> None:
    assert str(parse_gtids(text)) == expected


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "an empty GTID set"),
        (f"{A}", "names no transactions"),
        (f"{A}:", "is neither a number"),
        (f"{A}:0-5", "numbers go upward from 1"),
        (f"{A}:5-3", "numbers go upward from 1"),
        (f"{A}:9223372036854775807", "numbers go upward from 1"),
        (f"{A}:blue", "the tag 'blue' has no transactions"),
        (f"{A}:1:blue", "the tag 'blue' has no transactions"),
        (f"{A}:1x", "is neither a number"),
        ("mysql-bin", "is not a UUID"),
        ("0-1-100,0-2-101", "domain 0 is there twice"),
        ("0-1-100,1-2", "is not a GTID; write it like"),
        ("4294967296-1-1", "32 bits"),
        ("0-1-18446744073709551616", "64"),
    ],
)
def test_what_is_no_set_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_gtids(text)


domains = st.dictionaries(st.integers(0, 3), st.tuples(st.integers(1, 3), st.integers(1, 9)))


@given(left=domains, right=domains)
def test_positions_of_domains_are_sets_of_all_before_them(
    left: dict[int, tuple[int, int]], right: dict[int, tuple[int, int]]
) -> None:
    def transactions(of: dict[int, tuple[int, int]]) -> set[tuple[int, int]]:
        return {(domain, n) for domain, (_, last) in of.items() for n in range(1, last + 1)}

    a, b = DomainGtids(left), DomainGtids(right)
    assert (a <= b) == (transactions(left) <= transactions(right))
    assert transactions(dict((a | b).last)) == transactions(left) | transactions(right)
    assert DomainGtids.parse(str(a)) == a


def test_a_domains_last_gtid_stands_behind_its_others() -> None:
    entries = [(0, 1, 100), (0, 2, 90), (1, 1, 5), (0, 3, 101)]
    body = struct.pack("<I", len(entries)) + b"".join(struct.pack("<IIQ", *entry) for entry in entries)
    assert str(DomainGtids.decode(body)) == "0-3-101,1-1-5"
    with pytest.raises(NoGtids, match="not the 4 GTIDs"):
        DomainGtids.decode(body[:-1])
