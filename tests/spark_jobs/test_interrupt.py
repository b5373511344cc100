import logging
import os
import signal
import time

import pytest
from pyspark.sql import SparkSession

from spark_jobs.interrupt import interruptible


@pytest.mark.spark
def test_a_job_ends_with_the_interrupt_and_the_session_lives_on(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    before, began = signal.getsignal(signal.SIGINT), time.monotonic()
    slow = spark.range(2).selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)")
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 1)
    with pytest.raises(KeyboardInterrupt), interruptible(spark):
        slow.collect()
    assert time.monotonic() - began < 30
    assert signal.getsignal(signal.SIGINT) is before
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    spark.sparkContext.setLogLevel("ERROR")
    assert spark.range(3).count() == 3
