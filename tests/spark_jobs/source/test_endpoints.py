"""Which endpoint is read, and for how long one that failed is left alone."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from spark_jobs.config import model as config
from spark_jobs.config.servers import Endpoint, MySQL
from spark_jobs.errors import AccessDenied, AnotherLog, DecodeError, SourceError
from spark_jobs.source.endpoints import LONGEST_WAIT, Endpoints, open_endpoints
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server, seconds_behind

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Fake(Server):
    def __init__(self, address: str, load: float = 0.0) -> None:
        self.name, self.endpoint, self._load = "shop", address, load

    def load(self) -> float:
        if self._load < 0:
            raise SourceError("shop: down")
        return self._load


def endpoints_of(path: Path | None = None, now: Callable[[], datetime] = lambda: NOW, **options: Any) -> Endpoints:
    sources = options.pop("sources", [Fake("one"), Fake("two"), Fake("three")])
    return Endpoints("shop", cast(list[Source], sources), path=path, clock=now, **options)


class Work:
    """Says which endpoint it was done on; those that are down, or let nobody in, fail."""

    def __init__(self, *down: str, denying: tuple[str, ...] = ()) -> None:
        self.down, self.denying, self.attempts = down, denying, list[str]()

    def __call__(self, source: Source) -> str:
        assert source.endpoint is not None
        self.attempts.append(source.endpoint)
        if source.endpoint in self.denying:
            raise AccessDenied(f"shop: {source.endpoint} denies access")
        if source.endpoint in self.down:
            raise SourceError(f"shop: {source.endpoint} is down")
        return source.endpoint


def test_the_first_one_listed_that_works_is_taken(tmp_path: Path) -> None:
    assert endpoints_of(tmp_path / "e.json").first(Work()) == "one"
    assert endpoints_of(tmp_path / "e.json").first(Work("one")) == "two"


def test_none_that_works_is_one_message_with_each_ones_reason() -> None:
    with pytest.raises(SourceError) as refused:
        endpoints_of().first(Work("one", "two", "three"))
    assert str(refused.value) == ("shop: none of its endpoints can be read\none: is down\ntwo: is down\nthree: is down")


@pytest.mark.parametrize("down, kind", [((), AccessDenied), (("three",), SourceError)], ids=["all deny", "one is down"])
def test_endpoints_that_all_deny_access_are_not_away(down: tuple[str, ...], kind: type[SourceError]) -> None:
    """One that is down may be back, and let the user in."""
    denying = tuple(name for name in ("one", "two", "three") if name not in down)
    with pytest.raises(SourceError) as refused:
        endpoints_of().first(Work(*down, denying=denying))
    assert type(refused.value) is kind


@pytest.mark.parametrize("error", [AnotherLog("shop: reset"), DecodeError("shop: damaged")])
def test_what_is_not_about_an_endpoint_ends_it(error: Exception) -> None:
    attempts = []

    def work(source: Source) -> None:
        attempts.append(source)
        raise error

    with pytest.raises(type(error)):
        endpoints_of().first(work)
    assert len(attempts) == 1


def test_one_alone_says_what_it_says() -> None:
    with pytest.raises(SourceError, match=r"^shop: one is down$"):
        endpoints_of(sources=[Fake("one")]).first(Work("one"))


def test_one_that_failed_is_left_alone_for_longer_and_longer(tmp_path: Path) -> None:
    path, now = tmp_path / "e.json", [NOW]
    waits = []
    for _ in range(9):
        endpoints_of(path, lambda: now[0]).first(Work("one"))
        health = endpoints_of(path).health()["one"]
        waits.append((health.next_try - now[0]).total_seconds())
        assert (health.since, health.reason) == (NOW, "is down")
        early = Work()
        assert endpoints_of(path, lambda: now[0] + timedelta(seconds=waits[-1] - 1)).first(early) == "two"
        assert early.attempts == ["two"]
        now[0] = health.next_try
    assert waits == [30, 60, 120, 240, 480, 960, *[LONGEST_WAIT.total_seconds()] * 3]
    assert endpoints_of(path, lambda: now[0]).first(Work()) == "one", "its wait is over"
    assert endpoints_of(path).health() == {}


def test_a_clock_that_is_set_back_makes_nobody_wait(tmp_path: Path) -> None:
    endpoints_of(tmp_path / "e.json").first(Work("one"))
    assert endpoints_of(tmp_path / "e.json", lambda: NOW - timedelta(days=1)).first(Work()) == "one"


def test_where_all_wait_all_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    with pytest.raises(SourceError):
        endpoints_of(path).first(Work("one", "two", "three"))
    assert endpoints_of(path).first(Work("one")) == "two"


def test_a_glance_does_not_make_one_available_again(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    endpoints_of(path).first(Work("one"))
    later = endpoints_of(path, lambda: NOW + timedelta(minutes=1))
    assert later.first(Work(), proves=False) == "one"
    assert later.health()["one"].tries == 1


def test_a_source_does_not_touch_what_is_kept_of_another(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    endpoints_of(path).first(Work("one"))
    note = json.loads(path.read_text())["shop"]
    endpoints = Endpoints("other", [Fake("one"), Fake("two")], path=path)
    endpoints.first(Work("one"))
    assert json.loads(path.read_text())["shop"] == note
    endpoints.first(Work())
    assert endpoints.first(Work()) == "two"


@pytest.mark.parametrize("content", ["{", "[]", '{"shop": {"one": {}}}', '{"shop": 1}'])
def test_a_file_that_is_none_is_no_reason_to_fail(tmp_path: Path, content: str) -> None:
    (tmp_path / "e.json").write_text(content)
    assert endpoints_of(tmp_path / "e.json").first(Work("one")) == "two"


def test_a_file_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    assert endpoints_of(tmp_path / "missing" / "e.json").first(Work("one")) == "two"


def test_by_hash_sources_share_endpoints_and_one_more_moves_few() -> None:
    def first(name: str, *addresses: str) -> str | None:
        return Endpoints(name, [Fake(address) for address in addresses], "hash").ordered()[0].endpoint

    names = [f"source_{n}" for n in range(300)]
    before = {name: first(name, "one", "two", "three") for name in names}
    after = {name: first(name, "three", "two", "one", "four") for name in names}
    assert all(60 < list(before.values()).count(address) < 140 for address in ("one", "two", "three"))
    assert all(after[name] in (before[name], "four") for name in names), "the order in the list plays no part"


@pytest.mark.parametrize(
    "loads, in_use, first",
    [
        ((5, 3, 4), None, "two"),
        ((5, 3, 4), "one", "one"),
        ((64, 3, 4), "one", "two"),
        ((63, 3, 4), "one", "one"),
        ((-1, 3, 4), "one", "two"),
        ((float("inf"), -1, 900), "one", "three"),
    ],
)
def test_by_score_the_one_in_use_stays_unless_another_is_much_better(
    loads: tuple[float, ...], in_use: str | None, first: str
) -> None:
    sources = [Fake(address, load) for address, load in zip(("one", "two", "three"), loads, strict=True)]
    assert endpoints_of(sources=sources, choose="score", in_use=in_use).ordered()[0].endpoint == first


def replica(seconds: int | None, io: str, applying: str, *, renamed: bool = True) -> dict[str, Any]:
    names = ("Seconds_Behind_Source", "Replica_IO_Running", "Replica_SQL_Running")
    older = ("Seconds_Behind_Master", "Slave_IO_Running", "Slave_SQL_Running")
    return dict(zip(names if renamed else older, (seconds, io, applying), strict=True))


@pytest.mark.parametrize(
    "rows, seconds",
    [
        ([], 0),
        ([replica(7, "Yes", "Yes")], 7),
        ([replica(7, "Yes", "Yes", renamed=False)], 7),
        ([replica(3, "Yes", "Yes"), replica(40, "Yes", "Yes")], 40),
        ([replica(None, "Connecting", "Yes", renamed=False)], 1e6),
        ([replica(500, "Connecting", "Yes")], 1e6 + 500),
        ([replica(None, "No", "Yes")], 1e6),
        ([replica(None, "Yes", "No")], 1e9),
        ([replica(None, "No", "No", renamed=False)], 1e9),
    ],
)
def test_how_far_a_replica_is_behind(rows: list[dict[str, Any]], seconds: float) -> None:
    assert seconds_behind(rows) == seconds


def test_a_configured_source() -> None:
    shared = MySQL(user="repl", port=3307)
    listed = (Endpoint(host="db1"), Endpoint(host="db2", port=1, user="other"))
    endpoints = open_endpoints("shop", config.SourceSettings(mysql=shared, endpoints=listed, choose="hash"), None)
    assert {source.endpoint for source in endpoints.sources} == {"db1:3307", "db2:1"}
    assert all(source.switch.has_several for source in endpoints.sources)
    assert [source.settings.user for source in endpoints.sources if isinstance(source, Server)] == ["repl", "other"]
