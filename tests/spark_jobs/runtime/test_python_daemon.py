import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.runtime.python_daemon import MODULE, TASK_MODULES

FACTS = "daemon STRING, missing STRING, kernels LONG, frozen LONG"
LOAD = """
import os
from spark_jobs.runtime.python_daemon import load
load()
print(*(open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task")))
"""


def _facts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker has before a task imports anything."""
    import gc

    missing = ",".join(sorted({*TASK_MODULES} - {*sys.modules}))
    from spark_jobs.binlog.kernels import compile as kernels

    loaded = sum(len(kernel.overloads) for kernel in kernels._kernels.values())
    command = Path(f"/proc/{os.getppid()}/cmdline").read_text().replace("\0", " ")
    for _ in batches:
        facts = {"daemon": [command], "missing": [missing], "kernels": [loaded]}
        yield pa.RecordBatch.from_pydict(facts | {"frozen": [gc.get_freeze_count()]})


def _threads(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What has threads of its own, in a worker: Arrow's two pools, numpy's products, a Delta table, the decoder."""
    import tempfile

    import deltalake
    import numpy as np
    import pyarrow.parquet as pq

    from spark_jobs.binlog import FileDecoder
    from spark_jobs.demo.recorded import LOGS

    for _ in batches:
        rows = pa.table({"key": np.arange(1_000_000) % 1000, "value": np.arange(1_000_000)})
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(rows, f"{folder}/rows", row_group_size=10_000)
            table = pq.read_table(f"{folder}/rows", use_threads=True)
            sums = table.group_by("key", use_threads=True).aggregate([("value", "sum")])
            deltalake.write_deltalake(f"{folder}/table", sums)
            count = deltalake.DeltaTable(f"{folder}/table").to_pyarrow_table().num_rows
        square = np.ones((300, 300)) @ np.ones((300, 300))
        decoder = FileDecoder("log", lambda _: True)
        log = (LOGS / "mysql-bin.000001").read_bytes()
        changes = sum(len(batch) for _, batch in [*decoder.feed(log), *decoder.finish()])
        yield pa.RecordBatch.from_pydict({"kept": [count], "square": [int(square[0, 0])], "changes": [changes]})


def test_loading_starts_no_thread_that_a_fork_would_lose() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # as Spark starts it
    process = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    threads = process.stdout.splitlines()[-1].split()
    assert sorted({*threads} - {"jemalloc_bg_thd"}) == ["python"], threads
    assert threads.count("python") == 1, threads


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
def test_standard_output_begins_with_the_port_and_the_daemon_ends_with_its_input() -> None:
    command = [sys.executable, "-m", MODULE, "pyspark.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin
        assert daemon.stdout
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        assert 1024 <= port <= 65535
        daemon.stdin.close()
        assert daemon.stdout.read() == b""
        daemon.wait(20)  # with 1, as PySpark's own


@pytest.mark.spark
def test_workers_begin_with_what_tasks_import(spark: SparkSession) -> None:
    for worker in spark.range(0, 2, 1, 2).mapInArrow(_facts, FACTS).collect():
        assert MODULE in worker.daemon
        assert worker.missing == ""
        assert worker.frozen > 100_000, "what the daemon loaded is looked through after every task"


@pytest.mark.spark
def test_threads_work_in_workers(spark: SparkSession) -> None:
    for _ in range(2):  # in reused workers too
        results = spark.range(0, 2, 1, 2).mapInArrow(_threads, "kept LONG, square LONG, changes LONG").collect()
        assert [(result.kept, result.square, result.changes) for result in results] == [(1000, 300, 1551)] * 2
