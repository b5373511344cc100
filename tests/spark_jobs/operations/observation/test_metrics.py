"""Metrics by the official parser, from a lake that was written without Spark."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.config.loader import load
from spark_jobs.delivery.status import DeliveredTable, DeliveryStatus
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation import runs
from spark_jobs.operations.observation.alarms import KINDS, _alarms
from spark_jobs.operations.observation.metrics import FAMILIES, exposition, families, families_of
from spark_jobs.operations.observation.status import SourceStatus, TableStatus
from spark_jobs.subscriptions.lag import GroupStatus
from tests.fix_cli import SPEC, Stratalog

SIZE = len(SPEC.to_bytes())
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def values(text: str) -> Values:
    """By name and labels; an empty label is none."""
    return {
        (sample.name, frozenset((name, label) for name, label in sample.labels.items() if label)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"stratalog_{name}", frozenset(labels.items())


def test_a_new_pipeline_is_told_from_the_source_and_an_empty_lake(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("status", "-c", pipeline_file, "--format", "prometheus")
    assert (ran.status, ran.err) == (0, "")
    by_key = values(ran.out)
    assert by_key[key("source_up", source="shop")] == 1
    assert by_key[key("position_offset_bytes", source="shop", layer="source")] == SIZE
    assert by_key[key("lag_bytes", source="shop", layer="bronze")] == SIZE
    assert not [name for name, _ in by_key if name.startswith("stratalog_last_run")]


def test_a_silent_source_leaves_out_what_it_alone_tells(stratalog: Stratalog, pipeline_file: Path) -> None:
    (pipeline_file.parent / "binlogs" / "mysql-bin.000001").unlink()
    ran = stratalog("status", "-c", pipeline_file, "--format", "prometheus")
    by_key = values(ran.out)
    assert (ran.status, by_key[key("source_up", source="shop")]) == (1, 0)
    assert by_key[key("check_failed", source="shop", check="unreachable")] == 1
    assert not [name for name, _ in by_key if "position" in name or "lag" in name]


def test_a_file_is_replaced_whole(stratalog: Stratalog, pipeline_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "stratalog.prom"
    file.write_text("before")
    ran = stratalog("status", "-c", pipeline_file, "--format", "prometheus", "--to", file)
    assert (ran.status, ran.out) == (0, "")
    assert values(file.read_text())[key("source_up", source="shop")] == 1
    assert [path.name for path in tmp_path.glob("stratalog.prom*")] == ["stratalog.prom"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--to", "x"], "--to is for --format prometheus"),
        (["--format", "prometheus", "--to", "gone/x"], "--to: gone/x: cannot be written: No such file or directory"),
        (["--format", "csv"], "'csv' is not one of"),
    ],
)
def test_wrong_use_is_one_message(
    arguments: list[str], message: str, stratalog: Stratalog, pipeline_file: Path
) -> None:
    ran = stratalog("status", "-c", pipeline_file, *arguments)
    assert ran.status == 2
    assert message in ran.err


def status_of(**fields: Any) -> SourceStatus:
    tables = [
        TableStatus("a.t", "current", "b.000001:9", "b.000001:9", None),
        TableStatus('odd"\\\n.t', "stopped", "b.000001:5", None, "why"),
        TableStatus("a.out", "ignored", None, None, None),
    ]
    groups = [
        GroupStatus("g", "b.000001:4", None, 5, 1.5, "", []),
        GroupStatus("unknown", "b", None, None, None, "", []),
    ]
    fixed: dict[str, Any] = {"retention_margin_bytes": 77, "retention_margin_hours": 2.0, "quarantined_events": 3}
    return SourceStatus(
        source="shop", end="2/b.000001:11", bronze="b.000001:9", backlog_bytes=2, lag_seconds=4.5, error=None,
        warning=None, tables=tables, subscriptions=groups, **fixed | fields,
    )  # fmt: skip


def test_each_value_has_its_name_and_labels(pipeline_file: Path) -> None:
    pipeline = load(pipeline_file)
    runs.note(pipeline.path, "shop", "r", "stopped", {"bronze": 1.25})
    delivered = DeliveredTable("a.t", "behind", None, 3, 5, None, 12, None)
    deliveries = [DeliveryStatus("d", "h:1", None, [delivered]), DeliveryStatus("away", "h:2", "refused", [])]
    text = exposition(families_of(pipeline, lake_of(pipeline), [status_of()], deliveries))
    by_key = values(text)
    expected = {
        key("position_stretch", source="shop", layer="source"): 2,
        key("position_file", source="shop", layer="bronze"): 1,
        key("position_offset_bytes", source="shop", layer="silver", table="a.t"): 9,
        key("lag_seconds", source="shop", layer="bronze"): 4.5,
        key("lag_bytes", source="shop", layer="bronze"): 2,
        key("purge_margin_bytes", source="shop"): 77,
        key("purge_margin_seconds", source="shop"): 7200,
        key("quarantined_events", source="shop"): 3,
        key("tables", source="shop"): 2,
        key("tables_stopped", source="shop"): 1,
        key("table_stopped", source="shop", table='odd"\\\n.t'): 1,
        key("table_behind", source="shop", table="a.t", layer="downstream"): 0,
        key("table_behind", source="shop", table='odd"\\\n.t', layer="silver"): 1,
        key("subscription_lag_bytes", source="shop", group="g"): 5,
        key("subscription_lag_seconds", source="shop", group="g"): 1.5,
        key("last_run_success", source="shop"): 0,
        key("last_run_seconds", source="shop", layer="bronze"): 1.25,
        key("failed_runs", source="shop"): 0,
        key("check_failed", source="shop", check="stopped"): 1,
        key("check_failed", source="shop", check="lag"): 0,
        key("delivery_up", delivery="d"): 1,
        key("delivery_up", delivery="away"): 0,
        key("delivery_behind", delivery="d", table="a.t"): 1,
        key("delivery_lag_versions", delivery="d", table="a.t"): 2,
        key("delivery_rows_written", delivery="d", table="a.t"): 12,
    }
    assert {name: by_key.get(name) for name in expected} == expected
    assert not [labels for _, labels in by_key if ("table", "a.out") in labels or ("group", "unknown") in labels]


def test_a_run_that_goes_on_has_no_success_yet(pipeline_file: Path) -> None:
    pipeline = load(pipeline_file)
    runs.note(pipeline.path, "shop", "r", "running", {})
    by_key = values(exposition(families(pipeline)))
    assert key("last_run_success", source="shop") not in by_key
    assert by_key[key("last_run_timestamp_seconds", source="shop")] <= datetime.now(UTC).timestamp()


def test_every_kind_of_alarm_is_a_check() -> None:
    source = Path(_alarms.__code__.co_filename).read_text(encoding="utf-8")
    assert set(re.findall(r'yield "(\w+)"', source)) == set(KINDS)


def test_names_are_prometheus_own_style() -> None:
    assert [name for name in FAMILIES if not re.fullmatch(r"[a-z][a-z_]*[a-z]", name)] == []
    labels = {label for _, labels in FAMILIES.values() for label in labels}
    assert labels == {"source", "table", "layer", "delivery", "group", "check"}


def test_promtool_finds_nothing_to_mend(pipeline_file: Path) -> None:
    promtool = which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here (Debian: prometheus)")
    pipeline = load(pipeline_file)
    text = exposition(families_of(pipeline, lake_of(pipeline), [status_of()], []))
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
