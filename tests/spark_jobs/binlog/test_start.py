"""What a new process pays before its first row, and several processes that start at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.binlog.kernels.addresses import CHECKED

ROOT = Path(__file__).parents[3]
LOG = ROOT / "spark_jobs" / "demo" / "recorded_logs" / "mysql-bin.000002"

KERNELS = """
import sys
kernels = [
    (name, function)
    for module in list(sys.modules)
    if module.startswith("spark_jobs.binlog.kernels.")
    for name, function in vars(sys.modules[module]).items()
    if hasattr(function, "py_func")
]
"""
IMPORT = f"""
import sys
import spark_jobs.binlog
print("numba" in sys.modules)
from importlib import import_module
from spark_jobs.binlog.kernels import COMPILED
for module in COMPILED:
    import_module(f"spark_jobs.binlog.kernels.{{module}}")
{KERNELS}
print(len(kernels) > 100, [name for name, function in kernels if function.signatures])
"""
DECODE = f"""
import sys
from pathlib import Path
from spark_jobs.binlog import FileDecoder
decoder = FileDecoder("log", lambda name: name.table == "orders")
found = [*decoder.feed(Path({str(LOG)!r}).read_bytes()), *decoder.finish()]
{KERNELS}
misses = sum(sum(function.stats.cache_misses.values()) for _, function in kernels)
print(sum(len(changes) for _, changes in found), misses)
"""
HEAVY = "print(sorted({'dagster', 'pandas', 'pydantic', 'pyspark'} & set(sys.modules)))"


def started(program: str, cache: Path | None = None) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | ({"NUMBA_CACHE_DIR": str(cache)} if cache else {})
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def lines_of(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.splitlines()


def test_importing_loads_no_numba_and_compiles_nothing() -> None:
    assert lines_of(started(IMPORT + HEAVY)) == ["False", f"{not CHECKED} []", "[]"]


def test_decoding_imports_nothing_heavy() -> None:
    assert lines_of(started(DECODE + HEAVY))[1:] == ["[]"]


@pytest.mark.long
def test_two_processes_compile_into_one_cache(tmp_path: Path) -> None:
    """Both start on an empty cache and are right; a third finds what they left and compiles nothing."""
    together = [started(DECODE, tmp_path), started(DECODE, tmp_path)]
    answers = [lines_of(process)[0].split() for process in together]
    assert answers[0][0] == answers[1][0] != "0"
    assert all(int(misses) > 0 for _, misses in answers)
    assert lines_of(started(DECODE, tmp_path))[0].split() == [answers[0][0], "0"]
