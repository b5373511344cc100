"""Limits of a server's load: how they are written, and that nothing is read over them."""

import threading
import time

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.initial_load import throttle
from spark_jobs.pipeline.initial_load.throttle import Throttle, parse
from tests.fix_mysql import Database
from tests.spark_jobs.source.test_server import source_of


def test_limits_are_names_and_numbers() -> None:
    assert parse("") == {}
    assert parse("Threads_running=25, replica_lag=0.5") == {"Threads_running": 25.0, "replica_lag": 0.5}


@pytest.mark.parametrize("text", ["Threads_running", "Threads_running=many", "=x", "Threads_running=0", "a=nan"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="max-load: "):
        parse(text)


@pytest.mark.mysql
def test_a_server_is_asked_for_each_limit(database: Database) -> None:
    server = source_of(database.server)
    database.execute("DO SLEEP(1)")  # a server that has just begun has an uptime of 0
    assert Throttle(server, {"threads_RUNNING": 1000, "Uptime": 0.5}).over()[0].startswith("Uptime is ")
    for name, reason in ("No_such", "has no number No_such"), ("replica_lag", "is no replica"):
        with pytest.raises(ConfigError, match=reason):
            Throttle(server, {name: 1}).check()


@pytest.mark.mysql
def test_it_waits_until_the_server_is_below(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "_WAIT", 0.05)
    limits = Throttle(source_of(database.server), {"Threads_running": 2})

    def sleep() -> None:
        with database.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT SLEEP(1)")

    sleepers = [threading.Thread(target=sleep) for _ in range(4)]
    for sleeper in sleepers:
        sleeper.start()
    while not limits.over():
        time.sleep(0.01)
    limits.wait("shop: shop.orders")
    assert limits.over() == []
    for sleeper in sleepers:
        sleeper.join()
