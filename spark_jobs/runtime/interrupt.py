"""Interrupts (Ctrl-C, or *Terminate* in Dagster) while Spark works: its jobs end at once, and without a message.

Put here: the signal's handler. Not here: what is cleaned up then; ``with`` blocks do that.

PySpark's own handler calls the JVM from within a call to it, which fails with pages of traces, and jobs that other
threads begin afterwards are not stopped. Here a thread of its own stops whatever runs until the ``with`` block is left.
"""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from spark_jobs.runtime import connect

_EVERY = 0.3
"""Seconds between two calls to cancel what has begun since."""
_PATIENCE = 3
"""Seconds that a JVM has to fall silent before it is interrupted all the same."""
_signalled = threading.Event()
"""True if the block that is open was interrupted."""
_SPEAKING = (None, "py4j.clientserver")
"""Loggers to which py4j writes pages of traces when a call of it is interrupted, the root logger among them."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Context in which SIGINT raises KeyboardInterrupt in the main thread, and Spark's jobs are cancelled.

    So does SIGTERM where its handler is that of SIGINT, as in the processes of Dagster's runs. The jobs are those of
    all sessions of this process. Off the main thread signals do not arrive, and nothing is changed. The block ends by
    KeyboardInterrupt whatever became of the one that the signal raised: a call that is interrupted may raise what its
    clearing up met in its stead, and Python drops what is raised in a finalizer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()
    _signalled.clear()

    # Py4J logs a traceback for every call that the cancelling ends; other loggers stay.
    def interrupted(*_: object) -> None:
        for name in _SPEAKING:
            logging.getLogger(name).addFilter(_is_not_from_py4j)
        _signalled.set()
        silent = threading.Event()
        threading.Thread(target=_cancel, args=(silent, ended), daemon=True).start()
        silent.wait(_PATIENCE)
        raise KeyboardInterrupt

    # A call may end with an error of its own instead of the interrupt: the flag tells that it was one.
    before = signal.getsignal(signal.SIGINT)
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is before]
    for number in numbers:
        signal.signal(number, interrupted)
    try:
        yield
        require_not_interrupted()
    except Exception as error:
        require_not_interrupted(error)
        raise
    finally:
        ended.set()
        _signalled.clear()
        for name in _SPEAKING:
            logging.getLogger(name).removeFilter(_is_not_from_py4j)
        for number in numbers:
            signal.signal(number, before)


def require_not_interrupted(error: Exception | None = None) -> None:
    """Raise KeyboardInterrupt where a signal is the cause of an error that the caller handles inside the block."""
    if _signalled.is_set():
        raise KeyboardInterrupt from error


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _cancel(silent: threading.Event, ended: threading.Event) -> None:
    """Cancel what runs until ``ended`` is set; also the jobs of a session that another thread has yet to start."""
    from py4j.protocol import Py4JError

    is_quiet = False
    try:
        while True:
            context = _java_context()
            if context is not None and not is_quiet:
                context.setLogLevel("OFF")
                is_quiet = True
            silent.set()
            connect.interrupt_all()
            if context is not None:
                context.sc().cancelAllJobs()
            if ended.wait(_EVERY):
                return
    except (Py4JError, OSError):  # the JVM is gone already, and its jobs with it
        return


def _java_context() -> Any:
    """Spark's context in this process's JVM, if there is one that nobody has stopped; loads nothing of PySpark."""
    # A package that is still being imported has no such name yet, and no context.
    context_class = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    context = context_class and context_class._active_spark_context  # noqa: SLF001 - nothing public finds it
    return getattr(context, "_jsc", None)  # the main thread may be starting or stopping the context


@contextmanager
def dropping(*pools: ThreadPoolExecutor) -> Iterator[None]:
    """Drop what the open pools have not begun yet, where an exception leaves the ``with`` block.

    Without it a pool is left after all that it was given, so that an interrupt waits for the work of every table.
    """
    try:
        yield
    except BaseException:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        raise


@contextmanager
def own_handler_kept() -> Iterator[None]:
    """Context in which PySpark may start a session, which takes SIGINT for itself: it is taken back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
