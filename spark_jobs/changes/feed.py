"""Row changes of binlog files as JSON lines, in the log's order.

Put here: which changes there are, and their lines. Not here: those of bronze (bronze_feed.py), decoding (binlog/),
values as text (json_encoding.py), keeping what is prepared (xa_buffer.py). One slice is in memory at a time, and of its
values as text only a portion.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain

import pyarrow as pa

from spark_jobs.binlog import Slicer, TableDefinition, TableName, XaStep, read_session, xa_step
from spark_jobs.changes.json_encoding import bytes_at
from spark_jobs.changes.lines import BEGIN_BYTES, CompleteDefinition, JsonChanges, Output, TableFilter
from spark_jobs.changes.table_definitions import FollowedDefinitions
from spark_jobs.changes.xa_buffer import PreparedBuffer
from spark_jobs.ddl.classify import classify
from spark_jobs.errors import Truncated, Unsupported

logger = logging.getLogger(__name__)


def changes_of_files(
    files: Iterable[tuple[str, Iterator[bytes]]],
    is_wanted: TableFilter,
    complete: CompleteDefinition | None = None,
    output: Output | None = None,
    dump: Sequence[TableDefinition] = (),
) -> Iterator[str]:
    """The changes in binlog files, given by name and chunks of bytes: JSON lines, long ones in several pieces.

    complete: adds what the log does not tell of tables; without it, statements of the files and a schema dump do.
    Rows of XA transactions come when the log commits them. What is still prepared at the end is warned of by name.
    Raises DecodeError where a file is damaged or cut, after all that stands before.
    """
    redacted: dict[str, int] = {}
    followed = FollowedDefinitions(dump)
    with PreparedBuffer() as prepared:
        for file, chunks in files:
            encoder = JsonChanges(None, is_wanted, complete or followed.complete, prepared=True, output=output)
            reader = _File(file, encoder, prepared, followed)
            yield from reader.read(chunks)
            redacted |= {file: reader.redacted} if reader.redacted else {}
        for file, count in redacted.items():
            logger.warning("%s: %d events were redacted when the log was extracted, and are missing here", file, count)
        for xid, location in prepared.waiting():
            logger.warning(
                "%s: rows of XA transaction %s are missing: it is prepared, and no file given says whether it was "
                "committed; give the later files too", location, xid,
            )  # fmt: skip


class _File:
    """One file on its way to JSON lines."""

    def __init__(
        self, file: str, encoder: JsonChanges, prepared: PreparedBuffer, followed: FollowedDefinitions
    ) -> None:
        self._file, self._encoder, self._prepared, self._followed = file, encoder, prepared, followed
        self._part_of: int | None = None
        """Position where the XA transaction begins that the last slice was a part of."""
        self.redacted = 0
        """Events whose content was left out when the log was extracted."""
        self._shown_to = 0
        """Offset after the last slice whose rows were written."""

    def read(self, chunks: Iterator[bytes]) -> Iterator[str]:
        slicer = Slicer(self._file, 0, None)
        for chunk in chunks:
            for batch in slicer.feed(chunk):
                yield from self._batch(batch)
        for batch in slicer.finish():
            yield from self._batch(batch)
        if cut := slicer.cut():
            note = "; rows of it were written already" if self._shown_to > slicer.complete else ""
            raise Truncated(cut + note)

    def _batch(self, batch: pa.RecordBatch) -> Iterator[str]:
        self.redacted += sum(event["events"] for event in batch.column("redacted").to_pylist() if event)
        kinds, starts = batch.column("kind").to_pylist(), batch.column("transaction_start").to_pylist()
        for at, (kind, start) in enumerate(zip(kinds, starts, strict=True)):
            # A slice a step: what XA statements do to the rows that wait decides whether its rows are written.
            part = batch.slice(at, 1)
            step = None
            if kind == "statement":
                begin, context = (part.column(name)[0].as_py() for name in ("start", "context"))
                payload = bytes_at(part.column("payload"), 0)
                step = xa_step(self._file, begin, context, payload, start, inside=start == self._part_of)
            # Lines that are out cannot be taken back.
            if step and step.kind == "undone":
                raise Unsupported(
                    f"{self._file}:{start}: this transaction has a ROLLBACK past rows of it, and which stay is not "
                    "logged; those before it were written already"
                )
            if step:
                yield from self._xa(step, part, start)
                continue
            if kind == "statement":
                self._follow(part)
            if kind != "control":
                yield from self._lines(self._encoder, part)
                self._shown_to = part.column("stop")[0].as_py()

    def _lines(self, encoder: JsonChanges, part: pa.RecordBatch, committed: datetime | None = None) -> Iterator[str]:
        for line in encoder.lines(part, committed):
            yield from line.pieces

    def _xa(self, step: XaStep, part: pa.RecordBatch, start: int) -> Iterator[str]:
        location = f"{self._file}:{start}"
        self._part_of = start if step.kind == "part" else None
        if step.kind in ("part", "prepared", "at once"):
            self._prepared.add(part, location)
        if step.xid is None:
            return
        if step.kind in ("prepared", "at once"):
            earlier = self._prepared.prepare(step.xid)
            if earlier:
                logger.warning("%s: rows of XA transaction %s are missing: no file given ends it", earlier, step.xid)
        if step.kind in ("committed", "at once"):
            yield from self._release(step.xid, location, part.column("committed_at")[0].as_py())
        if step.kind == "rolled back":
            self._prepared.drop(step.xid)

    def _release(self, xid: str, location: str, committed: datetime) -> Iterator[str]:
        parts = self._prepared.take(xid)
        if parts is None:
            logger.warning("%s: XA transaction %s is committed, but no file given has its rows", location, xid)
            return
        encoders: dict[str, JsonChanges] = {}
        for part in parts:
            file = part.column("file")[0].as_py()
            encoders.setdefault(file, self._encoder.for_another_file())
            yield from self._lines(encoders[file], part, committed)
        for line in chain.from_iterable(encoder.rest() for encoder in (*encoders.values(), self._encoder)):
            yield from line.pieces

    def _follow(self, part: pa.RecordBatch) -> None:
        """Follow what a statement does to tables.

        Raises Unsupported where it changes rows of a wanted table and does not say which.
        """
        text, database = (part.column(name)[0].as_py() for name in ("statement", "database"))
        session = read_session(bytes(bytes_at(part.column("payload"), 0)[:BEGIN_BYTES]))
        statement = classify(text, database or "", session)
        self._followed.follow(statement, database or "", session)
        if statement.writes is None or any(self._encoder.is_wanted(TableName(*name)) for name in statement.writes):
            raise Unsupported(
                f"{self._file}:{part.column('start')[0].as_py()}: {statement.verb} changes rows in statement format, "
                f"which says what was asked, not what happened: {statement.short}; name the tables that are wanted "
                "without it, or set binlog_format = ROW on the server for the rows to come"
            )
