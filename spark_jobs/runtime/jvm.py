"""The JVM of this process's Spark session: it is started here, ends before the process does, and its end is noticed.

Put here: the JVM as a process. Not here: Spark's settings (spark_session.py), or what Spark raises (engine_errors.py).

PySpark attaches to a JVM that two variables of the environment name. Where it starts one itself, the JVM writes the
port that it listens on into a folder. An interrupt in the seconds before that removes the folder, the JVM fails to
write, and it never ends: the thread that would notice the end of this process is gone, and the listening one is not.
"""

import atexit
import os
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spark_jobs.errors import JvmEnded, StratalogError
from spark_jobs.runtime.spark_properties import write_properties

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_IGNORING_INTERRUPTS = ("/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""A terminal sends Ctrl-C to the JVM too; what is to end with it is decided here."""
_PATIENCE = 60
"""Seconds that the JVM has to remove its files and end; that of class_data_sharing.py writes an archive of classes."""
_EVERY = 0.05
_DYING = 5
"""Seconds from the break of a connection to the JVM's end."""
_ENDED = (
    "Spark's JVM ended in the middle of its work: killed, or out of memory (spark: conf: spark.driver.memory); its "
    "output above has the reason. Every table is at its last commit; run it again"
)

_jvm: subprocess.Popen[bytes] | None = None


@contextmanager
def attached(confs: dict[str, str]) -> Iterator[None]:
    """Context in which PySpark attaches to this process's JVM, which is started where there is none.

    confs: settings that Spark reads before it begins.
    Raises RuntimeError where the JVM ends instead of listening.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or _PORT in os.environ:  # noqa: SLF001 - nothing public says whether there is one
        yield
        return
    port, secret = _start_jvm(confs)
    os.environ[_PORT], os.environ[_SECRET] = str(port), secret
    try:
        yield
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def process() -> subprocess.Popen[bytes] | None:
    """The JVM's process, ended or not; None where none was started here."""
    return _jvm


def require_alive() -> None:
    """Check that the JVM of this process has not ended: its session would be useless. Raises JvmEnded."""
    if _jvm is not None and _jvm.poll() is not None:
        raise JvmEnded(_ENDED)


def ended_by(error: Exception) -> JvmEnded | None:
    """Error that an error means which comes of the JVM's end; None for others.

    A connection breaks before the process is gone, so that is waited for.
    """
    if _jvm is None or isinstance(error, StratalogError):
        return None
    from py4j.protocol import Py4JError, Py4JJavaError

    if isinstance(error, (Py4JError, ConnectionError)) and not isinstance(error, Py4JJavaError):  # which is an answer
        with suppress(subprocess.TimeoutExpired):
            _jvm.wait(_DYING)
    return JvmEnded(_ENDED) if _jvm.poll() is not None else None


def _start_jvm(confs: dict[str, str]) -> tuple[int, str]:
    """Start the JVM. Returns the port it listens on, and the secret of its connections."""
    from pyspark.find_spark_home import _find_spark_home

    global _jvm  # noqa: PLW0603 - one of a process, as PySpark has one
    # Spark's own launcher, with signals left to this process: Ctrl-C must not end the JVM in the middle of a commit.
    rest = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    with tempfile.TemporaryDirectory() as folder:
        listening, options = Path(folder, "port"), write_properties(Path(folder, "settings"), confs)
        command = [*_IGNORING_INTERRUPTS, f"{_find_spark_home()}/bin/spark-submit", *options, *rest]
        environment = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(listening)}
        # The JVM writes its port to a file. Whatever interrupts that leaves no process behind.
        try:
            with _interrupted_afterwards():
                _jvm = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
                atexit.register(_end_jvm)
            _wait_for(listening, _jvm)
        except BaseException:
            _kill()
            raise
        port, size = struct.unpack_from(">ii", content := listening.read_bytes())
    return port, content[8 : 8 + size].decode()


def _wait_for(listening: Path, process: subprocess.Popen[bytes]) -> None:
    while not listening.exists():
        if process.poll() is not None:
            raise RuntimeError("the JVM ended before it listened; its output above has the reason")
        time.sleep(_EVERY)


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """SIGINT waits for the end of the ``with`` block: an interrupt inside Popen leaves a process that nobody knows."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    interrupt = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupt.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupt.is_set():
        signal.raise_signal(signal.SIGINT)


def _end_jvm() -> None:
    """End the JVM by the end of its standard input, so that it removes its files; at an interrupt at once.

    A session that nobody has stopped is stopped before: a thread of PySpark would print a trace of its lost connection.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    if _jvm is None or _jvm.poll() is not None:
        return
    try:
        context = SparkContext._active_spark_context  # noqa: SLF001 - nothing public finds it without making one
        if context is not None:
            with suppress(Py4JError, ConnectionError):  # the JVM ends by itself, meanwhile
                context.stop()
        assert _jvm.stdin
        _jvm.stdin.close()
        _jvm.wait(_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        _kill()


def _kill() -> None:
    if _jvm is not None:
        _jvm.kill()
        _jvm.wait()
