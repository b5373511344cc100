from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lake import Lake
from spark_jobs.position import Position
from spark_jobs.published import COLUMNS, Entry, read, surveyed, write

AT = Position("b.000002", 100)
FULL = Entry(
    source="shop",
    schema="shop",
    table="orders",
    state="current",
    reason=None,
    position="b.000002:100",
    silver_version=3,
    merged="b.000002:100",
    downstream="/lake/downstream/shop/orders",
    downstream_version=7,
    committed_at=datetime(2026, 11, 21, 8, 3, 5, 483578, UTC),
    surveyed="b.000002:100",
    published_at=datetime(2026, 11, 21, 8, 4, tzinfo=UTC),
)
BARE = Entry("shop", "shop", "audit", "ignored")


def test_nothing_is_published_before_the_first_run(tmp_path: Path) -> None:
    assert read(Lake(str(tmp_path)), "shop") == []


def test_columns_have_types() -> None:
    assert COLUMNS["silver_version"] == COLUMNS["downstream_version"] == "BIGINT"
    assert COLUMNS["committed_at"] == COLUMNS["published_at"] == "TIMESTAMP"
    assert {kind for name, kind in COLUMNS.items() if not name.endswith(("_version", "_at"))} == {"STRING"}


def test_an_entrys_checkpoint_is_its_position() -> None:
    assert (FULL.checkpoint, BARE.checkpoint) == (AT, None)
    assert FULL.name == ("shop", "orders")


@pytest.mark.parametrize(
    "texts, furthest",
    [([], None), ([None], None), (["b.999999:4", None, "b.1000000:4"], "b.1000000:4"), (["b.000001:9"], "b.000001:9")],
)
def test_the_survey_went_as_far_as_the_furthest_row_says(texts: list[str | None], furthest: str | None) -> None:
    entries = [replace(BARE, surveyed=text) for text in texts]
    assert surveyed(entries) == (Position.parse(furthest) if furthest else None)


@pytest.mark.spark
def test_a_source_replaces_its_own_rows_alone(spark: SparkSession, lake: Path) -> None:
    whole = Lake(str(lake))
    write(spark, whole, "shop", [FULL, BARE], AT)
    other = replace(FULL, source="crm")
    write(spark, whole, "crm", [other], Position("b.000009", 4))
    assert sorted(read(whole, "shop"), key=lambda one: one.table) == [BARE, FULL]
    write(spark, whole, "shop", [FULL], AT)
    assert (read(whole, "shop"), read(whole, "crm")) == ([FULL], [other])
    head = whole.published().head()
    assert head is not None
    assert head.checkpoint is not None
    assert (head.counter, head.position, head.checkpoint.notes) == (3, AT, {"source": "shop"})
