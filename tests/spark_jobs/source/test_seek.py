import itertools
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pymysql
import pytest

from spark_jobs.binlog import list_events
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids, parse_gtids
from spark_jobs.log.location import LogLocation, parse_start
from spark_jobs.log.position import Position
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Source
from spark_jobs.source.seek import find_start, has_no_transaction_before, resolve_location
from spark_jobs.source.server import Server
from tests.fix_servers import EACH_SERVER, OPTIONS
from tests.services.servers import build_of
from tests.spark_jobs.source.test_binlog_dump import settings_of

pytestmark = pytest.mark.mysql


@dataclass
class WrittenLog:
    """A server's log: where its transactions begin, and their GTIDs, in order, over several files."""

    server: MySQLServer
    sources: tuple[Source, Source]
    transactions: list[tuple[Position, str]]
    between: datetime
    """A time by the server's clock, more than a second before ``later`` and more than one after what comes before."""
    later: Position
    end: Position

    def set_of(self, gtids: list[str]) -> Gtids:
        if "-" not in gtids[0].split(":")[0] or gtids[0].count("-") == 2:
            last = {gtid.split("-")[0]: gtid for gtid in gtids}
            return DomainGtids.parse(",".join(last.values()))
        return MysqlGtids.parse(",".join(gtids))

    def find(self, location: LogLocation) -> Position:
        """Both sources lead to the same."""
        live, copied = (resolve_location(source, source.log(), location) for source in self.sources)
        assert live == copied
        return live

    def refused(self, location: LogLocation) -> str:
        messages = []
        for source in self.sources:
            with pytest.raises(SourceError) as error:
                resolve_location(source, source.log(), location)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
        return messages[0]


def statements(server: str) -> Iterator[str]:
    other_domain = server.startswith("mariadb")
    tags = server == "mysql-9.7"
    yield "CREATE TABLE t (id INT PRIMARY KEY)"
    for n in range(12):
        if other_domain:
            yield f"SET gtid_domain_id = {n % 3}"
        if tags:
            yield f"SET gtid_next = '{('AUTOMATIC', 'AUTOMATIC:blue', 'AUTOMATIC:_x9')[n % 3]}'"
        yield f"INSERT INTO t VALUES ({n})"
        if n in {2, 7, 8}:
            yield "FLUSH BINARY LOGS"


@pytest.fixture(scope="module", params=EACH_SERVER)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    from spark_jobs.errors import ConfigError

    try:
        build = build_of(request.param)
    except ConfigError as error:
        pytest.skip(str(error))
    with MySQLServer(tmp_path_factory.mktemp("server"), OPTIONS, build) as server:
        yield written_log(server, request.param, tmp_path_factory.mktemp("copy"))


def written_log(server: MySQLServer, name: str, copy: Path) -> WrittenLog:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE started")
        connection.select_db("started")
        for statement in statements(name):
            cursor.execute(statement)
        time.sleep(1.2)
        cursor.execute("SELECT UTC_TIMESTAMP(6)")
        row = cursor.fetchone()
        assert row
        time.sleep(1.2)
        for n in range(100, 103):
            cursor.execute(f"INSERT INTO t VALUES ({n})")
    live = Server("shop", settings_of(server))
    log = live.log()
    for file in log.files:
        shutil.copyfile(server.data / file.name, copy / file.name)
    transaction_list = [transaction for file in log.files for transaction in transactions(server.data / file.name)]
    return WrittenLog(
        server,
        (live, Files("shop", copy)),
        transaction_list,
        row[0].replace(tzinfo=UTC),
        transaction_list[-3][0],
        log.end,
    )


def transactions(path: Path) -> Iterator[tuple[Position, str]]:
    """By the listing of events: a transaction begins where its GTID is first seen; a file's first one, at its head."""
    last, first = None, True
    for event in list_events(iter([path.read_bytes()]), path.name):
        if event.transaction and event.transaction != last:
            yield Position(path.name, 4 if first else event.offset), event.transaction
            last, first = event.transaction, False


@pytest.mark.thorough
def test_whether_a_file_has_transactions_before_a_place(log: WrittenLog) -> None:
    first, second = next(
        (first, second) for (first, _), (second, _) in itertools.pairwise(log.transactions) if first.file == second.file
    )
    first = min(position for position, _ in log.transactions if position.file == first.file)
    for source in log.sources:
        assert has_no_transaction_before(source, first)
        assert not has_no_transaction_before(source, second)


@pytest.mark.thorough
def test_a_set_leads_to_the_first_transaction_that_is_not_in_it(log: WrittenLog) -> None:
    gtids = [gtid for _, gtid in log.transactions]
    assert len({position.file for position, _ in log.transactions}) == 4
    for count in range(1, len(gtids)):
        if log.transactions[count][0].offset != 4:
            assert log.find(log.set_of(gtids[:count])) == log.transactions[count][0]
    assert log.find(log.set_of(gtids)) == log.end


def test_a_set_of_whole_files_leads_to_the_next_ones_beginning(log: WrittenLog) -> None:
    gtids = [gtid for _, gtid in log.transactions]
    heads = [count for count, (position, _) in enumerate(log.transactions) if position.offset == 4 and count]
    for count in heads:
        assert log.find(log.set_of(gtids[:count])) == log.transactions[count][0]


def test_a_set_with_a_gap_is_refused_by_what_lies_behind_it(log: WrittenLog) -> None:
    gtids = [gtid for _, gtid in log.transactions]
    count = 6
    if isinstance(log.set_of(gtids), DomainGtids):
        gtid_set: Gtids = DomainGtids.parse(",".join(gtids[4:6]))  # two of three domains
        assert "the log does not hold" in log.refused(gtid_set)
        return
    gtid_set = log.set_of([*gtids[:count], *gtids[count + 1 : count + 3]])
    behind = log.set_of(gtids[count + 1 : count + 3])
    position, lacks = log.transactions[count]
    assert log.refused(gtid_set) == (
        f"shop: the set holds {behind}, but not {lacks}, which came before that, at {position}; name a set without "
        "gaps, or the position"
    )


def test_a_set_of_more_than_the_log_holds_is_refused(log: WrittenLog) -> None:
    gtids = [gtid for _, gtid in log.transactions]
    all_gtids = log.set_of(gtids)
    if isinstance(all_gtids, DomainGtids):
        domain, (server, number) = next(iter(all_gtids.last.items()))
        beyond: Gtids = DomainGtids(dict(all_gtids.last) | {domain: (server, number + 5)})
        assert f"the log does not hold {domain}-{server}-{number + 5} before its end" in log.refused(beyond)
        foreign = DomainGtids(dict(all_gtids.last) | {domain: (77, number)})
        assert (
            f"the log does not hold {domain}-77-{number} before its end at {log.end}; it holds {domain}-{server}-"
            in (log.refused(foreign))
        )
        return
    other_server = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    assert isinstance(all_gtids, MysqlGtids)
    beyond = all_gtids | MysqlGtids.parse(other_server)
    assert log.refused(beyond) == (
        f"shop: the log, which ends at {log.end}, does not hold {other_server} of the set; is it the set of another "
        "server, or of a later time?"
    )


def test_a_set_of_the_other_kind_of_server_is_refused(log: WrittenLog) -> None:
    own_gtids = log.set_of([gtid for _, gtid in log.transactions])
    text = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1" if isinstance(own_gtids, DomainGtids) else "0-1-100"
    assert "whose sets are like" in log.refused(parse_gtids(text))


def test_a_time_leads_behind_the_last_transaction_before_it(log: WrittenLog) -> None:
    position = log.find(log.between)
    before = log.transactions[-4][0]
    assert before < position <= log.later, "MariaDB writes checkpoints between the two transactions"
    zone = datetime.fromisoformat("2020-01-01T00:00:00+05:30").tzinfo
    assert log.find(log.between.astimezone(zone)) == position


def test_a_time_before_the_log_is_its_beginning_where_nothing_was_purged(log: WrittenLog) -> None:
    assert log.find(datetime(2001, 1, 1, tzinfo=UTC)) == Position(log.transactions[0][0].file, 4)


def test_a_time_to_come_is_refused(log: WrittenLog) -> None:
    live, copied = log.sources
    to_come = datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(
        SourceError, match=r"is still to come by the server's clock, which says \d{4}-.*; name an earlier"
    ):
        resolve_location(live, live.log(), to_come)
    with pytest.raises(SourceError, match=rf"is after the end of the log at {log.end}, whose last transaction comm"):
        resolve_location(copied, copied.log(), to_come)
    time.sleep(1.1)  # MySQL 5.7 logs whole seconds: what was committed in this one may be later than any moment of it
    now = live.now()
    assert now is not None
    assert resolve_location(live, live.log(), now - timedelta(milliseconds=1)) == log.end


def test_names_and_positions(log: WrittenLog) -> None:
    live = log.sources[0]
    server_log = live.log()
    assert find_start(live, server_log, parse_start("earliest")) == Position(server_log.files[0].name, 4)
    assert find_start(live, server_log, parse_start("latest")) == log.end
    assert find_start(live, server_log, parse_start(str(log.later))) == log.later


@pytest.mark.thorough
def test_what_was_purged_names_the_oldest_file_and_two_ways_on(log: WrittenLog, tmp_path: Path) -> None:
    """The last test of the module: it purges."""
    gtids = [gtid for _, gtid in log.transactions]
    files = sorted({position.file for position, _ in log.transactions})
    with log.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"PURGE BINARY LOGS TO '{files[2]}'")
    copied = log.sources[1]
    assert isinstance(copied, Files)
    for file in files[:2]:
        (copied.directory / file).unlink()
    message = log.refused(log.set_of(gtids[:5]))
    assert f"came before the oldest file there is, {files[2]}; set start: earliest" in message
    assert "under another source name" in message
    message = log.refused(datetime(2001, 1, 1, tzinfo=UTC))
    assert f"lies before the oldest file there is: {files[2]} was begun at 2" in message
    assert log.find(log.set_of(gtids)) == log.end
    _require_purged_by_hand(log)


def _require_purged_by_hand(log: WrittenLog) -> None:
    """What an operator has told the server to count as purged stands in no file, and may be in the set."""
    with log.server.connect() as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SET GLOBAL gtid_purged = '+3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5'")
        except pymysql.MySQLError:
            return  # MySQL before 8.0, and MariaDB, cannot
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        executed = parse_gtids(cursor.fetchone()[0])  # type: ignore[index] # a row there is
    live, copied = log.sources
    assert resolve_location(live, live.log(), executed) == live.log().end
    with pytest.raises(SourceError, match="does not hold 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5 of the set"):
        resolve_location(copied, copied.log(), executed)
