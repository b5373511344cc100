"""Compiled code belongs to one state of the sources: shared while they are the same, never used after an edit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.cache import PREFIX
from spark_jobs.binlog.kernels.machine_code import FOLDER, sources_hash

ROOT = Path(__file__).parents[4]
HELPERS = "spark_jobs/binlog/kernels/event_cells.py"
USE = """
import numpy as np
from spark_jobs.binlog.kernels.packed_events import complete_events
found = complete_events(np.array([4], np.uint8))
print(found, sum(complete_events.stats.cache_misses.values()))
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHECKED, reason="nothing is compiled where kernels run as plain Python"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the decoder, to be edited."""
    ignored = shutil.ignore_patterns("__pycache__", "recorded_logs", FOLDER)
    shutil.copytree(ROOT / "spark_jobs", tmp_path / "spark_jobs", ignore=ignored)
    return tmp_path


def started(tree: Path, program: str = USE, cache: str = "") -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tree)} | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)


def answer(process: "subprocess.Popen[str]") -> list[str]:
    """What the kernel returned, and how many functions were compiled for it."""
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.split()


def folders(folder_path: Path) -> list[str]:
    return [folder.name for folder in folder_path.rglob(PREFIX + "*")]


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize("cache", ["", "elsewhere"])
def test_an_edit_of_a_helper_compiles_its_callers_again(tree: Path, cache: str) -> None:
    """MARK_CONTROL is a constant of another module than the kernel that is compiled with it."""
    local_cache = tree / "spark_jobs/binlog/kernels/__pycache__"
    folder = str(tree / cache) if cache else ""
    together = [started(tree, cache=folder), started(tree, cache=folder)]
    assert [answer(process)[0] for process in together] == ["1", "1"]
    assert answer(started(tree, cache=folder)) == ["1", "0"]
    before = folders(tree / cache if cache else local_cache)

    helpers = tree / HELPERS
    helpers.write_text(helpers.read_text().replace("MARK_CONTROL = 4", "MARK_CONTROL = 8"))
    assert answer(started(tree, cache=folder)) == ["0", "1"]
    assert answer(started(tree, cache=folder)) == ["0", "0"]
    after = folders(tree / cache if cache else local_cache)
    assert (len(before), len(after), before != after) == (1, 1, True)
    assert (folders(local_cache) == []) == bool(cache)


@pytest.mark.thorough
@pytest.mark.processes
def test_a_process_whose_folder_is_removed_compiles_for_itself(tree: Path) -> None:
    remove = """
import shutil
from spark_jobs.binlog.kernels.packed_events import complete_events
shutil.rmtree(complete_events.stats.cache_path)
"""
    assert answer(started(tree, remove + USE)) == ["1", "1"]
    assert folders(tree) == []
    assert answer(started(tree)) == ["1", "1"]
    assert answer(started(tree)) == ["1", "0"]


def test_the_hash_is_of_every_module_and_no_other_file(tree: Path) -> None:
    program = "from spark_jobs.binlog.kernels.machine_code import sources_hash; print(sources_hash())"
    tree.joinpath("spark_jobs/binlog/kernels/notes.txt").write_text("no source")
    assert answer(started(tree, program)) == [sources_hash()]
    for module in ("memory.py", "json.py"):
        with (tree / "spark_jobs/binlog/kernels" / module).open("a") as source:
            source.write("\n")
    assert answer(started(tree, program)) != [sources_hash()]


LOAD = """
import numpy as np
from spark_jobs.binlog.kernels.compile import load_cached
loaded = load_cached()
from spark_jobs.binlog.kernels.packed_events import complete_events
signatures = len(complete_events.overloads)
complete_events(np.array([4], np.uint8))
print(loaded, signatures, sum(complete_events.stats.cache_misses.values()))
"""


@pytest.mark.thorough
@pytest.mark.processes
def test_what_is_cached_is_loaded_at_once_and_nothing_is_compiled_for_it(tree: Path) -> None:
    assert answer(started(tree, LOAD)) == ["0", "0", "1"]
    assert answer(started(tree, LOAD)) == ["1", "1", "0"]
