"""Binlog files whose transactions have the GTIDs that a test wants. Put here: writing and landing them."""

import struct
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.extract import ExtractionPlan, LogParts, slicing_task
from spark_jobs.bronze.resume import NextLog, first_log, next_log
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import Position
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Log, Source, Switch
from tests.binlogs.segment_spec import MAGIC, Commit, Insert, SegmentSpec, reframed
from tests.binlogs.segment_spec import Table as SpecTable
from tests.binlogs.segment_types import INT

A, B = (str(uuid.UUID(int=n * 0x11111111111111111111111111111111)) for n in (0xA, 0xB))
SPEC = SegmentSpec(tables=[SpecTable("shop.t", key=["id"], id=INT.NOT_NULL)], rotate_to="")


def gtids(text: str) -> MysqlGtids:
    """``a:1-3 b:2``, with the servers' UUIDs for a and b; ``''`` for none."""
    return MysqlGtids.parse(
        ",".join(gtid_text.replace("a:", f"{A}:").replace("b:", f"{B}:") for gtid_text in text.split())
    )


def file_of(previous: str, transactions: Sequence[str], next_file: str = "", second: int = 1_700_000_000) -> bytes:
    """A file whose head names ``previous``. Transactions are like ``a:5``, and insert a row of that number; ``-`` has
    no GTID and inserts 0. It ends in ROTATE to ``next_file``."""
    head, previous_event = replace(SPEC, second=second).events()
    events = [MAGIC, head, reframed(previous_event, body=_set(gtids(previous)))]
    for at, gtid_text in enumerate(transactions):
        server, _, number = gtid_text.partition(":")
        row = int(number) if number else 0
        spec = replace(SPEC, changes=[Insert("shop.t", (row,)), Commit()], second=second + at, gtids=bool(number))
        _, _, gtid, *rest = spec.events()
        if number:
            sid = uuid.UUID({"a": A, "b": B}[server]).bytes
            gtid = reframed(gtid, body=b"\1" + sid + struct.pack("<Q", row) + gtid[19 + 25 : -4])
        events += [gtid, *rest]
    if next_file:
        events += [replace(SPEC, rotate_to=next_file, second=second).events()[-1]]
    return b"".join(events)


def _set(gtid_set: MysqlGtids) -> bytes:
    """The body of a PREVIOUS_GTIDS event."""
    sets = [
        uuid.UUID(origin).bytes
        + struct.pack(f"<Q{2 * len(intervals)}Q", len(intervals), *(n for pair in intervals for n in pair))
        for (origin, _), intervals in gtid_set.intervals.items()
    ]
    return struct.pack("<Q", len(sets)) + b"".join(sets)


ONE_OF_SEVERAL = Switch(has_several=True)


class ServerFolder(Files):
    """A folder of files that stands for a server: it has an address and a UUID. Its clock is the files'."""

    def __init__(
        self, directory: Path, server_uuid: str | None, endpoint: str, switch: Switch = ONE_OF_SEVERAL
    ) -> None:
        super().__init__("shop", directory, switch)
        self.endpoint = endpoint
        self.uuid = server_uuid
        self.purged_gtids = MysqlGtids()

    def log(self, held: Position | None = None) -> Log:
        return replace(super().log(held), uuid=self.uuid)

    def purged(self) -> MysqlGtids:
        return self.purged_gtids


def write_log(folder: Path, files: Sequence[tuple[str, Sequence[str]]], base: str = "b", first: int = 1) -> None:
    """Files in order, each as its head's set and its transactions."""
    folder.mkdir(exist_ok=True)
    for at, (previous, transactions) in enumerate(files):
        name, following = (f"{base}.{number:06d}" for number in (first + at, first + at + 1))
        is_last = at == len(files) - 1
        (folder / name).write_bytes(file_of(previous, transactions, "" if is_last else following, 1_700_000_000 + at))


def land(table: Table, source: Source, start: str = "earliest") -> NextLog:
    """What an extraction lands, in a commit made without Spark."""
    head = table.head()
    next_range = next_log(source, table, head) if head else first_log(source, start)
    head = head or table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
    begin = bronze.begin(head.checkpoint) if head.checkpoint else next_range.range.start
    planned = ExtractionPlan(
        "shop", head, next_range.range, next_range.parts, next_range.log.uuid, begin, next_range.stretches
    )
    parts = LogParts("shop", planned.stretch.number, planned.parts, source.reading(), planned.uuid)
    task = slicing_task(parts, bronze.ARROW)
    ids = pa.RecordBatch.from_pydict({"id": pa.array(range(len(planned.parts)), pa.int64())})
    rows = pa.Table.from_batches(task(iter([ids])), schema=bronze.ARROW)
    table.append_rows(rows, head, planned.commit())
    return next_range
