"""Rows and transactions of any size in bounded memory."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from subprocess import PIPE
from typing import IO

import pytest

from tests.binlogs import giants

MEASURED = """
import re, sys
from pathlib import Path
from spark_jobs.cli import main
try:
    main()
finally:
    print(int(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10, file=sys.stderr)
"""
"""getrusage would tell of the process that this one was forked from."""


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("verb, lines, limit", [("changes", 2, 800), ("events", 9, 450)])
def test_a_row_of_100_megabytes_in_bounded_memory(verb: str, lines: int, limit: int) -> None:
    """most: MiB of resident memory, of which the program itself takes 270 and 150."""
    # A first process compiles kernels where none did before, and the compiler takes memory too.
    _piped(verb, giants.row(1_000))
    output, resident = _piped(verb, giants.row(100_000_000))
    assert (output.count(b"\n"), resident < limit) == (lines, True), resident
    if verb == "changes":
        assert len(json.loads(output.splitlines()[0])["after"]["body"].encode()) > 99_999_900


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [30_000_000, pytest.param(90_000_000, marks=[pytest.mark.thorough, pytest.mark.processes])]
)
def test_a_transaction_of_any_size_in_bounded_memory(size: int) -> None:
    """Both are larger than what is held back of a transaction together with the program's own 270 MiB."""
    output, resident = _piped("changes", giants.transaction(size), "--table", "shop.none")
    assert (output, resident < 500) == (b"", True), resident


def _piped(verb: str, chunks: Iterator[bytes], *options: str) -> tuple[bytes, int]:
    """What a verb writes about a file on its standard input, and the MiB that it had in memory at most."""
    command = [sys.executable, "-c", MEASURED, verb, "-", *options]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None
        feeder = threading.Thread(target=_feed, args=(process.stdin, chunks))
        feeder.start()
        assert process.stdout is not None
        assert process.stderr is not None
        out, errors = process.stdout.read(), process.stderr.read()
        feeder.join()
    assert process.returncode == 0, errors
    return out, int(errors.splitlines()[-1])


def _feed(pipe: IO[bytes], chunks: Iterator[bytes]) -> None:
    with pipe:
        pipe.writelines(chunks)
