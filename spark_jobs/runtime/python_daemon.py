"""Spark's daemon of Python workers, with what tasks import loaded before it forks them (spark.python.daemon.module).

Put here: what is loaded, and how. Not here: Spark's settings (spark_session.py), or kernels (binlog/kernels/).

A worker of PySpark's own daemon begins bare: it imports numpy, pyarrow, numba and this project, and reads the kernels'
machine code, 1.5 to 2 s of processor time a worker. Here the daemon does that once, and workers share its memory.
A fork keeps only the thread that forks. So nothing may be loaded here that starts threads of its own; jemalloc's, which
pyarrow has, and those of Arrow's pools are made again in the child by their libraries. deltalake is imported, but its
runtime begins with the first table that is opened, and none is opened here.
"""

import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MODULE = __name__
TASK_MODULES = (
    "pyspark.worker",
    "pyspark.sql.pandas.types",
    "spark_jobs.bronze.extract",
    "spark_jobs.source.binlog_dump",
    "spark_jobs.source.files",
    "spark_jobs.silver.decode_task",
    "spark_jobs.silver.net_changes",
    "spark_jobs.engine.silver.silver_task",
    "spark_jobs.engine.merge.downstream_task",
    "spark_jobs.pipeline.initial_load.reading",
)
"""Modules with the functions of tasks; what they import comes with them."""


def main() -> None:
    """Load what tasks need, then serve Spark's requests for workers until it closes standard input."""
    from pyspark import daemon

    with _output_is_errors():
        load()
    daemon.worker = _quietly(daemon.worker)
    daemon.manager()


def _quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that ends without a trace where the JVM is gone before it has asked for anything."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (ConnectionError, EOFError):
            return 1

    return run


def load() -> None:
    """Import the modules of tasks, and load the kernels that are cached on disk."""
    for module in TASK_MODULES:
        importlib.import_module(module)
    from spark_jobs.binlog.kernels.compile import load_cached

    load_cached()
    # Workers collect garbage after every task: what was loaded here is not looked through, and its memory stays shared.
    gc.collect()
    gc.freeze()


@contextmanager
def _output_is_errors() -> Iterator[None]:
    """Standard error in the place of standard output, where Spark reads the daemon's port."""
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(output, 1)
        os.close(output)


if __name__ == "__main__":
    main()
