"""Positions to metadata and back, and how two copies of a position compare."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import deltalake
import pytest
from deltalake.schema import PrimitiveType
from hypothesis import given
from hypothesis import strategies as st

from assets import checkpoint
from assets.checkpoint import Comparison
from spark_jobs.binlog import TableName
from spark_jobs.bronze.extract import Extracted
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.downstream.merge_job import Merged
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import Compacted
from spark_jobs.silver.retired_columns import RetiredColumn
from spark_jobs.source.retention_margin import Margin

KEY = dg.AssetKey(["bronze", "shop"])
EARLY, LATE = Position("mysql-bin.000001", 1337), Position("mysql-bin.000002", 4)
positions = st.builds(
    Position,
    file=st.integers(1, 10**7).map(lambda number: f"mysql-bin.{number:06d}"),
    offset=st.integers(4, 2**40),
    stretch=st.integers(1, 9),
)


def head(position: Position) -> Head:
    return Head(7, 3, Checkpoint(position, "batch"))


def reported(instance: dg.DagsterInstance, metadata: checkpoint.Metadata) -> Position | None:
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata=metadata))
    return checkpoint.read_last(instance, [KEY])[KEY]


@pytest.mark.dagster
def test_columns_and_the_table_have_the_server_s_comments(tmp_path: Path) -> None:
    fields = [
        deltalake.Field("id", PrimitiveType("integer")),
        deltalake.Field("total", PrimitiveType("integer"), metadata={"comment": "gross, in 'EUR'"}),
        deltalake.Field("_deleted", PrimitiveType("boolean")),
    ]
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema(fields), description="What customers order")
    metadata = checkpoint.columns_metadata(Table(str(tmp_path), plain=False))
    assert metadata["table/comment"] == "What customers order"
    assert [(column.name, column.description) for column in metadata["dagster/column_schema"].columns] == [
        ("id", None),
        ("total", "gross, in 'EUR'"),
        ("_deleted", "Added: whether the row was deleted"),
    ]
    assert checkpoint.columns_metadata(Table(str(tmp_path / "gone"), plain=False)) == {}


@pytest.mark.dagster
def test_a_position_written_is_the_position_read() -> None:
    with dg.DagsterInstance.ephemeral() as instance:

        @given(positions)
        def holds(position: Position) -> None:
            assert reported(instance, checkpoint.position_metadata(position)) == position

        holds()


@pytest.mark.dagster
@pytest.mark.parametrize("metadata", [{}, {"binlog/end": "by hand"}, {"binlog/end": 7}, {"other": "x"}])
def test_a_materialization_without_a_position_is_a_lost_copy(metadata: checkpoint.Metadata) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert reported(instance, metadata) is None


@pytest.mark.dagster
def test_an_asset_without_a_materialization_has_no_position() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert checkpoint.read_last(instance, [KEY]) == {KEY: None}


@pytest.mark.parametrize(
    "recorded, in_lake, verdict",
    [
        (None, None, None),
        (EARLY, EARLY, None),
        (None, EARLY, "checkpoint/adopted"),  # filled by the command line, or the event was lost or wiped
        (LATE, EARLY, "checkpoint/repaired"),  # reported by hand, or the lake was restored
        (LATE, None, "checkpoint/repaired"),  # the lake is gone
        (EARLY, LATE, "checkpoint/advanced_outside_dagster"),  # a run from the command line
    ],
)
def test_delta_is_right_where_the_two_differ(
    recorded: Position | None, in_lake: Position | None, verdict: str | None
) -> None:
    comparison = Comparison(recorded, in_lake)
    assert comparison.differs == bool(verdict)
    metadata = comparison.to_metadata()
    assert [key for key, value in metadata.items() if value is True] == ([verdict] if verdict else [])
    assert str(in_lake or "nothing") in str(comparison)
    if comparison.differs and recorded is not None:
        assert metadata["checkpoint/dagster_had"] == str(recorded)
        assert metadata["checkpoint/lake_had"] == str(in_lake or "nothing")


@pytest.mark.parametrize("value, expected", [(0, 0), (2**31 - 1, 2**31 - 1), (2**31, 2.0**31), (-(2**40), -(2.0**40))])
def test_numbers_stay_where_the_ui_plots_them(value: int, expected: float) -> None:
    number = checkpoint.number(value)
    assert number == expected
    assert isinstance(number, float) or abs(number) < 2**31


def test_what_a_bronze_commit_says(tmp_path: Path) -> None:
    extracted = Extracted(
        source="shop",
        range=Range(EARLY, LATE),
        head=head(LATE),
        files=2,
        bytes=3 * 2**31,
        transactions=5,
        events=40,
        ignored=1,
        committed_at=datetime.now(UTC) - timedelta(seconds=30),
        gtid="u:1-5",
        margin=Margin(2**32, 36.5, "b.000009"),
        stretch=Stretch(2, EARLY, "db2:3306"),
        seconds=2.0,
    )
    metadata = checkpoint.extraction_metadata(extracted, Lake(str(tmp_path)).bronze("shop"))
    assert 30 <= metadata.pop("binlog/lag_seconds") < 60
    assert metadata == {
        "binlog/start": str(EARLY),
        "binlog/end": str(LATE),
        "binlog/end_file_number": 2,
        "binlog/files": 2,
        "binlog/bytes": 3.0 * 2**31,
        "binlog/transactions": 5,
        "binlog/events": 40,
        "binlog/ignored_events": 1,
        "binlog/gtid": "u:1-5",
        "source/endpoint": "db2:3306",
        "source/stretch": 2,
        "binlog/retention_margin_bytes": 2.0**32,
        "binlog/retention_margin_hours": 36.5,
        "run/seconds": 2.0,
        "run/bytes_per_second": 3.0 * 2**30,
        "delta/version": 7,
        "delta/counter": 3,
        "delta/path": dg.MetadataValue.path(f"{tmp_path}/bronze/shop"),
    }


def test_what_silver_and_downstream_commits_say(tmp_path: Path) -> None:
    name, lake = TableName("shop", "orders"), Lake(str(tmp_path))
    compacted = Compacted(
        "shop",
        name,
        Range(EARLY, LATE),
        head(LATE),
        changes=9,
        inserts=3,
        updates=2,
        deletes=1,
        seconds=3.0,
    )
    silver = checkpoint.compaction_metadata(compacted, lake.silver("shop", "shop", "orders"), derived=4)
    merged = Merged("shop", name, "path", head(LATE), Range(EARLY, LATE), 3, 2, 1, redone=1, seconds=2.0)
    downstream = checkpoint.merge_metadata(
        merged, lake.downstream("shop", "orders"), (KEY, lake.silver("shop", "shop", "orders")), None
    )
    counted = {"rows/inserted": 3, "rows/updated": 2, "rows/deleted": 1, "binlog/end": str(LATE)}
    assert counted.items() <= silver.items()
    assert counted.items() <= downstream.items()
    assert (silver["rows/changes"], silver["rows/derived"], silver["run/changes_per_second"]) == (9, 4, 3.0)
    assert (downstream["delta/windows_done_again"], downstream["run/rows_per_second"]) == (1, 3.0)
    assert "binlog/lag_seconds" not in silver | downstream


def test_kept_columns_are_named(tmp_path: Path) -> None:
    at, table = Position("b.000001", 4), Lake(str(tmp_path)).silver("shop", "shop", "t")
    retired = [RetiredColumn("_v_until_1_4", "INT", "v", at), RetiredColumn("_d_until_1_4", "DATE", None, at)]
    commit = SilverCommit(at, "batch", retired_columns=tuple(retired))
    assert checkpoint.head_metadata(Head(7, 3, commit), table)["table/kept_columns"] == "_v_until_1_4, _d_until_1_4"
    assert "table/kept_columns" not in checkpoint.head_metadata(Head(7, 3, Checkpoint(at, "batch")), table)


def test_a_watermark_that_is_not_known_is_not_told() -> None:
    at = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert checkpoint.watermark_metadata(None) == {}
    assert checkpoint.watermark_metadata(at) == {"binlog/watermark": dg.MetadataValue.timestamp(at)}


def test_every_key_is_written_here_and_nowhere_else() -> None:
    keys = {value for name, value in vars(checkpoint).items() if name.isupper() and isinstance(value, str)}
    keys = {key for key in keys if "/" in key}
    root = Path(__file__).parents[2]
    paths = [path for package in ("assets", "dagster_project") for path in (root / package).rglob("*.py")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths if path.name != "checkpoint.py"}
    assert len(keys) > 20
    assert [(name, key) for key in keys for name, text in texts.items() if f'"{key}"' in text] == []
