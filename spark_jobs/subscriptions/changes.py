"""Operations on a group: moving and removing it.

Put here: changes that no consumer makes. Not here: consuming (subscription.py).
"""

from dataclasses import replace

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.positions import start_of
from spark_jobs.subscriptions.records import Record, Records


def move_group(
    lake: Lake, source: str, group: str, location: str, *, is_done: bool = True
) -> tuple[Position, Position]:
    """Move a group; return where it was and where it is. is_done: whether it is moved, or only looked up.

    Raises ConfigError where there is no such group, StratalogError where a consumer has it; and as ``start_of``.
    """
    records = Records(lake, source)
    record = _free(records, group)
    position = start_of(BronzeSnapshot.of(lake, source), location)
    if is_done:
        records.write(replace(record, cursor=Cursor(position), consumer=None))
    return record.cursor.position, position


def remove_group(lake: Lake, source: str, group: str, *, is_done: bool = True) -> Position:
    """Remove a group; return where it was. Raises as ``moved``."""
    records = Records(lake, source)
    record = _free(records, group)
    if is_done:
        records.remove(group)
    return record.cursor.position


def _free(records: Records, group: str) -> Record:
    record = records.read(group)
    if record is None:
        listed = ", ".join(records.groups()) or "none"
        raise ConfigError({"--group": f"{records.source} has no group {group!r}; it has {listed}"})
    if record.consumer and records.age(record) <= record.consumer.lease:
        raise StratalogError(
            f"{records.source}: group {group} has a consumer, {record.consumer.name}; end that one first"
        )
    return record
