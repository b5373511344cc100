"""Buffer of slices of prepared XA transactions, until the log commits or rolls them back.

They stay in memory up to a bound and in one temporary file beyond it, which is emptied whenever none is left.

Put here: keeping and giving back. Not here: what a slice decides (binlog/events/xa.py), or what is done with its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Self

import pyarrow as pa

_IN_MEMORY = 16 << 20
"""Bytes of slices, of all transactions together."""


@dataclass(slots=True)
class _WaitingTransaction:
    """Begin of a transaction, ``file:offset``, and the offsets of its slices in the temporary file."""

    location: str
    spans: list[tuple[int, int]] = field(default_factory=list)


class PreparedBuffer:
    """Open XA transactions by xid. One is being read at a time, and has its xid when it is prepared."""

    def __init__(self) -> None:
        self._spool = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - this class closes it
        self._end = 0
        self._reading: _WaitingTransaction | None = None
        self._waiting: dict[str, _WaitingTransaction] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def add(self, part: pa.RecordBatch, location: str) -> None:
        """Keep one more slice of the transaction that is being read; ``location``: where that begins."""
        self._reading = self._reading or _WaitingTransaction(location)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as stream:
            stream.write_batch(part)
        buffer = sink.getvalue()
        self._spool.seek(self._end)
        self._spool.write(buffer)
        self._reading.spans.append((self._end, buffer.size))
        self._end += buffer.size

    def prepare(self, xid: str) -> str | None:
        """End the transaction that is being read. Returns the place of another of the same xid that it takes over."""
        assert self._reading is not None
        before = self._waiting.pop(xid, None)
        self._waiting[xid], self._reading = self._reading, None
        return before.location if before else None

    def take(self, xid: str) -> Iterator[pa.RecordBatch] | None:
        """The slices of a prepared transaction, in order; None where none of that xid is known."""
        spans = self._waiting.pop(xid, None)
        return self._slices(spans) if spans else None

    def _slices(self, entry: _WaitingTransaction) -> Iterator[pa.RecordBatch]:
        for start, size in entry.spans:
            self._spool.seek(start)
            with pa.ipc.open_stream(self._spool.read(size)) as stream:
                yield from stream
        self._forget()

    def drop(self, xid: str) -> bool:
        """Forget a transaction that was rolled back; whether it was known."""
        is_known = self._waiting.pop(xid, None) is not None
        self._forget()
        return is_known

    def _forget(self) -> None:
        if not self._waiting and not self._reading:
            self._spool.seek(0)
            self._spool.truncate()
            self._end = 0

    def waiting(self) -> list[tuple[str, str]]:
        """(xid, where it begins) of every transaction that nothing has decided about, in order of preparation."""
        return [(xid, entry.location) for xid, entry in self._waiting.items()]
