"""Start-up time of a new process: to its first decoded row with the kernels' cache warm, and for a run of ten tables.

Put here: the measurement. Not here: decoding at speed (decoding.py).
"""

import statistics
import sys
from itertools import count
from pathlib import Path

from benchmarks import processes, tables
from benchmarks.usage import of_process

ROUNDS = 5
GOAL = 1.5
"""Seconds."""
_PROGRAM = """
from pathlib import Path
from spark_jobs.binlog import FileDecoder
decoder = FileDecoder("log", lambda name: name.table == "orders")
found = [*decoder.feed(Path({path!r}).read_bytes()), *decoder.finish()]
print(sum(len(changes) for _, changes in found))
"""


def measure(folder: Path) -> None:
    """Prints best and median of some processes, each from its start to its end."""
    _measure_decoding()
    tables.pipeline_of(folder)
    changed, numbers = tables.of_two_columns(tables.CHANGED), count(2)
    tables.write(folder, changed, 1, rows=20)
    processes.compare(folder, folder / "pipeline.yaml", lambda: tables.write(folder, changed, next(numbers), rows=5))


def _measure_decoding() -> None:
    """Of a table in a recorded log."""
    from spark_jobs.demo.recorded import LOGS

    path = str(sorted(LOGS.glob("mysql-bin.*"))[1])
    runs = [of_process([sys.executable, "-c", _PROGRAM.format(path=path)]) for _ in range(ROUNDS + 1)]
    assert all(int(printed) > 0 for _, printed in runs)
    usages = [usage for usage, _ in runs[1:]]  # the first may compile
    seconds = [usage.seconds for usage in usages]
    reached = "reached" if min(seconds) <= GOAL else "missed"
    busy = min(usage.processor for usage in usages)
    print("| first decode in a new process | best, s | median, s | processor time, s | goal, s |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| warm cache | {min(seconds):.2f} | {statistics.median(seconds):.2f} | {busy:.2f} | {GOAL} {reached} |")
