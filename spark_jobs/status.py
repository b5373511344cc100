"""How far every layer of a source has come, without a JVM.

Put here: what `stratalog status` shows and scripts read. Not here: how positions move.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import deltalake

from spark_jobs import published
from spark_jobs.binlog import TableName
from spark_jobs.config import Pipeline
from spark_jobs.errors import SourceError, StratalogError, about
from spark_jobs.lake import Lake, Table
from spark_jobs.margin import margin
from spark_jobs.place import parse_start
from spark_jobs.position import Position
from spark_jobs.published import Entry
from spark_jobs.source import Log, Source
from spark_jobs.source.open import open_source
from spark_jobs.source.start import find_start
from spark_jobs.staging import READING, progress


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One source table; positions as text, null where the layer has not got it yet.

    complete: whether it has the rows from before its log begins, null where nothing of it is known. load: how far these
    rows are, where a load of a table that is not complete was begun: state (reading, read, stopped), rows, chunks, the
    rows that the server estimates, and why it was stopped.
    """

    table: str
    state: str
    silver: str | None
    downstream: str | None
    reason: str | None
    complete: bool | None = None
    load: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source. Bytes count the log between two positions; ``lag_seconds`` is how long ago bronze was at its end.

    The margin is what the source still has of its log before bronze's end; ``warning`` says that it is below a limit.
    """

    source: str
    end: str | None
    bronze: str | None
    backlog_bytes: int | None
    lag_seconds: float | None
    retention_margin_bytes: int | None
    retention_margin_hours: float | None
    quarantined_events: int
    error: str | None
    warning: str | None
    tables: list[TableStatus]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def status(pipeline: Pipeline, lake: Lake, name: str) -> SourceStatus:
    """One source's status. Where the source is silent, ``error`` says so; the lake's side is there all the same."""
    table = lake.bronze(name)
    head = table.head()
    held = head.position if head else None
    source = open_source(name, pipeline.sources[name])
    log, error = _asked(source)
    backlog, problem = _backlog(log, held)
    left = margin(source, log, held) if log and held and not problem else None
    return SourceStatus(
        source=name,
        end=str(log.end) if log else None,
        bronze=str(held) if held else None,
        backlog_bytes=backlog,
        lag_seconds=_lag(table, backlog) if held else None,
        retention_margin_bytes=left.bytes if left else None,
        retention_margin_hours=left.hours if left else None,
        quarantined_events=0,
        error=error or problem,
        warning=left.shortage(pipeline.retention) if left else None,
        tables=[_table(lake, entry) for entry in sorted(published.read(lake, name), key=lambda one: one.name)],
    )


def require_readable(pipeline: Pipeline, lake: Lake, name: str) -> str | None:
    """Whether the source still holds what is to be read next: bronze's position, or its start while bronze is empty.

    Says how far the source may purge before it does not; None while bronze is empty. Raises SourceError, also where
    that is less than the configuration wants.
    """
    source = open_source(name, pipeline.sources[name])
    log = source.log()
    head = lake.bronze(name).head()
    if head is None or head.position is None:
        log.parts_from(find_start(source, log, parse_start(pipeline.sources[name].start)))
        return None
    log.bytes_from(head.position)
    left = margin(source, log, head.position)
    shortage = left.shortage(pipeline.retention)
    if shortage:
        raise SourceError(shortage)
    return f"bronze is at {head.position}; the source's oldest byte lies {left.bytes} bytes before that"


def _asked(source: Source) -> tuple[Log | None, str | None]:
    try:
        with about(source.name):
            return source.log(), None
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


def _table(lake: Lake, entry: Entry) -> TableStatus:
    name = ".".join(entry.name)
    load = _load(lake, entry) if entry.complete is False and entry.state != "ignored" else None
    return TableStatus(name, entry.state, entry.position, entry.merged, entry.reason, entry.complete, load)


def _load(lake: Lake, entry: Entry) -> dict[str, Any] | None:
    name = TableName(*entry.name)
    found = progress(lake, entry.source, name)
    if found is None:
        return None
    rows = lake.load(entry.source, *entry.name).rows_written() if found.state == READING else found.rows
    said = {"state": found.state, "rows": rows, "chunks": found.chunks}
    return said | {"estimated_rows": found.estimate, "reason": found.reason}
