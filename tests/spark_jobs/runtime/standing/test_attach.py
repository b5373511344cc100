import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.runtime.standing import attach as attaching
from spark_jobs.runtime.standing.attach import Attachment, attach
from spark_jobs.runtime.standing.folder import State, Unusable, is_listening, session_folders
from tests.fix_keeper import Wishes, runs_of, stop_process, wait_until


def server_of(attachment: Attachment) -> int:
    state = attachment.folder.state()
    assert state
    return state.server


def has_ended(pid: int) -> bool:
    """True if a process is gone, or is one of which nobody has asked how it ended."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_second_run_attaches_to_the_server_of_the_first(wish: Wishes) -> None:
    first, second = attach(wish()), attach(wish())
    assert (first.port, first.token, first.folder) == (second.port, second.token, second.folder)
    assert is_listening(server_of(first), first.port)
    assert runs_of(first.folder) == [os.getpid()] * 2
    second.detach()
    first.detach()
    assert runs_of(first.folder) == []


def test_runs_at_once_start_one_server(wish: Wishes) -> None:
    with ThreadPoolExecutor(8) as pool:
        attachments = list(pool.map(lambda _: attach(wish()), range(8)))
    assert len({server_of(attachment) for attachment in attachments}) == 1
    assert len(session_folders()) == 1


def test_a_server_ends_when_it_is_unused_for_long_enough_and_not_before(wish: Wishes) -> None:
    attachment = attach(wish(keep=1))
    server = server_of(attachment)
    time.sleep(2)
    assert not has_ended(server)
    attachment.detach()
    wait_until(lambda: has_ended(server) and not session_folders())
    assert not (attachment.folder.path / "token").exists()


def test_a_killed_server_costs_a_new_start(wish: Wishes) -> None:
    first = attach(wish())
    server = server_of(first)
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: has_ended(server))
    second = attach(wish())
    assert second.token != first.token


def test_a_server_ends_with_its_keeper(wish: Wishes) -> None:
    first = attach(wish())
    server, keeper = server_of(first), first.folder.keeper()
    assert keeper
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: has_ended(server))
    assert server_of(attach(wish())) != server


def test_a_server_that_does_not_answer_is_replaced(wish: Wishes) -> None:
    first = attach(wish())
    server = server_of(first)
    stop_process(server)
    first.discard()
    assert has_ended(server)
    assert server_of(attach(wish())) != server


def test_a_keeper_that_does_not_continue_is_replaced(wish: Wishes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching, "_ENDING", 0.1)
    first = attach(wish())
    server, keeper = server_of(first), first.folder.keeper()
    assert keeper
    stop_process(keeper)
    stop_process(server)
    first.discard()
    # The keeper's lock is free a moment before the kernel has ended the processes that were killed with it.
    wait_until(lambda: has_ended(server) and has_ended(keeper))


def test_a_server_that_other_runs_have_is_not_ended(wish: Wishes) -> None:
    first, second = attach(wish()), attach(wish())
    with pytest.raises(Unusable, match=f"other runs are attached to it .processes {os.getpid()}"):
        second.discard()
    assert not has_ended(server_of(first))


def test_the_run_of_a_killed_process_is_not_attached_any_more(wish: Wishes) -> None:
    attachment = attach(wish())
    program = "import sys, time; from pathlib import Path; from spark_jobs.runtime.standing.folder import *\n"
    program += "folder = SessionFolder(Path(sys.argv[1])); held = folder.attach(); print('attached'); time.sleep(60)"
    command = [sys.executable, "-uc", program, str(attachment.folder.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "attached\n"
        assert sorted(runs_of(attachment.folder)) == sorted([os.getpid(), process.pid])
        process.kill()
    assert runs_of(attachment.folder) == [os.getpid()]


def test_a_stale_state_is_not_believed(wish: Wishes) -> None:
    """A keeper that was killed left it, and its server's process number and port are others' now."""
    folder = attach(wish()).folder
    folder.end(0)
    folder.publish(State(os.getpid(), 1, time.time(), 60, "code", "4.2.0"), "token")
    attachment = attach(wish())
    assert server_of(attachment) != os.getpid()
    assert attachment.token != "token"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"server": 1}'])
def test_a_damaged_state_is_none(wish: Wishes, text: str) -> None:
    folder = attach(wish()).folder
    (folder.path / "state.json").write_text(text)
    assert folder.state() is None


def test_a_server_that_does_not_start_is_not_started_again(wish: Wishes) -> None:
    with pytest.raises(Unusable, match=r"its server ended instead of listening; (.*)/log says why") as raised:
        attach(wish(start="fails"))
    log = Path(str(raised.value).rpartition("; ")[2].removesuffix(" says why"))
    assert log.read_text().count("it does not start") == 1


@pytest.mark.parametrize(
    "name, is_compared",
    [
        ("AWS_SECRET_ACCESS_KEY", True),
        ("STORE_KEY", True),
        ("PYTHONPATH", True),
        ("LC_ALL", True),
        ("DAGSTER_RUN_ID", False),
        ("STRATALOG_CONFIG", False),
        ("PATH_OF_MINE", False),
    ],
)
def test_a_run_with_other_variables_for_tasks_gets_a_server_of_its_own(
    wish: Wishes, monkeypatch: pytest.MonkeyPatch, name: str, is_compared: bool
) -> None:
    monkeypatch.setenv(name, "one")
    first = attach(wish(secrets=("STORE_KEY",)))
    monkeypatch.setenv(name, "two")
    second = attach(wish(secrets=("STORE_KEY",)))
    assert (first.folder != second.folder) == is_compared
    names = first.folder.log.read_text().splitlines()[0].split()
    assert (name in names) == is_compared


def test_another_setting_keep_version_or_mask_is_another_server(wish: Wishes, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {wish().key(), wish(memory="2g").key(), wish(keep=61).key()}
    monkeypatch.setattr(attaching, "code_version", lambda: "0.2.0 (code 000000000000)")
    keys.add(wish().key())
    before = os.umask(0o002)
    keys.add(wish().key())
    os.umask(before)
    assert len(keys) == 5


def test_secrets_are_in_no_argument_and_no_file_that_stays(wish: Wishes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", "s3cret-of-env")
    attachment = attach(wish(secrets=("STORE_KEY",), key="s3cret-of-conf"))
    folder, texts = attachment.folder, []
    assert "secret s3cret-of-env" in folder.log.read_text()  # which this test's program prints: the server has it
    for path in folder.path.rglob("*"):
        if path.is_file() and path != folder.log:
            texts.append(path.read_text())
            assert path.stat().st_mode & 0o077 == 0, path
    texts += [Path(f"/proc/{pid}/cmdline").read_text() for pid in (server_of(attachment), folder.keeper())]
    assert not [text for text in texts if "s3cret" in text]
    assert [text for text in texts if attachment.token in text] == [(folder.path / "token").read_text()]


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_reach_is_refused(wish: Wishes, tmp_path: Path, mode: int) -> None:
    folder = tmp_path / f"stratalog-{os.getuid()}"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(Unusable, match=f"has mode {mode:o}, so that other users reach it"):
        attach(wish())
    folder.chmod(0o700)


def test_a_link_in_the_place_of_the_folder_is_refused(wish: Wishes, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder = tmp_path / f"stratalog-{os.getuid()}"
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unusable, match="belongs to another user or is a link"):
        attach(wish())
    folder.unlink()


@pytest.mark.skipif(os.getuid() != 0, reason="another user's files are made by root alone")
@pytest.mark.parametrize("name", ["", "token", "state.json"])
def test_what_another_user_wrote_is_refused(wish: Wishes, name: str) -> None:
    attachment = attach(wish())
    path = attachment.folder.path / name
    os.chown(path, 65534, 65534)
    with pytest.raises(Unusable, match="belongs to another user"):
        attach(wish())
    os.chown(path, os.getuid(), os.getgid())


def test_a_token_that_others_can_read_is_refused(wish: Wishes) -> None:
    attachment = attach(wish())
    (attachment.folder.path / "token").chmod(0o644)
    with pytest.raises(Unusable, match="has mode 644"):
        attach(wish())


def test_a_port_of_another_process_is_not_believed(wish: Wishes) -> None:
    attachment = attach(wish())
    assert not is_listening(os.getpid(), attachment.port)
    assert not is_listening(server_of(attachment), attachment.port + 1)


def test_a_lock_that_nobody_gives_back_is_waited_for_in_vain(wish: Wishes, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = attach(wish()).folder
    monkeypatch.setattr(attaching, "_PATIENCE", 0.3)
    with folder.locked(time.monotonic() + 1), pytest.raises(Unusable, match="a process that does not continue has "):
        attach(wish())


@pytest.mark.skipif(os.getuid() != 0, reason="root alone mounts a file system")
def test_a_full_disk_is_a_reason_and_no_error(wish: Wishes, tmp_path: Path) -> None:
    folder = tmp_path / f"stratalog-{os.getuid()}"
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        (folder / "filling").write_bytes(bytes(8 << 10))
        with pytest.raises(Unusable, match=r"No space left on device|ended instead of listening"):
            attach(wish())
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_files_of_a_session_are_those_that_the_folder_names(wish: Wishes) -> None:
    names = {path.name for path in attach(wish()).folder.path.iterdir()}
    assert names == {"lock", "keeper", "state.json", "token", "runs", "log", "scratch"}
