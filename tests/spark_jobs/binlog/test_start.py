"""What a new process pays before its first row, and several processes that start at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOG = ROOT / "spark_jobs" / "demo" / "recorded_logs" / "mysql-bin.000002"

IMPORT = """
import sys
import spark_jobs.binlog
from spark_jobs.binlog import kernels
print([name for name, one in vars(kernels).items() if getattr(one, "signatures", None)])
"""
DECODE = f"""
import sys
from pathlib import Path
from spark_jobs.binlog import FileDecoder, kernels
decoder = FileDecoder("log", lambda name: name.table == "orders")
found = [*decoder.feed(Path({str(LOG)!r}).read_bytes()), *decoder.finish()]
misses = sum(sum(one.stats.cache_misses.values()) for one in vars(kernels).values() if hasattr(one, "stats"))
print(sum(len(changes) for _, changes in found), misses)
"""
HEAVY = "print(sorted({'dagster', 'pandas', 'pydantic', 'pyspark'} & set(sys.modules)))"


def started(program: str, cache: Path | None = None) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | ({"NUMBA_CACHE_DIR": str(cache)} if cache else {})
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def said(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.splitlines()


def test_importing_compiles_nothing() -> None:
    assert said(started(IMPORT + HEAVY)) == ["[]", "[]"]


def test_decoding_imports_nothing_heavy() -> None:
    assert said(started(DECODE + HEAVY))[1:] == ["[]"]


@pytest.mark.long
def test_two_processes_compile_into_one_cache(tmp_path: Path) -> None:
    """Both start on an empty cache and are right; a third finds what they left and compiles nothing."""
    together = [started(DECODE, tmp_path), started(DECODE, tmp_path)]
    answers = [said(process)[0].split() for process in together]
    assert answers[0][0] == answers[1][0] != "0"
    assert all(int(misses) > 0 for _, misses in answers)
    assert said(started(DECODE, tmp_path))[0].split() == [answers[0][0], "0"]
