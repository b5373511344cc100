import subprocess
import threading
import time
from pathlib import Path

import pytest

from spark_jobs.runtime.standing import keeper
from spark_jobs.runtime.standing.attach import attach
from spark_jobs.runtime.standing.folder import LOG_BYTES, State
from spark_jobs.runtime.standing.keeper import BoundedLog
from tests.fix_keeper import Wishes


def test_a_log_has_no_more_than_two_files_of_its_size(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "log")
    for number in range(100):
        log.write(f"{number:03}".encode() * (LOG_BYTES // 30))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]
    assert all(path.stat().st_size <= LOG_BYTES for path in tmp_path.iterdir())
    assert (tmp_path / "log").read_bytes().endswith(b"099")
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0


def test_what_the_disk_does_not_take_of_a_log_is_dropped(tmp_path: Path) -> None:
    BoundedLog(tmp_path / "nowhere" / "log").write(b"line")
    assert not list(tmp_path.iterdir())


def test_an_old_server_ends_with_its_last_run(monkeypatch: pytest.MonkeyPatch, wish: Wishes) -> None:
    attachment = attach(wish(keep=3600))
    state = attachment.folder.state()
    assert state
    old = State(state.server, state.port, time.time() - keeper.OLDEST - 1, 3600, "", "")
    with subprocess.Popen(["sleep", "60"]) as process:
        event = threading.Event()
        attachment.detach()
        began = time.monotonic()
        keeper._watch(attachment.folder, old, process, event)
        assert time.monotonic() - began < 5
        process.kill()
    assert attachment.folder.state() is None
