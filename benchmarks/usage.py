"""Cost of a measured piece of work: seconds by the clock, processor seconds of all processes, and memory at most.

Put here: counting over this process, Spark's JVM and its Python workers, by /proc. Not here: what is measured.
"""

import os
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Usage:
    """Filled in when the ``with`` block ends. Memory is in MiB, at most, of each process by itself."""

    seconds: float = 0.0
    processor: float = 0.0
    python: int = 0
    jvm: int = 0


@contextmanager
def metered() -> Iterator[Usage]:
    """Measures what is done inside the ``with`` block; memory is the most since each process began."""
    usage, began, before = Usage(), time.perf_counter(), processor_of()
    yield usage
    usage.seconds = time.perf_counter() - began
    usage.processor = processor_of() - before
    usage.python, usage.jvm = memory()


def of_process(command: Sequence[str]) -> tuple[Usage, str]:
    """Runs a command to its end: seconds by the clock and of the processor, and what it printed.

    Of processes that it leaves behind no time is counted. Raises SystemExit where it fails.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(process.stderr)
    return Usage(seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime), process.stdout


def memory() -> tuple[int, int]:
    """MiB at most of the largest Python process and of the JVM; 0 where none runs."""
    peaks: dict[bool, int] = {True: 0, False: 0}
    for pid in _tree(os.getpid()):
        is_jvm = _read_proc(pid, "comm").strip() == "java"
        peaks[is_jvm] = max(peaks[is_jvm], _peak(pid))
    return peaks[False], peaks[True]


def forget_peaks() -> None:
    """Memory at most is counted from now on, of processes that run by now: proc(5), clear_refs."""
    for pid in _tree(os.getpid()):
        with suppress(OSError):  # it ended since
            Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def largest_worker(pid: int) -> int:
    """MiB at most of the largest Python process that the JVM below a process has started."""
    workers = (child for child in _tree(pid) if "pyspark.worker" in _read_proc(child, "cmdline"))
    return max(map(_peak, workers), default=0)


def _peak(pid: int) -> int:
    status = dict(line.split(":", 1) for line in _read_proc(pid, "status").splitlines() if ":" in line)
    return int(status.get("VmHWM", "0 kB").split()[0]) >> 10


def processor_of(program: str | None = None) -> float:
    """Processor seconds of this process and all below it, those that ended among them; of one program where named."""
    ticks = 0
    for pid in _tree(os.getpid()):
        if program is not None and _read_proc(pid, "comm").strip() != program:
            continue
        fields = _read_proc(pid, "stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime: proc(5)
    return ticks / _TICK


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text(encoding="ascii").split()
        except OSError:  # it ended since
            continue
        for child in children:
            yield from _tree(int(child))


def _read_proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it ended since
        return ""
