"""Progress of every layer of a source, without a JVM.

Put here: what `stratalog status` shows and scripts read. Not here: how positions move.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.resume import first_log, next_log
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Name
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.downstream.watermark import watermark
from spark_jobs.errors import SourceError, StratalogError, about
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.verified import DIFFERS, NOT_COMPARED
from spark_jobs.operations.observation.verified import read as read_verified
from spark_jobs.pipeline.cascades.unlogged_changes import cascades
from spark_jobs.pipeline.initial_load.commit import READING, progress
from spark_jobs.silver import quarantine as skips
from spark_jobs.source.endpoints import Endpoints, Health
from spark_jobs.source.protocol import Source
from spark_jobs.source.retention_margin import Margin, margin
from spark_jobs.subscriptions.lag import GroupStatus, statuses


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One source table; positions as text, null where the layer has not got it yet."""

    table: str
    state: str
    silver: str | None
    downstream: str | None
    reason: str | None
    complete: bool | None = None
    """True if it has the rows from before its log begins, null where nothing of it is known."""
    load: dict[str, Any] | None = None
    """Progress of these rows, where a load of a table that is not complete was begun: state (reading, read, stopped),
    rows, chunks, the rows that the server estimates, and why it was stopped."""
    keys_never_whole: int | None = None
    """Keys that downstream lacks because row images left columns out and none held the row whole, null where there is
    none."""
    watermark: str | None = None
    """Time up to which a downstream table in which source tables have keys in common has all that they wrote; null
    where that is not known."""
    targets: list[dict[str, str | None]] | None = None
    """Downstream tables of a table that goes to several (table, downstream, reason, watermark, mode), null of others;
    ``downstream``, ``keys_never_whole`` and ``watermark`` are then the least or most of all."""
    numbered: bool | None = None
    """True where nothing names its columns, and they are called by their numbers; null of others."""
    mode: str | None = None
    """Mode of its downstream table (mirror, soft_delete, append, history); null where it goes to several, or nothing
    of it is there."""
    verified: dict[str, Any] | None = None
    """Result of the last comparison with the server: state, position, verified_at, reason, and rows that are
    missing, extra, different or unread; null where there was none."""

    @property
    def differs(self) -> bool:
        """True if the last comparison found other rows than the server's, and they were not mended since."""
        return bool(self.verified and self.verified["state"] == DIFFERS)

    @property
    def verified_at(self) -> str | None:
        """Time of the table's last comparison, or mend; None where there was none, or it could not be compared."""
        last = self.verified
        return last["verified_at"] if last and last["state"] != NOT_COMPARED else None

    def is_at(self, position: str | None) -> bool:
        """True if every layer has the table up to a position; downstream has none where silver has none."""
        reached = [target["downstream"] for target in self.targets] if self.targets else [self.downstream or position]
        return all(reached_position == position for reached_position in (self.silver, *reached))


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """One of several endpoints. in_use: bronze's end comes from it. A field is null where it does not apply."""

    endpoint: str
    in_use: bool
    available: bool
    unavailable_since: str | None
    next_try: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source. Bytes count the log between two positions; ``lag_seconds`` is how long ago bronze was at its end.

    The margin is what the source still has of its log before bronze's end; ``warning`` says that it is below a limit.
    ``endpoint``: the server that bronze's end comes from; ``endpoints``: where there are several. ``skips``: the events
    that are quarantined, quarantined_events of them: table, position, event, and since when (skipped_at). ``redacted``:
    of a source that redacts tables, how many events of bronze are blank and how many bytes are not the server's own for
    it, null where none are.
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
    endpoint: str | None = None
    stretch: int | None = None
    endpoints: list[EndpointStatus] = field(default_factory=list)
    skips: list[dict[str, str]] = field(default_factory=list)
    cascades: list[dict[str, str]] = field(default_factory=list)
    """Child tables whose rows the server changes by a foreign key without logging that: table, constraint, parent,
    on_delete, on_update."""
    redacted: dict[str, int] | None = None
    subscriptions: list[GroupStatus] = field(default_factory=list)
    """Consumer groups, with how far each is behind bronze."""

    def to_json(self) -> dict[str, Any]:
        """``redacted`` only where there is something."""
        return {name: value for name, value in asdict(self).items() if name != "redacted" or value}


def status(pipeline: Pipeline, lake: Lake, name: str) -> SourceStatus:
    """One source's status. Where the source is silent, ``error`` says so; the lake's side is there all the same."""
    # What the lake says needs no server; what the server says may be missing.
    table = lake.bronze(name)
    head = table.head()
    position = head.position if head else None
    last = stretches(head.checkpoint)[-1] if head and head.checkpoint else None
    endpoints = endpoints_of(pipeline, name)
    ahead = _ahead(endpoints, table, head)
    passed_over = skips.read(lake, name)
    return SourceStatus(
        source=name,
        end=str(ahead.end) if ahead.end else None,
        bronze=str(position) if position else None,
        backlog_bytes=ahead.backlog,
        lag_seconds=_lag(table, ahead.backlog) if position else None,
        retention_margin_bytes=ahead.margin.bytes if ahead.margin else None,
        retention_margin_hours=ahead.margin.hours if ahead.margin else None,
        quarantined_events=len(passed_over),
        error=ahead.problem,
        warning=ahead.margin.shortage(pipeline.retention) if ahead.margin else None,
        tables=_table_statuses(pipeline, lake, name),
        endpoint=last.endpoint if last else None,
        stretch=last.number if last else None,
        endpoints=_endpoints(endpoints),
        skips=[_skip(skip) for skip in passed_over],
        cascades=[cascade.to_json() for cascade in cascades(pipeline, lake, name)],
        redacted=_redacted(table, head) if head else None,
        subscriptions=statuses(lake, name),
    )


def require_readable(pipeline: Pipeline, lake: Lake, name: str) -> str | None:
    """True if the source still holds what is to be read next: bronze's position, or its start while bronze is empty.

    Says how far the source may purge before it does not; None while bronze is empty. Raises SourceError, also where
    that is less than the configuration wants.
    """
    table = lake.bronze(name)
    head = table.head()
    if head is None or head.position is None:
        endpoints_of(pipeline, name).first(lambda source: first_log(source, pipeline.sources[name].start))
        return None
    ahead = endpoints_of(pipeline, name).first(lambda source: _log_ahead(source, table, head))
    if ahead.problem:
        raise SourceError(ahead.problem)
    if ahead.margin is None:
        return f"bronze is at {head.position}; it goes on at {ahead.begin}"
    shortage = ahead.margin.shortage(pipeline.retention)
    if shortage:
        raise SourceError(shortage)
    return f"bronze is at {head.position}; the source's oldest byte lies {ahead.margin.bytes} bytes before that"


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Lead of a source over bronze. begin: where it resumes without bronze's last file. problem: why not."""

    end: Position | None = None
    backlog: int | None = None
    margin: Margin | None = None
    begin: Position | None = None
    problem: str | None = None


def _ahead(endpoints: Endpoints, table: Table, head: Head | None) -> _Ahead:
    try:
        return endpoints.first(lambda source: _log_ahead(source, table, head))
    except StratalogError as error:
        if len(endpoints.sources) > 1:
            return _Ahead(problem=str(error))
        return _Ahead(_log_end(endpoints.sources[0]), problem=str(error))


def _log_ahead(source: Source, table: Table, head: Head | None) -> _Ahead:
    """The log of a source that a table does not have yet. Raises SourceError, AnotherLog, DecodeError."""
    with about(source.name):
        if head is None or head.position is None:
            log = source.log()
            return _Ahead(log.end, log.bytes_from(log.first))
        ahead = next_log(source, table, head)
        if ahead.opens:
            return _Ahead(ahead.range.stop, ahead.size, begin=ahead.stretches[-1].begin)
        return _Ahead(ahead.log.end, ahead.size, margin(source, ahead.log, head.position), ahead.log.first)


def _log_end(source: Source) -> Position | None:
    try:
        return source.log().end
    except StratalogError:  # the same that the caller has told already
        return None


def _redacted(table: Table, head: Head) -> dict[str, int] | None:
    events, size = bronze.redacted_in_all(table, head.version)
    return {"events": events, "bytes": size} if events else None


def _skip(skip: skips.Skip) -> dict[str, str]:
    return {"table": str(skip.name), "position": skip.position, "event": skip.event, "skipped_at": skip.skipped_at}


def _endpoints(endpoints: Endpoints) -> list[EndpointStatus]:
    """Ask each of several endpoints whether it answers; what was found before says since when it does not."""
    if len(endpoints.sources) == 1:
        return []
    with ThreadPoolExecutor(len(endpoints.sources)) as pool:
        silent = list(pool.map(_silence, endpoints.sources))
    states = endpoints.health()
    return [
        _endpoint(endpoints, source, silence, states) for source, silence in zip(endpoints.sources, silent, strict=True)
    ]


def _silence(source: Source) -> str | None:
    """Reason why a source does not tell its log; None where it does."""
    try:
        source.log()
    except StratalogError as error:
        return str(error).removeprefix(f"{source.name}: ")
    return None


def _endpoint(endpoints: Endpoints, source: Source, silence: str | None, states: dict[str, Health]) -> EndpointStatus:
    assert source.endpoint is not None
    health = states.get(source.endpoint)
    return EndpointStatus(
        endpoint=source.endpoint,
        in_use=source.endpoint == endpoints.in_use,
        available=silence is None and health is None,
        unavailable_since=health.since.isoformat(timespec="seconds") if health else None,
        next_try=health.next_try.isoformat(timespec="seconds") if health else None,
        reason=silence or (health.reason if health else None),
    )


def _lag(table: Table, backlog: int | None) -> float | None:
    if backlog is None:
        return None
    if not backlog:
        return 0.0
    newest: int = table.history(1)[0]["timestamp"]
    return round(max(datetime.now(UTC).timestamp() - newest / 1000, 0.0), 3)


def _table_statuses(pipeline: Pipeline, lake: Lake, name: str) -> list[TableStatus]:
    entries = sorted(publication.read(lake, name), key=lambda entry: entry.name)
    shared = {entry.name: _shared(pipeline, name, entry) for entry in entries}
    reached = {
        into: watermark(pipeline, lake, into)
        for into in {into for target_names in shared.values() for into in target_names}
    }
    compared = read_verified(lake, name)
    tables = [
        _with_times(_table_status(lake, entry), entry, {into: reached[into] for into in shared[entry.name]})
        for entry in entries
    ]
    last = ((table, compared.get(table.table)) for table in tables)
    return [replace(table, verified=result.to_json()) if result else table for table, result in last]


def _shared(pipeline: Pipeline, source: str, entry: Entry) -> list[Name]:
    """The downstream tables of a source table in which it has keys in common with others."""
    if entry.state == "ignored" or not pipeline.routing.shares(source):
        return []
    return [into.name for into in pipeline.routing.of(source, *entry.name) if into.is_shared]


def _with_times(table: TableStatus, entry: Entry, reached: dict[Name, datetime | None]) -> TableStatus:
    """Status with its downstream tables. reached: of those in which keys are shared, up to when they are complete."""
    times = [at for at in reached.values() if at]
    watermark = min(times).isoformat() if times and len(times) == len(reached) else None
    return replace(table, watermark=watermark, targets=[_target(target, reached) for target in entry.targets] or None)


def _target(target: Target, reached: dict[Name, datetime | None]) -> dict[str, str | None]:
    at = reached.get(target.name)
    fields = {"table": ".".join(target.name), "downstream": target.merged, "reason": target.reason, "mode": target.mode}
    return fields | {"watermark": at.isoformat() if at else None}


def _table_status(lake: Lake, entry: Entry) -> TableStatus:
    name = ".".join(entry.name)
    load = _load_state(lake, entry) if entry.complete is False and entry.state != "ignored" else None
    fields = (entry.state, entry.position, entry.merged, entry.reason, entry.complete, load, entry.keys_never_whole)
    mode = entry.into[0].mode if len(entry.into) == 1 else None
    return TableStatus(name, *fields, numbered=entry.numbered, mode=mode)


def _load_state(lake: Lake, entry: Entry) -> dict[str, Any] | None:
    name = TableName(*entry.name)
    load = progress(lake, entry.source, name)
    if load is None:
        return None
    rows = lake.load(entry.source, *entry.name).rows_written() if load.state == READING else load.rows
    fields = {"state": load.state, "rows": rows, "chunks": load.chunks}
    return fields | {"estimated_rows": load.estimate, "reason": load.reason}
