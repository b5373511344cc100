"""What a task holds in memory is bounded by spark.task_bytes, whatever a table's part of a run."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from benchmarks import usage
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

pytestmark = [pytest.mark.spark, pytest.mark.long]

TABLE = Table("shop.notes", key=["id"], id=INT.NOT_NULL, note=VARCHAR(400))
TEXT = "".join(chr(33 + at * 7 % 90) for at in range(380))
ROWS_A_FILE = 4_000
"""A million bytes and a half of log."""
ROW_GROUPS = 3 * 32 + 16
"""MiB: a task keeps three row groups of bronze, which a small log does not fill, and allocators keep some."""


def write_log(folder: Path, files: int) -> None:
    """New rows in files of the log, a few to a transaction, so that slices end all the way."""
    folder.mkdir(parents=True)
    for number in range(1, files + 1):
        changes: list[Change] = []
        for row in range(ROWS_A_FILE):
            identifier = number * ROWS_A_FILE + row
            changes.append(Insert(TABLE.name, (identifier, f"{identifier} {TEXT}")))
            changes += [Commit()] if row % 50 == 49 else []
        spec = SegmentSpec([TABLE], changes, first_number=1000 * number, rotate_to=f"mysql-bin.{number + 1:06d}")
        (folder / f"mysql-bin.{number:06d}").write_bytes(spec.to_bytes())


def peak_of_run(folder: Path, task_bytes: int) -> int:
    """MiB that the largest Python worker of a run took, in a JVM of 1 GiB."""
    settings = {"master": "local[1]", "task_bytes": task_bytes, "conf": {"spark.driver.memory": "1g"}}
    document = {"lake": "./lake", "sources": {"shop": {"files": "../binlogs"}}, "tables": ["shop.*"], "spark": settings}
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(folder / "pipeline.yaml")]
    peaks = [0]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        is_over = threading.Event()

        def sample() -> None:
            while not is_over.is_set():
                peaks.append(usage.largest_worker(process.pid))
                time.sleep(0.05)

        sampler = threading.Thread(target=sample)
        sampler.start()
        output, _ = process.communicate()
        is_over.set()
        sampler.join()
    assert process.returncode == 0, output
    return max(peaks)


def test_a_unit_ten_times_as_large_takes_no_more_than_its_row_groups(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    write_log(small / "binlogs", 3)
    write_log(large / "binlogs", 30)
    before = peak_of_run(small / "run", 2 << 20)
    divided, undivided = peak_of_run(large / "run", 2 << 20), peak_of_run(large / "undivided", 1 << 30)
    assert divided < before + ROW_GROUPS, (before, divided, undivided)
    assert undivided > divided + ROW_GROUPS // 2, "the test sees what a task holds"
