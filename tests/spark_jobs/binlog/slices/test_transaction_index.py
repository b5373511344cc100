import struct
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Commits, list_events, read_commits, read_head
from spark_jobs.errors import DecodeError
from spark_jobs.log.gtid import DomainGtids, MysqlGtids
from tests.binlogs.segment_spec import UUID, Commit, Insert, SegmentSpec, Table, chunked, reframed
from tests.binlogs.segment_types import INT

RECORDED = Path(__file__).parents[3] / "recorded"
TABLES = [Table("shop.t", key=["id"], id=INT.NOT_NULL)]


def spec(transactions: int, first: int = 1) -> SegmentSpec:
    changes = [change for n in range(transactions) for change in (Insert("shop.t", (n,)), Commit())]
    return SegmentSpec(tables=TABLES, changes=changes, first_number=first)


def joined(content: bytes, size: int = 1 << 20) -> Commits:
    return Commits(np.concatenate([commit.columns for commit in read_commits(chunked(content, size), "b.000001")]))


@pytest.mark.parametrize("file", sorted(path.name for path in RECORDED.glob("*.00000*") if path.suffix[1:].isdigit()))
def test_transactions_are_those_of_the_listing(file: str) -> None:
    """Whose listing is compared with servers' own."""
    content = (RECORDED / file).read_bytes()
    events = [event for event in list_events(iter([content]), file) if event.transaction]
    listed = [(gtid, list(of)) for gtid, of in groupby(events, key=lambda event: event.transaction)]
    if not listed:
        pytest.skip("no GTIDs in it")
    commits = joined(content)
    ranges = {commits.gtid(row): (int(commits.start[row]), int(commits.stop[row])) for row in range(len(commits))}
    for gtid, of in listed:
        if gtid in ranges:
            assert ranges[gtid][0] == of[0].offset
            assert ranges[gtid][1] >= of[-1].stop
    assert len(set(ranges) & {gtid for gtid, _ in listed}) >= len(listed) - 1


@given(size=st.integers(50, 5000))
def test_chunks_may_end_anywhere(size: int) -> None:
    content = spec(20).to_bytes()
    assert np.array_equal(joined(content, size).columns, joined(content).columns)


@given(
    first=st.integers(1, 30),
    spans=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), max_size=6),
    tag=st.booleans(),
)
def test_membership_is_that_of_plain_sets(first: int, spans: list[tuple[int, int]], tag: bool) -> None:
    commits = joined(spec(15, first).to_bytes())
    gtids = MysqlGtids.of(((UUID, "blue" if tag else ""), (begin, begin + count)) for begin, count in spans)
    plain = set() if tag else {n for begin, count in spans for n in range(begin, begin + count)}
    assert commits.is_in(gtids).tolist() == [n in plain for n in range(first, first + 15)]
    assert str(commits.gtids()) == f"{UUID}:{first}-{first + 14}"
    members = Commits(commits.columns[commits.is_in(gtids)])
    assert members.gtids() == commits.gtids() & gtids


def test_what_has_no_gtid_is_in_no_set() -> None:
    anonymous = SegmentSpec(tables=TABLES, changes=[Insert("shop.t", (1,)), Commit()], gtids=False)
    commits = joined(anonymous.to_bytes())
    assert len(commits) == 1
    assert commits.is_in(MysqlGtids.parse(f"{UUID}:1-100")).tolist() == [False]
    assert commits.is_in(DomainGtids.parse("0-1-100")).tolist() == [False]
    assert not commits.gtids()


def test_the_last_gtid_of_each_domain_and_what_goes_back() -> None:
    file = next(path for path in sorted(RECORDED.glob("mariadb*")) if path.suffix[1:].isdigit())
    commits = joined(file.read_bytes())
    last: dict[int, tuple[int, int]] = {}
    assert list(commits.last_gtids(last)) == []
    domain, (server, number) = next(iter(last.items()))
    assert f"{domain}-{server}-{number}" in {commits.gtid(row) for row in range(len(commits))}
    repeated = list(commits.last_gtids(last))
    assert len(repeated) == 1, "the first is not higher than the last; the others are higher than those before them"


def with_previous(body: bytes) -> bytes:
    first, previous, *rest = spec(3).events()
    return b"\xfebin" + first + reframed(previous, body=body) + b"".join(rest)


def test_a_head_says_when_and_what_came_before() -> None:
    content = with_previous(struct.pack("<Q16sQQQ", 1, bytes(range(16)), 1, 1, 8))
    head = read_head(chunked(content, 100), "b.000001")
    assert str(head.previous) == "00010203-0405-0607-0809-0a0b0c0d0e0f:1-7"
    assert head.created == int.from_bytes(content[4:8], "little")
    assert head.is_exact
    first, _, *rest = spec(3).events()
    assert read_head(iter([b"\xfebin" + first + b"".join(rest)]), "b.000001").previous is None
    with pytest.raises(
        DecodeError, match=r"^b\.000001:\d+: PREVIOUS_GTIDS: 8 bytes are not the sets that it announces$"
    ):
        read_head(iter([with_previous(struct.pack("<Q", 5))]), "b.000001")


@pytest.mark.parametrize(
    "version, exact", [("8.0.0-dmr", False), ("8.0.1", True), ("9.7.4", True), ("5.7.22-log", False)]
)
def test_which_servers_log_microseconds(version: str, exact: bool) -> None:
    content = SegmentSpec(tables=TABLES, version=version).to_bytes()
    assert read_head(iter([content]), "b.000001").is_exact == exact


def test_a_wanted_gtid_of_mariadbs_is_there_by_its_server_too() -> None:
    file = next(path for path in sorted(RECORDED.glob("mariadb*")) if path.suffix[1:].isdigit())
    commits = joined(file.read_bytes())
    domain, server, number = map(int, str(commits.gtid(0)).split("-"))
    present, foreign, later = (
        (domain, (server_id, n)) for server_id, n in ((server, number), (server + 1, number), (server, 1 << 40))
    )
    assert commits.among(DomainGtids(dict([present]))).last == dict([present])
    for lacking in (foreign, later):
        assert not commits.among(DomainGtids(dict([lacking])))
    assert not commits.among(DomainGtids())
