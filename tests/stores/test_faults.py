"""A lake on a store whose answers get lost: in the end it has the recorded rows."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.demo.recorded import compare_with_recording, recorded_files
from tests.command_result import CommandResult
from tests.fix_cli import Stratalog
from tests.fix_store import require_gateway
from tests.services.gateway import FaultyProxy, Gateway
from tests.stores.test_verbs import CONF

pytestmark = [pytest.mark.stores, pytest.mark.spark, pytest.mark.long]

BUCKET = "faults"
SEED = int(os.environ.get("STRATALOG_SEED", "1"))


@pytest.fixture(autouse=True)
def session_ended() -> Iterator[None]:
    """The next test's JVM has the settings of another store."""
    yield
    stop_session()


def stop_session() -> None:
    if session := SparkSession.getActiveSession():
        session.stop()


def write_config(folder: Path, lake: str, store: dict[str, Any]) -> Path:
    (folder / "binlogs").mkdir(exist_ok=True)
    path = folder / "pipeline.yaml"
    sources = {"shop": {"files": "./binlogs"}}
    keys = {"lake": lake, "store": store, "sources": sources, "spark": {"master": "local[2]", "conf": CONF}}
    path.write_text(yaml.safe_dump(keys))
    return path


def require_recorded_rows(path: Path) -> int:
    """How many there are."""
    pipeline = load(path)
    compared = compare_with_recording(pipeline)
    assert {str(name): table.samples for name, table in compared.items() if not table.is_equal} == {}
    return sum(table.rows for table in compared.values())


def require_message(ran: CommandResult) -> None:
    """A run that failed says so in its own words."""
    assert ran.status == 1, ran.err
    assert "Traceback" not in ran.out + ran.err, ran.err


def test_answers_that_are_lost(stratalog: Stratalog, store_keys: None, tmp_path: Path, summary: list[str]) -> None:
    """Of any request: the store has done what was asked, and nobody knows."""
    require_gateway()
    chance, lost_answers, share = random.Random(SEED), Counter[str](), 0.05

    def fault(method: str, _: str) -> str | None:
        if chance.random() >= share:
            return None
        lost_answers[method] += 1
        return "lost"

    with Gateway(tmp_path / "gateway") as server, FaultyProxy(server.port, fault) as proxy:
        lake = server.make_bucket(BUCKET)
        path = write_config(tmp_path, lake, server.keys() | {"endpoint": proxy.url})
        failures = 0
        for file in recorded_files()[:-1]:
            shutil.copy(file, tmp_path / "binlogs")
            while (ran := stratalog("run", "-c", path)).status:
                require_message(ran)
                failures += 1
                assert failures < 30
        share = 0.0
        rows = require_recorded_rows(path)
    counted = ", ".join(f"{count} × {method}" for method, count in sorted(lost_answers.items()))
    summary.append(f"S3, answers lost: {counted}; {failures} runs failed; {rows:,} rows compared, 0 lost, 0 doubled")
