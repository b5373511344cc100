"""Binlog files of MariaDB whose transactions have the GTIDs that a test wants. Put here: writing them.

Not here: landing them, or MySQL's (gtid_logs.py).
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from spark_jobs.log.position import Position
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Log, Switch
from tests.binlogs.gtid_logs import ONE_OF_SEVERAL
from tests.binlogs.segment_spec import MAGIC, Commit, Insert, SegmentSpec, Table, reframed
from tests.binlogs.segment_types import INT

SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)],
    rotate_to="",
    version="10.11.6-MariaDB-log",
    rows_version=1,
)


def _parsed_gtids(text: str) -> list[tuple[int, int, int]]:
    parts = (part.split("-") for part in text.split())
    return [(int(domain), int(server), int(number)) for domain, server, number in parts]


def file_of(
    previous: str, transactions: str, next_file: str = "", *, server: int = 1, second: int = 1_700_000_000
) -> bytes:
    """A file of a server whose GTID_LIST is ``previous``. Transactions are like ``0-1-5``, and insert a row of that
    number. It ends in ROTATE to ``next_file``."""
    spec = replace(SPEC, server_id=server, second=second)
    head, list_event = spec.events()
    listed = _parsed_gtids(previous)
    body = struct.pack("<I", len(listed)) + b"".join(struct.pack("<IIQ", *gtid) for gtid in listed)
    events = [MAGIC, head, reframed(list_event, code=163, body=body)]
    for at, (domain, origin, number) in enumerate(_parsed_gtids(transactions)):
        change = replace(SPEC, server_id=origin, changes=[Insert("shop.t", (number,)), Commit()], second=second + at)
        _, _, gtid, _begin, *rest = change.events()
        events += [reframed(gtid, code=162, body=struct.pack("<QIB", number, domain, 0) + bytes(6)), *rest]
    if next_file:
        events += [replace(spec, rotate_to=next_file).events()[-1]]
    return b"".join(events)


def write_log(
    folder: Path, server: int, files: Sequence[tuple[str, str]], *, first: int = 1, second: int = 1_700_000_000
) -> None:
    """Files of a server in order, each as its GTID_LIST and its transactions."""
    folder.mkdir(exist_ok=True)
    for at, (previous, transactions) in enumerate(files):
        name, following = (f"b.{number:06d}" for number in (first + at, first + at + 1))
        next_file = "" if at == len(files) - 1 else following
        content = file_of(previous, transactions, next_file, server=server, second=second + 100 * at)
        (folder / name).write_bytes(content)


class MariaFolder(Files):
    """A folder of files that stands for a server: it has an address and a server id, and no UUID."""

    def __init__(self, directory: Path, server_id: int, endpoint: str, switch: Switch = ONE_OF_SEVERAL) -> None:
        super().__init__("shop", directory, switch)
        self.endpoint, self.server_id = endpoint, server_id

    def log(self, held: Position | None = None) -> Log:
        return replace(super().log(held), server_id=str(self.server_id))
