"""Standard output and standard error of the command: readers that leave, and output that cannot be written.

Put here: what a failed write means. Not here: what is printed (output.py), or the exit status of work (app.py).

A reader that closes the pipe (``| head -1``) is no failure, and changes nothing of what a verb does: the rest of the
output is discarded, and the exit status is that of the work. A stream of text (``print_pieces``) ends with its reader.
"""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from spark_jobs.errors import StratalogError
from spark_jobs.text.progress import erased


@contextmanager
def writing(stream: IO[Any]) -> Iterator[None]:
    """Context for text on standard output or standard error; it is discarded once the reader has left.

    Raises StratalogError where standard output cannot be written for another reason, such as a full disk.
    """
    try:
        with streaming(stream):
            yield
    except BrokenPipeError:
        if not has_left(stream):
            raise
        discard(stream)


@contextmanager
def streaming(stream: IO[Any]) -> Iterator[None]:
    """Context for text as in ``writing``; raises BrokenPipeError once the reader of the text has left."""
    try:
        with erased():
            yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(stream)
        if stream is sys.stdout:
            raise StratalogError(
                f"standard output cannot be written: {error.strerror}; remove the cause, then repeat the command"
            ) from error


def has_left(stream: IO[Any]) -> bool:
    """True if nobody reads the pipe that a stream is."""
    watched = select.poll()
    watched.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in watched.poll(0))


def discard(stream: IO[Any]) -> None:
    """Send what is buffered, and everything that is written from here on, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
