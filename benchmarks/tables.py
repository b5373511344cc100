"""A source of many small tables: its first run, runs without news, and runs in which a few of the tables changed.

The log is described, not a server's: twenty rows a table in its first file, five rows of ten tables in each later one.
What a table costs beside its rows is what shows here: planning, and a commit a layer.

Put here: what is measured. Not here: logs of many rows (hot.py, folding.py).
"""

import resource
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from benchmarks.told import say
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.pipeline.run import compact_source, extract_source, merge_source, publish
from tests.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.segment_types import INT, VARCHAR

SOURCE = "shop"
CHANGED = 10
STEPS = ("extract", "compact", "merge", "publish")


def measure(spark: SparkSession, folder: Path, count: int) -> None:
    """Prints seconds by the clock and layer, with Python's processor time, for a log of so many tables."""
    tables = [Table(f"shop.table_{at:05d}", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40)) for at in range(count)]
    pipeline = _pipeline(folder)
    _write(folder, tables, 1, rows=20)
    print(f"| {count:,} tables | {' | '.join(f'{step}, s' for step in STEPS)} | all, s | Python's processor, s |")
    print(f"| --- |{' --- |' * (len(STEPS) + 2)}")
    _run(spark, pipeline, "first run", count)
    _run(spark, pipeline, "no news", 0)
    changed = tables[:CHANGED]
    for number in (2, 3):
        _write(folder, changed, number, rows=5)
        _run(spark, pipeline, f"{len(changed)} tables changed", len(changed))
    _memory()


def _pipeline(folder: Path) -> Pipeline:
    (folder / "binlogs").mkdir(parents=True)
    path = folder / "pipeline.yaml"
    document = {"lake": str(folder / "lake"), "sources": {SOURCE: {"files": "./binlogs"}}, "tables": ["shop.*"]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(path)


def _write(folder: Path, tables: Sequence[Table], number: int, *, rows: int) -> None:
    """One file of the log, a transaction a table."""
    changes: list[Change] = []
    for table in tables:
        changes += [Insert(table.name, (1000 * number + at, f"row {at}")) for at in range(rows)] + [Commit()]
    spec = SegmentSpec(tables, changes, first_number=100_000 * number, rotate_to=f"mysql-bin.{number + 1:06d}")
    (folder / "binlogs" / f"mysql-bin.{number:06d}").write_bytes(spec.to_bytes())


def _run(spark: SparkSession, pipeline: Pipeline, label: str, merges: int) -> None:
    say(label)
    cpu_start, times = time.process_time(), [time.perf_counter()]
    extract_source(spark, pipeline, SOURCE)
    times.append(time.perf_counter())
    compacted = compact_source(spark, pipeline, SOURCE)
    times.append(time.perf_counter())
    merged = merge_source(spark, pipeline, SOURCE, compacted)
    times.append(time.perf_counter())
    publish(spark, pipeline, SOURCE, merged)
    times.append(time.perf_counter())
    assert (merged.stopped, len(merged.merged)) == ({}, merges), merged.stopped
    steps = [later - earlier for earlier, later in pairwise(times)]
    cells = [
        *(f"{step:.1f}" for step in steps),
        f"{times[-1] - times[0]:.1f}",
        f"{time.process_time() - cpu_start:.1f}",
    ]
    print(f"| {label} | {' | '.join(cells)} |", flush=True)


def _memory() -> None:
    """Prints the most that Python and the JVM held."""
    own_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\nAt most {own_memory >> 10:,} MiB in Python, {_of_jvm() >> 10:,} MiB in the JVM.")


def _of_jvm() -> int:
    """KiB; the JVM of a local session is a child of this process."""
    pid = _child(Path("/proc/self/task"))
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def _child(tasks: Path) -> int:
    for task in tasks.iterdir():
        for pid in (task / "children").read_text(encoding="ascii").split():
            if Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == "java":
                return int(pid)
    raise SystemExit("no JVM of this process is running")
