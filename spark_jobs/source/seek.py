"""Position to read a log from: of earliest, latest, a position, a GTID set or a time.

A GTID set leads to the first transaction that is not in it; a time, to where the last transaction ends that committed
before it. The heads of files tell which file that is, and one file is read.

Put here: finding the location, and why there is none. Not here: how locations are written (log/location.py), what a
file's head and transactions are (binlog/slices/transaction_index.py).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from spark_jobs.binlog import Commits, FileHead, read_commits, read_head
from spark_jobs.errors import SourceError
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids, union
from spark_jobs.log.location import LogLocation, Start
from spark_jobs.log.position import FIRST_EVENT, Position, file_number
from spark_jobs.source.protocol import FilePart, Log, LogFile, Source

_HEAD = 1 << 14
"""Bytes that nearly every file's head fits into."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def find_start(source: Source, log: Log, start: Start) -> Position:
    """The position that a start means in a log. Raises SourceError, DecodeError."""
    if start == "earliest":
        return log.first
    if start == "latest":
        return log.end
    return resolve_location(source, log, start)


def resolve_location(source: Source, log: Log, location: LogLocation) -> Position:
    """The position that a location means in a log. Raises SourceError, DecodeError."""
    if isinstance(location, Position):
        return location
    if isinstance(location, datetime):
        return _Time(source, log, location).find()
    if isinstance(location, MysqlGtids):
        return _MysqlSet(source, log, location).find()
    return _Domains(source, log, location).find()


def transactions_before(source: Source, log: Log, position: Position) -> Gtids | None:
    """All transactions that come before a boundary in a log, those purged too; None where its file does not say.

    Reads the file up to there. Raises SourceError, DecodeError.
    """
    search = Search(source, log)
    file = next(file for file in log.files if file.name == position.file)
    gtids = search.head(file).previous
    if gtids is None or position.offset <= FIRST_EVENT:
        return _with_purged(source, gtids)
    for commits in search.commits(file):
        before = commits.first(int(np.searchsorted(commits.stop, position.offset, side="right")))
        gtids = union(gtids, gtids_of(before))
    return _with_purged(source, gtids)


def _with_purged(source: Source, gtids: Gtids | None) -> Gtids | None:
    return None if gtids is None else union(gtids, source.purged())


def gtids_of(commits: Commits) -> Gtids:
    """The set of all of them; of each domain of MariaDB's, the one of the highest number."""
    return commits.domains() or commits.gtids()


def has_no_transaction_before(source: Source, position: Position) -> bool:
    """True if its file begins with no transaction but the one there. Raises SourceError, DecodeError."""
    before = source.reading()(FilePart(position.file, 0, position.offset))[1]
    return not any(len(commits) for commits in read_commits(before, position.file))


class Search:
    """Part that the searches share: a log's files, those that begin before its end."""

    def __init__(self, source: Source, log: Log) -> None:
        self.source, self.log = source, log
        self.name = source.name
        self.reading = source.reading()
        self.files = [file for file in log.files if file_number(file.name) <= log.end.number]

    def head(self, file: LogFile) -> FileHead:
        """Read as little as that takes."""
        size = self.size(file)
        head = self._head(file, min(size, _HEAD))
        return self._head(file, size) if head.previous is None and size > _HEAD else head

    def _head(self, file: LogFile, size: int) -> FileHead:
        return read_head(self.reading(FilePart(file.name, 0, size))[1], file.name)

    def commits(self, file: LogFile) -> Iterator[Commits]:
        return read_commits(self.reading(FilePart(file.name, 0, self.size(file)))[1], file.name)

    def size(self, file: LogFile) -> int:
        return self.log.end.offset if file.name == self.log.end.file else file.size

    def after(self, file: LogFile) -> Position:
        """Position where the next file begins, or the log ends."""
        later = self.files[self.files.index(file) + 1 :]
        return Position(later[0].name, FIRST_EVENT) if later else self.log.end


class _GtidSearch(Search):
    """Search for a set of GTIDs: before the first transaction that is not in it."""

    def __init__(self, source: Source, log: Log, gtids: Gtids) -> None:
        super().__init__(source, log)
        self.gtids = gtids

    def newest(self) -> tuple[LogFile, Gtids]:
        """The newest file before which all transactions are in the set, and these."""
        missing: Gtids = MysqlGtids()
        for file in reversed(self.files):
            previous = self.head(file).previous
            if type(previous) is not type(self.gtids):
                hint = _OTHER[type(previous)]
                raise SourceError(f"{self.name}: {file.name} {hint}; name a position or a time instead")
            assert previous is not None
            missing = previous - self.gtids  # type: ignore[operator] # both are of one type
            if not missing:
                return file, previous
        raise SourceError(
            f"{self.name}: {missing} is not in the set, and came before the oldest file there is, "
            f"{self.files[0].name}; {self.source.earlier}"
        )

    def first_without(self, file: LogFile) -> Iterator[tuple[Commits, Position | None, str]]:
        """The file's transactions before the location; with the last of them the location, and what comes there."""
        is_open = False
        for commits in self.commits(file):
            outside = np.flatnonzero(~commits.is_in(self.gtids))
            if len(outside):
                row = int(outside[0])
                position = Position(file.name, int(commits.start[row]) if row or is_open else FIRST_EVENT)
                yield commits.first(row), position, commits.gtid(row) or "a transaction without GTID"
                return
            yield commits, None, ""
            is_open = True


class _MysqlSet(_GtidSearch):
    def find(self) -> Position:
        file, passed_gtids = self.newest()
        assert isinstance(passed_gtids, MysqlGtids)
        assert isinstance(self.gtids, MysqlGtids)
        position, lacks = None, ""
        for commits, position, lacks in self.first_without(file):  # noqa: B007 - the last ones are used
            passed_gtids |= commits.gtids()
        rest = self.gtids - passed_gtids
        rest = rest - self.source.purged() if rest else rest
        if rest:
            raise SourceError(self._not_before(rest, position, lacks))
        return position or self.after(file)

    def _not_before(self, rest: MysqlGtids, position: Position | None, lacks: str) -> str:
        """Reason why there is a location and the set holds more than what comes before it."""
        last = self.files[-1]
        logged = self.head(last).previous
        assert isinstance(logged, MysqlGtids)
        for commits in self.commits(last):
            logged |= commits.gtids()
        if position and (behind := rest & logged):
            return (
                f"{self.name}: the set holds {behind}, but not {lacks}, which came before that, at {position}; name a "
                "set without gaps, or the position"
            )
        return (
            f"{self.name}: the log, which ends at {self.log.end}, does not hold {rest} of the set; is it the set of "
            "another server, or of a later time?"
        )


class _Domains(_GtidSearch):
    def find(self) -> Position:
        """The position after the last GTID of every domain, in whatever order they were committed."""
        file, previous = self.newest()
        assert isinstance(previous, DomainGtids)
        assert isinstance(self.gtids, DomainGtids)
        # A set names only the last GTID of a domain: numbers must rise within it, or the set does not tell what is in
        # it.
        last = dict(previous.last)
        position, lacks = None, ""
        for commits, position, lacks in self.first_without(file):  # noqa: B007 - the last ones are used
            for gtid in commits.last_gtids(last):
                raise SourceError(
                    f"{self.name}: {file.name}: {gtid} came after a higher number of its domain, so that a set does "
                    "not tell what came before it; name a position or a time instead"
                )
        # Each domain must end, before that location, exactly where the set says.
        for domain, last_gtid in self.gtids.last.items():
            if last.get(domain) != last_gtid:
                in_log = DomainGtids({domain: last[domain]}) if domain in last else "nothing of that domain"
                end = (
                    f"{position}, where {lacks} comes, which is not in the set"
                    if position
                    else f"its end at {self.log.end}"
                )
                lacking = DomainGtids({domain: last_gtid})
                raise SourceError(
                    f"{self.name}: the log does not hold {lacking} before {end}; it holds {in_log}. "
                    "Name each domain's last GTID as of one moment, or the position"
                )
        return position or self.after(file)


class _Time(Search):
    """Search for a time: after the last transaction that committed before it.

    A file's head says in which second it was begun, and later files hold later commits: the server's clock is taken at
    its word there.
    """

    def __init__(self, source: Source, log: Log, moment: datetime) -> None:
        super().__init__(source, log)
        self.moment = moment
        self.micros = micros_of(moment)

    def find(self) -> Position:
        files = self._candidate_files()
        position, latest, any_later = Position(files[0][0].name, FIRST_EVENT), files[-1][1].created * 1_000_000, False
        for file, head in files:
            # Where whole seconds are logged, a commit counts as late in its second: it is not left out.
            limit = self.micros if head.is_exact else self.micros // 1_000_000 * 1_000_000
            for commits in self.commits(file):
                earlier = np.flatnonzero(commits.committed < limit)
                if len(earlier):
                    position, any_later = Position(file.name, int(commits.stop[earlier[-1]])), False
                any_later |= len(earlier) == 0 or int(earlier[-1]) < len(commits) - 1
                latest = max(latest, int(commits.committed.max()))
            if not any_later:
                position = self.after(file)
        if not any_later and files[-1][0] == self.files[-1]:
            require_past(self.source, self.log, self.moment, latest)
        return position

    def _candidate_files(self) -> list[tuple[LogFile, FileHead]]:
        """The newest file that was certainly started before the time, and those started in the same second."""
        heads: list[tuple[LogFile, FileHead]] = []
        for file in reversed(self.files):
            head = self.head(file)
            if head.created * 1_000_000 < self.micros:
                heads.insert(0, (file, head))
            if (head.created + 1) * 1_000_000 <= self.micros:
                return heads
        oldest, head = self.files[0], self.head(self.files[0])
        if file_number(oldest.name) == 1:  # nothing came before it
            return heads or [(oldest, head)]
        raise SourceError(
            f"{self.name}: {self.moment.isoformat()} lies before the oldest file there is: {oldest.name} was begun at "
            f"{_time_text(head.created * 1_000_000)}; {self.source.earlier}"
        )


def require_past(source: Source, log: Log, moment: datetime, latest: int) -> None:
    """Check that no later transaction can commit before a time. latest: when the last one did, in µs since 1970.

    Raises SourceError.
    """
    now = source.now()
    if now is not None and moment > now:
        raise SourceError(
            f"{source.name}: {moment.isoformat()} is still to come by the server's clock, which says "
            f"{now.isoformat()}; name an earlier time, or the end of the log, {log.end}"
        )
    if now is None:
        raise SourceError(
            f"{source.name}: {moment.isoformat()} is after the end of the log at {log.end}, whose last "
            f"transaction committed at {_time_text(latest)}; name an earlier time, or that position"
        )


def micros_of(moment: datetime) -> int:
    """Microseconds from 1970 UTC to a time."""
    return (moment - _EPOCH) // _MICROSECOND


def _time_text(micros: int) -> str:
    return (_EPOCH + micros * _MICROSECOND).isoformat()


_OTHER: dict[type, str] = {
    MysqlGtids: "is of a MySQL server, whose sets are like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-100",
    DomainGtids: "is of a MariaDB server, whose sets are like 0-1-100",
    type(None): "does not say which transactions came before it",
}
