"""The fuzzers: ``python -m tests.fuzz TARGET SECONDS [FOLDER [SEED [RUNS]]]``. ``make fuzz`` runs all targets.

libFuzzer by way of atheris, guided by coverage. Kernels run as plain Python (NUMBA_DISABLE_JIT=1 is set here): slow,
but their branches count as coverage, and their loads and stores are checked (kernels/memory.py). Compiled,
they would be a black box that reads wherever it likes.

FOLDER keeps the corpus from one run to the next; what fails is written there as ``found-…``. SEED is where chance
begins (what counts as new differs from run to run all the same); RUNS ends it after so many inputs, if its time has not
ended before. Exits with 0 where nothing was found.
"""

import contextlib
import importlib
import os
import sys
import tempfile
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris

from tests.fuzz.targets import TARGETS

_SECONDS_OF_ONE = 120
"""A hang, even on a machine that has much else to do."""
_MEGABYTES = 2048


def _engine_change(content: bytes, max_size: int) -> bytes:
    changed: bytes = atheris.Mutate(content, max(max_size, len(content), 1))
    return changed


def main(name: str, seconds: str, folder: str, seed: str = "0", runs: str = "-1") -> None:
    target = TARGETS[name]
    if not target.has_kernels:  # a minute of adding coverage that says nothing
        importlib.import_module("spark_jobs.binlog")
    with atheris.instrument_imports(include=["spark_jobs"]):
        judge = target.judge()
        from tests.fuzz import seeds
    seeds.write(name, Path(folder) / "seeds")
    corpus = Path(folder) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)

    def mutator(content: bytes, max_size: int, chance: int) -> bytes:
        return target.mutated(content, max_size, chance, _engine_change)

    options = {
        "max_total_time": seconds,
        "max_len": str(target.longest),
        "timeout": str(_SECONDS_OF_ONE),
        "report_slow_units": str(_SECONDS_OF_ONE),  # what is no hang is no finding
        "rss_limit_mb": str(_MEGABYTES),
        "seed": seed,
        "runs": runs,
        "artifact_prefix": f"{folder}/found-",
        "print_final_stats": "1",
    }
    words = seeds.CORPUS / f"{name}.dict"
    arguments = [f"-{option}={value}" for option, value in options.items()]
    arguments += [f"-dict={words}"] if words.exists() else []
    atheris.Setup([sys.argv[0], *arguments, str(corpus), f"{folder}/seeds"], judge, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    chosen, seconds, *rest = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        if not rest:
            rest = [stack.enter_context(tempfile.TemporaryDirectory(prefix="fuzz-"))]
        main(chosen, seconds, *rest)
