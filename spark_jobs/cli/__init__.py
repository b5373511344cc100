"""``stratalog``: one function a verb.

Put here: the console script. Not here: verbs, each in the module of its kind; or work: each verb calls what Dagster's
assets call. Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 wrong
use or configuration, 130 interrupted.

This module imports no library: the verbs' own take half a second, in which Ctrl-C has to be a message as well.
"""

import os
import signal

_INTERRUPTED = 130


def main() -> None:
    """The console script, in the main thread.

    While libraries are imported, SIGINT ends the process at once with one line: theirs swallow an exception, or raise
    another in its place, and nothing needs to be cleaned up yet. Where SIGINT is ignored, that stays.
    """
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _exit)
    from spark_jobs.cli.verbs import run_verb

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_verb()


def _exit(*_: object) -> None:
    os.write(2, b"\ninterrupted\n" if os.isatty(2) else b"interrupted\n")  # behind the ^C of a terminal
    os._exit(_INTERRUPTED)
