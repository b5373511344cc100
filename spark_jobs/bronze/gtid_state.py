"""GTIDs of the transactions in bronze, read without a JVM.

The newest file that bronze holds from its first byte on names in its head all transactions before it; those behind are
read off its slices. Where there is no such file, the stretch's own beginning says what came before it.

Put here: the set, and where it ends. Not here: what follows from it (resume.py), or what a GTID is (log/gtid.py).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow.compute as pc

from spark_jobs.binlog import MAGIC, Commits, FormatDescription, read_commits, read_head
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.errors import SourceError
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import DomainGtids, Gtids, parse_gtids, union
from spark_jobs.log.position import Position, file_number
from spark_jobs.source.seek import gtids_of

_STOP, _ROTATE = 3, 4
_ROWS = 16
"""Slices read at once, of about 1 MiB each."""


def held_gtids(bronze: Table, version: int, stretch: Stretch) -> Gtids:
    """All transactions up to bronze's end, which lies in ``stretch``, those before bronze's beginning among them.

    Raises SourceError where that is not known: some have no GTID, or nothing tells of those before the beginning.
    """
    files = _file_names(bronze, version, stretch)
    complete_file = max((file for file in files if stretch.holds_whole(file)), key=file_number, default=None)
    sets = [stretch.gtids, _previous(bronze, version, stretch, complete_file) if complete_file else None]
    if sets == [None, None]:
        raise SourceError(
            f"which transactions came before {stretch.begin}, where bronze begins, is not known: bronze holds no file "
            "from its first byte on that names them"
        )
    newer = [file for file in files if not complete_file or file_number(file) >= file_number(complete_file)]
    sets += _gtids(bronze, version, stretch, newer, gtids_of)
    return reduce(union, (gtids for gtids in sets if gtids is not None))


def seen_gtids(
    bronze: Table, version: int, log_stretches: Sequence[Stretch], since: Position, gtids: DomainGtids
) -> DomainGtids:
    """MariaDB's GTIDs that bronze has, by domain.

    Server and number, as its log tells from a position's file on.

    A domain's number alone does not say so: where a server was lost with its last transactions, others give their
    numbers again. Raises SourceError where transactions there have no GTID.
    """
    last_gtids: dict[int, tuple[int, int]] = {}
    for stretch in log_stretches[since.stretch - 1 :]:
        is_first = stretch.number == since.stretch
        files = [
            file for file in _file_names(bronze, version, stretch) if not is_first or file_number(file) >= since.number
        ]
        heads = (_previous(bronze, version, stretch, file) for file in files if stretch.holds_whole(file))
        sets = [stretch.gtids, *heads, *_gtids(bronze, version, stretch, files, lambda commits: commits.among(gtids))]
        last_pairs = (pair for gtid_set in sets if isinstance(gtid_set, DomainGtids) for pair in gtid_set.last.items())
        last_gtids |= {domain: last for domain, last in last_pairs if gtids.last.get(domain) == last}
    return DomainGtids(last_gtids)


def ends_file(bronze: Table, version: int, end: Position) -> bool:
    """True if the last event before bronze's end is the last one of its file: ROTATE, or STOP at a shutdown."""
    here = (pc.field("stretch") == end.stretch) & (pc.field("number") == end.number) & (pc.field("stop") == end.offset)
    batches = bronze.scan(version, ["payload"], here & (pc.field("kind") == "control"), rows=1)
    payloads = [payload for batch in batches for payload in batch.column("payload").to_pylist()]
    return bool(payloads) and _last_code(payloads[0]) in {_ROTATE, _STOP}


def _last_code(events: bytes) -> int:
    """The type of the last of some events: the fifth byte of its header, whose bytes 9 to 12 are its length."""
    at = len(MAGIC) if events.startswith(MAGIC) else 0
    code = -1
    while at < len(events):
        code, length = events[at + 4], int.from_bytes(events[at + 9 : at + 13], "little")
        at += length
    return code


def _in(stretch: Stretch) -> pc.Expression:
    return pc.field("stretch") == stretch.number


def _file_names(bronze: Table, version: int, stretch: Stretch) -> list[str]:
    files: set[str] = set()
    for batch in bronze.scan(version, ["file"], _in(stretch), rows=1 << 16):
        files.update(batch.column("file").unique().to_pylist())
    return sorted(files, key=file_number)


def _previous(bronze: Table, version: int, stretch: Stretch, file: str) -> Gtids | None:
    """Previous GTIDs of a file's head; they are in the file's first slice."""
    condition = _in(stretch) & (pc.field("number") == file_number(file)) & (pc.field("start") == 0)
    batches = [batch.column("payload").to_pylist() for batch in bronze.scan(version, ["payload"], condition, rows=1)]
    return read_head([payload for payloads in batches for payload in payloads], file).previous


def _gtids(
    bronze: Table, version: int, stretch: Stretch, files: list[str], of: Callable[[Commits], Gtids]
) -> Iterator[Gtids]:
    """GTIDs of the transactions that end in the slices of some files; ``of``: what is asked of several."""
    numbers = [file_number(file) for file in files]
    condition = _in(stretch) & pc.field("number").isin(numbers) & (pc.field("transactions") > 0)
    names = ["file", "start", "transactions", "gtid", "context", "payload"]
    for batch in bronze.scan(version, names, condition, rows=_ROWS):
        for at in range(batch.num_rows):
            yield from _gtids_of({name: batch.column(name)[at].as_py() for name in names}, of)


def _gtids_of(cells: dict[str, Any], of: Callable[[Commits], Gtids]) -> Iterator[Gtids]:
    """A slice that one transaction ends in names it, and may hold its end alone; others hold all of several."""
    location = f"{cells['file']}:{cells['start']}"
    if cells["gtid"] is None:
        raise SourceError(_nameless(location))
    if cells["transactions"] == 1:
        yield parse_gtids(cells["gtid"])
        return
    head = cells["context"][: int.from_bytes(cells["context"][9:13], "little")]
    description = FormatDescription.parse(head, location)
    for commits in read_commits([cells["payload"]], cells["file"], cells["start"], description):
        if len(commits.nameless()):
            raise SourceError(_nameless(location))
        yield of(commits)


def _nameless(location: str) -> str:
    return (
        f"bronze holds transactions without GTID, at {location} for one, and positions of one server mean nothing on "
        "another; bring the first server back, or give the other one a source name of its own"
    )
