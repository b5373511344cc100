import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.runtime import provision
from spark_jobs.runtime.class_data_sharing import exercise, main
from spark_jobs.runtime.provision import cache_dir, make_class_archive

pytestmark = pytest.mark.spark

JARS = cache_dir() / f"delta-{provision.DELTA[0].version}"
"""Position where Delta's jars are before a test has a cache of its own."""
BEGUN = """
import os
from spark_jobs.config.model import Spark
from spark_jobs.runtime.spark_session import spark_session
spark_session(Spark(master="local[1]"))
os.system(f"cat /proc/$(pgrep -P {os.getpid()} java)/maps")
"""


@pytest.mark.thorough
def test_it_does_what_a_run_does(spark: SparkSession, tmp_path: Path) -> None:
    assert exercise(spark, tmp_path / "table") == 8, "each twice, by sessions that compile and that do not"


def test_without_java_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main("unused") == 2
    assert capsys.readouterr().err.startswith("Java 17 or newer is needed")


@pytest.mark.long
def test_a_session_begins_with_the_classes_of_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATALOG_CACHE", str(tmp_path))
    (tmp_path / JARS.name).symlink_to(JARS)
    archive = make_class_archive()
    process = subprocess.run([sys.executable, "-c", BEGUN], capture_output=True, text=True, check=True)
    assert str(archive) in process.stdout
