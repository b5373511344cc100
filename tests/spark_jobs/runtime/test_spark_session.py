import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.config.model import Spark
from spark_jobs.errors import ConfigError
from spark_jobs.runtime import jvm
from spark_jobs.runtime.spark_session import AS_WRITTEN, _output_is_errors, own_session, session_over, spark_session
from tests.fix_spark import OWN_OPTION

SHUFFLES = "spark.sql.shuffle.partitions"
NAMELESS = ["unshare", "--user", "--map-root-user", "--uts", "--"]
"""Before a command: it runs where the machine may be given a name of its own."""
SLOW = """
from spark_jobs.config.model import Spark
from spark_jobs.runtime.spark_session import spark_session
spark = spark_session(Spark(master="local[1]"))
print(len(spark.range(0, 16, 1, 16).selectExpr("java_method('java.lang.Thread', 'sleep', 200L + id - id)").collect()))
"""
START = """
from spark_jobs.config.model import Spark
from spark_jobs.runtime.spark_session import spark_session
print(spark_session(Spark(master="local[1]")).range(3).count())
"""


def test_without_java_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="Java"):
        spark_session(Spark(master="local[1]"))


def test_what_a_process_started_inside_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    with _output_is_errors():
        started = subprocess.Popen(["sh", "-c", "read line; echo vacuumed"], stdin=subprocess.PIPE)
    os.write(1, b"a result\n")
    started.communicate(b"go on\n")
    assert capfd.readouterr() == ("a result\n", "vacuumed\n")


@pytest.mark.spark
def test_the_session_is_one_that_delta_and_positions_need(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.speculation") == "false"
    assert "DeltaSparkSessionExtension" in str(spark.conf.get("spark.sql.extensions"))
    assert int(str(spark.conf.get("spark.databricks.delta.delta.log.cacheSize"))) <= 200, "tables kept in memory"
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_a_local_jvm_optimises_later_and_takes_options_of_the_configuration(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    process = jvm.process()
    assert process
    options = Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8").split("\0")
    assert options.index("-XX:Tier4InvocationThreshold=50000") < options.index(OWN_OPTION)


@pytest.mark.spark
def test_settings_of_an_own_session_are_nobody_elses(spark: SparkSession) -> None:
    before = spark.conf.get(SHUFFLES)
    pages = "parquet.page.size.row.check.min"
    session = own_session(spark, {SHUFFLES: "17", "spark.databricks.delta.write.txnAppId": "x", pages: "1"})
    assert session.conf.get(SHUFFLES) == "17"
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert (session.conf.get(pages), spark.conf.get(pages, "none")) == ("1", "none")
    assert spark.conf.get(SHUFFLES) == before
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", "none") == "none"
    assert own_session(spark, {}).conf.get("spark.databricks.delta.write.txnAppId", "none") == "none"


@pytest.mark.spark
def test_no_configuration_has_statements_read_otherwise_than_written(
    spark: SparkSession,
) -> None:
    settings = dict.fromkeys(AS_WRITTEN, "true")
    configured = spark_session(Spark(master="local[2]", conf={**settings, "spark.sql.shuffle.partitions": "2"}))
    sessions = {"configured": configured, "own": own_session(spark, settings), "over": session_over(spark, 1 << 30)}
    for name, session in sessions.items():
        assert {key: session.conf.get(key) for key in AS_WRITTEN} == dict.fromkeys(AS_WRITTEN, "false"), name
        text = "${env:HOME} ${system:user.name} ${spark.app.name}"
        assert session.sql(f"SELECT '{text}', 'it\\'s'").head() == (text, "it's"), name
        assert session.range(1).select(F.expr(f"'{text}'")).head() == (text,), name


@pytest.mark.spark
def test_much_log_is_shuffled_into_as_many_tasks_as_hold_it(spark: SparkSession) -> None:
    usual = int(spark.conf.get(SHUFFLES) or 0)
    assert session_over(spark, 1 << 20).conf.get(SHUFFLES) == str(usual)
    over = session_over(spark, 1000 << 26)
    assert over.conf.get(SHUFFLES) == "1000"
    assert session_over(spark, (1000 << 26) + 1).conf.get(SHUFFLES) == "1001"
    assert own_session(over, {}).conf.get(SHUFFLES) == "1000"


def _read_available(end: int) -> bytes:
    """What there is at a pipe's or terminal's end; nothing once the other end is closed."""
    try:
        return os.read(end, 1 << 16)
    except OSError:  # how a terminal says so
        return b""


@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.parametrize(
    "is_terminal", [pytest.param(True, marks=pytest.mark.thorough), pytest.param(False, marks=pytest.mark.long)]
)
def test_spark_draws_no_bar_over_the_line_of_the_command(is_terminal: bool) -> None:
    reader, writer = os.openpty() if is_terminal else os.pipe()
    command = [sys.executable, "-c", SLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer) as process:
        os.close(writer)
        output = b"".join(iter(partial(_read_available, reader), b""))
        os.close(reader)
        assert process.stdout
        assert (process.stdout.read(), process.wait()) == (b"16\n", 0)
    assert b"[Stage 0:" not in output


@pytest.mark.spark
@pytest.mark.long
def test_spark_starts_where_nothing_knows_the_machines_name() -> None:
    if subprocess.run([*NAMELESS, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody give it another name")
    command = f"hostname nobody-knows-me && exec {sys.executable} -c '{START}'"
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_LOCAL_IP"}
    process = subprocess.run(
        [*NAMELESS, "sh", "-c", command], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert (process.returncode, process.stdout) == (0, "3\n"), process.stderr
