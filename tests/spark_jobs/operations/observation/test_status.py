from dataclasses import asdict, fields, replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.status import SourceStatus, TableStatus, require_readable, status
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT

SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)],
    changes=[Insert("shop.t", (1,)), Commit(), Insert("shop.t", (2,)), Commit()],
)
SIZE = len(SPEC.to_bytes())


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A source of two files of ``SIZE`` bytes."""
    (tmp_path / "binlogs").mkdir()
    for number in (1, 2):
        (tmp_path / "binlogs" / f"b.{number:06d}").write_bytes(SPEC.to_bytes())
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {files: ./binlogs}\n")
    return load(path)


def landed(lake: Lake, position: str) -> None:
    """A commit of ours in bronze, made without Spark."""
    checkpoint = BronzeCommit(Position.parse(position), "b", begin=Position("b.000001", 4))
    properties = CommitProperties(
        custom_metadata={"userMetadata": checkpoint.to_json()}, app_transactions=[Transaction("stratalog", 1)]
    )
    deltalake.write_deltalake(lake.bronze("shop").path, bronze.ARROW.empty_table(), commit_properties=properties)


def publish(lake: Lake, *entries: Entry) -> None:
    rows = pa.Table.from_pylist([asdict(entry) for entry in entries], schema=publication._SCHEMA)
    deltalake.write_deltalake(lake.published().path, rows)


def of(pipeline: Pipeline) -> SourceStatus:
    return status(pipeline, lake_of(pipeline), "shop")


def test_an_empty_lake_is_behind_by_the_whole_log(pipeline: Pipeline) -> None:
    assert of(pipeline) == SourceStatus(
        source="shop",
        end=f"b.000002:{SIZE}",
        bronze=None,
        backlog_bytes=2 * SIZE,
        lag_seconds=None,
        retention_margin_bytes=None,
        retention_margin_hours=None,
        quarantined_events=0,
        error=None,
        warning=None,
        tables=[],
    )


@pytest.mark.parametrize(
    "bronze, backlog, margin",
    [
        ("b.000001:4", 2 * SIZE - 4 + 4, 0),
        ("b.000001:100", 2 * SIZE - 100, 96),
        (f"b.000001:{SIZE}", SIZE, SIZE - 4),
        ("b.000002:100", SIZE - 100, SIZE + 96),
        (f"b.000002:{SIZE}", 0, 2 * SIZE - 4),
    ],
)
def test_backlog_lies_behind_bronze_and_margin_before_it(
    pipeline: Pipeline, bronze: str, backlog: int, margin: int
) -> None:
    landed(lake_of(pipeline), bronze)
    source_status = of(pipeline)
    assert (source_status.bronze, source_status.backlog_bytes, source_status.retention_margin_bytes) == (
        bronze,
        backlog,
        margin,
    )
    assert source_status.lag_seconds is not None
    assert (source_status.lag_seconds == 0) == (backlog == 0)
    assert 0 <= source_status.lag_seconds < 600
    assert source_status.error is None
    assert (source_status.retention_margin_hours, source_status.warning) == (0, None)


def test_a_margin_below_its_limit_is_a_warning(pipeline: Pipeline) -> None:
    logs = pipeline.path.parent / "binlogs"
    for number in (1, 2):
        (logs / f"b.{number:06d}").rename(logs / f"b.{number + 6:06d}")
    pipeline.path.write_text(pipeline.path.read_text() + "retention: {margin_bytes: 100}\n")
    landed(lake_of(pipeline), "b.000007:100")
    source_status = of(load(pipeline.path))
    assert (source_status.retention_margin_bytes, source_status.error) == (96, None)
    assert source_status.warning is not None
    assert source_status.warning.startswith("the source has only 96 bytes of log before")


def test_a_source_that_does_not_answer_is_an_error_beside_what_the_lake_has(pipeline: Pipeline) -> None:
    landed(lake_of(pipeline), "b.000001:100")
    (pipeline.path.parent / "binlogs").rename(pipeline.path.parent / "elsewhere")
    source_status = of(pipeline)
    assert (source_status.end, source_status.bronze, source_status.backlog_bytes) == (None, "b.000001:100", None)
    assert (source_status.lag_seconds, source_status.retention_margin_bytes) == (None, None)
    folder = pipeline.path.parent / "binlogs"
    assert source_status.error == f"shop: {folder} cannot be read: No such file or directory"


def test_a_log_that_went_on_without_us_is_an_error(pipeline: Pipeline) -> None:
    landed(lake_of(pipeline), "b.000001:100")
    (pipeline.path.parent / "binlogs" / "b.000001").unlink()
    source_status = of(pipeline)
    assert (source_status.end, source_status.backlog_bytes, source_status.retention_margin_bytes) == (
        f"b.000002:{SIZE}",
        None,
        None,
    )
    assert source_status.error is not None
    assert source_status.error.startswith("shop: b.000001 is gone from the source, whose oldest file is b.000002; ")


def test_tables_are_listed_by_name_with_what_stopped_them(pipeline: Pipeline) -> None:
    publish(
        lake_of(pipeline),
        Entry("shop", "shop", "u", "stopped", reason="why", position="b.000001:100"),
        Entry("shop", "shop", "t", "current", position="b.000002:100", merged="b.000001:300"),
        Entry("crm", "shop", "v", "current"),
    )
    assert of(pipeline).tables == [
        TableStatus("shop.t", "current", "b.000002:100", "b.000001:300", None),
        TableStatus("shop.u", "stopped", "b.000001:100", None, "why"),
    ]


def test_each_downstream_table_is_shown_of_one_that_goes_to_several(pipeline: Pipeline) -> None:
    here, second = Target("lake/downstream/shop/t", "b.000002:100", 3), Target("lake/downstream/audit/t", reason="why")
    entry = Entry("shop", "shop", "t", "stopped", "why", position="b.000002:100", silver_version=1)
    publish(lake_of(pipeline), entry.with_targets([here, second]))
    (table,) = of(pipeline).tables
    assert (table.downstream, table.is_at("b.000002:100")) == (None, False)
    assert table.targets == [
        {"table": "shop.t", "downstream": "b.000002:100", "reason": None, "watermark": None, "mode": "mirror"},
        {"table": "audit.t", "downstream": None, "reason": "why", "watermark": None, "mode": "mirror"},
    ]


def test_its_json_has_the_keys_that_scripts_read(pipeline: Pipeline) -> None:
    publish(lake_of(pipeline), Entry("shop", "shop", "t", "current"))
    document = of(pipeline).to_json()
    assert list(document) == [field.name for field in fields(SourceStatus) if field.name != "redacted"]
    redacted = replace(of(pipeline), redacted={"events": 1, "bytes": 50})
    assert list(redacted.to_json()) == [field.name for field in fields(SourceStatus)]
    assert list(document["tables"][0]) == [field.name for field in fields(TableStatus)]


def test_what_is_to_be_read_next_has_to_be_there(pipeline: Pipeline) -> None:
    lake = lake_of(pipeline)
    assert require_readable(pipeline, lake, "shop") is None
    landed(lake, "b.000002:4")
    assert require_readable(pipeline, lake, "shop") == (
        f"bronze is at b.000002:4; the source's oldest byte lies {SIZE} bytes before that"
    )
    files = pipeline.sources["shop"].files
    assert files
    for number in (1, 2):
        (files / f"b.{number:06d}").rename(files / f"b.{number + 7:06d}")
    with pytest.raises(SourceError, match=r"^shop: b\.000002 is gone from the source, whose oldest file is b\.000008"):
        require_readable(pipeline, lake, "shop")


@pytest.mark.parametrize(
    "start, reason",
    [
        ("b.000001:9999", "is after the end of the log"),
        ("b.000009:4", "has no file b.000009"),
        ("0-1-5", "is of a MySQL server, whose sets are like"),
        ("2100-01-01T00:00:00Z", "is after the end of the log"),
    ],
)
def test_while_bronze_is_empty_that_is_the_start(pipeline: Pipeline, start: str, reason: str) -> None:
    source = pipeline.sources["shop"].model_copy(update={"start": start})
    moved = pipeline.model_copy(update={"sources": {"shop": source}})
    with pytest.raises(SourceError, match=reason):
        require_readable(moved, lake_of(moved), "shop")
