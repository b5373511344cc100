"""Another log behind transactions that are held, on files whose transactions a test has put in order."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_jobs.binlog import read_commits
from spark_jobs.errors import SourceError
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import Position
from spark_jobs.source.failover import Takeover, all_but, take_over
from spark_jobs.source.protocol import FilePart, Source
from tests.binlogs.gtid_logs import ServerFolder, gtids, write_log

THREE = [("", ["a:1", "a:2", "a:3"]), ("a:1-3", ["a:4", "a:5"]), ("a:1-5", ["a:6", "b:1", "a:7"])]


def source(folder: Path, files: Sequence[tuple[str, Sequence[str]]], first: int = 1) -> ServerFolder:
    write_log(folder / "log", files, first=first)
    return ServerFolder(folder / "log", None, "db2:3306")


def gtids_of(takeover: Takeover, source: Source) -> MysqlGtids:
    """The transactions in the parts, each of which stands alone."""
    names = MysqlGtids()
    for part in takeover.parts:
        format_, chunks = source.reading()(part)
        for commits in read_commits(chunks, part.file, part.start, format_):
            assert not (commits.gtids() & names), "a transaction is taken twice"
            names |= commits.gtids()
    return names


def all_parts(source: Source) -> list[FilePart]:
    return [FilePart(file.name, 0, file.size) for file in source.log().files]


@pytest.mark.parametrize(
    "executed, new, begins_in",
    [
        ("", "a:1-7 b:1", "b.000001:4"),
        ("a:1", "a:2-7 b:1", None),
        ("a:1-3", "a:4-7 b:1", "b.000002:4"),
        ("a:1-5", "a:6-7 b:1", "b.000003:4"),
        ("a:1-6", "a:7 b:1", None),
        ("a:1-7", "b:1", None),
        ("a:1-3 a:5", "a:4 a:6-7 b:1", "b.000002:4"),
        ("a:1-7 b:1", "", "end"),
    ],
)
def test_what_is_not_held_is_taken_once(tmp_path: Path, executed: str, new: str, begins_in: str | None) -> None:
    replica = source(tmp_path, THREE)
    log = replica.log()
    takeover = take_over(replica, log, gtids(executed))
    assert gtids_of(takeover, replica) == gtids(new)
    if begins_in:
        assert str(takeover.begin) == (str(log.end) if begins_in == "end" else begins_in)
    first = all_parts(replica)[takeover.begin.number - 1 :]
    size = sum(part.stop - part.start for part in takeover.parts)
    dropped = sum(part.stop - part.start for part in takeover.passed_over)
    before = takeover.begin.offset if takeover.begin.offset > 4 else 0
    if takeover.parts:
        assert size + dropped + before == sum(part.stop for part in first), "each byte behind the beginning is told of"


def test_random_orders_of_replicas_lose_nothing_and_take_nothing_twice(tmp_path: Path) -> None:
    rng = random.Random(5)
    for case in range(60):
        numbers = [f"a:{n}" for n in range(1, 25)] + [f"b:{n}" for n in range(1, 4)]
        numbers.sort(key=lambda number: int(number[2:]) + 6 * rng.random())  # appliers side by side
        edges = sorted(rng.sample(range(1, len(numbers)), 3))
        cuts = [numbers[begin:end] for begin, end in zip([0, *edges], [*edges, len(numbers)], strict=True)]
        files, before = [], ""
        for chunk in cuts:
            files.append((before, chunk))
            before = " ".join([before, *chunk]).strip()
        folder = tmp_path / str(case)
        folder.mkdir()
        replica = source(folder, files)
        upto = rng.randrange(1, 25)
        executed = gtids(f"a:1-{upto}" + (" b:1" if rng.random() < 0.5 else ""))
        takeover = take_over(replica, replica.log(), executed)
        assert gtids_of(takeover, replica) == gtids(" ".join(numbers)) - executed
        assert all(
            part.stop <= following.start
            for part, following in zip(takeover.parts, takeover.parts[1:], strict=False)
            if part.file == following.file
        )


def test_what_the_log_lacks_is_named(tmp_path: Path) -> None:
    replica = source(tmp_path, THREE)
    with pytest.raises(SourceError, match=r"^shop: the log of db2:3306 does not hold \S+:8-9; it lags behind"):
        take_over(replica, replica.log(), gtids("a:1-9"))


def test_what_was_purged_and_is_not_held_is_named(tmp_path: Path) -> None:
    replica = source(tmp_path, [("a:1-5", ["a:6"]), ("a:1-6", ["a:7"])], first=8)
    message = (
        r"^shop: db2:3306 has no more of its log than from b\.000008 on; \S+:4-5 came before that, and bronze lacks"
    )
    with pytest.raises(SourceError, match=message):
        take_over(replica, replica.log(), gtids("a:1-3"))
    assert take_over(replica, replica.log(), gtids("a:1-5")).begin == Position("b.000008", 4)


def test_what_only_gtid_purged_names_counts_as_there_and_must_be_held(tmp_path: Path) -> None:
    replica = source(tmp_path, [("", ["a:6", "a:7"])])
    replica.purged_gtids = gtids("a:1-5")
    assert gtids_of(take_over(replica, replica.log(), gtids("a:1-6")), replica) == gtids("a:7")
    with pytest.raises(SourceError, match=r":5 came before that, and bronze lacks them"):
        take_over(replica, replica.log(), gtids("a:1-4"))


def test_a_transaction_without_gtid_is_refused_by_its_place(tmp_path: Path) -> None:
    replica = source(tmp_path, [("", ["a:1", "-", "a:2"])])
    with pytest.raises(SourceError, match=r"^shop: db2:3306: the transaction at b\.000001:\d+ has no GTID"):
        take_over(replica, replica.log(), gtids("a:1-2"))


def test_all_but_those_held_need_not_have_them(tmp_path: Path) -> None:
    replica = source(tmp_path, [("", ["a:1", "b:1", "a:2"]), ("a:1-2 b:1", ["b:2"])])
    assert gtids_of(all_but(replica, replica.log(), gtids("a:1-9")), replica) == gtids("b:1-2")
    assert list(all_but(replica, replica.log(), gtids("")).parts) == all_parts(replica)


def test_an_empty_file_that_others_follow_is_refused(tmp_path: Path) -> None:
    replica = source(tmp_path, THREE)
    (tmp_path / "log" / "b.000002").write_bytes(b"")
    with pytest.raises(SourceError, match=r"^shop: b\.000002 is empty, and others follow it: "):
        all_but(replica, replica.log(), gtids(""))
