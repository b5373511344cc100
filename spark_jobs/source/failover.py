"""Failover to another log, by GTID: what of it is new after the transactions that bronze holds.

Servers that have the same transactions have them in files and at offsets of their own, and replicas that apply side by
side even in another order. So the log is read from the newest file on whose head names nothing that is not held, and
transactions that bronze has are dropped one by one, up to the last of them. From there on all is new.

Put here: what to read of such a log, and why it cannot be taken up. Not here: which transactions are held
(bronze/gtid_state.py), which server is asked (endpoints.py), or when a log is taken up (bronze/resume.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spark_jobs.binlog import Commits
from spark_jobs.errors import SourceError
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids
from spark_jobs.log.position import FIRST_EVENT, Position, file_number
from spark_jobs.source.protocol import FilePart, Log, LogFile, Source, require_events
from spark_jobs.source.seek import Search

_LAGS = (
    "it lags behind: run again when it has them. If the other server was lost before it sent them, give this one a "
    "source name of its own"
)


@dataclass(frozen=True, slots=True)
class Takeover:
    """The new part of a log: its parts, where the first one begins, and the known transactions between them.

    With nothing new there are no parts, and it begins at the log's end.
    """

    begin: Position
    parts: tuple[FilePart, ...]
    passed_over: tuple[FilePart, ...]


def take_over(source: Source, log: Log, executed: Gtids) -> Takeover:
    """Transactions of a log besides those held. Raises SourceError where it lacks some of them, or has purged more.

    Raises DecodeError on a damaged log.
    """
    return _FailoverSearch(source, log, executed).takeover()


def all_but(source: Source, log: Log, executed: Gtids) -> Takeover:
    """The whole of a log but for the transactions held, which it need not have. Raises SourceError, DecodeError."""
    search = _FailoverSearch(source, log, executed)
    require_events(source.name, search.files[:-1])
    parts = [part for file in search.files for part in search.runs(file, is_first=False)] if executed else None
    return _takeover(search, search.complete_parts(search.files) if parts is None else parts)


class _FailoverSearch(Search):
    def __init__(self, source: Source, log: Log, executed: Gtids) -> None:
        super().__init__(source, log)
        self.executed = executed
        self.awaited: _Awaited | None = None
        """Transactions of ``held`` that are still to come by."""

    def takeover(self) -> Takeover:
        first = self._first()
        files = self.files[self.files.index(first) :]
        parts: list[FilePart] = []
        for at, file in enumerate(files):
            if not self.awaited:
                parts += self.complete_parts(files[at:])
                break
            parts += self.runs(file, is_first=file is first)
        if self.awaited:
            raise SourceError(f"{self.name}: the log of {self._subject} does not hold {self.awaited}; {_LAGS}")
        return _takeover(self, parts)

    @property
    def _subject(self) -> str:
        return self.source.endpoint or "this source"

    def _first(self) -> LogFile:
        """The newest file before which there is nothing that is not held."""
        # From the newest file back to the first one before which every GTID is in bronze.
        purged = self.source.purged()
        missing: Gtids = purged
        for file in reversed(self.files):
            previous = self.head(file).previous
            if previous is None:
                raise SourceError(
                    f"{self.name}: {file.name} of {self._subject} does not say which GTIDs came before it"
                )
            if not self.executed:
                self.executed = type(previous)()
            if type(previous) is not type(self.executed):
                raise SourceError(
                    f"{self.name}: {self._subject} has GTIDs of another kind: {previous}, and {self.executed}"
                )
            missing = previous - self.executed  # type: ignore[operator] # both are of one type
            if not missing:
                # Other transactions that bronze has may follow later in this log, since servers commit in different
                # orders.
                self._require_all(purged)
                self.awaited = _Awaited.after(self.executed, previous, purged)
                return file
        raise SourceError(self._purged(missing))

    def _require_all(self, purged: MysqlGtids) -> None:
        missing = purged - self.executed if isinstance(self.executed, MysqlGtids) else None
        if missing:
            raise SourceError(self._purged(missing))

    def _purged(self, missing: Gtids) -> str:
        return (
            f"{self.name}: {self._subject} has no more of its log than from {self.files[0].name} on; {missing} came "
            "before that, and bronze lacks them"
        )

    def complete_parts(self, files: list[LogFile]) -> list[FilePart]:
        return [FilePart(file.name, 0, self.size(file)) for file in files]

    def runs(self, file: LogFile, *, is_first: bool) -> Iterator[FilePart]:
        """The parts of a file without transactions that are held. What stands before the first one goes with it.

        is_first: a file's head is not new where its first transaction is not.
        """
        # Runs of transactions that bronze does not have: one begins at the first of them and ends before the next that
        # it has.
        size = self.size(file)
        begin: int | None = None if is_first else 0
        is_behind = False
        for commits in self.commits(file):
            self._require_named(file, commits)
            inside = commits.is_in(self.executed)
            for row in np.flatnonzero(np.diff(inside, prepend=not inside[0])):
                start = int(commits.start[row])
                if inside[row] and begin is not None:
                    yield from _file_parts(file, begin, start)
                    begin = None
                elif not inside[row] and begin is None:
                    begin = start if is_behind else 0
                is_behind = True
            # Once every awaited transaction was seen, the rest of the file is new.
            if self.awaited is not None:
                self.awaited.take_out(file, commits.select(inside))
                if not self.awaited:
                    begin = int(commits.stop[-1]) if begin is None else begin
                    break
        if begin is not None:
            yield from _file_parts(file, begin, size)

    def _require_named(self, file: LogFile, commits: Commits) -> None:
        nameless = commits.nameless()
        if len(nameless):
            raise SourceError(
                f"{self.name}: {self._subject}: the transaction at {file.name}:{int(commits.start[nameless[0]])} has "
                "no GTID, so it is not known whether bronze has it; set gtid_mode = ON on all endpoints"
            )


class _Awaited:
    """Transactions of bronze that the log has not reached yet: MySQL's as a set, MariaDB's the last of each domain."""

    def __init__(self, executed: Gtids, awaited: MysqlGtids | None, last: dict[int, tuple[int, int]]) -> None:
        self._executed, self._awaited, self._last = executed, awaited, last

    @classmethod
    def after(cls, executed: Gtids, previous: Gtids, purged: MysqlGtids) -> "_Awaited":
        if isinstance(executed, MysqlGtids):
            assert isinstance(previous, MysqlGtids)
            return cls(executed, executed - previous - purged, {})
        assert isinstance(previous, DomainGtids)
        return cls(executed, None, dict(previous.last))

    def take_out(self, file: LogFile, commits: Commits) -> None:
        """Remove the transactions of a file. Raises SourceError where their order decides nothing."""
        if self._awaited is not None:
            self._awaited -= commits.gtids()
            return
        for gtid in commits.last_gtids(self._last):
            raise SourceError(
                f"{file.name}: {gtid} came after a higher number of its domain, so that its number does not tell "
                "whether bronze holds it"
            )

    def _lacking(self) -> Gtids:
        if self._awaited is not None:
            return self._awaited
        assert isinstance(self._executed, DomainGtids)
        return DomainGtids(
            {domain: last for domain, last in self._executed.last.items() if self._last.get(domain) != last}
        )

    def __bool__(self) -> bool:
        return bool(self._lacking())

    def __str__(self) -> str:
        return str(self._lacking())


def _file_parts(file: LogFile, start: int, stop: int) -> Iterator[FilePart]:
    if start < stop:
        yield FilePart(file.name, start, stop)


def _takeover(search: _FailoverSearch, parts: list[FilePart]) -> Takeover:
    if not parts:
        return Takeover(search.log.end, (), ())
    begin = Position(parts[0].file, max(parts[0].start, FIRST_EVENT))
    gaps = [
        FilePart(part.file, part.stop, next_part.start)
        for part, next_part in pairwise(parts)
        if part.file == next_part.file and part.stop < next_part.start
    ]
    last = {part.file: part.stop for part in parts}
    sizes = {file.name: search.size(file) for file in search.files}
    tails = [FilePart(file, stop, sizes[file]) for file, stop in last.items() if stop < sizes[file]]
    return Takeover(
        begin, tuple(parts), tuple(sorted([*gaps, *tails], key=lambda gap: (file_number(gap.file), gap.start)))
    )
