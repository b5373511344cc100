"""Retention margin: how much of its log a source still has before what is yet to be read.

Put here: the margin in bytes and hours, and when it is too small. Not here: how a source lists its files (source/).
"""

import logging
from dataclasses import dataclass

from spark_jobs.binlog import check_magic
from spark_jobs.config.model import Retention
from spark_jobs.errors import SourceError
from spark_jobs.log.position import FIRST_EVENT, Position, file_number
from spark_jobs.source.protocol import FilePart, Log, PartReader, Source

log = logging.getLogger(__name__)

_SECOND = slice(FIRST_EVENT, FIRST_EVENT + 4)
_HEADER = 19
_FIRST_NUMBER = 1


@dataclass(frozen=True, slots=True)
class Margin:
    """Margin from the source's oldest byte to a position.

    ``hours``: between the beginnings of the oldest file and of the one that holds the position, by the server's clock,
    so at most one file's time too few; None where a file does not tell. ``oldest``: that file's name.
    """

    bytes: int
    hours: float | None
    oldest: str

    def shortage(self, limits: Retention) -> str | None:
        """A message with the limit that the margin is below; None without one, or if the log has its first file."""
        if file_number(self.oldest) == _FIRST_NUMBER:
            return None
        limit = limits.margin.total_seconds() / 3600 if limits.margin else 0
        if self.hours is not None and self.hours < limit:
            return self._message(f"{self.hours:g} hours", f"retention.margin, {limit:g} hours")
        if limits.margin_bytes and self.bytes < limits.margin_bytes:
            return self._message(f"{self.bytes} bytes", f"retention.margin_bytes, {limits.margin_bytes}")
        return None

    def _message(self, remaining: str, limit: str) -> str:
        return (
            f"the source has only {remaining} of log before what is yet to be read ({self.oldest} is its oldest file), "
            f"less than {limit}; run more often, or have the server keep its log longer"
        )


def margin(source: Source, listed: Log, checkpoint: Position) -> Margin:
    """The margin of a position in a source's log as it was listed.

    There is none where the position's file is purged: the source resumes at its oldest byte.
    """
    earlier = sum(file.size for file in listed.files if file_number(file.name) < checkpoint.number)
    oldest = listed.files[0].name
    if checkpoint.file not in {file.name for file in listed.files}:
        return Margin(0, 0.0, oldest)
    return Margin(earlier + checkpoint.offset - FIRST_EVENT, _hours(source, oldest, checkpoint.file), oldest)


def _hours(source: Source, oldest: str, current: str) -> float | None:
    if oldest == current:
        return 0.0
    reading = source.reading()
    try:
        first, last = file_started_at(reading, oldest), file_started_at(reading, current)
    except SourceError as error:  # purged since it was listed, for instance; what is to be read is read by others
        log.warning("%s; how old the log is stays unknown", error)
        return None
    return round((last - first) / 3600, 3) if first and last else None


def file_started_at(reading: PartReader, file: str) -> int:
    """Start time of a file, in seconds since 1970: the time of its FORMAT_DESCRIPTION event; 0 where it has none."""
    _, chunks = reading(FilePart(file, 0, FIRST_EVENT + _HEADER))
    head = b"".join(chunks)
    check_magic(head[:FIRST_EVENT], file)
    return int.from_bytes(head[_SECOND], "little")
