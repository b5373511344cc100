"""The tree, its locks and its commands, held together. Put here: what no module's own test can see."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.source_trees import tree_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("spark_jobs", "assets", "dagster_project", "stratalog")
EXTRAS = ("-build", "", "-dev", "-connect", "-otel", "-docs", "-make", "-release", "-postgres")
LOCKS = tuple(f"requirements{part}.txt" for part in EXTRAS)
MODULES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in ROOT.joinpath(package).rglob("*.py")
    if path.name != "__init__.py"
)
WITHOUT_TWIN = {
    "spark_jobs/cli/__main__.py",
    "stratalog/__main__.py",
    "spark_jobs/ddl/operations.py",
    "spark_jobs/pipeline/initial_load/context.py",
    "spark_jobs/pipeline/outcome.py",
    "spark_jobs/identity/errors.py",
}
"""Modules without a test of their own: two lines that every test of a process runs, and values without behaviour."""


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: str) -> dict[str, set[str]]:
    """The versions that a lock holds, by distribution: more than one where they differ by Python."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ]+)", (ROOT / lock).read_text(), re.MULTILINE
    ):
        versions.setdefault(name, set()).add(version)
    return versions


def test_dagster_finds_the_same_code_location_both_ways() -> None:
    project = pyproject()["tool"]["dg"]["project"]
    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert location["python_module"] == {
        "module_name": project["code_location_target_module"],
        "working_directory": ".",
        "location_name": project["code_location_name"],
    }


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_module_has_its_test_twin(module: Path) -> None:
    twin = Path("tests", module.parent, f"test_{module.name}")
    assert (ROOT / twin).is_file() != (str(module) in WITHOUT_TWIN), f"{module} has no {twin}"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_module_says_what_belongs_into_it(module: Path) -> None:
    charter = ast.get_docstring(tree_of(ROOT / module)) or ""
    assert "Put here:" in charter
    assert "Not here:" in charter


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_pin_every_distribution_by_hash_and_name_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    requirements = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n", "", text).strip())
    for requirement in requirements:
        assert re.match(r"[a-z0-9._-]+(\[[a-z, -]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", requirement, re.DOTALL), (
            requirement
        )
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", text)


@pytest.mark.parametrize("extra", ["connect", "otel"])
def test_the_lock_of_an_extra_is_of_its_packages(extra: str) -> None:
    listed = re.findall(r"^[a-z].*", (ROOT / f"requirements-{extra}.in").read_text(), re.MULTILINE)
    assert listed == pyproject()["project"]["optional-dependencies"][extra]


@pytest.mark.parametrize("part, larger_lock", [LOCKS[:2], LOCKS[1:3], *((LOCKS[at], LOCKS[2]) for at in (3, 4, 6))])
def test_the_larger_lock_holds_the_smaller(part: str, larger_lock: str) -> None:
    larger = pins(larger_lock)
    assert {name: larger.get(name) for name in pins(part)} == pins(part)


def test_every_dependency_is_locked() -> None:
    required = {re.split(r"[<>=\[]", dependency)[0] for dependency in pyproject()["project"]["dependencies"]}
    assert required <= pins("requirements.txt").keys()


def test_help_lists_every_target() -> None:
    set_up = {"java", "delta", "mysql", "servers", "hadoop"}
    targets = set(re.findall(r"^([a-z][a-z-]*)(?= ?[a-z]*:)", (ROOT / "Makefile").read_text(), re.MULTILINE)) - set_up
    output = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make (\S+) +\S", output, re.MULTILINE)) == targets
    assert {"demo", "test", "test-fast", "lint", "dev", "bench", "lock", "clean"} <= targets


def continuous_integration(folder: Path, makefile: str) -> subprocess.CompletedProcess[str]:
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(makefile)
    for program in ("chromedriver", "prometheus-node-exporter"):
        (folder / program).symlink_to("/bin/true")  # they are here, so that none is installed
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    command = [folder / ".ci" / "run"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})


STEPS = (
    *("install", "fetch", "lint", "spec BOUNDS=small", "site", "audit"),
    *("test-thorough", "test-processes", "test-stores", "test-cluster", "test-checked"),
)
"""Of continuous integration, each a target of the Makefile."""
SUMMARY = "=== 7 passed, 2 skipped in 60.12s (0:01:00) ==="


def test_continuous_integration_runs_all_there_is(tmp_path: Path) -> None:
    ran = continuous_integration(tmp_path, "%:\n\t@echo first of $@; echo last of $@\n")
    ended = re.findall(r"^= make (.*): \d+ seconds, exit status 0$", ran.stdout, re.MULTILINE)
    assert (sorted(ended), ended[0], ran.returncode) == (sorted(STEPS), "install", 0), ran.stdout
    assert "last of site" in ran.stdout
    assert "first of" not in ran.stdout


def test_continuous_integration_says_how_many_tests_passed(tmp_path: Path) -> None:
    sessions = f"\t@echo 'a page'; echo '{SUMMARY}'; echo 'on Azure'; echo '{SUMMARY}'; echo 'made'\n"
    ran = continuous_integration(
        tmp_path, f"%:\n\t@true\ntest-cluster:\n\t@sleep 1; echo '{SUMMARY}'\ntest-stores:\n{sessions}"
    )
    (stores,) = re.findall(r"^= make test-stores: .*\n((?:===.*\n)*)", ran.stdout, re.MULTILINE)
    assert stores == f"{SUMMARY}\n{SUMMARY}\n"
    assert ran.stdout.endswith(f"{SUMMARY}\n"), "a reader of the last lines sees that tests ran"


@pytest.mark.parametrize("step", ["test-thorough", "lint", "test-cluster"])
def test_continuous_integration_says_what_failed_in_few_words(tmp_path: Path, step: str) -> None:
    long = "print('installing\\n' * 9999 + '=== FAILURES ===\\nat a place\\n' + 'a page\\n' * 9999 + 'FAILED a_test')"
    ran = continuous_integration(tmp_path, f'%:\n\t@echo done\n{step}:\n\t@{sys.executable} -c "{long}"; exit 1\n')
    assert (ran.returncode, "at a place" in ran.stdout, "FAILED a_test" in ran.stdout) == (2, True, True)
    assert re.findall(r"^= make (.*): \d+ seconds, exit status 2$", ran.stdout, re.MULTILINE) == [step]
    assert len(ran.stdout) < 10_000


def test_without_an_environment_continuous_integration_ends_at_once(tmp_path: Path) -> None:
    ran = continuous_integration(tmp_path, "%:\n\t@false\n")
    assert re.findall(r"^= make (.*): \d+ seconds, exit status 2$", ran.stdout, re.MULTILINE) == ["install"]
    assert ran.returncode == 2


POINTERS = (
    re.compile(r"(?<![\w./`<{*-])((?:\w+/)*\w+\.py)\b"),
    re.compile(r"(?<![\w./`<{*:-])((?:\w+/)+)(?=[\s,.;:)])"),
)
"""Modules and folders as docstrings name them: from the module's folder, the one above it, spark_jobs or the root."""
OUTSIDE = {"compression/", "runs/", "scratch/"}
"""Folders of a server's source, and of a session at run time."""


def missing_pointers(module: Path) -> list[str]:
    """Paths in a module's docstring that lead nowhere."""
    docstring = ast.get_docstring(tree_of(ROOT / module)) or ""
    names = {name for pattern in POINTERS for name in pattern.findall(docstring)} - OUTSIDE
    bases = (module.parent, module.parent.parent, Path("spark_jobs"), Path(), Path("tests"))
    return sorted(name for name in names if not any((ROOT / base / name).exists() for base in bases))


def test_modules_point_to_modules_that_exist() -> None:
    assert {str(module): missing for module in MODULES if (missing := missing_pointers(module))} == {}
