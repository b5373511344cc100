from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.loader import from_keys, load
from spark_jobs.config.model import Retention
from tests.spark_jobs.config.test_loader import LEAST, problems, write


@pytest.mark.parametrize(
    "start",
    ["2026-11-21T08:00:00+01:00", "2026-11-21 08:00:00Z", "0-1-100", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"],
)
def test_a_place_is_text_without_quotes_too(tmp_path: Path, start: str) -> None:
    """YAML alone would take a time for more than that, and move it to UTC."""
    pipeline = load(write(tmp_path, f"lake: x\nsources:\n  shop:\n    files: x\n    start: {start}\n"), {})
    assert pipeline.sources["shop"].start == start


def test_durations_are_days_hours_or_minutes(tmp_path: Path) -> None:
    assert load(write(tmp_path, LEAST), {}).retention == Retention()
    retention = load(write(tmp_path, f"{LEAST}retention: {{bronze: 30d, versions: 36h, margin: 90m}}\n"), {}).retention
    expected = (timedelta(days=30), timedelta(hours=36), timedelta(minutes=90), None)
    assert (retention.bronze, retention.versions, retention.margin, retention.margin_bytes) == expected


def test_a_redaction_names_tables(tmp_path: Path) -> None:
    text = f"{LEAST}    redact: ['!shop.x']\ntables: [hr.*]\n"
    reason = "only excludes tables; name first those whose rows bronze is not to have"
    assert problems(tmp_path, text) == {"sources.shop.redact": reason}


@pytest.mark.parametrize("zone", ["SYSTEM", "+2", "Europe/Atlantis", "/etc/localtime"])
def test_the_server_s_own_time_zone_is_one_that_is_known(tmp_path: Path, zone: str) -> None:
    reason = "is neither an offset (+02:00) nor a time zone that is known here (Europe/Berlin)"
    assert problems(tmp_path, f"{LEAST}    system_time_zone: '{zone}'\n") == {"sources.shop.system_time_zone": reason}
    pipeline = load(write(tmp_path, f"{LEAST}    system_time_zone: Europe/Berlin\n"), {})
    assert pipeline.sources["shop"].system_time_zone == "Europe/Berlin"


@pytest.mark.parametrize(
    "remote",
    [
        "sc://host",
        "sc://host:15002",
        "sc://10.0.0.7:15002/",
        "sc://[::1]:15002/;",
        "sc://adb-1.azuredatabricks.net:443/;token=dapi-1;x-databricks-cluster-id=0-1-x",
        "sc://host/;token=YWJj%2FZGVm%3D;use_ssl=true",
    ],
)
def test_addresses_of_spark_connect(tmp_path: Path, remote: str) -> None:
    keys = {"lake": "x", "sources": {"shop": {"files": "logs"}}, "spark": {"remote": "${REMOTE}"}}
    assert from_keys(keys, tmp_path / "pipeline.yaml", {"REMOTE": remote}).spark.remote == remote


@pytest.mark.parametrize(
    "remote",
    [
        "spark://host:7077",
        "host:15002",
        "sc://",
        "sc://host:port",
        "sc://host/path",
        "sc://user:s3cret@host:15002",
        "sc://host:15002;token=s3cret",
        "sc://host:15002/?token=s3cret",
        "sc://host:15002/#s3cret",
        "sc://host/;s3cret",
        "sc://host/;token=s3cret;",
        "sc://host/;token=s3cret==",
        "sc://host/;token=s3/cret",
    ],
)
def test_what_is_no_address_of_spark_connect_is_not_shown(tmp_path: Path, remote: str) -> None:
    """PySpark's own errors have the whole option, which may be the token."""
    (problem,) = problems(tmp_path, f"{LEAST}spark: {{remote: '${{REMOTE}}'}}\n", REMOTE=remote).items()
    assert problem[0] == "spark.remote"
    assert problem[1].startswith("must be like sc://host:15002, ")
    assert "s3" not in problem[1]


@pytest.mark.parametrize("value, at", [("s.sql", None), ({"file": "s.sql", "at": "b.000001:4"}, "b.000001:4")])
def test_a_schema_dump_is_a_file_or_a_file_and_a_place(tmp_path: Path, value: Any, at: str | None) -> None:
    keys = {"lake": "x", "sources": {"shop": {"files": "logs", "schema_dump": value}}}
    dump = from_keys(keys, tmp_path / "pipeline.yaml").sources["shop"].schema_dump
    assert dump is not None
    assert (dump.file, dump.at) == (tmp_path / "s.sql", at)
