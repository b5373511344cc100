"""HTML page of a source: its present state, the positions of its layers, and the history of its runs.

Put here: reading the lake's history, and what of it is drawn. Not here: how a source is now (status.py), or the page
(report.html).

All of it comes from Delta's logs, without a JVM: each commit has its time, its position and its counts of rows. What
Delta has forgotten (30 days by its default) is not on the page.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import jinja2
from rich.filesize import decimal

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.errors import ConfigError
from spark_jobs.lake.commit import Checkpoint, CommitKind
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.operations.observation.status import SourceStatus, status
from spark_jobs.text.replaced import replace_text

_LATEST = 200
"""Commits of a table that are looked at, and bars of a chart."""
_AT_ONCE = 16
_TWO_HOURS = 2
_SILVER = ("numOutputRows",)
_DOWNSTREAM = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
"""Delta's counts of a MERGE; an append has numOutputRows."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of ours. rows: that it appended or merged."""

    at: datetime
    checkpoint: Checkpoint
    rows: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One run in a chart: its height from 0 to 100, and what it says."""

    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars in the order of time. highest: what a bar of full height says. first, last: the times at both ends."""

    title: str
    highest: str
    bars: Sequence[Bar]
    first: str = ""
    last: str = ""

    @classmethod
    def of(cls, title: str, values: Iterable[tuple[datetime, float]], unit: str) -> "Chart":
        """The chart of values in a unit; bytes are scaled to thousands, millions and so on."""
        points = list(values)[-_LATEST:]
        top = max((value for _, value in points), default=0) or 1
        times = [f"{at:%Y-%m-%d %H:%M:%S} UTC" for at, _ in points]
        bars = [
            Bar(100 * value / top, f"{at}: {_value_text(value, unit)}")
            for at, (_, value) in zip(times, points, strict=True)
        ]
        if not points:
            return cls(title, "", [])
        return cls(title, _value_text(top, unit), bars, times[0], times[-1])


def _value_text(value: float, unit: str) -> str:
    return decimal(int(value)) if unit == "bytes" else f"{value:,.10g} {unit.removesuffix('s') if value == 1 else unit}"


def duration(hours: float) -> str:
    """Hours as text; minutes below two hours."""
    return f"{hours:,.1f} hours" if hours >= _TWO_HOURS else f"{60 * hours:,.0f} minutes"


@dataclass(frozen=True, slots=True)
class LayerShare:
    """Share of a source's tables that are where bronze is, in one layer, in hundredths of all in scope."""

    name: str
    current: int
    tables: int

    @property
    def share(self) -> float:
        return 100 * self.current / self.tables if self.tables else 100.0


@dataclass(frozen=True, slots=True)
class Report:
    """Content of the page."""

    status: SourceStatus
    made_at: datetime
    layers: Sequence[LayerShare]
    charts: Sequence[Chart] = field(default_factory=list)

    @property
    def read_share(self) -> float | None:
        """Share of the source's log that is in bronze, in hundredths; None where that is not known."""
        behind, before = self.status.backlog_bytes, self.status.retention_margin_bytes
        if behind is None or before is None:
            return None
        return 100 * before / (before + behind) if before + behind else 100.0

    def html(self) -> str:
        """The page, whole: it asks for no other file."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
        )
        environment.filters["bytes"] = lambda value: decimal(int(value))
        environment.filters["duration"] = duration
        return environment.get_template("report.html").render(report=self, one=self.status)


def report(pipeline: Pipeline, lake: Lake, name: str) -> Report:
    """Read what the page of a source shows. Raises LakeError; a source that is silent is an error on the page."""
    now = status(pipeline, lake, name)
    names = [entry.name for entry in publication.read(lake, name) if pipeline.scope.holds(*entry.name)]
    bronze = commits(lake.bronze(name), ())
    silver = _all_commits([lake.silver(name, *table) for table in names], _SILVER)
    targets = dict.fromkeys(into.name for table in names for into in pipeline.routing.of(name, *table))
    merged = _all_commits([lake.downstream(*target) for target in targets], _DOWNSTREAM)
    margins = _sizes(bronze, lambda commit: commit.margin_bytes)
    charts = [
        Chart.of("Time between runs with changes", _gaps(bronze), "minutes"),
        Chart.of("Log extracted into bronze", _sizes(bronze, lambda commit: commit.log_bytes), "bytes"),
        Chart.of("Retention margin: log that the source still had before what was read", margins, "bytes"),
        Chart.of("Keys changed in silver", _rows_by_commit_time(silver), "rows"),
        Chart.of("Rows merged downstream", _rows_by_commit_time(merged), "rows"),
    ]
    return Report(now, datetime.now(UTC), _layers(now), charts)


def write(pipeline: Pipeline, lake: Lake, name: str, folder: Path) -> Path:
    """Write the page of a source into a folder; nobody sees half of it. Raises LakeError, ConfigError."""
    page, text = folder / f"{name}.html", report(pipeline, lake, name).html()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(page, text)
    except OSError as error:
        raise ConfigError(f"{folder}: a report cannot be written there: {error.strerror}") from error
    return page


def commits(table: Table, metrics: Sequence[str]) -> list[Commit]:
    """The newest commits of ours that a table's log still has, oldest first, without those of maintenance."""
    listed = []
    for version in table.history(_LATEST):
        checkpoint = Checkpoint.from_json(version.get("userMetadata"))
        if checkpoint is None or checkpoint.kind == CommitKind.MAINTENANCE:
            continue
        counts = version.get("operationMetrics", {})
        counts = json.loads(counts) if isinstance(counts, str) else counts
        counted = metrics if any(name in counts for name in metrics) else ("numOutputRows",)
        rows = sum(int(counts.get(name, 0)) for name in counted)
        listed.append(Commit(datetime.fromtimestamp(version["timestamp"] / 1000, UTC), checkpoint, rows))
    return listed[::-1]


def _all_commits(tables: Sequence[Table], metrics: Sequence[str]) -> list[Commit]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        histories = pool.map(lambda table: commits(table, metrics), tables)
    return sorted((commit for commits in histories for commit in commits), key=lambda commit: commit.at)


def _gaps(listed: Sequence[Commit]) -> list[tuple[datetime, float]]:
    return [(after.at, round((after.at - before.at).total_seconds() / 60, 1)) for before, after in pairwise(listed)]


def _sizes(listed: Sequence[Commit], size: Callable[[BronzeCommit], int | None]) -> list[tuple[datetime, float]]:
    sizes = ((commit.at, size(BronzeCommit.of(commit.checkpoint))) for commit in listed)
    return [(at, bytes_) for at, bytes_ in sizes if bytes_ is not None]


def _rows_by_commit_time(listed: Sequence[Commit]) -> list[tuple[datetime, float]]:
    """Rows by the position that commits brought their tables to, which those of one run share."""
    by_run: dict[str, tuple[datetime, float]] = {}
    for commit in listed:
        key = str(commit.checkpoint.position)
        at, rows = by_run.get(key, (commit.at, 0))
        by_run[key] = (at, rows + commit.rows)
    return list(by_run.values())


def _layers(status: SourceStatus) -> list[LayerShare]:
    tables = [table for table in status.tables if table.state != "ignored"]
    silver = sum(table.silver == status.bronze for table in tables)
    merged = sum(table.is_at(status.bronze) for table in tables)
    return [LayerShare("silver", silver, len(tables)), LayerShare("downstream", merged, len(tables))]
