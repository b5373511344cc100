"""Distance of groups from the end of bronze, without a JVM.

Put here: what ``status`` and ``gc`` ask about groups. Not here: records (records.py), or the words about it (cli/).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow.compute as pc

from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import read_slices
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.storage.files import is_stored
from spark_jobs.subscriptions.records import Record, Records


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group. consumer: host and process; None where it has none.

    lag_bytes: of log between its position and the end of bronze. lag_seconds: since the first of it was committed, 0
    where there is none. Both are None where bronze does not hold the position.
    """

    group: str
    position: str
    consumer: str | None
    lag_bytes: int | None
    lag_seconds: float | None
    acknowledged_at: str
    tables: list[str]


def groups_of(lake: Lake, source: str) -> list[Record]:
    """The newest records of a source's groups, in order of their names. Raises LakeError."""
    if not is_stored(lake.root):
        return []
    records = Records(lake, source)
    newest = (records.read(group) for group in records.groups())
    return [record for record in newest if record]


def statuses(lake: Lake, source: str) -> list[GroupStatus]:
    """Every group of a source with its lag. Raises LakeError."""
    newest = groups_of(lake, source)
    if not newest:
        return []
    records, snapshot = Records(lake, source), BronzeSnapshot.find(lake, source)
    return [_status(records, record, snapshot) for record in newest]


def _status(records: Records, record: Record, snapshot: BronzeSnapshot | None) -> GroupStatus:
    position, consumer = record.cursor.position, record.consumer
    is_alive = consumer is not None and records.age(record) <= consumer.lease
    size, seconds = _lag(snapshot, position) if snapshot else (None, None)
    name = consumer.name if consumer and is_alive else None
    return GroupStatus(record.group, str(position), name, size, seconds, record.written_at, list(record.tables))


def _lag(snapshot: BronzeSnapshot, position: Position) -> tuple[int | None, float | None]:
    if position == snapshot.end:
        return 0, 0.0
    if not snapshot.oldest <= position < snapshot.end:
        return None, None
    slices = read_slices(DataFiles(snapshot.table, snapshot.version), Range(position, snapshot.end)).slices
    if not len(slices):
        return 0, 0.0
    size = pc.sum(pc.subtract(slices["stop"], slices["start"])).as_py()
    first = slices.slice(0, 1).to_pylist()[0]
    is_inside = (first["stretch"], first["number"]) == position.order[:2] and first["start"] < position.offset
    size -= position.offset - first["start"] if is_inside else 0
    oldest: datetime = pc.min(slices["committed_at"]).as_py()
    return size, round(max((datetime.now(UTC) - oldest).total_seconds(), 0.0), 3)
