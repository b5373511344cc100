"""Standard error of the JVM that Spark starts, without the warning that every start of it prints.

Put here: what is taken out of a stream of bytes, and the thread that copies it. Not here: what Spark logs
(log4j2.properties).
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Lines that Java prints since Spark asks for a module by an option that cannot be taken back."""
_READ = 1 << 16


class WithoutWarning:
    """Bytes as they come, without the first occurrence of the warning; what may be its beginning waits for the rest."""

    def __init__(self) -> None:
        self._waiting = b""
        self._is_past = False

    def feed(self, piece: bytes) -> bytes:
        """Part of the stream that can be written by now."""
        if self._is_past:
            return piece
        content = self._waiting + piece
        self._waiting = b""
        before, warning, after = content.partition(INCUBATOR)
        if warning:
            self._is_past = True
            return before + after
        overlap = next((size for size in range(min(len(INCUBATOR), len(content)), 0, -1) if _ends(content, size)), 0)
        self._waiting = content[len(content) - overlap :]
        return content[: len(content) - overlap]

    def rest(self) -> bytes:
        """Rest that waited, at the stream's end."""
        return self._waiting


def _ends(text: bytes, size: int) -> bool:
    return text.endswith(INCUBATOR[:size])


@contextmanager
def errors_copied() -> Iterator[None]:
    """Standard error of processes started inside is copied to this process's own, until they all have ended.

    Of this process inside too, so that its lines keep their order.
    """
    errors = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_copy_output, args=(reading, errors), name="stderr of the JVM", daemon=True).start()
    original = os.dup(errors)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def _copy_output(source: int, target: int) -> None:
    stream = WithoutWarning()
    while piece := os.read(source, _READ):
        _write_all(target, stream.feed(piece))
    _write_all(target, stream.rest())
    os.close(source)
    os.close(target)


def _write_all(target: int, piece: bytes) -> None:
    with suppress(OSError):  # nobody reads any more; the JVM must not wait for that
        while piece:
            piece = piece[os.write(target, piece) :]
