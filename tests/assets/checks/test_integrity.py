"""The checks that look at the lake alone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.checks import integrity
from spark_jobs.binlog import TableName
from spark_jobs.checks.integrity import NEVER_WHOLE, REPEATED
from spark_jobs.checks.schema_drift import SchemaAudit
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import SourceStatus
from spark_jobs.pipeline.cascades.unlogged_changes import Cascade
from spark_jobs.silver.quarantine import Skip
from tests.binlogs.segment_spec import Commit, Insert
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster

CheckResults = dict[tuple[str, str], tuple[bool, str | None]]


def checked(code_location: CodeLocation) -> CheckResults:
    result = (
        code_location.defs()
        .resolve_job_def("audit")
        .execute_in_process(instance=code_location.instance, raise_on_error=False)
    )
    evaluations = result.get_asset_check_evaluations()
    return {
        (evaluation.asset_key.to_user_string(), evaluation.check_name): (evaluation.passed, evaluation.description)
        for evaluation in evaluations
    }


@pytest.mark.spark
@pytest.mark.long
def test_a_key_that_stands_twice_or_not_at_all_fails_its_table_alone(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with location(tmp_path, spark) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, 2)), Commit())
        assert code_location.run().success
        lines, orders = (lake_of(code_location.pipeline).downstream("shop", name) for name in ("lines", "orders"))
        spark.sql(f"INSERT INTO {orders.sql} SELECT * FROM {orders.sql}")
        spark.sql(f"DELETE FROM {lines.sql}")
        assert checked(code_location) == {
            ("bronze/shop", "positions_touch"): (True, None),
            ("bronze/shop", "lag"): (True, "max_lag is not set"),
            ("bronze/shop", "retention_margin"): (True, None),
            ("bronze/shop", "no_quarantine"): (True, None),
            ("bronze/shop", "columns_named"): (True, None),
            ("bronze/shop", "changes_logged"): (True, None),
            ("bronze/shop", "second_reader"): (True, "shop: 2 changes of 2 tables, 4 values: none differ"),
            ("downstream/shop/lines", "keys_unique"): (True, None),
            ("downstream/shop/orders", "keys_unique"): (
                False,
                f"1 key in several rows: {REPEATED}",
            ),
        }
        lacking = {(TableName("shop", name), ("shop", name)): count for name, count in (("lines", 2), ("orders", 3))}
        monkeypatch.setattr("spark_jobs.checks.integrity.keys_never_whole", lambda *_: lacking)
        results = checked(code_location)
        assert results["downstream/shop/lines", "keys_unique"] == (False, f"2 keys missing: {NEVER_WHOLE}")
        assert results["downstream/shop/orders", "keys_unique"] == (
            False,
            f"3 keys missing: {NEVER_WHOLE}; 1 key in several rows: {REPEATED}",
        )


STATUS = SourceStatus("shop", "a.000001:9", "a.000001:4", 5, 61.0, 2**40, 3.5, 0, None, None, [])


@pytest.mark.parametrize(
    "changed, limit, expected",
    [
        pytest.param(
            {},
            None,
            {"lag": (True, "max_lag is not set"), "retention_margin": (True, None)},
            marks=pytest.mark.thorough,
        ),
        pytest.param({}, 120, {"lag": (True, None)}, marks=pytest.mark.thorough),
        ({}, 60, {"lag": (False, "bronze was at the source's end 61 s ago, and max_lag is 60 s")}),
        pytest.param({"lag_seconds": None}, 60, {"lag": (True, None)}, marks=pytest.mark.thorough),
        pytest.param(
            {"warning": "only 1 hour left"},
            None,
            {"retention_margin": (False, "only 1 hour left")},
            marks=pytest.mark.thorough,
        ),
        ({"error": "no route"}, 60, {"lag": (False, "no route"), "retention_margin": (False, "no route")}),
    ],
)
def test_lag_and_margin_are_held_against_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], limit: int | None, expected: Any
) -> None:
    with location(tmp_path) as code_location:
        pipeline = code_location.pipeline.model_copy(update={"max_lag": timedelta(seconds=limit) if limit else None})
        monkeypatch.setattr(type(code_location), "pipeline", pipeline)
        monkeypatch.setattr(integrity, "_status", lambda *_: replace(STATUS, **changed))
        results = checked(code_location)
    assert results["bronze/shop", "positions_touch"] == (True, "bronze holds nothing yet")
    assert {name: results["bronze/shop", name] for name in expected} == expected


def test_checks_stand_in_their_own_job_and_in_no_run_of_a_source(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        defs = code_location.defs()
        assert not defs.resolve_job_def("sync_shop").asset_layer.asset_graph.asset_check_keys
        keys = defs.resolve_job_def("audit").asset_layer.asset_graph.asset_check_keys
    assert keys == {dg.AssetCheckKey(dg.AssetKey(["bronze", "shop"]), name) for name in integrity._MESSAGES}


def test_what_is_passed_over_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = [Skip("shop", "orders", "mysql-bin.000001:4", "WRITE_ROWS"), Skip("shop", "lines", "a.000002:9", "ALTER …")]
    with location(tmp_path) as code_location:
        monkeypatch.setattr("spark_jobs.silver.quarantine.read", lambda *_: over)
        results = checked(code_location)
    lines = "shop.orders: mysql-bin.000001:4 (WRITE_ROWS)\nshop.lines: a.000002:9 (ALTER …)"
    assert results["bronze/shop", "no_quarantine"] == (False, f"2 events are quarantined\n{lines}")


def test_tables_whose_columns_are_numbered_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        Entry("shop", "shop", name, state, numbered=numbered)
        for name, state, numbered in (("a", "current", True), ("b", "ignored", True), ("c", "stopped", None))
    ]
    with location(tmp_path) as code_location:
        monkeypatch.setattr("spark_jobs.downstream.publication.read", lambda *_: entries)
        results = checked(code_location)
    assert results["bronze/shop", "columns_named"] == (False, "nothing names the columns of 1 table\nshop.a")


def test_tables_that_foreign_keys_change_unlogged_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child, parent = TableName("shop", "lines"), TableName("shop", "orders")
    over = [Cascade(child, ForeignKey("f", parent, "CASCADE"))]
    with location(tmp_path) as code_location:
        monkeypatch.setattr("spark_jobs.pipeline.cascades.unlogged_changes.cascades", lambda *_: over)
        is_passed, description = checked(code_location)["bronze/shop", "changes_logged"]
    assert not is_passed
    assert str(description).startswith("shop.lines: is changed by the foreign key f -> shop.orders ON DELETE CASCADE")


@pytest.mark.parametrize(
    "audit, expected, metadata",
    [
        (
            SchemaAudit("shop", None, 3, {TableName("shop", "orders"): ["column note: only the server has it"]}),
            (False, "shop.orders: column note: only the server has it"),
            {"compared": 3, "differing": 1, "waiting": 0, "without_rows": 0},
        ),
        pytest.param(
            SchemaAudit("shop", None, 2, waiting={TableName("shop", "lines"): "has stopped"}, unknown=4),
            (True, "columns and keys of tables: 2 as the server declares, 1 pending, 4 without rows"),
            {"compared": 2, "differing": 0, "waiting": 1, "without_rows": 4},
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            SchemaAudit("shop", None, why_not="bronze holds nothing yet"),
            (True, "columns are not compared with the server's: bronze holds nothing yet"),
            {},
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_the_columns_of_a_server_are_a_check_that_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audit: SchemaAudit, expected: Any, metadata: dict[str, int]
) -> None:
    sources = {"shop": {"mysql": {"host": "db", "user": "repl", "password": "secret"}}}
    with location(tmp_path, sources=sources) as code_location:
        monkeypatch.setattr(integrity, "_status", lambda *_: STATUS)
        monkeypatch.setattr("spark_jobs.checks.schema_drift.audit_schema", lambda *_: audit)
        result = code_location.defs().resolve_job_def("audit").execute_in_process(instance=code_location.instance)
        (evaluation,) = [
            check_evaluation
            for check_evaluation in result.get_asset_check_evaluations()
            if check_evaluation.check_name == "schema"
        ]
    assert (evaluation.passed, evaluation.description) == expected
    assert not evaluation.blocking
    assert evaluation.severity == dg.AssetCheckSeverity.ERROR
    keys = {"without_rows": "schema/tables_without_rows"}
    expected_metadata = {keys.get(key, f"schema/tables_{key}"): value for key, value in metadata.items()}
    assert {key: value.value for key, value in evaluation.metadata.items()} == expected_metadata
