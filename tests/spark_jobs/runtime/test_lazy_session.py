import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from spark_jobs.runtime.interrupt import interruptible, own_handler_kept
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started, start_session
from spark_jobs.runtime.spark_session import session_over


class Counted:
    """Makes sessions, and counts them."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.sessions = 0

    def make(self) -> SparkSession:
        time.sleep(0.1)
        self.sessions += 1
        return self.spark


def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)


def never() -> SparkSession:
    pytest.fail("Spark is started")


def test_a_session_over_a_lazy_one_starts_nothing() -> None:
    lazy = lazy_session(never)
    assert session_if_started(session_over(lazy, 1 << 30)) is None
    assert session_if_started(lazy) is None


def test_an_interrupt_before_the_session_is_started_ends_the_block_at_once() -> None:
    before, began = signal.getsignal(signal.SIGINT), time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible():
        interrupted()
    assert time.monotonic() - began < 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_is_set_inside_goes_at_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    with own_handler_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.spark
def test_threads_that_use_a_lazy_session_together_start_one(spark: SparkSession) -> None:
    counted = Counted(spark)
    lazy = lazy_session(counted.make)
    over = session_over(lazy, 0)
    with ThreadPoolExecutor(4) as pool:
        counts = [*pool.map(lambda at: (over if at % 2 else lazy).range(at).count(), range(4))]
    assert counts == [0, 1, 2, 3]
    assert counted.sessions == 1
    assert session_if_started(lazy) is start_session(lazy) is spark
    assert str(over.conf.get("spark.sql.codegen.wholeStage")) == "false"
    assert session_if_started(spark) is spark


@pytest.mark.spark
def test_an_interrupt_cancels_the_jobs_of_a_session_that_another_thread_starts_afterwards(spark: SparkSession) -> None:
    stop_signal = threading.Event()

    def make() -> SparkSession:
        stop_signal.wait(20)
        return spark

    lazy = lazy_session(make)

    def work() -> None:
        lazy.range(2).selectExpr("java_method('java.lang.Thread', 'sleep', 60000L)").collect()

    def interrupted_in_thread() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work)
            try:
                interrupted()
            finally:
                stop_signal.set()

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible():
        interrupted_in_thread()
    assert time.monotonic() - began < 30
    spark.sparkContext.setLogLevel("ERROR")
