"""A lake that the command line filled, as Dagster gets to know it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.adoption import ReportedEvent, adopt, confirm
from tests.lakes.recorded_lake import STOPPED, lineage_of, recorded

pytestmark = pytest.mark.dagster


def report(instance: dg.DagsterInstance, events: list[ReportedEvent]) -> list[ReportedEvent]:
    for event in events:
        instance.report_runless_asset_event(event)
    return events


def test_each_table_is_adopted_once_with_its_rows_and_its_position(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, instance):
        lineage = lineage_of(pipeline)
        events = report(instance, list(adopt(instance, lineage)))
        by_key = {event.asset_key: event for event in events if isinstance(event, dg.AssetMaterialization)}
        assert lineage.downstream
        filled = {key for key in lineage.keys if key.path[-1] != "logged_by_statement"}
        assert filled <= by_key.keys()
        orders = by_key[dg.AssetKey(["downstream", "shop", "orders"])]
        metadata: dict[str, Any] = {key: value.value for key, value in orders.metadata.items()}
        assert (metadata["dagster/row_count"], metadata["checkpoint/adopted"]) == (3, True)
        assert metadata["binlog/end"] == (orders.tags or {})["dagster/data_version"]
        assert "state" in [column.name for column in metadata["dagster/column_schema"].columns]
        assert list(adopt(instance, lineage)) == [], "nothing is adopted twice"


def test_a_stopped_table_fails_its_check_with_the_reason(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, instance):
        events = report(instance, list(adopt(instance, lineage_of(pipeline))))
        checks = {event.asset_key: event for event in events if isinstance(event, dg.AssetCheckEvaluation)}
        assert not checks[STOPPED].passed
        assert "statement" in (checks[STOPPED].description or "")
        assert checks[dg.AssetKey(["downstream", "shop", "orders"])].passed


def test_a_source_without_changes_is_confirmed_before_its_freshness_ends(tmp_path: Path) -> None:
    with recorded(tmp_path, "max_lag: 30m\n") as (pipeline, instance):
        lineage = lineage_of(pipeline)
        report(instance, list(adopt(instance, lineage)))
        now = datetime.now(UTC)
        assert list(confirm(instance, lineage, now + timedelta(minutes=14))) == []
        (event,) = confirm(instance, lineage, now + timedelta(minutes=16))
        assert isinstance(event, dg.AssetMaterialization)
        assert (event.asset_key, event.metadata["run/nothing_new"].value) == (lineage.bronze, True)
        (tmp_path / "later" / "mysql-bin.000003").rename(tmp_path / "binlogs" / "mysql-bin.000003")
        assert list(confirm(instance, lineage, now + timedelta(minutes=16))) == [], "bronze is behind"
