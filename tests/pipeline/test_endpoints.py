"""A primary and its replica, real ones: killed, back, reset, replaced. Nothing is lost and nothing comes twice."""

import json
import time

import pytest

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.export import Exported, export
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import AnotherLog, SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.log_store import Store
from spark_jobs.operations.observation.status import status
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import extract_source
from spark_jobs.source.open import open_sources
from spark_jobs.source.server import Server
from tests.fix_pair import MARIADB, SOURCE, Pair, execute
from tests.services.proxy import Proxy
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.thorough]


def on_disk(server: MySQLServer, file: str) -> bytes:
    content = bytearray((server.data / file).read_bytes())
    content[4 + 17] &= 0xFE
    return bytes(content)


def require_export(pair: Pair, pipeline: Pipeline, servers: list[MySQLServer]) -> list[Exported]:
    """What is exported of each stretch is the bytes of its server's files."""
    files = list(export(pair.spark, lake_of(pipeline), SOURCE, pair.folder / f"out-{len(servers)}"))
    for exported in files:
        name, _, start = exported.path.name.partition(".from-")
        stretch, _, file = name.partition("-") if name[0].isdigit() else ("1", "", name)
        content = on_disk(servers[int(stretch) - 1], file)[int(start or 0) :]
        assert content.startswith(exported.path.read_bytes()), exported.path
        assert bool(exported.partial) == bool(start)
    return files


def test_a_primary_is_killed_and_comes_back(pair: Pair) -> None:
    primary, replica = pair.primary, pair.replica
    pipeline = pair.pipeline()
    pair.run(pipeline)
    first, second = (f"{server.host}:{server.port}" for server in (primary, replica))
    assert pair.in_use(pipeline) == [first]
    execute(
        primary,
        "INSERT INTO shop.notes VALUES (2, 'unread when the primary dies')",
        "DELETE FROM shop.orders WHERE id = 3",
    )
    pair.await_all(replica, primary)
    primary.kill()
    execute(
        replica,
        "STOP SLAVE",
        "UPDATE shop.orders SET state = 'sent' WHERE id = 4",
        "FLUSH BINARY LOGS",
        "ALTER TABLE shop.notes ADD COLUMN lang CHAR(2) NOT NULL DEFAULT 'en'",
        "INSERT INTO shop.notes VALUES (3, 'of the replica', 'de')",
    )
    pair.run(pipeline)
    assert pair.in_use(pipeline) == [first, second]
    pair.require_same(pipeline, replica)
    state = status(pipeline, lake_of(pipeline), SOURCE)
    assert (state.endpoint, state.stretch, state.backlog_bytes, state.error) == (second, 2, 0, None)
    assert [(e.endpoint, e.in_use, e.available) for e in state.endpoints] == [
        (first, False, False),
        (second, True, True),
    ]
    assert state.endpoints[0].unavailable_since is not None

    primary.start()
    (pair.folder / "pipeline.endpoints.json").unlink()  # nothing waits any longer
    execute(replica, "UPDATE shop.orders SET state = 'later' WHERE id = 5")
    extract_source(pair.spark, pipeline, SOURCE)
    assert pair.in_use(pipeline) == [first, second], "it is back, but has not what the other has"
    pair.require_each_once(pipeline, replica)
    pair.follow(primary, replica)
    pair.await_all(primary, replica)
    execute(primary, "INSERT INTO shop.orders VALUES (100, 'home')", "TRUNCATE shop.notes")
    (pair.folder / "pipeline.endpoints.json").unlink()
    pair.run(pipeline)
    assert pair.in_use(pipeline) == [first, second, first]
    pair.require_same(pipeline, primary)

    require_export(pair, pipeline, [primary, replica, primary])
    store = Store(pair.spark, pipeline, SOURCE)
    outcome = backfill_source(pair.spark, pipeline, SOURCE, Range(store.first, store.last), lambda _: True)
    assert (outcome.compacted, outcome.merged, outcome.stopped) == ([], [], {}), (
        "the whole log, done again, is what is there"
    )


def test_a_run_whose_server_is_lost_in_the_middle_goes_on_with_the_next(pair: Pair) -> None:
    primary, replica = pair.primary, pair.replica
    extract_source(pair.spark, pair.pipeline(), SOURCE)
    execute(primary, "INSERT INTO shop.notes VALUES (2, REPEAT('x', 100))", "DELETE FROM shop.orders WHERE id = 3")
    pair.await_all(replica, primary)
    plain = {"tls": {"enabled": False}}  # a proxy sees where a dump begins
    with Proxy(primary.host, primary.port, [220] * 100) as proxy:
        listed = [
            {"host": server.host, "port": port, "user": server.user, "password": server.password} | plain
            for server, port in ((primary, proxy.port), (replica, replica.port))
        ]
        pipeline = pair.pipeline(endpoints=listed)
        extracted = extract_source(pair.spark, pipeline, SOURCE)
        assert proxy.cut > 5
    assert extracted.stretch
    assert (extracted.stretch.number, extracted.stretch.endpoint) == (2, f"{replica.host}:{replica.port}")
    pair.require_each_once(pipeline, replica)


def test_another_server_or_another_log_under_the_same_name(pair: Pair) -> None:
    """Also, what is refused without GTIDs. Extraction alone: the rest has nothing to do with it."""
    primary, replica = pair.primary, pair.replica

    def alone(server: MySQLServer, **keys: str) -> Pipeline:
        return pair.pipeline(server, **keys)

    extract_source(pair.spark, alone(primary), SOURCE)
    pair.await_all(replica, primary)
    with pytest.raises(AnotherLog, match=r"^shop: the server is another one: bronze holds the log of "):
        extract_source(pair.spark, alone(replica), SOURCE)
    moved = alone(replica, on_new_server="continue")
    extract_source(pair.spark, moved, SOURCE)
    pair.require_each_once(moved, replica)
    before = pair.head(moved)[0]

    execute(replica, "STOP SLAVE", "RESET SLAVE ALL", "RESET MASTER")
    execute(replica, "INSERT INTO shop.notes VALUES (50, 'after the reset')")
    with pytest.raises(
        AnotherLog, match=r"^shop: the log is another one: .*Its numbers began again \(RESET BINARY LOGS"
    ):
        extract_source(pair.spark, alone(replica), SOURCE)
    assert pair.head(moved)[0] == before
    moved = alone(replica, on_new_server="continue")
    extracted = extract_source(pair.spark, moved, SOURCE)
    assert (extracted.transactions, extracted.range.stop.stretch) == (1, 3)
    lines = changes_of_bronze(lake_of(moved), SOURCE, "3/other-bin.000001:4", None, is_wanted=wanted_tables([]))
    assert [json.loads(line)["after"]["id"] for line in lines] == [50]

    for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
        execute(replica, f"SET GLOBAL gtid_mode = {mode}")
    (server,) = open_sources(SOURCE, moved.sources[SOURCE])
    assert isinstance(server, Server)
    assert server.problems() == [], "alone it can be read"
    servers = open_sources(SOURCE, pair.pipeline().sources[SOURCE])
    assert [server.problems() for server in servers if isinstance(server, Server)][1] == [
        "gtid_mode is OFF_PERMISSIVE; a source moves between endpoints by GTID: turn it on on all of them"
    ]
    execute(replica, "INSERT INTO shop.notes VALUES (51, 'without GTID')")
    extract_source(pair.spark, moved, SOURCE)
    before = pair.head(moved)[0]
    replica.kill()
    with pytest.raises(SourceError, match=r"\n127.0.0.1:\d+: bronze holds transactions without GTID, at other-bin"):
        extract_source(pair.spark, pair.pipeline(), SOURCE)
    assert pair.head(moved)[0] == before


def test_by_score_a_replica_that_lags_is_left_for_its_primary(pair: Pair) -> None:
    """A real lag: a replica that waits before it applies, has stopped applying, or has lost its primary."""
    primary, replica = pair.primary, pair.replica
    first, second = (f"{server.host}:{server.port}" for server in (primary, replica))
    pair.await_all(replica, primary)
    extract_source(pair.spark, pair.pipeline(replica, primary), SOURCE)
    pipeline = pair.pipeline(replica, primary, choose="score")
    assert endpoints_of(pipeline, SOURCE).ordered()[0].endpoint == second, "it is in use, and has all"

    execute(replica, "STOP SLAVE SQL_THREAD", "CHANGE MASTER TO MASTER_DELAY = 3600", "START SLAVE SQL_THREAD")
    for at in (2, 3):  # as an hour of the primary's would leave them
        execute(primary, f"SET timestamp = {time.time() - 300}", f"INSERT INTO shop.notes VALUES ({at}, 'late')")
    wait_for("the replica is late", lambda: 200 < load_of(pipeline, second) < 1000, 30, pause=0.2)
    assert endpoints_of(pipeline, SOURCE).ordered()[0].endpoint == first
    extracted = extract_source(pair.spark, pipeline, SOURCE)
    assert (extracted.transactions, pair.in_use(pipeline)) == (2, [second, first])
    pair.require_each_once(pipeline, primary)

    execute(replica, "STOP SLAVE SQL_THREAD")
    assert load_of(pipeline, second) > 1e9, "it gets what the primary has, and does not apply it"
    execute(replica, "CHANGE MASTER TO MASTER_DELAY = 0", "START SLAVE SQL_THREAD")
    pair.await_all(replica, primary)
    wait_for("the replica has caught up", lambda: load_of(pipeline, second) < 60, 30, pause=0.2)
    assert endpoints_of(pipeline, SOURCE).ordered()[0].endpoint == first, "a move has its price"
    primary.kill()
    wait_for("the replica has lost its primary", lambda: 1e6 <= load_of(pipeline, second) < 1e9, 30, pause=0.2)
    assert endpoints_of(pipeline, SOURCE).ordered()[0].endpoint == second, "the other one does not answer"


def load_of(pipeline: Pipeline, endpoint: str) -> float:
    return next(
        source.load()
        for source in open_sources(SOURCE, pipeline.sources[SOURCE])
        if isinstance(source, Server) and source.endpoint == endpoint
    )


@pytest.mark.parametrize("pair", [MARIADB], ids=[MARIADB.server], indirect=True)
def test_a_mariadb_primary_with_two_domains_is_killed(pair: Pair) -> None:
    primary, replica = pair.primary, pair.replica
    execute(primary, *_in_domains(range(100, 110)))
    pipeline = pair.pipeline()
    extract_source(pair.spark, pipeline, SOURCE)
    execute(primary, *_in_domains(range(110, 116)))
    pair.await_all(replica, primary)
    primary.kill()
    execute(replica, "STOP SLAVE", "INSERT INTO shop.notes VALUES (200, 'of the replica')")
    extract_source(pair.spark, pipeline, SOURCE)
    assert [stretch.number for stretch in stretches(pair.head(pipeline)[1])] == [1, 2]
    lines = changes_of_bronze(lake_of(pipeline), SOURCE, None, None, is_wanted=wanted_tables([]))
    changes = [json.loads(line) for line in lines]
    ids = [change["after"].get("id", change["after"].get("@1")) for change in changes if change["table"] == "notes"]
    assert sorted(ids) == [1, *range(100, 116), 200]
    pair.require_each_once(pipeline, replica)


def _in_domains(numbers: range) -> list[str]:
    """Inserts, each in the domain after the one before."""
    return [
        text
        for n in numbers
        for text in (f"SET gtid_domain_id = {n % 3}", f"INSERT INTO shop.notes VALUES ({n}, 'in a domain')")
    ]
