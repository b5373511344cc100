"""What the page of evidence is about, run; each function returns a record of what came of it.

Put here: running and counting. Not here: where records are written (__main__.py), or the page (docs/evidence).
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from spec.check import MODELS, MUTANTS, check, check_mutant
from tests.faults import runs
from tests.faults.campaign import play
from tests.mutants.__main__ import killed_by, say

ROOT = Path(__file__).parents[2]
_SEEDS = 4
"""Seeds of each layout in a part of the faults."""
Record = dict[str, Any]


def faults(count: str = "10000", seed: str = "5000") -> Record:
    """Scenarios over all layouts, seed after seed, until so many faults were injected."""
    layouts, first, enough = [*runs.LAYOUTS], int(seed), int(count)
    by_layout, kinds, wrong = Counter[str](), Counter[str](), list[str]()
    scenarios, last = 0, first
    while kinds.total() < enough:
        seeds = range(last, last + _SEEDS)
        last = seeds.stop
        played = [(layout, number) for number in seeds for layout in layouts]
        # Processes keep memory and end with each part. They are not renewed amid a part: the executor of Python 3.11
        # can wait for ever for a process that max_tasks_per_child has ended.
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            for (layout, _), (by_kind, texts) in zip(played, pool.map(_played, played), strict=True):
                scenarios += 1
                kinds += by_kind
                by_layout[layout] += by_kind.total()
                wrong += texts
        say(f"{kinds.total():,} faults in {scenarios:,} scenarios, {len(wrong)} wrong")
    return {
        "faults": kinds.total(),
        "scenarios": scenarios,
        "seeds": [first, last - 1],
        "by_kind": dict(kinds.most_common()),
        "by_layout": dict(by_layout.most_common()),
        "wrong": [text.partition("\n")[0] for text in wrong],
    }


def _played(scenario: tuple[str, int]) -> tuple[Counter[str], list[str]]:
    layout, seed = scenario
    with tempfile.TemporaryDirectory() as folder:
        by_kind, _, wrong = play(range(seed, seed + 1), Path(folder), layout=layout)
    return by_kind, [f"{layout}: {text}" for text in wrong]


def models(size: str = "full") -> Record:
    """Distinct states of each model, and by mutant what it violated."""
    checked = {name: check(model) for name, model in MODELS[size].items()}
    refuted = {}
    for mutant in MUTANTS:
        violated = check_mutant(mutant).violated
        refuted[f"{mutant.model}: {mutant.guard}"] = violated if violated in mutant.violated else None
    return {
        "bounds": size,
        "states": {name: result.states for name, result in checked.items()},
        "mutants": refuted,
        "wrong": [
            *(f"{name}: {result.violated}" for name, result in checked.items() if result.violated),
            *(f"{name}: nothing is violated" for name, violated in refuted.items() if violated is None),
        ],
    }


def mutants(*parts: str) -> Record:
    """By promise of a guard the test that noticed that it was gone."""
    killers = killed_by(parts)
    return {"killers": killers, "wrong": [promise for promise, killer in killers.items() if killer is None]}


def fuzz(seconds: str = "600") -> Record:
    """Executions of each fuzzer, and what it found."""
    executions, failures = {}, list[str]()
    for target in ("json", "log"):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.fuzz", target, seconds, folder]
            ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            counts = re.findall(r"number_of_executed_units:\s*(\d+)", ran.stderr)
            executions[target] = int(counts[-1]) if counts else 0
            failures += [f"{target}: {file.name}" for file in sorted(Path(folder).glob("found-*"))]
            if ran.returncode and not failures:
                failures.append(f"{target}: ended with {ran.returncode}")
    return {"seconds_each": int(seconds), "executions": executions, "wrong": failures}
