"""Standing sessions without Spark. Put here: a program in Spark's position, and wishes for it. Not here: tests.

Keepers, locks and attachments are the project's own processes and files here. In the place of Spark's server is a
program that listens at the port of its settings, which takes milliseconds to start.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spark_jobs.runtime.standing.attach import Wish
from spark_jobs.runtime.standing.folder import SessionFolder, session_folders

_LISTENER = f"""#!{sys.executable}
import os, signal, socket, sys, time
path = sys.argv[sys.argv.index("--properties-file") + 1]
settings = dict(line.rstrip("\\n").split("=", 1) for line in open(path))
print("environment", *sorted(os.environ), flush=True)
print("settings", *sorted(settings), flush=True)
print("secret", os.environ.get("STORE_KEY"), flush=True)
if settings.get("start") == "fails":
    sys.exit("it does not start")
with socket.socket() as server:
    server.bind(("127.0.0.1", int(settings["spark.connect.grpc.binding.port"])))
    server.listen()
    time.sleep(600)
"""
Wishes = Callable[..., Wish]


@pytest.fixture
def wish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wishes]:
    """Makes wishes for the program; their sessions end with the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "spark-submit"
    program.write_text(_LISTENER)
    program.chmod(0o755)

    def make(keep: float = 60, secrets: tuple[str, ...] = (), **settings: str) -> Wish:
        return Wish(settings, dict, keep, "4.2.0", home, secrets)

    yield make
    for folder in session_folders():
        folder.end(0)


def wait_until(happens: Callable[[], bool], seconds: float = 20) -> None:
    """Raises AssertionError where it does not happen in time."""
    until = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.02)


def runs_of(folder: SessionFolder) -> list[int]:
    """Process ids of the runs that are attached."""
    with folder.locked(time.monotonic() + 5):
        return [run.pid for run in folder.runs()]


def stop_process(pid: int) -> None:
    """Stops a process as Ctrl-Z does, until it is killed."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
