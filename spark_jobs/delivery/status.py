"""Progress of deliveries, read from their targets.

Put here: what `stratalog status` and Dagster show of a delivery. Not here: how positions move (progress.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery import progress
from spark_jobs.delivery.deliver import chosen_tables
from spark_jobs.delivery.lake_table import LakeTable
from spark_jobs.delivery.progress import Progress
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import DeliveryError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position


@dataclass(frozen=True, slots=True)
class DeliveredTable:
    """One table of a delivery; positions as text, null where nothing was delivered yet.

    state: ``current``, ``behind``, or ``split``: inside a window of several transactions, which ends at
    ``safe_mode_until``. version and published_version: of the downstream table, what the target has and what is
    published.
    """

    table: str
    state: str
    position: str | None
    version: int | None
    published_version: int
    safe_mode_until: str | None
    rows_written: int
    updated_at: str | None


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """One delivery. error: why its target cannot be asked; its tables are not there then."""

    delivery: str
    target: str
    error: str | None
    tables: list[DeliveredTable]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status(pipeline: Pipeline, lake: Lake, name: str) -> DeliveryStatus:
    """One delivery's status. Raises LakeError."""
    settings = pipeline.deliveries[name].mysql
    target, tables = f"{settings.host}:{settings.port}", chosen_tables(pipeline, lake, name)
    try:
        with Connection(name, settings) as connection:
            rows = progress.progress_by_table(connection, name) if progress.exists(connection) else {}
    except DeliveryError as error:
        return DeliveryStatus(name, target, str(error), [])
    return DeliveryStatus(name, target, None, [_delivered_table(table, rows) for table in tables])


def _delivered_table(table: LakeTable, rows: Mapping[tuple[str, str], tuple[Progress, datetime]]) -> DeliveredTable:
    row, updated_at = rows.get((table.schema, table.name), (None, None))
    at = updated_at.replace(tzinfo=UTC).isoformat(timespec="seconds") if row and updated_at else None
    if row is None:
        return DeliveredTable(str(table), "behind", None, None, table.version, None, 0, at)
    is_current = row.version is not None and row.version >= table.version
    state = "split" if row.exit_version is not None else "current" if is_current else "behind"
    until, position = row.exit_position, row.position
    # In order the log's own row is ahead of its tables' until all that is published is delivered.
    log, logged_at = rows.get(("", table.origins[0][0]), (None, None)) if len(table.origins) == 1 else (None, None)
    if log and log.position and logged_at and position and Position.parse(position) < Position.parse(log.position):
        position, at = log.position, logged_at.replace(tzinfo=UTC).isoformat(timespec="seconds")
    if log and log.exit_version is not None:
        state, until = "split", log.exit_position
    return DeliveredTable(str(table), state, position, row.version, table.version, until, row.rows_written, at)
