"""Standard error of the JVM that Spark starts, without the warning that every start of it prints.

Put here: what is taken out of a stream of bytes, and the thread that copies it. Not here: what Spark logs
(log4j2.properties).
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""What Java prints since Spark asks for a module by an option that cannot be taken back."""
_READ = 1 << 16


class WithoutWarning:
    """Bytes as they come, without the first occurrence of the warning; what may be its beginning waits for the rest."""

    def __init__(self) -> None:
        self._waiting = b""
        self._is_past = False

    def feed(self, more: bytes) -> bytes:
        if self._is_past:
            return more
        known = self._waiting + more
        self._waiting = b""
        before, warning, after = known.partition(INCUBATOR)
        if warning:
            self._is_past = True
            return before + after
        kept = next((size for size in range(min(len(INCUBATOR), len(known)), 0, -1) if _ends(known, size)), 0)
        self._waiting = known[len(known) - kept :]
        return known[: len(known) - kept]

    def rest(self) -> bytes:
        """What waited, at the stream's end."""
        return self._waiting


def _ends(text: bytes, size: int) -> bool:
    return text.endswith(INCUBATOR[:size])


@contextmanager
def errors_copied() -> Iterator[None]:
    """Standard error of processes started inside is copied to this process's own, until they all have ended.

    Of this process inside too, so that its lines keep their place.
    """
    own = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_copy, args=(reading, own), name="stderr of the JVM", daemon=True).start()
    kept = os.dup(own)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _copy(reading: int, own: int) -> None:
    stream = WithoutWarning()
    while piece := os.read(reading, _READ):
        _write(own, stream.feed(piece))
    _write(own, stream.rest())
    os.close(reading)
    os.close(own)


def _write(own: int, piece: bytes) -> None:
    with suppress(OSError):  # nobody reads any more; the JVM must not wait for that
        while piece:
            piece = piece[os.write(own, piece) :]
