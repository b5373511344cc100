"""The process that starts the server of a standing session, and ends it.

Put here: its life. Not here: what it is told (attach.py), or the files (folder.py).

It runs in the session's folder and reads its settings from standard input, so that none of them is an argument.
It is PySpark's driver, and Connect a plugin of its session: Spark's own program for a server has each session start a
Python daemon of its own, whatever the settings say (``spark.sql.artifact.isolation.enabled``).
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from spark_jobs.runtime.spark_properties import private_opener, write_properties
from spark_jobs.runtime.standing.folder import LOG_BYTES, SessionFolder, State, Unusable, is_listening

OLDEST = 24 * 3600.0
"""Seconds after which a server ends when no run is attached, however often it is used: so does whatever grows in it."""
_TICK = 0.5
_LOOK = 0.1
_SLOWEST_START = 180
_ENDING = 20
"""Seconds that a server has to remove its files."""
_READ = 1 << 16
_DEATH_SIGNAL = 1
"""Option of prctl(2): PR_SET_PDEATHSIG."""


class BoundedLog:
    """A file that is renamed to ``….1`` when it is full, in the place of the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, piece: bytes) -> None:
        """Add to the file; what a full disk does not take is dropped."""
        with suppress(OSError):
            if self._path.exists() and self._path.stat().st_size + len(piece) > LOG_BYTES:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            with open(self._path, "ab", opener=private_opener) as file:
                file.write(piece)

    def copy(self, source: IO[bytes]) -> None:
        """Add what comes from a pipe, until all its writers have ended."""
        while piece := os.read(source.fileno(), _READ):
            self.write(piece)


def main() -> int:
    """Keep one server. Returns the exit status."""
    folder, task = SessionFolder(Path.cwd()), json.load(sys.stdin)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    os.write(task["lock"], str(os.getpid()).encode())
    os.set_inheritable(task["lock"], False)
    shutil.rmtree(folder.scratch, ignore_errors=True)
    server = None
    try:
        server, port = _start_server(folder, task)
        if _is_ready(folder, server, port, ending):
            folder.path.joinpath("settings").unlink()
            now = time.time()
            state = State(server.pid, port, now, task["keep"], task["code"], task["spark"])
            folder.publish(state, os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"])
            _watch(folder, state, server, ending)
    finally:
        # Nothing of a server stays that ended, whoever ended it.
        if server is not None:
            _end_server(server)
        for name in ("state.json", "token", "settings"):
            folder.path.joinpath(name).unlink(missing_ok=True)
        shutil.rmtree(folder.scratch, ignore_errors=True)
    return 0


def _start_server(folder: SessionFolder, task: Mapping[str, Any]) -> "tuple[subprocess.Popen[bytes], int]":
    """The server's process and the port that it is to listen at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    folder.scratch.mkdir(0o700)
    settings = {
        "spark.local.dir": str(folder.scratch),
        **task["settings"],
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    # The file goes when the server listens.
    command = [*task["submit"], *write_properties(folder.path / "settings", settings)]
    server = subprocess.Popen(
        [*command, "pyspark-shell"],
        stdin=subprocess.PIPE,  # at whose end PySpark's JVM ends
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder.scratch,
        env=os.environ | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(_gateway_file(folder))},
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is one thread yet
    )
    assert server.stdout
    threading.Thread(target=BoundedLog(folder.log).copy, args=(server.stdout,), daemon=True).start()
    return server, port


def _is_ready(folder: SessionFolder, server: "subprocess.Popen[bytes]", port: int, ending: threading.Event) -> bool:
    """True if the server comes to listen. It is asked for by its sockets: at the port somebody else might answer."""
    until = time.monotonic() + _SLOWEST_START
    while not ending.is_set() and server.poll() is None and time.monotonic() < until:
        if _gateway_file(folder).exists():
            _open_session(_gateway_file(folder))
        if is_listening(server.pid, port):
            return True
        ending.wait(_LOOK)
    return False


def _open_session(gateway: Path) -> None:
    """Begin Spark in the JVM, and with it the server. gateway: where the JVM wrote how it is reached."""
    from pyspark.sql import SparkSession

    port, size = struct.unpack_from(">ii", content := gateway.read_bytes())
    gateway.unlink()
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = content[8 : 8 + size].decode()
    SparkSession.builder.getOrCreate()


def _gateway_file(folder: SessionFolder) -> Path:
    return folder.scratch / "gateway"


def _watch(folder: SessionFolder, state: State, server: "subprocess.Popen[bytes]", ending: threading.Event) -> None:
    """Return when the server is to end, or has ended."""
    last = time.monotonic()
    while server.poll() is None and not ending.wait(_TICK):
        # Whoever has the lock attaches or looks; there is a next time.
        with suppress(Unusable), folder.locked(0):
            if folder.runs():
                last = time.monotonic()
            is_old = time.time() - state.began > OLDEST
            if time.monotonic() - last >= (0 if is_old else state.keep):
                folder.withdraw()
                return
            os.utime(folder.path / "keeper", (time.time(), time.time() - (time.monotonic() - last)))


def _end_server(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(_ENDING)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _die_with_parent() -> None:
    """Have this new process killed when the keeper ends without having ended it."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
