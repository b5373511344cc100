import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import KeyDifference, Verdict
from spark_jobs.config.loader import load
from spark_jobs.config.table_patterns import Scope
from spark_jobs.demo.export_check import ExportedFiles
from spark_jobs.demo.live import _comparison, run_live
from spark_jobs.demo.shop import TABLES
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status
from spark_jobs.source.open import open_source

pytestmark = [pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.long
def test_every_row_and_every_byte_is_the_servers(spark: SparkSession, tmp_path: Path) -> None:
    report = run_live(tmp_path / "demo", 1_000)
    assert report.equal, report.text()
    assert sorted(name.table for name in report.compared) == ["carts", "customers", "order_lines", "orders", "products"]
    assert not Scope.parse(TABLES).holds("shop", "audit_log")
    assert sum(comparison.rows for comparison in report.compared.values()) > 1_000
    assert isinstance(report.log, ExportedFiles)
    assert report.log.files == 3
    assert not (tmp_path / "demo" / "server").exists()
    # What is left behind works without the server.
    pipeline = load(tmp_path / "demo" / "pipeline.yaml")
    source_status = status(pipeline, lake_of(pipeline), "shop")
    assert (source_status.backlog_bytes, source_status.error) == (0, None)
    assert source_status.end == str(report.totals.ranges[-1].stop)


def test_a_verdict_is_reported_as_a_comparison() -> None:
    name = TableName("shop", "orders")
    unlike = (KeyDifference("missing", {"id": "8"}),) * 9
    comparison = _comparison(Verdict("shop", name, "differs", None, 20, 11, missing=9, differences=unlike))
    assert (comparison.rows, comparison.equal, comparison.missing, comparison.is_equal) == (20, 11, 9, False)
    assert comparison.samples == ("shop.orders missing id=8",) * 5
    assert _comparison(Verdict("shop", name, "equal", None, 20, 20)).is_equal
    with pytest.raises(LakeError, match="it has stopped"):
        _comparison(Verdict("shop", name, "not compared", reason="it has stopped"))


def test_too_few_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="10 are too few"):
        run_live(tmp_path / "demo", 10)
    assert not (tmp_path / "demo").exists()


@pytest.mark.thorough
@pytest.mark.processes
def test_ctrl_c_leaves_no_server_and_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_jobs.cli", "demo", "--rows", "1000", "--dir", str(tmp_path / "demo")]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal sends its Ctrl-C to a whole group
    ) as demo:
        pid = _pid_in(tmp_path / "demo" / "server" / "mysqld.pid")
        os.killpg(demo.pid, signal.SIGINT)
        message = demo.communicate(timeout=60)[1]
    # The first line says where the demo is made.
    assert (demo.returncode, message.splitlines()[1:]) == (130, ["interrupted"])
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "demo" / "server").exists()
    # What is left names no server that is gone.
    source = load(tmp_path / "demo" / "pipeline.yaml").sources["shop"]
    assert source.files
    assert open_source("shop", source).log().files


def _pid_in(file: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError(f"{file} did not come")
