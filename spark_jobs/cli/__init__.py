"""``stratalog``: one function a verb.

Put here: the console script. Not here: verbs, each in the module of its kind; or work: each verb calls what Dagster's
assets call. Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong
use or configuration, 130 interrupted.

Neither this module nor spark_jobs/text/progress.py imports a library: the verbs' own take half a second,
in which Ctrl-C has to be a message as well.
"""

import os
import signal
import sys
from contextlib import nullcontext

from spark_jobs.text.progress import StatusLine, doing

_INTERRUPTED = 130


def main() -> None:
    """The console script, in the main thread.

    While libraries are imported, SIGINT ends the process at once with one line: theirs swallow an exception, or raise
    another in its place, and nothing needs to be cleaned up yet. Where SIGINT is ignored, that stays.
    """
    _open_streams()
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _exit)
    is_shown = os.isatty(2) and not {"-q", "--quiet"} & {*sys.argv} and "_STRATALOG_COMPLETE" not in os.environ
    with StatusLine(sys.stderr) if is_shown else nullcontext():
        _run(is_ours=is_ours)


def _run(*, is_ours: bool) -> None:
    """Imports the verbs and runs one. is_ours: whether SIGINT is to be an exception from then on."""
    try:
        with doing("starting", is_verb=True):
            from spark_jobs.cli.verbs import run_verb
    except ImportError as error:
        text = f"the Python package {error.name} is missing ({error}); install Stratalog again: pip install stratalog\n"
        os.write(2, text.encode(errors="backslashreplace"))
        sys.exit(2)

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_verb()


def _open_streams() -> None:
    """Opens the standard streams that the caller closed, so that no other file takes their numbers.

    They cannot be used for what they are for: whoever reads standard input, or writes to standard output, gets an
    error. What goes to standard error is lost.
    """
    for name, number, way in (("stdin", 0, os.O_WRONLY), ("stdout", 1, os.O_RDONLY), ("stderr", 2, os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, way)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115 - for the process
            setattr(sys, name, stream)


def _exit(*_: object) -> None:
    os.write(2, b"\ninterrupted\n" if os.isatty(2) else b"interrupted\n")  # after the ^C of a terminal
    os._exit(_INTERRUPTED)
