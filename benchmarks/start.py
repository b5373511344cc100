"""Start-up time of a new process: to its first decoded row, of light verbs, and for a run of ten tables.

Put here: the measurement. Not here: decoding at speed (decoding.py).
"""

import statistics
import sys
from itertools import count
from pathlib import Path

from benchmarks import processes, tables
from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, of_process

ROUNDS = 5
GOAL = 1.5
"""Seconds."""
_IMPORTS = "import pyarrow, deltalake, numba"
HELP_GOAL, LIGHT_GOAL = 0.7, 2.0
"""Times the imports."""
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
    config = folder / "pipeline.yaml"
    processes.compare(folder, config, lambda: tables.write(folder, changed, next(numbers), rows=5))
    of_process([sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(config)])  # what the last rounds wrote
    _measure_light(config)


def _measure_light(config: Path) -> None:
    """Verbs that start no Spark, by turns with what they import at least."""
    verbs = {
        "`--help`": (["--help"], HELP_GOAL),
        f"`changes` of {_small_log().stat().st_size >> 10} kB": (["changes", str(_small_log())], LIGHT_GOAL),
        "`status` of ten tables": (["status", "-c", str(config)], LIGHT_GOAL),
        "`run`, no news": (["run", "-c", str(config)], LIGHT_GOAL),
    }
    imports = []
    rounds: dict[str, list[Usage]] = {verb: [] for verb in verbs}
    for nth in range(ROUNDS + 1):
        print_progress(f"light verbs, round {nth}")
        imports.append(of_process([sys.executable, "-c", _IMPORTS])[0])
        for verb, (arguments, _) in verbs.items():
            rounds[verb].append(of_process([sys.executable, "-m", "spark_jobs.cli", *arguments])[0])
    base = [statistics.median(usages) for usages in _seconds(imports[1:])]
    print(f"\n| light verbs | median, s | processor, s | times `{_IMPORTS}` | its processor time | goal, times |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(f"| `{_IMPORTS}` | {base[0]:.2f} | {base[1]:.2f} | 1 | 1 | |")
    for verb, (_, goal) in verbs.items():
        seconds, busy = (statistics.median(usages) for usages in _seconds(rounds[verb][1:]))
        print(f"| {verb} | {seconds:.2f} | {busy:.2f} | {seconds / base[0]:.1f} | {busy / base[1]:.1f} | {goal} |")


def _seconds(usages: list[Usage]) -> tuple[list[float], list[float]]:
    """By the clock, and of the processor."""
    return [usage.seconds for usage in usages], [usage.processor for usage in usages]


def _small_log() -> Path:
    """A recorded log."""
    from spark_jobs.demo.recorded import LOGS

    return sorted(LOGS.glob("mysql-bin.*"))[1]


def _measure_decoding() -> None:
    """Of a table in a recorded log."""
    path = str(_small_log())
    runs = [of_process([sys.executable, "-c", _PROGRAM.format(path=path)]) for _ in range(ROUNDS + 1)]
    assert all(int(printed) > 0 for _, printed in runs)
    usages = [usage for usage, _ in runs[1:]]  # the first may compile
    seconds = [usage.seconds for usage in usages]
    reached = "reached" if min(seconds) <= GOAL else "missed"
    busy = min(usage.processor for usage in usages)
    print("| first decode in a new process | best, s | median, s | processor time, s | goal, s |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| warm cache | {min(seconds):.2f} | {statistics.median(seconds):.2f} | {busy:.2f} | {GOAL} {reached} |")
