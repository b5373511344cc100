"""A password that a program prints: Vault's, a secret manager's, or a cloud's own command line.

Put here: running it. Not here: which (config/servers.py).
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath

from spark_jobs.identity.errors import CredentialsError

LONGEST = 65536
"""Bytes that a password has at most; tokens have a few thousand."""


def first_line(words: Sequence[str], seconds: float) -> bytes:
    """The first line of a program's output, without its end. Nothing that it writes is kept or shown.

    words: program and arguments; no shell reads them. Raises CredentialsError, with the program's name alone.
    """
    name = PurePath(words[0]).name
    label = f"password_command: {name}"
    end = time.monotonic() + seconds
    # The program runs in a session of its own, so that everything that it starts can be ended.
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "an argument has a NUL"
        raise CredentialsError(f"{label} cannot be run: {reason}") from None
    # It is read for as long as a connection may take.
    try:
        output = _output(process, end)
        status = process.wait(max(end - time.monotonic(), 0.001))
    except subprocess.TimeoutExpired:
        raise CredentialsError(
            f"{label} did not end within {seconds:g} s; see what it waits for, or raise connect_timeout", True
        ) from None
    finally:
        # What it started goes with it; the group is gone where all of them ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout
        process.stdout.close()
        process.wait()
    # The first line has to be a password that a server can get.
    if status:
        raise CredentialsError(f"{label} ended with exit status {status}; run it by hand as the same user", True)
    line = output.partition(b"\n")[0].removesuffix(b"\r")
    if not line:
        raise CredentialsError(f"{label} printed no password: the first line of its output is empty")
    if len(line) > LONGEST or b"\0" in line:
        raise CredentialsError(f"{label} printed what is no password: a NUL, or more than {LONGEST} bytes in a line")
    return line


def _output(process: "subprocess.Popen[bytes]", end: float) -> bytes:
    """The beginning of the output, at least its first line; the rest is read and dropped. Raises TimeoutExpired."""
    assert process.stdout
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            remaining = end - time.monotonic()
            if remaining <= 0 or not selector.select(remaining):
                raise subprocess.TimeoutExpired("", 0)
            piece = os.read(process.stdout.fileno(), LONGEST)
            if not piece:
                return output
            if b"\n" not in output and len(output) <= LONGEST:
                output += piece
