"""How long a new process takes to its first decoded row, with the kernels' cache warm.

Put here: the measurement. Not here: decoding at speed (decoding.py).
"""

import resource
import statistics
import subprocess
import sys
import time

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


def measure() -> None:
    """Prints best and median of some processes, each from its start to its end, for a table in a recorded log."""
    from spark_jobs.demo.recorded import LOGS

    path = str(sorted(LOGS.glob("mysql-bin.*"))[1])
    times = [_process(path) for _ in range(ROUNDS + 1)][1:]  # the first may compile
    seconds = [wall for wall, _ in times]
    reached = "reached" if min(seconds) <= GOAL else "missed"
    busy = min(cpu for _, cpu in times)
    print("| first decode in a new process | best, s | median, s | processor time, s | goal, s |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| warm cache | {min(seconds):.2f} | {statistics.median(seconds):.2f} | {busy:.2f} | {GOAL} {reached} |")


def _process(path: str) -> tuple[float, float]:
    """Seconds from start to end, and of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.run([sys.executable, "-c", _PROGRAM.format(path=path)], check=True, capture_output=True)
    assert int(process.stdout) > 0
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
