"""Spark and the lake. Put here: fixtures around the one session of a test run. Not here: tables of a test's own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.model import Spark
from spark_jobs.runtime.spark_session import JAVA_OPTIONS, spark_session, stop_session
from tests.lakes import engine_tasks

LIGHT = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""For a JVM of tests: the light compiler alone, with room for all of Spark's code (its default of 48 MB fills up).

A JVM that lives for seconds takes a third less processor time with it."""

OWN_OPTION = "-Dstratalog.session=tests"
"""For the JVM: an option of the session's configuration, to be found among its others."""

TASKS_BY_SPARK = os.environ.get("STRATALOG_TASKS") == "spark"
"""True if the engine's tasks run in Spark's Python processes in all tests, as at night."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="have the session of tests be a Spark Connect server's")


def pytest_configure() -> None:
    lighten_jvms()


def lighten_jvms() -> None:
    """Has every JVM that Spark's launcher starts for this process and its children take LIGHT."""
    os.environ["SPARK_SUBMIT_OPTS"] = LIGHT


def light_session(warehouse: Path) -> SparkSession:
    """A session of small queries, on two threads. warehouse: a new folder."""
    conf = {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        # A thousand small queries: compiling each, and then the compiler's code, costs more than it gives back.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {OWN_OPTION}",
    }
    return spark_session(Spark(master="local[2]", conf=conf))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's only session, on two threads, with its warehouse out of the way. For tests marked ``spark``.

    With --connect it is that of a Spark Connect server, which is started for the run.
    """
    if request.config.getoption("--connect"):
        session = spark_session(Spark(remote=request.getfixturevalue("connect").remote))
        yield session
        stop_session(session)
        return
    session = light_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def tasks_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """The engine's tasks run in the test's process, not in Spark's: for tests of what they make, not of Spark."""
    if TASKS_BY_SPARK or request.config.getoption("--connect"):
        yield
        return
    with engine_tasks.in_this_process():
        yield


@pytest.fixture(autouse=True)
def task_placement(request: pytest.FixtureRequest) -> None:
    """Has the engine's tasks run in the test's process wherever a test has a session and is not about Spark."""
    about_spark = (request.node.get_closest_marker(name) for name in ("by_spark", "stores", "cluster"))
    if "spark" in request.fixturenames and not any(about_spark):
        request.getfixturevalue("tasks_here")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty directory for this test's lake."""
    return tmp_path / "lake"
