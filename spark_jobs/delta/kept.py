"""Cache of Delta logs, for a process that reads the same tables again and again.

A look at a kept log asks whether the newest commit that was read is the same file still, and reads those after it.
Where it is not (the table was replaced, or its log was cleaned beyond it), the whole log is read again. So a kept log
is as new as one that is read, and costs what came since.

Put here: which commits came since the last look, and for how long commits are kept. Not here: what commits say
(snapshot.py), or who makes them (commits.py).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Protocol

import deltalake
import pyarrow as pa

from spark_jobs.delta.log_files import (
    LogListing,
    commit_mark,
    commits_since,
    opened_by_deltalake,
    read_commit,
    read_log,
)

_COMMITS = 50
"""Commits of a table that are kept at most."""
_COMMIT_BYTES = 1 << 20
"""Bytes of these commits at most; the newest is kept whatever it has."""
_ROWS, _ROW_BYTES = 8, 1 << 20
"""Data files of a table whose rows are kept, and the bytes of one at most."""
_ALL_BYTES = 64 << 20
"""Most bytes of all kept logs in memory; the one that was looked at longest ago goes first."""


class Parsed(Protocol):
    """Content of a table's log, parsed up to a version."""

    version: int

    @property
    def weight(self) -> int:
        """Bytes in memory, roughly."""


class KeptLog:
    """The newest commits of one table, and what was made of all of them. Used by one thread at a time (``lock``)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.version = -1
        """The newest; -1 where there is no table."""
        self.parsed: Parsed | None = None
        """Log parsed up to ``version``, or to an earlier one."""
        self.weight = 0
        self._listing: LogListing | None = None
        """The whole log, until a commit comes after it."""
        self._commits: OrderedDict[int, bytes] = OrderedDict()
        self._mark: object = None
        self._rows: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._opened: deltalake.DeltaTable | None = None

    def look(self) -> None:
        """Advance it to the newest commit. Raises LakeError."""
        if not self.is_same():
            self.read()
            return
        if news := commits_since(self.path, self.version):
            for version, content in news:
                self._append(version, content)
            self._mark = commit_mark(self.path, self.version)

    def is_same(self) -> bool:
        """True if it is still the log that was read, as far as that is. Raises LakeError."""
        return self._mark is not None and commit_mark(self.path, self.version) == self._mark

    def read(self) -> LogListing | None:
        """Read the whole log; None where there is no table. Raises LakeError."""
        self.parsed, self._mark, self._opened, self.version = None, None, None, -1
        self._commits.clear()
        self._rows.clear()
        self._listing = listing = read_log(self.path)
        if listing is None or listing.version < 0:
            return None
        for version, content in listing.commits:
            self._append(version, content)
        if not listing.commits:
            newest = read_commit(self.path, listing.version)
            self._commits.update({} if newest is None else {listing.version: newest})
        self.version, self._listing = listing.version, listing
        self._mark = commit_mark(self.path, self.version)
        return listing

    def listing(self) -> LogListing | None:
        """The whole log as it was read, or is read now; None where there is no table. Raises LakeError."""
        return self._listing or self.read()

    def append(self, version: int, content: bytes) -> None:
        """Add a commit of this process, where it has all that came before."""
        if self._mark is not None and version == self.version + 1:
            self._append(version, content)
            self._mark = commit_mark(self.path, version)

    def since(self, version: int) -> list[tuple[int, bytes]] | None:
        """The commits after a version, oldest first; None where they are not kept any more."""
        numbers = range(version + 1, self.version + 1)
        has_all = all(number in self._commits for number in numbers)
        return [(number, self._commits[number]) for number in numbers] if has_all else None

    def newest(self) -> LogListing:
        """The kept commits, without the checkpoint before them."""
        return LogListing(self.version, (), tuple(self._commits.items()))

    def content(self, version: int) -> bytes | None:
        """The content of a commit; None where it is not kept."""
        return self._commits.get(version)

    def opened(self, version: int) -> deltalake.DeltaTable:
        """A version as deltalake reads it. Raises what deltalake raises, and LakeError."""
        if self._opened is None or self._opened.version() != version or not self.is_same():
            self._opened = opened_by_deltalake(self.path, version)
        return self._opened

    def rows(self, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """Rows of a data file, which are read where they are not kept. Files never change."""
        rows = self._rows.pop(key, None)
        rows = read() if rows is None else rows
        if rows.nbytes <= _ROW_BYTES:
            self._rows[key] = rows
        if len(self._rows) > _ROWS:
            self._rows.popitem(last=False)
        return rows

    def weigh(self) -> int:
        """The bytes of memory that the log takes more than at the last call."""
        before = self.weight
        rows = sum(table.nbytes for table in self._rows.values())
        self.weight = rows + sum(map(len, self._commits.values())) + (self.parsed.weight if self.parsed else 0)
        return self.weight - before

    def _append(self, version: int, content: bytes) -> None:
        self._commits[version] = content
        self.version, self._listing, self._opened = version, None, None
        size = sum(map(len, self._commits.values()))
        while len(self._commits) > 1 and (len(self._commits) > _COMMITS or size > _COMMIT_BYTES):
            size -= len(self._commits.popitem(last=False)[1])


class _Logs:
    """The kept logs by path."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_path: OrderedDict[str, KeptLog] = OrderedDict()
        self.weight = 0

    def of(self, path: str) -> KeptLog:
        with self.lock:
            log = self.by_path.setdefault(path, KeptLog(path))
            self.by_path.move_to_end(path)
            return log

    def weigh(self, log: KeptLog) -> None:
        """Forget logs where all together are too much, also this one."""
        with self.lock:
            if self.by_path.get(log.path) is not log:  # forgotten meanwhile
                return
            self.weight += log.weigh()
            while self.weight > _ALL_BYTES:
                _, forgotten = self.by_path.popitem(last=False)
                self.weight -= forgotten.weight


class _KeptHere:
    """Logs that this process keeps; None where it keeps none."""

    logs: _Logs | None = None


@contextmanager
def keeping() -> Iterator[None]:
    """Logs are kept inside the ``with`` block, by all threads of the process."""
    _KeptHere.logs = _Logs()
    try:
        yield
    finally:
        _KeptHere.logs = None


@contextmanager
def kept_log(path: str) -> Iterator[KeptLog | None]:
    """A table's log for this thread, as it was at the last look; None where logs are not kept."""
    logs = _KeptHere.logs
    if logs is None:
        yield None
        return
    log = logs.of(path)
    with log.lock:
        yield log
        logs.weigh(log)


def newest_commits(path: str) -> LogListing | None:
    """The newest version, and as many commits before it as are at hand; None where there is no table.

    Raises LakeError.
    """
    with kept_log(path) as log:
        if log is None:
            return read_log(path)
        log.look()
        return log.newest() if log.version >= 0 else None


def commit_content(path: str, version: int) -> bytes | None:
    """The content of a commit; None where it is not there. Raises LakeError."""
    with kept_log(path) as log:
        kept = log.content(version) if log else None
        return kept if kept is not None and log and log.is_same() else read_commit(path, version)


def opened(path: str, version: int) -> deltalake.DeltaTable:
    """A version as deltalake reads it: its log once, where logs are kept.

    Raises what deltalake raises, and LakeError.
    """
    with kept_log(path) as log:
        return opened_by_deltalake(path, version) if log is None else log.opened(version)


def rows_of_file(path: str, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
    """Rows of a small data file of a table; they are read once, where logs are kept. key: which file and columns."""
    with kept_log(path) as log:
        return read() if log is None else log.rows(key, read)


def committed(path: str, version: int, content: bytes) -> None:
    """Add a commit of this process to the kept log of the table, which then need not read it."""
    with kept_log(path) as log:
        if log is not None:
            log.append(version, content)
