"""``stratalog``: one function a verb.

Put here: the console script. Not here: verbs, each in the module of its kind; or work: each verb calls what Dagster's
assets call. Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong
use or configuration, 130 interrupted.

This module imports no library: the verbs' own take half a second, in which Ctrl-C has to be a message as well.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_INTERRUPTED = 130


def main() -> None:
    """The console script."""
    with _exits_when_interrupted():
        from spark_jobs.cli.verbs import run_verb
    run_verb()


@contextmanager
def _exits_when_interrupted() -> Iterator[None]:
    """Inside, SIGINT ends the process at once, with one line.

    For imports: libraries swallow an exception that is raised within theirs, or raise another in its place, and nothing
    needs to be cleaned up yet. Where SIGINT is ignored or handled by somebody else, that stays.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os.write(2, b"\ninterrupted\n" if os.isatty(2) else b"interrupted\n")  # behind the ^C of a terminal
    os._exit(_INTERRUPTED)
