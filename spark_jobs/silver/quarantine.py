"""Quarantined events, each of one table: the lake's table ``skips/<source>``.

Put here: its rows, and reading and writing them. Not here: who may add one (operations/repair.py), or what a quarantine
means (table_timeline.py for statements, decode_task.py for events of rows).

Every run and every backfill reads them, so that the same range comes to the same rows whenever it is done.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.config.filters import Filters
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position

COLUMNS = dict.fromkeys(("schema", "table", "position", "event", "reason", "skipped_at"), "STRING")
_ARROW = pa.schema([(name, pa.string()) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Skip:
    """One event that is quarantined for one table.

    event: its type, or the statement. reason: why the table had stopped. skipped_at: when it was recorded, RFC 3339.
    """

    schema: str
    table: str
    position: str
    event: str
    reason: str | None = None
    skipped_at: str = ""

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)

    @property
    def log_position(self) -> Position:
        return Position.parse(self.position)

    def __str__(self) -> str:
        return f"{self.name}: {self.position} ({self.event})"


def read(lake: Lake, source: str) -> list[Skip]:
    """The quarantined events of a source, by table and position, without a JVM. Raises LakeError."""
    return sorted((Skip(**row) for row in lake.skips(source).rows()), key=lambda skip: (skip.name, skip.log_position))


def edit(lake: Lake, source: str, change: Callable[[list[Skip]], list[Skip]]) -> None:
    """Replace a source's quarantined events by the result of ``change``, in one commit.

    Raises LostRace where another edit came between: the head is read before the rows.
    """
    table = lake.skips(source)
    head = table.head() or table.unwritten_head(COLUMNS, {})
    skips = change(read(lake, source))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    listed = [asdict(replace(skip, skipped_at=skip.skipped_at or now)) for skip in skips]
    rows = pa.Table.from_pylist(listed, schema=_ARROW)
    last = max((skip.log_position for skip in skips), default=head.position)
    assert last is not None
    table.replace_rows(rows, {}, head, Checkpoint(last, new_batch()))


def with_skips(filters: Filters, lake: Lake, source: str) -> Filters:
    """The rules of the configuration, and the quarantined events of a source."""
    by_table: dict[tuple[str, str], frozenset[Position]] = {}
    for skip in read(lake, source):
        by_table[skip.schema, skip.table] = by_table.get((skip.schema, skip.table), frozenset()) | {skip.log_position}
    return replace(filters, skips=by_table)
