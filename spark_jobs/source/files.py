"""Source of a directory of binlog files.

Put here: which files of a directory are the log, and where it ends. Not here: what is in them.
The numbers in the names give the order. The index file, where there is one, tells which base name is the log's.
"""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from spark_jobs.binlog import FormatDescription, check_magic
from spark_jobs.errors import SourceError, Truncated, about
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import FIRST_EVENT, Position, file_number
from spark_jobs.source.protocol import (
    ALONE,
    LOST_LOG_REMEDIES,
    FilePart,
    Log,
    LogFile,
    PartReader,
    Switch,
    boundaries,
    require_contiguous,
    require_whole,
)
from spark_jobs.text.disclosure import printable

CHUNK = 4 << 20
_NAME = re.compile(r"(.+)\.(\d{6,})")
_HEADER = 19
_IN_USE = 0x0001
_TAIL = 1 << 10
"""Bytes that a file's last event fits into: a ROTATE has the next file's name."""
_STOP, _ROTATE = 3, 4


class Files:
    """The binlog files of one directory, as a source."""

    earlier = LOST_LOG_REMEDIES
    endpoint: str | None = None

    def __init__(self, name: str, directory: Path, switch: Switch = ALONE) -> None:
        self.name = name
        self.directory = directory
        self.switch = switch

    def log(self, held: Position | None = None) -> Log:
        """The files of the folder, in order, and the end of what is complete in them. Raises SourceError, Truncated.

        held: the end of a transaction; where the last file ends there, it is not read.
        """
        with _file_errors(f"{self.name}: {self.directory}"):
            sizes = self._sizes()
            files = [LogFile(name, sizes[name]) for name in self._log_names(sizes)]
            require_contiguous(self.name, [file.name for file in files])
            if held and (held.file, held.offset) == (files[-1].name, files[-1].size):
                return Log(self.name, tuple(files), Position(held.file, held.offset))
            offsets = self._boundaries(files[-1])
            if not offsets[-1] and len(files) > 1:  # just being started: the log ends with the file before
                files.pop()
                offsets = self._boundaries(files[-1])
            last, end = replace(files[-1], boundaries=offsets), offsets[-1]
            if not end:
                raise Truncated(
                    f"{self.name}: {last.name}: the file ends inside its head, at byte {last.size}; "
                    "it is cut, or just being begun"
                )
            return Log(self.name, (*files[:-1], last), Position(last.name, end))

    def reading(self) -> PartReader:
        return FileReading(self.directory)

    def now(self) -> None:
        """A directory has no clock."""

    def purged(self) -> MysqlGtids:
        """Purged log; of a directory nobody knows of it."""
        return MysqlGtids()

    def require_closed(self, file: str) -> None:
        """Check that a file was not copied while its server wrote it: its end may be missing. Raises SourceError."""
        with _file_errors(f"{self.name}: {self.directory}"):
            if _in_use(self.directory / file):
                raise SourceError(
                    f"{self.name}: {self.directory / file} was copied while its server was still writing it; copy it "
                    "again, now that it is closed"
                )

    def is_in_use(self, file: str) -> bool:
        """True if a file's head says that its server is writing it. Raises SourceError."""
        with _file_errors(f"{self.name}: {self.directory}"):
            return _in_use(self.directory / file)

    def ends_by_event(self, file: LogFile) -> bool:
        """True if a file's last event is one that closes it: ROTATE, or STOP at a shutdown. Raises SourceError."""
        part = FilePart(file.name, max(file.size - _TAIL, FIRST_EVENT), file.size)
        return _is_closing(b"".join(FileReading(self.directory).chunks(part)))

    def names(self) -> list[str]:
        """The log's files in order, by their names alone. Raises SourceError."""
        with _file_errors(f"{self.name}: {self.directory}"):
            return self._log_names(self._sizes())

    def _sizes(self) -> dict[str, int]:
        """Each file of the directory, whatever it is, with its bytes; a directory may have a hundred thousand."""
        with os.scandir(self.directory) as listed:
            # All names first: a file that another one follows has its last byte by then.
            entries = list(listed)
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def _log_names(self, files: Collection[str]) -> list[str]:
        """The log's files among those of the directory, in order. Raises SourceError."""
        names = sorted((name for name in files if _NAME.fullmatch(name)), key=file_number)
        bases = {name.rpartition(".")[0] for name in names}
        if len(bases) > 1:
            base = self._indexed_base(files, bases)
            names = [name for name in names if name.rpartition(".")[0] == base]
        strange = next((name for name in names if not _is_text(name)), None)
        if strange is not None:
            raise SourceError(
                f"{self.name}: {self.directory}: the name of the binlog file {printable(strange)} is not UTF-8, or has "
                "a colon or control characters, so that no position can name it; rename the log's files"
            )
        if not names:
            raise SourceError(f"{self.name}: {self.directory} holds no binlog files (named like mysql-bin.000001)")
        return names

    def _indexed_base(self, files: Collection[str], bases: set[str]) -> str:
        indexed = [base for base in bases if f"{base}.index" in files]
        if len(indexed) != 1:
            listed = ", ".join(sorted(bases))
            raise SourceError(f"{self.name}: {self.directory} holds several logs ({listed}); give each its own folder")
        return indexed[0]

    def _boundaries(self, file: LogFile) -> tuple[int, ...]:
        """Offsets where transactions of a file end, the last of them at least; 0 without a head.

        Only a file in use may continue after the last.
        """
        path = self.directory / file.name
        offsets = _boundaries(self.directory, file, path.stat().st_mtime_ns)
        complete = offsets[-1]
        if FIRST_EVENT <= complete < file.size and not _in_use(path):
            with about(self.name):
                require_whole(FileReading(self.directory), FilePart(file.name, 0, file.size))
        return offsets


@dataclass(frozen=True)
class FileReading:
    """Reads parts of files in one directory."""

    directory: Path

    def __call__(self, part: FilePart) -> tuple[FormatDescription | None, Iterator[bytes]]:
        format_ = self._format(part.file) if part.start else None
        return format_, self.chunks(part)

    def _format(self, file: str) -> FormatDescription:
        with _file_errors(file), (self.directory / file).open("rb") as stream:
            check_magic(stream.read(FIRST_EVENT), file)
            header = stream.read(_HEADER)
            body = stream.read(int.from_bytes(header[9:13], "little") - _HEADER)
        return FormatDescription.parse(header + body, f"{file}:{FIRST_EVENT}")

    def chunks(self, part: FilePart) -> Iterator[bytes]:
        """The bytes of a part, wherever it begins. Raises SourceError."""
        remaining = part.stop - part.start
        with _file_errors(part.file), (self.directory / part.file).open("rb") as stream:
            stream.seek(part.start)
            while remaining:
                chunk = stream.read(min(CHUNK, remaining))
                if not chunk:
                    raise SourceError(f"{part.file}:{part.stop - remaining}: the file became shorter while it was read")
                remaining -= len(chunk)
                yield chunk


@lru_cache(64)  # a sensor asks every half minute, and a file is up to a GiB
def _boundaries(directory: Path, file: LogFile, _modified: int) -> tuple[int, ...]:
    """Ends of transactions of a file that is as large, and was modified when, as is given here."""
    return boundaries(FileReading(directory), FilePart(file.name, 0, file.size))


@contextmanager
def _file_errors(subject: str) -> Iterator[None]:
    """Context that names the subject of an error of the file system; a path in it says it more exactly."""
    try:
        yield
    except OSError as error:
        path = str(error.filename or "it")
        text = subject if subject.endswith(path) else f"{subject}: {path}"
        raise SourceError(f"{text} cannot be read: {error.strerror}") from error


def _is_text(name: str) -> bool:
    """True if a position may have the name."""
    return ":" not in name and printable(name) == name


def _is_closing(tail: bytes) -> bool:
    """True if the last bytes of a file are an event that closes it, by its length; a ROTATE's body begins with a 4."""
    for at in range(len(tail) - _HEADER + 1):
        code, length = tail[at + 4], int.from_bytes(tail[at + 9 : at + 13], "little")
        if at + length == len(tail) and (
            (code == _STOP and length <= _HEADER + 4)
            or (code == _ROTATE and tail[at + _HEADER :][:8] == FIRST_EVENT.to_bytes(8, "little"))
        ):
            return True
    return False


def _in_use(path: Path) -> bool:
    """True if the server has not closed the file: the flag in its FORMAT_DESCRIPTION event's header."""
    with path.open("rb") as stream:
        head = stream.read(FIRST_EVENT + _HEADER)
    return len(head) == FIRST_EVENT + _HEADER and bool(int.from_bytes(head[-2:], "little") & _IN_USE)
