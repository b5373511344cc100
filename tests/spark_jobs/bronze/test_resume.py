"""Which log goes on behind bronze, and where, on files that stand for servers; without Spark."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from spark_jobs.binlog import FormatDescription, read_commits
from spark_jobs.bronze.commit import BronzeCommit, stretches
from spark_jobs.bronze.gtid_state import held_gtids
from spark_jobs.bronze.resume import Relation, current_log_in_stretch, next_log
from spark_jobs.errors import AnotherLog, SourceError
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import Position
from spark_jobs.source.protocol import Log, LogFile, Switch
from tests.binlogs import mariadb_logs
from tests.binlogs.gtid_logs import ONE_OF_SEVERAL, A, B, ServerFolder, gtids, land, write_log
from tests.binlogs.mariadb_logs import MariaFolder

Files = Sequence[tuple[str, Sequence[str]]]
PRIMARY: Files = [("", ["a:1", "a:2"]), ("a:1-2", ["a:3", "a:4"])]
REPLICA: Files = [("", ["a:1", "a:2", "a:3"]), ("a:1-3", ["a:4", "a:5", "a:6"])]
GO_ON = Switch(on_new_server="continue")


@pytest.fixture
def bronze(tmp_path: Path) -> Table:
    return Lake(str(tmp_path / "lake")).bronze("shop")


def server(tmp_path: Path, name: str, files: Files, uuid: str | None = None, **options: Any) -> ServerFolder:
    """The files of a server as they are now. Its address is its name."""
    first, base = options.pop("first", 1), options.pop("base", "b")
    shutil.rmtree(tmp_path / name, ignore_errors=True)
    write_log(tmp_path / name, files, base, first)
    return ServerFolder(tmp_path / name, {"one": A, "two": B}.get(name) if uuid is None else uuid, name, **options)


def gtids_of(bronze: Table) -> MysqlGtids:
    head = bronze.head()
    assert head is not None
    assert head.checkpoint is not None
    gtids = held_gtids(bronze, head.version, stretches(head.checkpoint)[-1])
    assert isinstance(gtids, MysqlGtids)
    return gtids


def every_gtid(bronze: Table) -> list[str]:
    """Of each slice's transactions."""
    head = bronze.head()
    assert head is not None
    names = ["stretch", "payload", "file", "start", "context"]
    batches = bronze.scan(head.version, names, pc.field("transactions") > 0, rows=9)
    rows = [row for batch in batches for row in batch.to_pylist()]
    gtids = []
    for row in sorted(rows, key=lambda row: (row["stretch"], row["file"], row["start"])):
        event = row["context"][: int.from_bytes(row["context"][9:13], "little")]
        format_ = FormatDescription.parse(event, "here")
        for commits in read_commits([row["payload"]], row["file"], row["start"], format_):
            gtids += [str(commits.gtid(at)) for at in range(len(commits))]
    return gtids


def index(bronze: Table) -> list[tuple[int, str, str | None]]:
    head = bronze.head()
    assert head is not None
    assert head.checkpoint is not None
    return [(stretch.number, str(stretch.begin), stretch.endpoint) for stretch in stretches(head.checkpoint)]


def test_a_source_goes_on_from_its_replica_and_back_from_its_primary(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY))
    assert gtids_of(bronze) == gtids("a:1-4")
    replica = server(tmp_path, "two", REPLICA)
    moved = land(bronze, replica)
    assert (moved.relation, moved.opens) == (Relation.ENDPOINT, True)
    assert moved.range.start == Position("b.000002", moved.range.start.offset)
    assert moved.range.stop == replica.log().within(2).end
    assert gtids_of(bronze) == gtids("a:1-6")
    next_range = next_log(replica, bronze, bronze.head())  # type: ignore[arg-type]
    assert (next_range.parts, next_range.relation) == ((), Relation.SAME)
    land(bronze, server(tmp_path, "two", [*REPLICA[:1], ("a:1-3", ["a:4", "a:5", "a:6", "b:1"])]))
    back = server(tmp_path, "one", [*PRIMARY, ("a:1-4", ["a:5", "a:6", "b:1", "a:7"])])
    land(bronze, back)
    assert gtids_of(bronze) == gtids("a:1-7 b:1")
    assert sorted(every_gtid(bronze)) == sorted([*(f"{A}:{n}" for n in range(1, 8)), f"{B}:1"]), "each once"
    assert [(number, endpoint) for number, _, endpoint in index(bronze)] == [(1, "one"), (2, "two"), (3, "one")]
    assert bronze.head().position == back.log().within(3).end  # type: ignore[union-attr]


def test_an_endpoint_with_nothing_new_is_moved_to_all_the_same(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY))
    replica = server(tmp_path, "two", [("", ["a:1", "a:2", "a:3", "a:4"])])
    moved = land(bronze, replica)
    assert moved.parts == ()
    assert bronze.head().position == replica.log().within(2).end  # type: ignore[union-attr]
    assert gtids_of(bronze) == gtids("a:1-4")
    land(bronze, server(tmp_path, "two", [("", ["a:1", "a:2", "a:3", "a:4", "a:5"])]))
    assert gtids_of(bronze) == gtids("a:1-5")


def test_a_source_that_began_inside_a_file_knows_what_came_before(tmp_path: Path, bronze: Table) -> None:
    server_folder = server(tmp_path, "one", [("a:1-7", ["a:8", "a:9"])], first=3)
    server_folder.purged_gtids = gtids("b:1-5")
    land(bronze, server_folder, "latest")
    assert gtids_of(bronze) == gtids("a:1-9 b:1-5")
    files: Files = [("", [*(f"b:{n}" for n in range(1, 6)), *(f"a:{n}" for n in range(1, 11))])]
    land(bronze, server(tmp_path, "two", files))
    assert every_gtid(bronze) == [f"{A}:10"]


def test_a_replica_that_lags_is_refused_and_bronze_stays(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY))
    with pytest.raises(SourceError, match=rf"^shop: the log of two does not hold {A}:4; it lags behind"):
        land(bronze, server(tmp_path, "two", [("", ["a:1", "a:2", "a:3"])]))


def test_without_gtids_nothing_is_moved_to(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", [("", ["-", "-"])]))
    with pytest.raises(SourceError) as refused:
        land(bronze, server(tmp_path, "two", [("", ["-", "-", "-"])]))
    location = str(refused.value).split("at ")[1].split(" ")[0]
    assert str(refused.value) == (
        f"shop: bronze holds transactions without GTID, at {location} for one, and positions of one server mean "
        "nothing on another; bring the first server back, or give the other one a source name of its own"
    )


ALONE = Switch()


@pytest.mark.parametrize("is_listed", [False, True])
def test_another_server_under_the_same_name_is_an_error(tmp_path: Path, bronze: Table, is_listed: bool) -> None:
    switch = Switch(has_several=is_listed)
    land(bronze, server(tmp_path, "one", PRIMARY, switch=switch))
    server_folder = server(tmp_path, "one", REPLICA, uuid=B, switch=switch)
    with pytest.raises(
        AnotherLog, match=rf"^shop: the server is another one: bronze holds the log of {A}, .* now is {B}; "
    ):
        land(bronze, server_folder)
    land(bronze, server(tmp_path, "one", REPLICA, uuid=B, switch=GO_ON))
    assert gtids_of(bronze) == gtids("a:1-6")


def test_an_endpoint_that_is_not_in_use_may_be_another_without_stopping_the_rest(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY))
    land(bronze, server(tmp_path, "two", REPLICA))
    with pytest.raises(SourceError) as refused:
        land(bronze, server(tmp_path, "one", REPLICA, uuid="c" + A[1:]))
    assert not isinstance(refused.value, AnotherLog), "others are tried"


@pytest.mark.parametrize(
    "files, options, message",
    [
        ([("", ["a:1"])], {}, "the source has no file b.000002, which bronze ends in; it holds b.000001 to b.000001"),
        (
            [*PRIMARY, ("a:1-4", ["a:5"])],
            {},
            "bronze ends in a b.000002 begun at 2023-11-14T22:13:21+00:00, and the one there now was begun at 2023",
        ),
        (
            PRIMARY,
            {"base": "other"},
            "the source has no file b.000002, which bronze ends in; it holds other.000001 to other.000002",
        ),
    ],
)
def test_numbers_that_began_again_are_an_error(
    tmp_path: Path, bronze: Table, files: Files, options: dict[str, str], message: str
) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY, switch=ALONE))
    server_folder = server(tmp_path, "one", files, switch=ALONE, **options)
    later(server_folder)
    with pytest.raises(AnotherLog) as refused:
        land(bronze, server_folder)
    assert message in str(refused.value)
    assert current_log_in_stretch(server_folder, bronze.head()).end.stretch == 2


def later(server_folder: ServerFolder) -> None:
    """As if its files had been begun half a minute later."""
    for file in server_folder.directory.iterdir():
        content = bytearray(file.read_bytes())
        content[4] += 30
        file.write_bytes(content)
    server_folder.log = lambda held=None: _log(server_folder)  # type: ignore[method-assign]


def _log(server_folder: ServerFolder) -> Log:
    """Its checksums do not fit any more, and so it is not looked into for its end."""
    files = tuple(LogFile(file.name, file.stat().st_size) for file in sorted(server_folder.directory.iterdir()))
    return Log("shop", files, Position(files[-1].name, files[-1].size), server_folder.uuid)


def test_where_the_user_says_so_a_log_that_began_again_is_a_stretch_with_all_it_has(
    tmp_path: Path, bronze: Table
) -> None:
    land(bronze, server(tmp_path, "one", [*PRIMARY, ("a:1-4", ["b:1"])], switch=ALONE))
    server_folder = server(tmp_path, "one", [("", ["a:1", "b:1", "a:2"])], switch=GO_ON)
    moved = land(bronze, server_folder)
    assert moved.relation is Relation.RESTARTED
    assert moved.stretches[-1].begin == Position("b.000001", 4, 2)
    new = every_gtid(bronze)
    assert sorted(new) == sorted([*(f"{A}:{n}" for n in (1, 1, 2, 2, 3, 4)), f"{B}:1"]), "its own numbers are new ones"
    assert gtids_of(bronze) == gtids("a:1-2 b:1")


def test_a_log_that_began_again_and_has_lost_its_beginning_is_refused(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY, switch=ALONE, first=7))
    server_folder = server(tmp_path, "one", [("a:1", ["a:2"])], switch=GO_ON, first=2)
    with pytest.raises(SourceError, match=r"^shop: the numbers of its files began again, and files before b\.000002"):
        land(bronze, server_folder)


def test_behind_a_whole_file_goes_on_the_next_one_though_that_file_is_purged(tmp_path: Path, bronze: Table) -> None:
    server_folder = server(tmp_path, "one", [*PRIMARY, ("a:1-4", ["a:5"])], switch=ALONE)
    (server_folder.directory / "b.000003").unlink()  # copies, of closed files
    land(bronze, server_folder)
    replaced = server(tmp_path, "one", [("a:1-4", ["a:5", "a:6"])], switch=ALONE, first=3)
    assert land(bronze, replaced).relation is Relation.SAME
    assert sorted(every_gtid(bronze)) == [f"{A}:{n}" for n in range(1, 7)]


def test_purged_files_are_no_other_log(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "one", PRIMARY, switch=ALONE))
    server_folder = server(tmp_path, "one", [("a:1-6", ["a:7"])], switch=GO_ON, first=4)
    with pytest.raises(SourceError, match=r"b\.000002 is gone from the source, whose oldest file is b\.000004"):
        land(bronze, server_folder)


def test_a_lake_from_before_the_index_goes_on(tmp_path: Path, bronze: Table) -> None:
    server_folder = server(tmp_path, "one", PRIMARY)
    land(bronze, server_folder)
    head = bronze.head()
    assert head is not None
    assert head.checkpoint is not None
    head = replace(head, checkpoint=replace(BronzeCommit.of(head.checkpoint), stretches=()))
    assert next_log(ServerFolder(server_folder.directory, A, "one", ALONE), bronze, head).relation is Relation.SAME
    moved = next_log(server(tmp_path, "two", REPLICA), bronze, head)
    assert moved.relation is Relation.ENDPOINT
    assert moved.stretches[-1].gtids == gtids("a:1-4")


def test_servers_without_uuid_are_told_by_address_and_by_when_the_file_was_begun(tmp_path: Path, bronze: Table) -> None:
    land(bronze, server(tmp_path, "three", PRIMARY))
    assert land(bronze, server(tmp_path, "three", PRIMARY)).relation is Relation.SAME
    elsewhere = server(tmp_path, "four", PRIMARY, switch=ALONE)
    assert current_log_in_stretch(elsewhere, bronze.head()).end.stretch == 1, "the same server at another address"
    later(elsewhere)
    assert current_log_in_stretch(elsewhere, bronze.head()).end.stretch == 2
    assert land(bronze, server(tmp_path, "five", REPLICA)).relation is Relation.ENDPOINT


ADDRESS = "vip:3306"
MARIA = [("", "0-1-1 0-1-2"), ("0-1-2", "0-1-3 0-1-4 0-1-5")]
REPLICATED = [("", "0-1-1 0-1-2 0-1-3 0-1-4 0-1-5 0-2-6")]
MARIA_GTIDS = ["0-1-1", "0-1-2", "0-1-3", "0-1-4", "0-1-5"]


def maria(
    tmp_path: Path,
    number: int,
    files: Sequence[tuple[str, str]],
    address: str = ADDRESS,
    switch: Switch = GO_ON,
    *,
    server_id: int | None = None,
    first: int = 1,
) -> MariaFolder:
    """The files of a MariaDB server as they are now; each server has a number, and an address that may move."""
    folder = tmp_path / f"maria{number}"
    shutil.rmtree(folder, ignore_errors=True)
    mariadb_logs.write_log(folder, number, files, first=first, second=1_700_000_000 + 1000 * number)
    return MariaFolder(folder, server_id or number, address, switch)


@pytest.mark.parametrize("first", [1, 2, 17])
@pytest.mark.parametrize("is_purged", [False, True])
@pytest.mark.parametrize("addresses, switch", [((ADDRESS, ADDRESS), GO_ON), (("db1", "db2"), ONE_OF_SEVERAL)])
def test_a_mariadb_takes_over(
    tmp_path: Path,
    bronze: Table,
    first: int,
    is_purged: bool,
    addresses: tuple[str, str],
    switch: Switch,
) -> None:
    """Its address is the first one's, or one of its own; its files are called as the first one's, or begin later."""
    land(bronze, maria(tmp_path, 1, MARIA, addresses[0], switch))
    log = [("0-1-2", "0-1-3 0-1-4"), ("0-1-4", "0-1-5 0-2-6")] if is_purged else REPLICATED
    moved = land(bronze, maria(tmp_path, 2, log, addresses[1], switch, first=first))
    assert moved.relation is (Relation.ANOTHER if addresses[0] == addresses[1] else Relation.ENDPOINT)
    assert every_gtid(bronze) == [*MARIA_GTIDS, "0-2-6"]
    assert [stretch.server_id for stretch in moved.stretches] == ["1", "2"]


def test_a_mariadb_that_gives_lost_numbers_again_is_refused(tmp_path: Path, bronze: Table) -> None:
    land(bronze, maria(tmp_path, 1, MARIA))
    with pytest.raises(SourceError, match=r"the log of vip:3306 does not hold 0-1-5; it lags behind"):
        land(bronze, maria(tmp_path, 2, [("", "0-1-1 0-1-2 0-1-3 0-2-4 0-2-5 0-2-6")]))


def test_an_address_goes_to_another_mariadb_and_back(tmp_path: Path, bronze: Table) -> None:
    land(bronze, maria(tmp_path, 1, MARIA))
    land(bronze, maria(tmp_path, 2, REPLICATED))
    land(bronze, maria(tmp_path, 1, [*MARIA[:1], ("0-1-2", "0-1-3 0-1-4 0-1-5 0-2-6")]))
    land(bronze, maria(tmp_path, 2, [("", f"{REPLICATED[0][1]} 0-2-7")]))
    assert every_gtid(bronze) == [*MARIA_GTIDS, "0-2-6", "0-2-7"]


def test_a_mariadb_whose_address_goes_to_another_is_told_by_its_id(tmp_path: Path, bronze: Table) -> None:
    land(bronze, maria(tmp_path, 1, MARIA, switch=ALONE))
    with pytest.raises(AnotherLog, match="bronze holds the log of server id 1, the server there now is server id 2;"):
        land(bronze, maria(tmp_path, 2, REPLICATED, switch=ALONE))
    assert land(bronze, maria(tmp_path, 1, MARIA, server_id=7)).relation is Relation.SAME, "its id was changed"
    assert land(bronze, maria(tmp_path, 3, [("", "0-7-1")], server_id=7)).relation is Relation.RESTARTED


@pytest.mark.parametrize("is_first", [True, False])
def test_a_mariadb_and_a_mysql_have_no_transactions_in_common(tmp_path: Path, bronze: Table, is_first: bool) -> None:
    mysql = server(tmp_path, "one", PRIMARY, switch=GO_ON)
    mysql.endpoint = ADDRESS
    servers = [mysql, maria(tmp_path, 2, [("", "0-2-1")])]
    first, second = servers if is_first else reversed(servers)
    land(bronze, first)
    with pytest.raises(SourceError, match="has GTIDs of another kind"):
        land(bronze, second)
