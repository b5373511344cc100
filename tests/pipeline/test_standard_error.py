"""Standard error of started processes that stop: the message, once, and no trace of Python, Java or Rust."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))],
    changes=[*(Insert("shop.t", (number, "note")) for number in range(200)), Commit()],
)
TRACE = re.compile(
    r"Traceback \(most recent call last\)|^\s+File \".*\", line \d+|^\s+at [\w.$]+\(|Caused by:|Py4JJavaError"
    r"|org\.apache\.spark\.|java\.\w+\.\w+|stack backtrace",
    re.MULTILINE,
)


def damaged(folder: Path) -> None:
    """A bit of a row, which the event's checksum notices."""
    log = folder / "binlogs" / "bin.000001"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


def layer_is_a_file(folder: Path) -> None:
    (folder / "lake").mkdir()
    (folder / "lake" / "silver").write_text("not a folder")


def cut(folder: Path) -> None:
    """A file that ends in the middle of an event, with another behind it."""
    log = folder / "binlogs" / "bin.000001"
    content = log.read_bytes()
    log.write_bytes(content[: len(content) // 2])
    (folder / "binlogs" / "bin.000002").write_bytes(content)


def lake_of_others(folder: Path) -> None:
    """A Delta log that is none, where bronze is to be."""
    log = folder / "lake" / "bronze" / "shop" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{broken")


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize(
    "spoil, words",
    [
        (damaged, r"shop: bin\.000001:\d+: .*CRC32"),
        pytest.param(cut, r"bin\.000001", marks=pytest.mark.long),
        (layer_is_a_file, r"silver"),
        pytest.param(lake_of_others, r"lake/bronze/shop", marks=pytest.mark.long),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_stop_is_one_message_without_a_trace(tmp_path: Path, spoil: Callable[[Path], None], words: str) -> None:
    (tmp_path / "binlogs").mkdir()
    (tmp_path / "binlogs" / "bin.000001").write_bytes(SPEC.to_bytes())
    keys = {
        "lake": "lake",
        "sources": {"shop": {"files": "binlogs"}},
        "tables": ["shop.*"],
        "spark": {"master": "local[1]"},
    }
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(keys))
    spoil(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "spark_jobs.cli", "run", "-c", "pipeline.yaml"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 1, ran.stderr
    assert not TRACE.search(ran.stderr), ran.stderr
    assert len(re.findall(words, ran.stderr)) >= 1, ran.stderr
    # Lines of progress come while something takes long, as the start of Spark on a busy machine.
    assert len([line for line in ran.stderr.splitlines() if " … " not in line]) <= 10, ran.stderr
