import logging
import os
import signal
import time
from contextlib import suppress

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.cli.app import went_well
from spark_jobs.errors import LakeError
from spark_jobs.runtime.interrupt import interruptible


def log_as_py4j(name: str) -> None:
    """What py4j logs where a socket was closed before it could say goodbye, which is a matter of milliseconds."""
    logger = logging.getLogger(name)
    logger.handle(logger.makeRecord(name, logging.ERROR, "/py4j/clientserver.py", 512, "shutting down", (), None))


def collected_loudly(rows: DataFrame) -> None:
    try:
        rows.collect()
    finally:
        log_as_py4j("")
        log_as_py4j("py4j.clientserver")


@pytest.mark.spark
def test_a_job_ends_with_the_interrupt_and_the_session_lives_on(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    before, began = signal.getsignal(signal.SIGINT), time.monotonic()
    slow = spark.range(2).selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)")
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 1)
    with pytest.raises(KeyboardInterrupt), interruptible():
        collected_loudly(slow)
    assert time.monotonic() - began < 30
    assert signal.getsignal(signal.SIGINT) is before
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    spark.sparkContext.setLogLevel("ERROR")
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_what_clearing_up_meets_is_not_said_in_the_interrupt_s_place(spark: SparkSession) -> None:
    def clumsy() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        finally:
            raise ConnectionError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), interruptible():
        clumsy()
    spark.sparkContext.setLogLevel("ERROR")
    with pytest.raises(ConnectionError, match="of its own"), interruptible():
        raise ConnectionError("of its own")


def never() -> SparkSession:
    pytest.fail("Spark is started")


def test_what_hides_the_interrupt_does_not_outlive_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A finalizer that the signal arrives in drops the exception; the job that was cancelled then fails by its own."""

    def cancelled(_: str) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise LakeError("Exception thrown in awaitResult")

    def failed(_: str) -> None:
        raise LakeError("an error of its own")

    with pytest.raises(KeyboardInterrupt), interruptible():
        went_well("shop", cancelled)
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt), interruptible(), suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with interruptible():
        assert not went_well("shop", failed)
    assert "an error of its own" in capsys.readouterr().err
