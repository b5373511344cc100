import logging
import os
import signal
import time

import pytest
from pyspark.sql import SparkSession

from spark_jobs.interrupt import interruptible


def py4j_says(name: str) -> None:
    """What py4j logs where a socket was closed before it could say goodbye, which is a matter of milliseconds."""
    logger = logging.getLogger(name)
    logger.handle(logger.makeRecord(name, logging.ERROR, "/py4j/clientserver.py", 512, "shutting down", (), None))


@pytest.mark.spark
def test_a_job_ends_with_the_interrupt_and_the_session_lives_on(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    before, began = signal.getsignal(signal.SIGINT), time.monotonic()
    slow = spark.range(2).selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)")
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 1)
    with interruptible(spark):
        with pytest.raises(KeyboardInterrupt):
            slow.collect()
        py4j_says("")
        py4j_says("py4j.clientserver")
    assert time.monotonic() - began < 30
    assert signal.getsignal(signal.SIGINT) is before
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    spark.sparkContext.setLogLevel("ERROR")
    assert spark.range(3).count() == 3
