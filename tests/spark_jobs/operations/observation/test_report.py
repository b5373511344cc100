"""The page of a source, from commits made without Spark."""

from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import Checkpoint, CommitKind
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.report import (
    Chart,
    Commit,
    Report,
    _gaps,
    _layers,
    _rows_by_commit_time,
    commits,
    duration,
    report,
)
from spark_jobs.operations.observation.status import SourceStatus, TableStatus
from tests.binlogs.segment_spec import Commit as Committed
from tests.binlogs.segment_spec import Insert, SegmentSpec
from tests.binlogs.segment_spec import Table as FixedHistory
from tests.binlogs.segment_types import INT

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
SPEC = SegmentSpec([FixedHistory("shop.t", key=["id"], id=INT.NOT_NULL)], [Insert("shop.t", (1,)), Committed()])


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "binlogs").mkdir()
    (tmp_path / "binlogs" / "b.000001").write_bytes(SPEC.to_bytes())
    return from_keys({"lake": "./lake", "sources": {"shop": {"files": "./binlogs"}}}, tmp_path / "pipeline.yaml")


def write(table: Table, position: str, version: int, rows: int, kind: str = "live", **members: object) -> None:
    """A commit as a run leaves it."""
    fields = {"position": position, "batch": "b", "kind": kind, "begin": "b.000001:4", **members}
    checkpoint = BronzeCommit.from_members(fields)
    properties = CommitProperties(
        custom_metadata={"userMetadata": checkpoint.to_json()}, app_transactions=[Transaction("stratalog", version)]
    )
    data = pa.table({"id": pa.array(range(rows), pa.int64())})
    deltalake.write_deltalake(table.path, data, mode="append", commit_properties=properties)


def test_commits_are_ours_alone_oldest_first(pipeline: Pipeline) -> None:
    table = lake_of(pipeline).bronze("shop")
    assert commits(table, ()) == []
    write(table, "b.000001:100", 1, 3, bytes=96)
    write(table, "b.000001:100", 2, 0, CommitKind.MAINTENANCE)
    deltalake.write_deltalake(table.path, pa.table({"id": pa.array([1], pa.int64())}), mode="append")
    write(table, "b.000001:200", 3, 1, bytes=100)
    listed = commits(table, ())
    assert [(str(commit.checkpoint.position), BronzeCommit.of(commit.checkpoint).log_bytes) for commit in listed] == [
        ("b.000001:100", 96),
        ("b.000001:200", 100),
    ]
    assert listed[0].at <= listed[1].at


def test_merges_count_the_rows_that_they_changed(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake_of(pipeline).bronze("shop")
    write(table, "b.000001:100", 1, 0)
    metadata = Checkpoint(Position.parse("b.000001:100"), "b").to_json()
    merged = {"numOutputRows": "9", "numTargetRowsInserted": "1", "numTargetRowsUpdated": "2"}
    history = [
        {"version": 1, "timestamp": 2, "userMetadata": metadata, "operationMetrics": merged},
        {"version": 0, "timestamp": 1, "userMetadata": metadata, "operationMetrics": {"numOutputRows": "5"}},
    ]
    monkeypatch.setattr(deltalake.DeltaTable, "history", lambda *_: history)
    listed = commits(table, ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"))
    assert [commit.rows for commit in listed] == [5, 3]


def at(minute: int, position: str, rows: int) -> Commit:
    return Commit(NOON.replace(minute=minute), Checkpoint(Position.parse(position), "b"), rows)


def test_tables_of_one_run_are_one_bar() -> None:
    commits = [at(0, "b.000001:9", 2), at(1, "b.000001:9", 3), at(7, "b.000001:12", 4)]
    assert _rows_by_commit_time(commits) == [(NOON, 5), (NOON.replace(minute=7), 4)]
    assert _gaps(commits) == [(NOON.replace(minute=1), 1.0), (NOON.replace(minute=7), 6.0)]


def test_bars_are_as_high_as_their_values() -> None:
    chart = Chart.of("Log", [(NOON, 500), (NOON, 2_000), (NOON, 0)], "bytes")
    assert [bar.height for bar in chart.bars] == [25, 100, 0]
    assert chart.bars[0].label == "2026-11-22 12:00:00 UTC: 500 bytes"
    assert chart.highest == "2.0 kB"
    assert chart.first == chart.last == "2026-11-22 12:00:00 UTC"
    assert Chart.of("Rows", [(NOON, 1_234_567)], "rows").highest == "1,234,567 rows"
    assert Chart.of("Gaps", [(NOON, 1)], "minutes").highest == "1 minute"
    assert Chart.of("None", [], "rows") == Chart("None", "", [])


def test_short_margins_are_minutes() -> None:
    assert [duration(hours) for hours in (0.02, 1.5, 2.5)] == ["1 minutes", "90 minutes", "2.5 hours"]


def now(**keys: object) -> SourceStatus:
    tables = [
        TableStatus("a.here", "current", "b.000001:9", "b.000001:9", None, complete=True),
        TableStatus("a.empty", "current", "b.000001:9", None, None),
        TableStatus("a.<b>", "stopped", "b.000001:4", "b.000001:4", "an ALTER of <b>", complete=False),
        TableStatus("a.out", "ignored", None, None, None),
    ]
    fields = {"end": "b.000001:12", "bronze": "b.000001:9", "backlog_bytes": 300, "retention_margin_bytes": 900}
    rest = {"lag_seconds": 1.0, "retention_margin_hours": 2.5, "quarantined_events": 0, "error": None, "warning": None}
    return SourceStatus(**({"source": "shop", "tables": tables} | fields | rest | keys))  # type: ignore[arg-type]


def test_layers_are_counted_over_the_tables_in_scope() -> None:
    silver, downstream = _layers(now())
    assert [(layer.name, layer.current, layer.tables, round(layer.share)) for layer in (silver, downstream)] == [
        ("silver", 2, 3, 67),
        ("downstream", 2, 3, 67),
    ]
    assert _layers(now(tables=[]))[0].share == 100


@pytest.mark.parametrize(
    "keys, share",
    [({}, 75), ({"backlog_bytes": 0}, 100), ({"backlog_bytes": None}, None), ({"retention_margin_bytes": None}, None)],
)
def test_how_much_of_the_log_is_read(keys: dict[str, object], share: float | None) -> None:
    assert Report(now(**keys), NOON, ()).read_share == share


def test_the_page_shows_everything_and_escapes_names() -> None:
    page = Report(now(warning="near"), NOON, _layers(now()), [Chart.of("Log", [(NOON, 5)], "bytes")]).html()
    assert "a.&lt;b&gt;" in page
    assert "an ALTER of &lt;b&gt;" in page
    assert "<b>" not in page
    for text in ("2 of 3 tables at the end of bronze", "300 bytes behind", "2.5 hours", "near", "width: 75.00%"):
        assert text in page
    assert page.count("<rect") == 1
    assert "http" not in page.replace("http-equiv", "")


def test_a_lake_with_nothing_in_it_has_a_page(pipeline: Pipeline) -> None:
    page = report(pipeline, lake_of(pipeline), "shop").html()
    assert page.count("Nothing in the history yet.") == 5
    write(lake_of(pipeline).bronze("shop"), "b.000001:100", 1, 3, bytes=96, margin_bytes=0)
    assert report(pipeline, lake_of(pipeline), "shop").html().count("<rect") == 2
