"""Where machine code is installed and fits, nothing is compiled; where it is damaged or foreign, a line tells of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.binlog.kernels import build
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.machine_code import FOLDER, file_name
from spark_jobs.binlog.kernels.targets import TARGETS, fitting_target, machine_targets

ROOT = Path(__file__).parents[4]
KERNELS = "spark_jobs/binlog/kernels"
SIGNATURE = '_SIGNATURES = """packed_events.complete_events(uint8[::1])"""\n'
USE = """
import logging, threading, time
logging.basicConfig(level=logging.INFO, format="%(message)s")
import numpy as np
from spark_jobs.binlog.kernels.packed_events import complete_events
from spark_jobs.text.progress import current
seen, is_over = set(), threading.Event()
def watch():
    while not is_over.wait(0.005):
        seen.add(activity.text if (activity := current()) else "")
watcher = threading.Thread(target=watch)
watcher.start()
found = complete_events(np.array([4], np.uint8))
is_over.set()
watcher.join()
assert current() is None
print(found, sum(complete_events._cache_misses.values()), sorted(seen - {""}))
"""
LOAD = """
from spark_jobs.binlog.kernels.packed_events import complete_events
from spark_jobs.binlog.kernels.compile import load_cached
print(load_cached(), len(complete_events.overloads), sum(complete_events._cache_misses.values()))
"""
COMPILED = "1 1 ['compiling the decoder']"
LOADED = "1 0 []"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHECKED, reason="nothing is compiled where kernels run as plain Python"),
    pytest.mark.skipif(fitting_target() is None, reason="no machine code is made for this processor"),
]


def program(tree: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    variables |= {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree / "cache")} | environment
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=variables, capture_output=True, text=True, check=True
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the decoder with the machine code of one kernel."""
    tree = tmp_path_factory.mktemp("built")
    ignored = shutil.ignore_patterns("__pycache__", "recorded_logs", FOLDER)
    shutil.copytree(ROOT / "spark_jobs", tree / "spark_jobs", ignore=ignored)
    table = tree / KERNELS / "signatures.py"
    before, _, rest = table.read_text().partition("_SIGNATURES = ")
    table.write_text(before + SIGNATURE + rest.split('"""', 2)[2].lstrip())
    printed = program(tree, "-m", "spark_jobs.binlog.kernels.build").stdout.splitlines()
    assert printed == [str(tree / KERNELS / FOLDER / file_name(target)) for target in machine_targets()]
    return tree


@pytest.fixture
def tree(built: Path, tmp_path: Path) -> Path:
    """A copy of that copy, whose files may be changed."""
    shutil.copytree(built / "spark_jobs", tmp_path / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.thorough
@pytest.mark.processes
def test_nothing_is_compiled_or_stored_where_the_installed_code_fits(tree: Path) -> None:
    ran = program(tree, "-c", USE)
    assert (ran.stdout.strip(), ran.stderr) == (LOADED, "")
    assert program(tree, "-c", LOAD).stdout == "1 1 0\n"
    assert not (tree / "cache").exists()


@pytest.mark.thorough
@pytest.mark.processes
def test_files_that_are_there_are_not_made_again(tree: Path) -> None:
    files = sorted((tree / KERNELS / FOLDER).iterdir())
    assert len(files) == len(machine_targets())
    files[0].write_bytes(b"damaged")
    before = [file.stat().st_mtime_ns for file in files]
    program(tree, "-m", "spark_jobs.binlog.kernels.build")
    assert [file.stat().st_mtime_ns != time for file, time in zip(files, before, strict=True)] == [
        True,
        *(False for _ in files[1:]),
    ]
    assert program(tree, "-c", USE).stdout.strip() == LOADED


@pytest.mark.thorough
@pytest.mark.processes
def test_a_clone_gets_the_file_of_this_processor_alone(tree: Path) -> None:
    shutil.rmtree(tree / KERNELS / FOLDER)
    target = fitting_target()
    assert target
    printed = program(tree, "-m", "spark_jobs.binlog.kernels.build", "--here").stdout.splitlines()
    assert printed == [str(path) for path in (tree / KERNELS / FOLDER).iterdir()]
    assert [Path(path).name for path in printed] == [file_name(target)]
    assert program(tree, "-c", USE).stdout.strip() == LOADED


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize(
    "harm, reason",
    [
        ("damaged", "is damaged"),
        ("foreign", "is of other sources or versions"),
        ("missing", "is missing"),
        ("lacking", "lacks a kernel"),
        ("named", "NUMBA_CPU_NAME or NUMBA_CPU_FEATURES names a processor"),
    ],
)
def test_compilation_is_a_line_with_its_reason(harm: str, reason: str, tree: Path) -> None:
    target = fitting_target()
    assert target
    path, environment = tree / KERNELS / FOLDER / file_name(target), {}
    match harm:
        case "damaged":
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case "foreign":
            with (tree / KERNELS / "event_cells.py").open("a") as source:
                source.write("\n")
        case "missing":
            path.unlink()
        case "lacking":
            change = "from spark_jobs.binlog.kernels import machine_code as m; from pathlib import Path; "
            change += f"t = m.fitting_target(); Path({str(path)!r}).write_bytes(m.encoded(t, {{}}))"
            program(tree, "-c", change)
        case "named":
            environment = {"NUMBA_CPU_NAME": "generic"}
    ran = program(tree, "-c", USE, **environment)
    name = "" if harm == "named" else f"{file_name(target)} "
    assert ran.stdout.strip() == COMPILED
    assert ran.stderr == f"compiling the decoder, half a minute once: {name}{reason}\n"


@pytest.mark.thorough
@pytest.mark.processes
def test_what_was_compiled_is_kept(tree: Path) -> None:
    shutil.rmtree(tree / KERNELS / FOLDER)
    assert program(tree, "-c", USE).stdout.strip() == COMPILED
    second = program(tree, "-c", USE)
    assert (second.stdout.strip(), second.stderr) == (LOADED, "")
    assert program(tree, "-c", LOAD).stdout == "1 1 0\n"


@pytest.mark.thorough
@pytest.mark.processes
def test_where_nothing_can_be_written_each_process_loads_or_compiles_for_itself(tree: Path) -> None:
    (tree / KERNELS / "__pycache__").touch()
    nowhere = {"NUMBA_CACHE_DIR": "", "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}
    assert program(tree, "-c", USE, **nowhere).stdout.strip() == LOADED
    shutil.rmtree(tree / KERNELS / FOLDER)
    assert program(tree, "-c", USE, **nowhere).stdout.strip() == COMPILED
    assert program(tree, "-c", LOAD, **nowhere).stdout == "0 0 0\n"


def test_a_build_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_MODULE", "spark_jobs.binlog.kernels.no_such_module")
    with pytest.raises(subprocess.CalledProcessError):
        build.make(tmp_path / "files", [TARGETS[0]])
