"""Sessions of pytest that share the time in which libraries are imported: ``python -m tests.mutants.session``.

Reads a line of JSON for each session, forks a process that has the libraries already and the project not yet, and
answers with a line of JSON. A session ends with its first failure.

Put here: one session. Not here: which tests, or what is changed before (judging.py).
"""

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_LIBRARIES = (
    *("numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet", "deltalake", "numba", "yaml", "pymysql"),
    *("pyspark.sql", "obstore", "pydantic", "cryptography.fernet"),
)
_NO_TESTS = (0, 5)
"""Exit statuses of pytest: all passed; there are none."""
_OUTPUT = 4_000
"""Characters of a session's output that are kept."""


class _FirstFailure:
    """Notes in a file the test that runs, and the one that failed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write_note(running=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write_note(running=report.nodeid, failed=report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write_note(running=report.nodeid, failed=report.nodeid)

    def _write_note(self, **noted: str) -> None:
        self._file.write_text(json.dumps(noted), encoding="utf-8")


def run(arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """A session in a process of its own. Returns ``status``, None where time ended it; ``failed``, a test or None;
    ``running``, the last test that began; ``output``.
    """
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "note"
        note.write_text("{}", encoding="utf-8")
        process = os.fork()
        if process == 0:
            _play(arguments, note, folder)
        status = _wait(process, seconds)
        with contextlib.suppress(ProcessLookupError):  # servers and JVMs of a session that was ended
            os.killpg(process, signal.SIGKILL)
        output = Path(folder, "output").read_text(encoding="utf-8", errors="replace")[-_OUTPUT:]
        noted: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
        return {"status": status, "failed": None, "running": None, "output": output} | noted


def _play(arguments: Sequence[str], note: Path, folder: str) -> None:
    """Runs the session in this process, and ends it."""
    status = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(f"{folder}/output", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        status = int(pytest.main([*arguments], plugins=[_FirstFailure(note)]))
    except BaseException:  # noqa: BLE001 - this process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if status in _NO_TESTS else 1)


def _wait(process: int, seconds: float) -> int | None:
    """The exit status; None where the time was over before."""
    handle = os.pidfd_open(process)
    try:
        if select.select([handle], [], [], seconds)[0]:
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return None
    finally:
        os.close(handle)


def main() -> None:
    """Answers lines until there are no more."""
    for library in _LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        asked, began = json.loads(line), time.monotonic()
        answer = run(asked["arguments"], asked["seconds"])
        sys.stdout.write(f"{json.dumps(answer | {'seconds': round(time.monotonic() - began, 1)})}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
