"""Positions in a source's log, and ranges between them.

A position is a position between two events: the file it is in and the byte offset there. Positions of one source are
totally ordered by (stretch, file number, offset), all integers: a file's name does not order it, since the
number grows a digit after 999999. A stretch is one uninterrupted run of one server's file numbers.

Put here: what a position is, how it is written, compared and stored. Not here: where positions are kept
(lake/table.py, assets/checkpoint.py) or how a source reports them (source/).
"""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Self

from spark_jobs.errors import ConfigError

FIRST_EVENT = 4
"""Offset of a file's first event: the four magic bytes stand before it."""

_TEXT = re.compile(r"(?:(?P<stretch>[1-9]\d{,8})/)?(?P<file>[^/:]+\.\d{1,18}):(?P<offset>\d{1,18})")
"""The lake's columns of these numbers are integers of 32, 64 and 64 bits."""


def file_number(file: str) -> int:
    """The number a binlog file's name ends in: ``mysql-bin.000042`` is 42."""
    return int(file.rpartition(".")[2])


@total_ordering
@dataclass(frozen=True, slots=True)
class Position:
    """A position in the log: ``mysql-bin.000042:1337``, or ``2/mysql-bin.000042:1337`` in a later stretch."""

    file: str
    offset: int
    stretch: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of ``str()``. Raises ConfigError."""
        match = _TEXT.fullmatch(text.strip())
        if not match:
            raise ConfigError(f"{text!r} is not a position; write it like mysql-bin.000042:1337")
        return cls(match["file"], int(match["offset"]), int(match["stretch"] or 1))

    @property
    def number(self) -> int:
        return file_number(self.file)

    @property
    def order(self) -> tuple[int, int, int]:
        """Order of positions: stretch, file number, offset (bytes)."""
        return self.stretch, self.number, self.offset

    def __lt__(self, other: object) -> bool:
        return self.order < other.order if isinstance(other, Position) else NotImplemented

    def __str__(self) -> str:
        prefix = f"{self.stretch}/" if self.stretch > 1 else ""
        return f"{prefix}{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Range:
    """The half-open part [start, stop) of a source's log."""

    start: Position
    stop: Position

    def __post_init__(self) -> None:
        if self.stop < self.start:
            raise ConfigError(f"the range ends at {self.stop}, before its start at {self.start}")

    def __bool__(self) -> bool:
        return self.start < self.stop

    def overlaps(self, other: Self) -> bool:
        """True if at least one byte lies in both."""
        return self.start < other.stop and other.start < self.stop

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"
