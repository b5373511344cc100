"""Every test is run by continuous integration or at night, and by one of them once.

Put here: what the Makefile's sessions of tests select. Not here: what continuous integration prints (test_workshop.py).
"""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).parents[1]
CI = ("test-thorough", "test-processes", "test-stores", "test-cluster", "test-checked")
NIGHT = "test-nightly"
AZURE, CHECKED = "STRATALOG_TEST_STORE=azure", "NUMBA_DISABLE_JIT=1"

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.processes]


Tests: TypeAlias = dict[str, frozenset[str]]


@cache
def fits(expression: str, marks: frozenset[str]) -> bool:
    """True if ``pytest -m`` selects a test with these marks."""

    def is_mark(name: str, /, **_: object) -> bool:
        return name in marks

    return Expression.compile(expression).evaluate(is_mark)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of pytest: the marks that it selects, in which files, folders and functions, and under which variable."""

    target: str
    variable: str
    marks: str
    paths: tuple[str, ...]

    def selects(self, name: str, marks: frozenset[str]) -> bool:
        starts = any(name == path or name.startswith((f"{path}/", f"{path}::", f"{path}[")) for path in self.paths)
        return (starts or not self.paths) and fits(self.marks, marks)


Sessions: TypeAlias = Sequence[Session]


def sessions_of(target: str) -> Iterator[Session]:
    """The runs of pytest that make would start for a target."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--dry-run", target]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment).stdout
    for line in printed.replace("\\\n", " ").replace("; ", "\n").splitlines():
        if " -m pytest " in line:
            words = shlex.split(line)
            marks, *paths = words[words.index("-m", words.index("pytest")) + 1 :]
            variable = next((word for word in words if word.startswith(("STRATALOG_", "NUMBA_"))), "")
            yield Session(target, variable, marks, tuple(paths))


def test_no_recipe_calls_make() -> None:
    """A dry run carries such a line out, with all that stands in it."""
    recipes = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("\t")]
    assert [line for line in recipes if re.search(r"\$[({]MAKE[)}]", line)] == []


@pytest.fixture(scope="module")
def sessions() -> list[Session]:
    return [session for target in (*CI, NIGHT) for session in sessions_of(target)]


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """Every test, with its marks."""
    plugin = tmp_path_factory.mktemp("plugin") / "listing_plugin.py"
    plugin.write_text(
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        print('test', item.nodeid.encode(), *{mark.name for mark in item.iter_markers()}, sep='\\t')\n"
    )
    lines = collect("-qq", "-p", plugin.stem, PYTHONPATH=str(plugin.parent))
    listed = (line.split("\t") for line in lines if line.startswith("test\t"))
    return {ast.literal_eval(name).decode(): frozenset(marks) for _, name, *marks in listed}


def times_run(
    tests: Tests, sessions: Sessions, *, marks: str, variable: str, targets: Collection[str]
) -> dict[str, int]:
    """Number of runs of each test with the given marks by sessions of targets that have the given variable."""
    running = [session for session in sessions if session.variable == variable and session.target in targets]
    return {
        name: sum(session.selects(name, own_marks) for session in running)
        for name, own_marks in tests.items()
        if fits(marks, own_marks)
    }


def test_each_test_is_run_once_by_continuous_integration_or_at_night(tests: Tests, sessions: Sessions) -> None:
    counts = times_run(tests, sessions, marks="long or not long", variable="", targets={*CI, NIGHT})
    assert len(counts) == len(tests) > 12_000
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_what_is_not_long_is_run_by_continuous_integration(tests: Tests, sessions: Sessions) -> None:
    counts = times_run(tests, sessions, marks="not long", variable="", targets=CI)
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_each_test_of_a_store_is_run_on_azure_at_night_and_those_of_azure_by_continuous_integration(
    tests: Tests, sessions: Sessions
) -> None:
    by_night = times_run(tests, sessions, marks="stores and not long", variable=AZURE, targets={NIGHT})
    assert {name: count for name, count in by_night.items() if count != 1} == {}
    by_ci = times_run(tests, sessions, marks="stores and not long", variable=AZURE, targets=CI)
    assert {name: count for name, count in by_ci.items() if count != ("azure" in tests[name])} == {}


def test_a_night_checks_the_bounds_of_all_that_continuous_integration_does(tests: Tests, sessions: Sessions) -> None:
    by_night, by_ci = (
        {
            name
            for name, count in times_run(tests, sessions, marks="not long", variable=CHECKED, targets=targets).items()
            if count
        }
        for targets in ({NIGHT}, set(CI))
    )
    assert 100 < len(by_ci) < len(by_night)
    assert by_ci < by_night


def test_three_runs_with_a_share_each_have_every_test_once() -> None:
    """Those of clusters and, beside them, tests that each run has."""
    paths = ["tests/cluster", "tests/spark_jobs/text", "tests/spark_jobs/demo/test_server.py"]
    counted = Counter(collected("", *paths))
    runs = [Counter(collected(f"{number}/3", *paths)) for number in (1, 2, 3)]
    always = {name for name, count in sum(runs, Counter[str]()).items() if count == 3}
    assert {name for name in always if "/text/" not in name and "/demo/" not in name} == set()
    assert {name for name in counted if "/text/" in name} <= always
    once = Counter({name: count for name, count in counted.items() if name not in always})
    assert sum((Counter({name: run[name] for name in run if name not in always}) for run in runs), Counter()) == once
    assert all(always < set(run) for run in runs)


def test_a_share_without_a_file_is_no_failure_and_a_wrong_one_is_refused() -> None:
    one_file = "tests/cluster/test_yarn.py"
    assert sorted(bool(collected(f"{number}/3", one_file)) for number in (1, 2, 3)) == [False, False, True]
    with pytest.raises(subprocess.CalledProcessError):
        collected("4/3", one_file)


def collected(share: str, *paths: str) -> list[str]:
    """Names of the tests that a run of continuous integration with a share has, of these files and folders."""
    lines = collect("-q", "-m", "not long", *paths, STRATALOG_SHARE=share)
    return [line for line in lines if line.startswith("tests/") and "::" in line]


def collect(*arguments: str, **environment: str) -> list[str]:
    """The lines of a pytest that collects tests and runs none. Raises CalledProcessError."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-n", "0", *arguments]
    variables = os.environ | environment | {"PYTEST_ADDOPTS": ""}
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=variables)
    return ran.stdout.splitlines()
