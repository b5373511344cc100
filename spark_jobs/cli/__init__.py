"""``stratalog``: one function a verb.

Put here: the console script. Not here: verbs, each in the module of its kind; or work: each verb calls what Dagster's
assets call. Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong
use or configuration, 130 interrupted.

Neither this module nor spark_jobs/text/progress.py imports a library: the verbs' own take half a second,
in which Ctrl-C has to be a message as well.
"""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from spark_jobs.text.progress import StatusLine, doing

QUIET = {"-q", "--quiet"}
"""Options of ``stratalog``, and of each verb."""
_INTERRUPTED = 130
_GARBAGE = (50_000, 20, 20)
"""Thresholds of Python's garbage collection: by its own, the objects of imports are looked through a hundred times, a
fifth of all that a light verb takes. What work leaves behind is freed by counts of references, but for cycles."""


def main() -> None:
    """The console script, in the main thread."""
    gc.set_threshold(*_GARBAGE)
    # The collection at the end of the process looks through all modules for what the system frees anyway: a fifth of
    # the time of a light verb. Registered first, this comes last, after all that others do at the end.
    atexit.register(gc.freeze)
    # Pydantic asks every installed package for plugins of its own, a twentieth of a light verb's time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _open_streams()
    is_shown = os.isatty(2) and not QUIET & {*sys.argv} and "_STRATALOG_COMPLETE" not in os.environ
    with StatusLine(sys.stderr) if is_shown else nullcontext():
        _run_command()


def missing_package_message(error: ImportError) -> str:
    return f"the Python package {error.name} is missing ({error}); install Stratalog again: pip install stratalog-*.whl"


def _run_command() -> None:
    """Import the command and run it."""
    try:
        with doing("starting", is_verb=True), ending_at_interrupt():
            from spark_jobs.cli.verbs import run_verb
    except ImportError as error:
        os.write(2, f"{missing_package_message(error)}\n".encode(errors="backslashreplace"))
        sys.exit(2)

    run_verb()


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """Context in which SIGINT ends the process at once with one line, while libraries are imported.

    They swallow an exception, or raise another in its place, and nothing needs to be cleaned up yet. Where SIGINT is
    ignored, or not Python's own, that stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_streams() -> None:
    """Open the standard streams that the caller closed, so that no other file takes their numbers.

    They cannot be used for what they are for: whoever reads standard input, or writes to standard output, gets an
    error. What goes to standard error is lost.
    """
    for name, number, descriptor in (("stdin", 0, os.O_WRONLY), ("stdout", 1, os.O_RDONLY), ("stderr", 2, os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, descriptor)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115 - for the process
            setattr(sys, name, stream)


def _exit(*_: object) -> None:
    os.write(2, b"\ninterrupted\n" if os.isatty(2) else b"interrupted\n")  # after the ^C of a terminal
    os._exit(_INTERRUPTED)
