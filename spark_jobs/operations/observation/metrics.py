"""Metrics of ``status``, in the model of Prometheus: the lake's logs, without a JVM.

Put here: names, labels and values of metrics. Not here: what is asked of sources and targets (status.py,
delivery/status.py), or how metrics travel (cli/status.py, telemetry/otlp.py).

All are gauges: each is how something is now. A label that does not apply is empty, which Prometheus takes as absent; a
value that is not known is no sample.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery.lake_table import LakeTable, published
from spark_jobs.delivery.status import DeliveryStatus
from spark_jobs.delivery.status import status as delivery_status
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation import failures, runs
from spark_jobs.operations.observation.alarms import KINDS, alarms
from spark_jobs.operations.observation.status import SourceStatus, TableStatus
from spark_jobs.operations.observation.status import status as source_status
from spark_jobs.operations.observation.table_sizes import TableSize, size_of

_AT_ONCE = 16
_BRONZE, _SILVER, _DOWNSTREAM = "bronze", "silver", "downstream"
_TABLE = ("source", "table", "layer")

FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "source_up": ("1 if the source can be read, else 0.", ("source",)),
    "position_stretch": ("Stretch of the log in which a layer's checkpoint lies.", _TABLE),
    "position_file": ("Number of the log file of the position that a layer is complete up to.", _TABLE),
    "position_offset_bytes": ('Offset in that file. The layer "source" is the end of the source\'s log.', _TABLE),
    "lag_bytes": ("Log between the position of a layer and the end of the source's log.", _TABLE),
    "lag_seconds": ("Time since a layer was last at the end of the source's log; 0 where it is there.", _TABLE),
    "table_behind": ("1 if a layer of a table lacks log that bronze has, else 0.", _TABLE),
    "table_stopped": ("1 if a table has stopped, else 0.", ("source", "table")),
    "table_differs": ("1 if the last comparison found other rows than the server's, else 0.", ("source", "table")),
    "table_verified_timestamp_seconds": ("When a table was last compared with the server.", ("source", "table")),
    "tables": ("Tables of the source that the lake knows.", ("source",)),
    "tables_stopped": ("Tables of the source that have stopped.", ("source",)),
    "purge_margin_bytes": ("Log that the source still has before bronze's end.", ("source",)),
    "purge_margin_seconds": ("The same as time; no sample if the log has no times.", ("source",)),
    "quarantined_events": ("Events that are skipped by request.", ("source",)),
    "rows": ("Rows of a table of the lake.", _TABLE),
    "files": ("Data files of a table's newest version.", _TABLE),
    "bytes": ("Bytes of these files.", _TABLE),
    "last_commit_timestamp_seconds": ("When the newest version was committed.", _TABLE),
    "last_merge_rows": ("Rows that the last merge inserted, updated and deleted.", _TABLE),
    "last_merge_rows_copied": ("Rows that the last merge wrote again as they were.", _TABLE),
    "last_merge_bytes_written": ("Bytes of the data files that the last merge wrote.", _TABLE),
    "last_run_success": ("1 if the last run ended without a failure and without a stopped table, else 0.", ("source",)),
    "last_run_timestamp_seconds": ("When the last run ended; when it began while it runs.", ("source",)),
    "last_run_seconds": ("How long each layer of the last run took.", ("source", "layer")),
    "failed_runs": ("Runs that have failed since the last one that did not.", ("source",)),
    "check_failed": ("1 if a condition holds that ends status with exit status 1, else 0.", ("source", "check")),
    "subscription_lag_bytes": ("Log between a consumer group's position and the end of bronze.", ("source", "group")),
    "subscription_lag_seconds": ("Age of the first change that a consumer group lacks.", ("source", "group")),
    "delivery_up": ("1 if the target of a delivery answers, else 0.", ("delivery",)),
    "delivery_behind": ("1 if a table's target lacks a published version, else 0.", ("delivery", "table")),
    "delivery_lag_versions": ("Versions of a table that its target lacks.", ("delivery", "table")),
    "delivery_lag_seconds": ("Age of the oldest version of a table that its target lacks.", ("delivery", "table")),
    "delivery_rows_written": ("Rows that were ever written for a table of a delivery.", ("delivery", "table")),
}
"""Metrics by name without ``stratalog_``: what each is, and its labels."""

Sample = tuple[str, tuple[str, ...], float]
"""A family's name, the values of its labels, a value."""


def exposition(listed: Iterable[Metric]) -> str:
    """Metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(listed)))
    return generate_latest(registry).decode()


class _Collected(Collector):
    """Metrics that were measured already, as a registry asks for them."""

    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> list[Metric]:
        return self.metrics


def families(pipeline: Pipeline) -> list[Metric]:
    """All metrics of a pipeline. Raises LakeError."""
    lake = lake_of(pipeline)
    statuses = [source_status(pipeline, lake, name) for name in pipeline.sources]
    deliveries = [delivery_status(pipeline, lake, name) for name in pipeline.deliveries]
    return families_of(pipeline, lake, statuses, deliveries)


def families_of(
    pipeline: Pipeline, lake: Lake, statuses: Sequence[SourceStatus], deliveries: Sequence[DeliveryStatus]
) -> list[Metric]:
    """The metrics of what was asked already: families without a sample are left out."""
    # Each source's tables, then downstream tables, which several sources may share.
    samples = [sample for status in statuses for sample in _source_samples(pipeline, status)]
    tables = published(pipeline, lake)
    sources = {status.source for status in statuses}
    samples += _lake_samples(lake, statuses, [table for table in tables if {of for of, _ in table.origins} & sources])
    by_name = {str(table): table for table in tables}
    samples += [sample for delivery in deliveries for sample in _delivery_samples(delivery, by_name)]
    gauges = {
        name: GaugeMetricFamily(f"stratalog_{name}", text, labels=labels) for name, (text, labels) in FAMILIES.items()
    }
    for name, labels, value in samples:
        gauges[name].add_metric(labels, value)
    return [family for family in gauges.values() if family.samples]


def _source_samples(pipeline: Pipeline, status: SourceStatus) -> Iterator[Sample]:
    source = status.source
    yield "source_up", (source,), float(status.error is None)
    # Positions and lags: what a silent source does not tell is left out.
    yield from _position_samples(source, "", "source", status.end)
    yield from _position_samples(source, "", _BRONZE, status.bronze)
    yield from _optional("lag_bytes", (source, "", _BRONZE), status.backlog_bytes)
    yield from _optional("lag_seconds", (source, "", _BRONZE), status.lag_seconds)
    yield from _optional("purge_margin_bytes", (source,), status.retention_margin_bytes)
    hours = status.retention_margin_hours
    yield from _optional("purge_margin_seconds", (source,), None if hours is None else hours * 3600)
    yield "quarantined_events", (source,), status.quarantined_events
    # Its tables.
    tables = [table for table in status.tables if table.state != "ignored"]
    yield "tables", (source,), len(tables)
    yield "tables_stopped", (source,), sum(table.state == "stopped" for table in tables)
    for table in tables:
        yield from _table_samples(source, table, status.bronze)
    for group in status.subscriptions:
        yield from _optional("subscription_lag_bytes", (source, group.group), group.lag_bytes)
        yield from _optional("subscription_lag_seconds", (source, group.group), group.lag_seconds)
    yield from _run_samples(pipeline, status)


def _table_samples(source: str, table: TableStatus, bronze: str | None) -> Iterator[Sample]:
    yield "table_stopped", (source, table.table), float(table.state == "stopped")
    if table.verified_at:
        yield "table_differs", (source, table.table), float(table.differs)
        at = datetime.fromisoformat(table.verified_at)
        yield "table_verified_timestamp_seconds", (source, table.table), at.timestamp()
    yield from _position_samples(source, table.table, _SILVER, table.silver)
    yield from _position_samples(source, table.table, _DOWNSTREAM, table.downstream)
    yield "table_behind", (source, table.table, _SILVER), float(table.silver != bronze)
    yield "table_behind", (source, table.table, _DOWNSTREAM), float(not table.is_at(bronze))


def _run_samples(pipeline: Pipeline, status: SourceStatus) -> Iterator[Sample]:
    """The last run, and the conditions that status warns of."""
    source = status.source
    last = runs.read(pipeline.path).get(source)
    if last:
        is_over = last.status != "running"
        if is_over:
            yield "last_run_success", (source,), float(last.status == "succeeded")
        at = datetime.fromisoformat(last.ended or last.started)
        yield "last_run_timestamp_seconds", (source,), at.timestamp()
        for layer, seconds in last.seconds.items():
            yield "last_run_seconds", (source, layer), seconds
    failure = failures.read(pipeline.path).get(source)
    yield "failed_runs", (source,), failure.runs if failure else 0
    raised = {alarm.kind for alarm in alarms(pipeline, status)}
    for kind in KINDS:
        yield "check_failed", (source, kind), float(kind in raised)


def _lake_samples(lake: Lake, statuses: Sequence[SourceStatus], downstream: Sequence[LakeTable]) -> list[Sample]:
    """Sizes and last commits. Tables are opened side by side: on an object store each is some requests."""
    jobs = [((status.source, "", _BRONZE), lake.bronze(status.source)) for status in statuses if status.bronze]
    for source in (status.source for status in statuses):
        entries = [entry for entry in publication.read(lake, source) if entry.silver_version is not None]
        jobs += [
            ((source, ".".join(entry.name), _SILVER), lake.silver(source, *entry.name))
            for entry in entries
            if entry.state != "ignored"
        ]
    # A table of several sources has none of them as its label: its rows would count twice.
    for table in downstream:
        origins = {source for source, _ in table.origins}
        owner = next(iter(origins)) if len(origins) == 1 else ""
        jobs.append(((owner, str(table), _DOWNSTREAM), table.table))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sizes = pool.map(lambda job: size_of(job[1], has_merges=job[0][2] == _DOWNSTREAM), jobs)
        return [sample for (labels, _), size in zip(jobs, sizes, strict=True) for sample in _size_samples(labels, size)]


def _size_samples(labels: tuple[str, str, str], size: TableSize | None) -> Iterator[Sample]:
    if size is None:
        return
    if labels[2] != _BRONZE:  # a row there is a slice of the log
        yield from _optional("rows", labels, size.rows)
    yield "files", labels, size.files
    yield "bytes", labels, size.bytes
    yield from _optional("last_commit_timestamp_seconds", labels, size.committed_at)
    if size.merge:
        yield "last_merge_rows", labels, size.merge.rows
        yield from _optional("last_merge_rows_copied", labels, size.merge.copied)
        yield from _optional("last_merge_bytes_written", labels, size.merge.bytes)


def _delivery_samples(status: DeliveryStatus, tables: dict[str, LakeTable]) -> Iterator[Sample]:
    delivery = status.delivery
    yield "delivery_up", (delivery,), float(status.error is None)
    for table in status.tables:
        labels = (delivery, table.table)
        yield "delivery_behind", labels, float(table.state != "current")
        lacking = table.published_version - (-1 if table.version is None else table.version)
        yield "delivery_lag_versions", labels, max(lacking, 0)
        yield "delivery_rows_written", labels, table.rows_written
        stored = tables.get(table.table)
        if stored:
            yield from _optional("delivery_lag_seconds", labels, _age(stored, table.version))


def _age(table: LakeTable, delivered: int | None) -> float | None:
    """Age of the first version that a target lacks; 0 where it lacks none."""
    if delivered is not None and delivered >= table.version:
        return 0.0
    history = table.table.history(None if delivered is None else table.version - delivered)
    lacking = [entry for entry in history if delivered is None or entry["version"] > delivered]
    if not lacking:
        return None
    oldest: int = min(entry["timestamp"] for entry in lacking)
    return round(max(datetime.now(UTC).timestamp() - oldest / 1000, 0.0), 3)


def _position_samples(source: str, table: str, layer: str, text: str | None) -> Iterable[Sample]:
    """A position as three numbers; their order is that of positions."""
    if text is None:
        return ()
    names = ("position_stretch", "position_file", "position_offset_bytes")
    order = Position.parse(text).order
    return [(name, (source, table, layer), number) for name, number in zip(names, order, strict=True)]


def _optional(name: str, labels: tuple[str, ...], value: float | None) -> Iterable[Sample]:
    return () if value is None else [(name, labels, value)]
