"""No message repeats a value: every kind of stop, in a schema with a secret in every column, and all that is written.

A run by Dagster, whose event log is read as well; then the verbs that show what the run published.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from dagster_project.build import build_defs
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.report import write
from tests.fix_pipeline import SOURCE, Shop
from tests.lakes.code_location import GivenSession

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.dagster, pytest.mark.slow]

SECRETS = ("PLAINSECRET", "1976-00", "197600", "504c41494e")
"""As text, as a date, as a number, in hex."""
COLUMNS = "word VARCHAR(60), born DATE, doc JSON, bytes VARBINARY(60)"
VALUES = "'PLAINSECRET-a', '1976-00-00', '{\"PLAINSECRETKEY\": \"PLAINSECRET-doc\"}', 'PLAINSECRET-b'"
STATEMENT, ZERO_DATES = "SET SESSION binlog_format = STATEMENT", "SET SESSION sql_mode = ''"
STOPS: dict[str, tuple[tuple[str, ...], str]] = {
    "inserted": ((STATEMENT, f"INSERT INTO inserted VALUES (7, {VALUES})"), "changes rows in statement format"),
    "updated": (
        (STATEMENT, "UPDATE updated SET word = 'it''s PLAINSECRET' WHERE bytes = \"PLAINSECRET-b\""),
        "changes rows in statement format",
    ),
    "replaced": ((STATEMENT, r"REPLACE INTO replaced (id, word) VALUES (7, 'a\\PLAINSECRET')"), "in statement format"),
    "filtered": ((), "its type in the lake cannot hold the value of this row"),
    "narrowed": (("ALTER TABLE narrowed MODIFY id SMALLINT COMMENT 'PLAINSECRET'",), "does not keep every value"),
    "defaulted": (("ALTER TABLE defaulted ADD mask_me VARCHAR(60) DEFAULT 'PLAINSECRET-c'",), "not masked yet"),
    "unread": (
        ("SET SESSION time_zone = SYSTEM", "ALTER TABLE unread ADD at TIMESTAMP DEFAULT '1976-01-02 03:04:05'"),
        "is not in the log",
    ),
    "keyed": (("ALTER TABLE keyed DROP PRIMARY KEY, ADD PRIMARY KEY (id, word)",), "ALTER TABLE at"),
    "bag": (("DELETE FROM bag WHERE id = 0",), "copies"),
}
"""By table: statements after its rows, and why it stops."""
MASKS = {"word": {"hash": "${SALT}"}, "doc": {"constant": "-"}, "bytes": {"truncate": 1}}
RULES: dict[str, Any] = {
    "row_filters": {"early": {"tables": ["filtered"], "insert-value-expr": "born < '1980-01-01'"}},
    "columns": {
        "all": {"tables": sorted({*STOPS} - {"defaulted"}), "exclude": ["born"], "mask": MASKS},
        "added": {"tables": ["defaulted"], "mask": MASKS | {"mask_me": {"constant": "-"}}},
    },
}


def execute(shop: Shop, *statements: str) -> None:
    """Statements on a connection of their own, so that what they set of its session is theirs."""
    with shop.database.server.connect() as connection, connection.cursor() as cursor:
        connection.select_db(shop.database.name)
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def stopping(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The tables, with a row from before the log begins, and one that the lake sees before each stops."""
    for name in STOPS:
        key = "" if name == "bag" else " PRIMARY KEY"
        execute(shop, ZERO_DATES, f"CREATE TABLE {name} (id INT{key}, {COLUMNS})")
        execute(shop, ZERO_DATES, f"INSERT INTO {name} VALUES (0, {VALUES})")
    started_shop = replace(shop, start=shop.end())
    for name, (statements, _) in STOPS.items():
        execute(started_shop, ZERO_DATES, f"INSERT INTO {name} VALUES (1, {VALUES})", *statements)
    monkeypatch.setenv("SALT", "pepper")
    return started_shop


def text_of(folder: Path) -> str:
    """All that the Parquet files and the logs of a Delta table hold."""
    rows = [str(pq.read_table(file).to_pylist()) for file in folder.rglob("*.parquet")]
    return "\n".join([*rows, *(file.read_text() for file in folder.rglob("_delta_log/*.json"))])


def command(*arguments: str) -> str:
    """What a verb prints, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "spark_jobs.cli", *arguments], capture_output=True, text=True, check=False
    )
    return ran.stdout + ran.stderr


@pytest.mark.thorough
def test_no_message_repeats_a_value(
    stopping: Shop, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = stopping.database.name
    rules: dict[str, Any] = {
        kind: {
            name: rule | {"tables": [f"{schema}.{table_name}" for table_name in rule["tables"]]}
            for name, rule in rules.items()
        }
        for kind, rules in RULES.items()
    }
    pipeline = stopping.pipeline(**rules)
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs(pipeline, {"spark": GivenSession(stopping.spark)}).resolve_job_def("sync")
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        events = "\n".join(dg.serialize_value(entry) for entry in instance.all_logs(result.run_id))
    status = command("status", "-c", str(pipeline.path))
    status_json = command("status", "-c", str(pipeline.path), "--json")
    lake = lake_of(pipeline)
    page = write(pipeline, lake, SOURCE, stopping.folder).read_text(encoding="utf-8")
    outputs = {
        "events": events,
        "logs": caplog.text,
        "output": "".join(capfd.readouterr()),
        "status": status + status_json,
        "page": page,
        "published": text_of(Path(pipeline.lake) / "published"),
    }
    for table, (_, reason) in STOPS.items():
        assert f"{schema}.{table}" in outputs["events"]
        assert reason in status_json[status_json.index(f'"{schema}.{table}"') :][:2000], table
    for name, text in outputs.items():
        assert text or name == "output", name
        assert [secret for secret in SECRETS if secret in text] == [], name
