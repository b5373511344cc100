import os
import struct
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest
from pydantic import SecretStr

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.operations import follow
from spark_jobs.operations.follow import FIRST_WAIT, LONGEST_WAIT, Follower, Pace
from spark_jobs.source.binlog_dump import FARTHEST
from spark_jobs.source.server import Server
from tests.fix_cli import SPEC

NAMES = ["shop", "world"]


def test_a_source_is_run_at_most_once_an_interval() -> None:
    pace = Pace(5.0)
    pace.succeeded(100.0, 101.0, has_news=True)
    assert pace.due == 105.0
    pace.succeeded(105.0, 112.0, has_news=True)
    assert pace.due == 110.0  # at once: the run took longer


def test_a_run_that_finds_nothing_is_not_followed_at_once() -> None:
    pace = Pace(0.0)
    pace.succeeded(100.0, 100.2, has_news=False)
    assert pace.due > 101.0


def test_each_failure_waits_twice_as_long_and_a_success_ends_it() -> None:
    pace = Pace(0.0)
    waits = [pace.failed(100.0) for _ in range(9)]
    assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert waits[-1] == LONGEST_WAIT
    assert pace.due == 100.0 + LONGEST_WAIT
    pace.succeeded(200.0, 201.0, has_news=True)
    assert pace.failed(300.0) == FIRST_WAIT


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    """Of two sources that are folders of files, and an empty lake."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mysql-bin.000001").write_bytes(SPEC.to_bytes())
    path = tmp_path / "pipeline.yaml"
    sources = ", ".join(f"{name}: {{files: ./{name}}}" for name in NAMES)
    path.write_text(f"lake: ./lake\nsources: {{{sources}}}\n")
    return Follower(load(path, dict(os.environ)), NAMES, 0.0)


def test_each_source_is_run_at_first_and_one_that_failed_waits(follower: Follower) -> None:
    follower.start()
    deadline = time.monotonic() + 10
    assert follower.next_source(deadline) == "shop"
    assert follower.record_failure("shop") == FIRST_WAIT
    assert follower.next_source(deadline) == "world"
    follower.record_failure("world")
    assert follower.next_source(time.monotonic() + 0.1) is None
    began = time.monotonic()
    assert follower.next_source(deadline) == "shop"
    assert FIRST_WAIT / 2 < time.monotonic() - began < 5


def test_a_source_whose_bronze_is_behind_its_files_has_news_again(follower: Follower) -> None:
    """The lake stays empty here, so that there is always more in the files."""
    follower.start()
    assert follower.next_source(time.monotonic() + 10) == "shop"
    follower.arm("shop")
    follower.record_success("shop", time.monotonic(), has_news=True)
    assert follower.next_source(time.monotonic() + 10) == "world"
    follower.record_failure("world")
    assert follower.next_source(time.monotonic() + 10) == "shop"


def test_a_stop_ends_the_wait(follower: Follower) -> None:
    follower.start()
    for name in NAMES:
        assert follower.next_source(time.monotonic() + 10) == name
        for _ in range(5):
            follower.record_failure(name)
    threading.Timer(0.2, follower.stop).start()
    began = time.monotonic()
    assert follower.next_source(began + 60) is None
    assert follower.is_stopped
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "error", [SourceError("shop: it does not answer"), struct.error("'I' format requires a number")]
)
def test_a_watch_that_fails_has_the_source_run_each_time(
    follower: Follower, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def await_news(watch: object) -> None:
        raise error

    monkeypatch.setattr(follow._Watch, "_await_news", await_news)
    follower.start()
    runs, deadline = Counter[str](), time.monotonic() + 10
    while min(runs[name] for name in NAMES) < 3:
        name = follower.next_source(deadline)
        assert name, f"not run any more: {runs}"
        runs[name] += 1
        follower.arm(name)
        follower.record_success(name, time.monotonic(), has_news=True)


@pytest.mark.parametrize("offset, is_watched", [(FARTHEST, True), (FARTHEST + 1, False)])
def test_a_server_whose_position_no_dump_can_have_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, offset: int, is_watched: bool
) -> None:
    server = Server("shop", MySQL(host="127.0.0.1", port=1, user="u", password=SecretStr("p")))
    asked, looks = list[Position](), iter([False, False, True])
    monkeypatch.setattr(follow, "endpoints_of", lambda *_: SimpleNamespace(current=lambda: server))
    monkeypatch.setattr(follow, "bronze_position", lambda *_: Position("b.000001", offset))
    monkeypatch.setattr(follow, "_FAR_PAUSE", 0.01)
    monkeypatch.setattr(follow._Watch, "_has_grown", lambda _: next(looks))

    class Watch:
        def __init__(self, name: str, settings: MySQL, position: Position, heartbeat: float) -> None:
            asked.append(position)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def grows(self) -> bool:
            return True

    monkeypatch.setattr(follow, "LogWatch", Watch)
    pipeline: Pipeline = SimpleNamespace()  # type: ignore[assignment] # nobody reads it
    follow._Watch(pipeline, "shop", threading.Event())._await_news()
    assert bool(asked) is is_watched
    assert next(looks, None) is (False if is_watched else None), "looked until it has grown"
