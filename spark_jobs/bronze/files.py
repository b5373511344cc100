"""Binlog files that bronze holds, in the log's order, and the range of some of them; without a JVM.

Put here: listing files by the columns that place their slices, what a file is called among those of several stretches,
and where a file begins. Not here: what is in them, or the index of stretches (log_index.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.errors import ConfigError
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import FIRST_EVENT, Position, Range, file_number

_TEXT = re.compile(r"(?:(?P<stretch>[1-9]\d*)/)?(?P<name>[^/:]+\.\d+)")
_ROWS = 1 << 16


@total_ordering
@dataclass(frozen=True, slots=True)
class BinlogFile:
    """One file of a source's log: ``mysql-bin.000042``, or ``2/mysql-bin.000042`` in a later stretch."""

    name: str
    stretch: int = 1

    @classmethod
    def parse(cls, text: str) -> "BinlogFile":
        """The inverse of ``str()``. Raises ConfigError."""
        match = _TEXT.fullmatch(text.strip())
        if not match:
            raise ConfigError(f"{text!r} is no binlog file; write it like mysql-bin.000042 or 2/mysql-bin.000042")
        return cls(match["name"], int(match["stretch"] or 1))

    @classmethod
    def of(cls, position: Position) -> "BinlogFile":
        """The file that a position lies in."""
        return cls(position.file, position.stretch)

    @property
    def file_number(self) -> tuple[int, int]:
        """Order of files: stretch, number."""
        return self.stretch, file_number(self.name)

    def __lt__(self, other: object) -> bool:
        return self.file_number < other.file_number if isinstance(other, BinlogFile) else NotImplemented

    def __str__(self) -> str:
        return f"{self.stretch}/{self.name}" if self.stretch > 1 else self.name


def held_files(table: Table, head: Head, beyond: tuple[BinlogFile, BinlogFile] | None = None) -> list[BinlogFile]:
    """The files of which bronze holds a byte, in order; with ``beyond`` those before the first and after the last.

    Of Delta's files only those are opened whose statistics say that they may have some.
    """
    all_rows = pc.field("stretch") >= 0
    condition = _before(beyond[0]) | _behind(beyond[1]) if beyond else all_rows
    pair_set: set[tuple[int, str]] = set()
    for batch in table.scan(head.version, ["stretch", "file"], condition, rows=_ROWS):
        pairs = pa.Table.from_batches([batch]).group_by(["stretch", "file"]).aggregate([])
        pair_set.update(zip(pairs["stretch"].to_pylist(), pairs["file"].to_pylist(), strict=True))
    return sorted(BinlogFile(name, stretch) for stretch, name in pair_set)


def _before(file: BinlogFile) -> pc.Expression:
    stretch, number = file.file_number
    here = (pc.field("stretch") == stretch) & (pc.field("number") < number)
    return here | (pc.field("stretch") < stretch)


def _behind(file: BinlogFile) -> pc.Expression:
    stretch, number = file.file_number
    here = (pc.field("stretch") == stretch) & (pc.field("number") > number)
    return here | (pc.field("stretch") > stretch)


def archived_before(oldest: BinlogFile, names: Sequence[str]) -> list[BinlogFile]:
    """The files of an archive that follow each other up to the file before bronze's oldest, in order."""
    by_position = {file.file_number: file for file in (BinlogFile(name, oldest.stretch) for name in names)}
    files: list[BinlogFile] = []
    stretch, number = oldest.file_number
    while file := by_position.get((stretch, number - 1 - len(files))):
        if file.name.rpartition(".")[0] != oldest.name.rpartition(".")[0]:
            break
        files.append(file)
    return files[::-1]


def end_of(table: Table, head: Head, file: BinlogFile) -> int:
    """The offset up to which bronze holds a file; 0 where it holds nothing of it."""
    stretch, number = file.file_number
    here = (pc.field("stretch") == stretch) & (pc.field("number") == number)
    batches = table.scan(head.version, ["stop"], here, rows=_ROWS)
    return max((pc.max(batch.column("stop")).as_py() for batch in batches if batch.num_rows), default=0)


def require_whole(files: Sequence[BinlogFile], available: Sequence[BinlogFile]) -> None:
    """Check that all files are available, and are a range without a hole. Raises ConfigError.

    available: all that bronze holds, and the archive before that, in order.
    """
    first, last = min(files), max(files)
    absent = [file for file in sorted(files) if file not in available]
    if absent:
        available_text = f"{available[0]} to {available[-1]}" if available else "nothing yet"
        raise ConfigError(f"bronze does not hold {_file_list_text(absent)}; it holds {available_text}")
    between = [file for file in available if first <= file <= last and file not in files]
    if between:
        raise ConfigError(
            f"between {first} and {last} bronze holds {_file_list_text(between)} too: a range has no hole; "
            "choose these as well, or each part by itself"
        )


def range_of(first: BinlogFile, last: BinlogFile, end: int, checkpoint: Checkpoint) -> Range:
    """Range from the beginning of what bronze holds of one file to the end of what it holds of another."""
    return Range(_first_position(first, checkpoint), Position(last.name, end, last.stretch))


def _first_position(file: BinlogFile, checkpoint: Checkpoint) -> Position:
    """Position of a file's first event, or a later one in the first file of a stretch."""
    positions = [bronze.oldest(checkpoint), *(stretch.begin for stretch in stretches(checkpoint))]
    begins = [position for position in positions if BinlogFile.of(position) == file]
    return max([Position(file.name, FIRST_EVENT, file.stretch), *begins])


def _file_list_text(files: Sequence[BinlogFile], limit: int = 5) -> str:
    rest = f" and {len(files) - limit} more" if len(files) > limit else ""
    return ", ".join(map(str, files[:limit])) + rest
