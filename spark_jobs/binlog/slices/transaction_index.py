"""Transactions of a file as flat columns, and facts of its head: to find an offset by GTID or time.

Put here: the walk over one file for that. Not here: which file it is, or what the offset is for (source/seek.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.chunk_buffer import Feed
from spark_jobs.binlog.events.format_description import HEADER, FormatDescription
from spark_jobs.binlog.events.scanner import Bytes, Scan, gtid_text
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import DecodeError
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids, NoGtids

_LEAST = 4 << 20
_PREVIOUS_GTIDS, _GTID_LIST = 35, 163


@dataclass(frozen=True, slots=True)
class FileHead:
    """The beginning of a file."""

    format: FormatDescription
    created: int
    """Seconds since 1970 UTC by the server's clock."""
    previous: Gtids | None
    """The transactions of earlier files, of all that there ever were; None where the file does not say."""

    @property
    def is_exact(self) -> bool:
        """True if its transactions carry the µs of their commit: MySQL from 8.0.1 on. Others have a whole second."""
        numbers = self.format.server_version.split("-")[0].split(".")
        return self.format.flavor == "mysql" and [int(number) for number in numbers if number.isdigit()] >= [8, 0, 1]


@dataclass(frozen=True, slots=True)
class Commits:
    """Whole transactions in order, a row each."""

    columns: NDArray[np.int64]
    """[n, event_cells.TX_COLUMNS]."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def start(self) -> NDArray[np.int64]:
        """File offset of the first event."""
        return self._column_values(event_cells.TX_START)

    @property
    def stop(self) -> NDArray[np.int64]:
        """File offset after the last event."""
        return self._column_values(event_cells.TX_STOP)

    @property
    def committed(self) -> NDArray[np.int64]:
        """µs since 1970 UTC."""
        return self._column_values(event_cells.TX_COMMITTED)

    @property
    def number(self) -> NDArray[np.uint64]:
        """The number of the GTID, within its source and tag or its domain."""
        return self._column_values(event_cells.TX_NUMBER).view(np.uint64)

    def first(self, count: int) -> "Commits":
        return Commits(self.columns[:count])

    def select(self, rows: NDArray[np.bool_]) -> "Commits":
        return Commits(self.columns[rows])

    def gtid(self, row: int) -> str | None:
        """GTID of a row's transaction as the server writes it; None where it has none."""
        return gtid_text(self.columns[row])

    def is_in(self, gtids: Gtids) -> NDArray[np.bool_]:
        """A cell a transaction; those without GTID are in no set."""
        is_member = np.zeros(len(self), np.bool_)
        if isinstance(gtids, MysqlGtids):
            for origin, rows in self._by_origin():
                edges = np.array(gtids.intervals.get(origin, ()), np.uint64).ravel()
                is_member[rows] = np.searchsorted(edges, self.number[rows], side="right") % 2 == 1
            return is_member
        for domain, rows in self._by_domain():
            if domain in gtids.last:
                is_member[rows] = self.number[rows] <= np.uint64(gtids.last[domain][1])
        return is_member

    def last_gtids(self, last: dict[int, tuple[int, int]]) -> Iterator[str]:
        """Move each domain's last (server, number) on; yield the GTIDs whose number is not higher than that."""
        for domain, rows in self._by_domain():
            numbers = self.number[rows]
            before = np.concatenate([np.array([last.get(domain, (0, 0))[1]], np.uint64), numbers[:-1]])
            yield from (str(self.gtid(int(row))) for row in rows[numbers <= before])
            last[domain] = int(self._column_values(event_cells.TX_LOW)[rows[-1]]), int(numbers[-1])

    def domains(self) -> DomainGtids:
        """The GTID of the highest number in each domain, of MariaDB's."""
        last = {}
        for domain, rows in self._by_domain():
            highest = rows[int(np.argmax(self.number[rows]))]
            last[domain] = int(self._column_values(event_cells.TX_LOW)[highest]), int(self.number[highest])
        return DomainGtids(dict(sorted(last.items())))

    def among(self, gtids: DomainGtids) -> DomainGtids:
        """The wanted last GTIDs that are transactions here, by domain, server and number."""
        common: dict[int, tuple[int, int]] = {}
        for domain, rows in self._by_domain():
            server, number = gtids.last.get(domain, (-1, 0))
            here = (self._column_values(event_cells.TX_LOW)[rows] == server) & (self.number[rows] == np.uint64(number))
            common |= {domain: (server, number)} if here.any() else {}
        return DomainGtids(common)

    def nameless(self) -> NDArray[np.intp]:
        """Rows of the transactions that have no GTID."""
        return np.flatnonzero(self._column_values(event_cells.TX_GTID) == event_cells.GTID_NONE)

    def gtids(self) -> MysqlGtids:
        """The set of all of them, of MySQL's."""
        return MysqlGtids.of(
            (origin, (int(run[0]), int(run[-1]) + 1))
            for origin, rows in self._by_origin()
            for run in _runs(np.unique(self.number[rows]))
        )

    def _by_origin(self) -> Iterator[tuple[tuple[str, str], NDArray[np.intp]]]:
        """Rows by source and tag: few of these have many rows."""
        rows = np.flatnonzero(
            np.isin(self._column_values(event_cells.TX_GTID), (event_cells.GTID_MYSQL, event_cells.GTID_TAG))
        )
        offsets = [event_cells.TX_HIGH, event_cells.TX_LOW, *range(event_cells.TX_TAG, event_cells.TX_COLUMNS)]
        names = self.columns[rows][:, offsets]
        kinds, of = np.unique(names, axis=0, return_inverse=True)
        for kind in range(len(kinds)):
            own_rows = rows[of.ravel() == kind]
            text = self.gtid(int(own_rows[0]))
            assert text
            source, *tag, _ = text.split(":")
            yield (source, tag[0] if tag else ""), own_rows

    def _by_domain(self) -> Iterator[tuple[int, NDArray[np.intp]]]:
        of_domains = self._column_values(event_cells.TX_GTID) == event_cells.GTID_DOMAIN
        domains = self._column_values(event_cells.TX_HIGH)
        for domain in np.unique(domains[of_domains]).tolist():
            yield domain, np.flatnonzero(of_domains & (domains == domain))

    def _column_values(self, cell: int) -> NDArray[np.int64]:
        return self.columns[:, cell]


def _runs(numbers: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Rising numbers, split where one is missing."""
    return np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)


def read_head(chunks: Iterable[Bytes], file: str) -> FileHead:
    """The head of a file, of as many chunks from its first byte on as that takes.

    ``previous`` is None too where the bytes end before they say it. Raises DecodeError.
    """
    feed = Feed(file, 0, None, minimum=1)
    created, previous = -1, None
    for scan in _scans(feed, chunks):
        for event in range(len(scan)):
            code = int(scan.code[event])
            if created < 0:
                created = int.from_bytes(scan.head_of(event, 4), "little")
            elif code in {_PREVIOUS_GTIDS, _GTID_LIST}:
                previous = _previous(code, scan.bytes_of(event), feed, scan.base + int(scan.offset[event]))
                return FileHead(feed.format, created, previous)
            elif scan.transaction[event] >= 0:
                return FileHead(feed.format, created, previous)
        feed.keep(scan.end)
    return FileHead(feed.format, created, previous)


def read_commits(
    chunks: Iterable[Bytes], file: str, offset: int = 0, description: FormatDescription | None = None
) -> Iterator[Commits]:
    """The whole transactions of a file, many at a time. Raises DecodeError.

    Given from its first byte on, or from a boundary at ``offset`` on with the file's format. Every checksum is
    verified; bytes after the last whole transaction are left alone.
    """
    feed = Feed(file, offset, description, minimum=_LEAST)
    for scan in _scans(feed, chunks):
        complete = scan.transactions[scan.transactions[:, event_cells.TX_STOP] > 0]
        feed.keep(scan.end)
        if len(complete):
            yield Commits(complete.copy())


def _scans(feed: Feed, chunks: Iterable[Bytes]) -> Iterator[Scan]:
    for chunk in chunks:
        yield from feed.add(chunk)
    yield from feed.scan()


def _previous(code: int, event: bytes, feed: Feed, offset: int) -> Gtids:
    body = event[HEADER : len(event) - feed.format.footer]
    kind: Any = MysqlGtids if code == _PREVIOUS_GTIDS else DomainGtids
    try:
        gtids: Gtids = kind.decode(body)
    except NoGtids as error:
        name = "PREVIOUS_GTIDS" if code == _PREVIOUS_GTIDS else "GTID_LIST"
        raise DecodeError(f"{feed.file}:{offset}: {name}: {error}") from None
    return gtids
