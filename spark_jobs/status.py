"""How far every layer of a source has come, without a JVM.

Put here: what `stratalog status` shows and scripts read. Not here: how positions move.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import deltalake

from spark_jobs import published
from spark_jobs.config import Pipeline
from spark_jobs.errors import StratalogError, about
from spark_jobs.lake import Lake, Table
from spark_jobs.place import parse_start
from spark_jobs.position import FIRST_EVENT, Position, file_number
from spark_jobs.published import Entry
from spark_jobs.source import Log
from spark_jobs.source.open import open_source
from spark_jobs.source.start import find_start


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One source table; positions as text, null where the layer has not got it yet."""

    table: str
    state: str
    silver: str | None
    downstream: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source. Bytes count the log between two positions; ``lag_seconds`` is how long ago bronze was at its end."""

    source: str
    end: str | None
    bronze: str | None
    backlog_bytes: int | None
    lag_seconds: float | None
    retention_margin_bytes: int | None
    quarantined_events: int
    error: str | None
    tables: list[TableStatus]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status(pipeline: Pipeline, lake: Lake, name: str) -> SourceStatus:
    """One source's status. Where the source is silent, ``error`` says so; the lake's side is there all the same."""
    table = lake.bronze(name)
    head = table.head()
    held = head.position if head else None
    log, error = _asked(pipeline, name)
    backlog, problem = _backlog(log, held)
    return SourceStatus(
        source=name,
        end=str(log.end) if log else None,
        bronze=str(held) if held else None,
        backlog_bytes=backlog,
        lag_seconds=_lag(table, backlog) if held else None,
        retention_margin_bytes=_margin(log, held) if log and held and not problem else None,
        quarantined_events=0,
        error=error or problem,
        tables=[_table(entry) for entry in sorted(published.read(lake, name), key=lambda one: one.name)],
    )


def require_readable(pipeline: Pipeline, lake: Lake, name: str) -> str | None:
    """Whether the source still holds what is to be read next: bronze's position, or its start while bronze is empty.

    Says how far the source may purge before it does not; None while bronze is empty. Raises SourceError.
    """
    source = open_source(name, pipeline.sources[name])
    log = source.log()
    head = lake.bronze(name).head()
    if head is None or head.position is None:
        log.parts_from(find_start(source, log, parse_start(pipeline.sources[name].start)))
        return None
    log.bytes_from(head.position)
    return (
        f"bronze is at {head.position}; the source's oldest byte lies {_margin(log, head.position)} bytes before that"
    )


def _asked(pipeline: Pipeline, name: str) -> tuple[Log | None, str | None]:
    try:
        with about(name):
            return open_source(name, pipeline.sources[name]).log(), None
    except StratalogError as error:
        return None, str(error)


def _backlog(log: Log | None, held: Position | None) -> tuple[int | None, str | None]:
    if log is None:
        return None, None
    try:
        return log.bytes_from(held or log.first), None
    except StratalogError as error:
        return None, str(error)


def _lag(table: Table, backlog: int | None) -> float | None:
    if backlog is None:
        return None
    if not backlog:
        return 0.0
    newest: int = deltalake.DeltaTable(table.path).history(1)[0]["timestamp"]
    return round(max(datetime.now(UTC).timestamp() - newest / 1000, 0.0), 3)


def _margin(log: Log, held: Position) -> int:
    """Bytes that the source may purge before what is still to be read: from its oldest byte to bronze's end."""
    earlier = sum(file.size for file in log.files if file_number(file.name) < held.number)
    return earlier + held.offset - FIRST_EVENT


def _table(entry: Entry) -> TableStatus:
    return TableStatus(".".join(entry.name), entry.state, entry.position, entry.merged, entry.reason)
