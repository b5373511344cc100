"""Interface of a source: facts about its log, and reading a part of it.

Put here: the shapes that both sources share, and planning over them. Not here: how a directory or a server is read
(files.py, server.py) or what the bytes mean (binlog/).

A ``Source`` lives in the driver and answers questions about the log. Its ``reading`` is what Spark's tasks get: small,
picklable, and able to open its own file or connection.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal, Protocol

from spark_jobs.binlog import FormatDescription, Slicer
from spark_jobs.errors import SourceError, Truncated
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import FIRST_EVENT, Position, file_number

PART_BYTES = 24 << 20
"""Bytes of a part at least, where a file is read in several: each becomes a data file of bronze."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The bytes [start, stop) of one file; ``start`` is 0 (with the magic bytes) or a transaction's boundary."""

    file: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """One binlog file as its source lists it; ``size`` in bytes.

    boundaries: some offsets where transactions end, between which several tasks read it; none where nobody has looked.
    """

    name: str
    size: int
    boundaries: tuple[int, ...] = field(default=(), compare=False)

    @property
    def has_events(self) -> bool:
        """False of a file without bytes; a server lists a file that it cannot open with a size of 0, or less."""
        return self.size > FIRST_EVENT

    def parts(self, start: int, stop: int) -> list[FilePart]:
        """The bytes between two boundaries, cut at others into parts of some size."""
        cuts = [start]
        for boundary in self.boundaries:
            if boundary - cuts[-1] >= PART_BYTES and stop - boundary >= PART_BYTES:
                cuts.append(boundary)
        return [FilePart(self.name, *part) for part in pairwise([*cuts, stop])]


@dataclass(frozen=True, slots=True)
class Log:
    """A source's log as it was at one moment: its files in order, and the end of its last complete transaction."""

    source: str
    files: tuple[LogFile, ...]
    end: Position
    uuid: str | None = None
    server_id: str | None = None

    @property
    def first(self) -> Position:
        return Position(self.files[0].name, FIRST_EVENT, self.end.stretch)

    def within(self, stretch: int) -> "Log":
        """The same log, its positions as those of a stretch; a source counts none, and says 1."""
        return replace(self, end=replace(self.end, stretch=stretch))

    def up_to(self, position: Position | None, minimum: Position | None = None) -> "Log":
        """The log as if it ended at a position of its own.

        Where one is given, or where bronze ends if that is further.
        """
        return replace(self, end=min(self.end, max(position, minimum or position))) if position else self

    def parts_from(self, start: Position) -> list[FilePart]:
        """Parts between a position and the end, file by file. Raises SourceError where it is not all there."""
        files = [file for file in self.files if start.number <= file_number(file.name) <= self.end.number]
        require_events(self.source, files[:-1])
        self._require_listed(start)
        if self.end.file not in [file.name for file in self.files]:
            raise SourceError(f"{self.source}: the log ends at {self.end}, in a file that it does not list; run again")
        parts = []
        for file in files:
            begin = start.offset if file.name == start.file else 0
            stop = self.end.offset if file.name == self.end.file else file.size
            if begin < stop:
                parts += file.parts(begin if begin > FIRST_EVENT else 0, stop)
        return parts

    def bytes_from(self, start: Position) -> int:
        """Backlog behind a position, in bytes; 0 at or past the end."""
        return sum(part.stop - part.start for part in self.parts_from(start))

    def _require_listed(self, start: Position) -> None:
        listed = next((file for file in self.files if file.name == start.file), None)
        if listed is None:
            raise SourceError(self._absent(start))
        if start.offset > listed.size or start > self.end:
            raise SourceError(
                f"{self.source}: {start} is after the end of the log at {self.end}; a log that became shorter was "
                "reset or belongs to another server: give the source another name, or restore the log"
            )

    def _absent(self, start: Position) -> str:
        if start.number < self.first.number:
            return (
                f"{self.source}: {start.file} is gone from the source, whose oldest file is {self.files[0].name}; "
                f"either have archived copies read into the same bronze (stratalog extract --source {self.source} "
                "--archive DIR), or start under another source name with start: earliest"
            )
        return (
            f"{self.source}: has no file {start.file}; it holds {self.files[0].name} to {self.files[-1].name}. "
            "A log whose numbers began again needs another source name"
        )


PartReader = Callable[[FilePart], tuple[FormatDescription | None, Iterator[bytes] | Iterator[memoryview]]]
"""Opens a part for a task: the format in force at its start (None where it starts at 0) and its bytes in chunks, each
of which is valid until the next one is asked for."""


LOST_LOG_REMEDIES = (
    "set start: earliest to begin without the older log, or put copies of the older files with the others into "
    "a directory and read that (files:) under another source name"
)


@dataclass(frozen=True, slots=True)
class Switch:
    """Check whether a source may continue with another log than the one that bronze ends in.

    has_several: it is one of several endpoints. on_new_server: what to do about another server under the same name.
    """

    has_several: bool = False
    on_new_server: Literal["stop", "continue"] = "stop"


ALONE = Switch()


class Source(Protocol):
    """A log that can be asked what it holds."""

    name: str
    endpoint: str | None
    """The server's address; None for files."""
    switch: Switch
    earlier: str
    """Remedy for a position that lies before its oldest file."""

    def log(self, held: Position | None = None) -> Log:
        """The log now. held: the end of a transaction; a log that is no longer is not read. Raises SourceError."""
        ...

    def reading(self) -> PartReader:
        """Reader that tasks open their parts with."""
        ...

    def now(self) -> datetime | None:
        """The source's own clock; None for files, which have none. Raises SourceError."""
        ...

    def purged(self) -> MysqlGtids:
        """Transactions that the source says it had before its oldest file. Raises SourceError."""
        ...


def last_boundary(reading: PartReader, part: FilePart) -> int:
    """Offset where the last complete transaction of a part ends, by reading it whole.

    Raises DecodeError, SourceError.
    """
    return boundaries(reading, part)[-1]


def boundaries(reading: PartReader, part: FilePart) -> tuple[int, ...]:
    """Offsets where transactions of a part end: one for each chunk that it is read in, and the last one.

    Raises DecodeError, SourceError.
    """
    slicer, offsets = _read_whole(reading, part)
    return (*offsets, slicer.complete)


def require_whole(reading: PartReader, part: FilePart) -> None:
    """Check that a part ends at a transaction boundary.

    Raises Truncated with the positions of the event and the transaction.
    """
    if cut := _read_whole(reading, part)[0].cut():
        raise Truncated(cut)


def _read_whole(reading: PartReader, part: FilePart) -> tuple[Slicer, list[int]]:
    """Slicer that has read a part, and the boundaries that it had reached after each chunk."""
    format_, chunks = reading(part)
    slicer, offsets = Slicer(part.file, part.start, format_), list[int]()
    for chunk in chunks:
        deque(slicer.feed(chunk), maxlen=0)
        offsets.append(slicer.complete)
    deque(slicer.finish(), maxlen=0)
    return slicer, offsets


def require_boundary(source: Source, position: Position) -> None:
    """Check that a transaction begins at the position. Raises SourceError."""
    if position.offset <= FIRST_EVENT:
        return
    complete = last_boundary(source.reading(), FilePart(position.file, 0, position.offset))
    if complete != position.offset:
        raise SourceError(
            f"{source.name}: no transaction begins at {position}; the nearest boundary before it is "
            f"{position.file}:{max(complete, FIRST_EVENT)}"
        )


def require_contiguous(source: str, files: list[str]) -> None:
    """Check that the file numbers have no hole. Raises SourceError."""
    for before, after in pairwise(files):
        if file_number(after) != file_number(before) + 1:
            raise SourceError(f"{source}: a file is missing between {before} and {after}; restore it and run again")


def require_events(source: str, files: Iterable[LogFile]) -> None:
    """Check that files which others follow have events. Raises SourceError."""
    for file in files:
        if not file.has_events:
            raise SourceError(
                f"{source}: {file.name} is empty, and others follow it: its copy failed, or it was removed from the "
                f"server's folder by hand. Copy it again, or, of a server, have archived copies of it and of the next "
                f"file read (stratalog extract --source {source} --archive DIR)"
            )
