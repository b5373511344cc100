"""Archive of this environment for executors: Python itself, this project, and what its tasks import.

Put here: what goes into the archive, and trying it. Not here: how executors are told of it (spark_session.py), or what
an executor without it means (executors.py).

A virtual environment is bound to its place and to the Python that made it, which an executor may not have. So Python's
own library goes in too, and a small program finds all of it from where the archive was unpacked.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.executors import code_version
from spark_jobs.runtime.python_daemon import TASK_MODULES

NAME = "stratalog"
"""The folder that executors unpack the archive into."""
PYTHON = f"./{NAME}/bin/python"
"""Python, as an executor names it."""
_PROJECT = ("stratalog", "spark_jobs", "assets", "dagster_project")
_DRIVER_ALONE = frozenset(("dagster", "delta-spark", "jinja2", "mysql-replication", "prometheus-client"))
"""Dependencies of this project that no task imports."""
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests?|idlelib|ensurepip|tkinter|turtledemo|lib2to3|config-[^/]*|site-packages|dist-packages)(/|$)"
)
_OF_SPARK = re.compile(r"^pyspark/(jars|examples|data|kubernetes|sbin|licenses|R)/")
"""Packages that executors have of Spark themselves."""
_START = """\
#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
export PYTHONHOME="$here" PYTHONNOUSERSITE=1
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/lib/{python}/site-packages"
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/bin/{python}" "$@"
"""
_TRY = """\
import importlib
from spark_jobs.runtime import executors
for name in {modules}:
    importlib.import_module(name)
print(executors.code_version())
"""


def package(to: Path) -> int:
    """Write the archive, after it was unpacked and tried. Returns its size. Raises ConfigError."""
    if not to.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError(f"{to}: Spark unpacks archives by their names; name it like {NAME}.tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, NAME)
        try:
            _fill(root)
            _try(root)
            to.parent.mkdir(parents=True, exist_ok=True)
            half = to.with_name(f".{to.name}.half")
            with tarfile.open(half, "w:gz", compresslevel=6) as archive:
                archive.add(root, ".")
            half.replace(to)
        except OSError as error:
            raise ConfigError(f"{to}: cannot be written: {error.strerror or error}") from error
    return to.stat().st_size


def _fill(root: Path) -> None:
    # The standard library and the interpreter, as they are here; site-packages are chosen one by one.
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library, packages = root / "lib" / python, root / "lib" / python / "site-packages"
    standard = Path(sysconfig.get_path("stdlib"))
    for path in _package_files(standard):
        _copy_file(path, library / path.relative_to(standard))
    binary = Path(sys.executable).resolve()
    _copy_file(binary, root / "bin" / python)
    # A Python built with a shared library does not start without it.
    shared = Path(str(sysconfig.get_config_var("LIBDIR")), str(sysconfig.get_config_var("INSTSONAME")))
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and shared.is_file():
        _copy_file(shared, root / "lib" / shared.name)
    for name, path in _packaged():
        _copy_file(path, packages / name)
    sources = {name: Path(__file__).parents[2] / name for name in _PROJECT}
    for name, source in sources.items():
        if not source.is_dir():  # a wheel has it elsewhere, and its files are in already
            continue
        shutil.copytree(source, packages / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    # The interpreter is started by a script, which finds the environment wherever it was unpacked.
    start = root / "bin" / "python"
    start.write_text(_START.format(python=python))
    start.chmod(0o755)


def _try(root: Path) -> None:
    """Start its Python with no more than an executor has, and import what tasks import."""
    command = [str(root / "bin" / "python"), "-c", _TRY.format(modules=list(TASK_MODULES))]
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(root)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=bare, cwd=root)
    last = (ended.stderr.strip().splitlines() or [ended.stdout.strip()])[-1]
    if ended.returncode or ended.stdout.strip() != code_version():
        raise ConfigError(
            f"the archive of {sys.prefix} does not run by itself: {last}; correct that environment, then package again"
        )
    for cache in root.rglob("__pycache__"):
        shutil.rmtree(cache)


def _package_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not _LEFT_OUT.search(str(path.relative_to(folder))):
            yield path


def _packaged() -> Iterator[tuple[str, Path]]:
    """Files of the distributions that tasks may import, by their paths below site-packages."""
    for package in _dependencies():
        for file in package.files or ():
            name = str(file)
            if not (name.startswith("..") or "__pycache__" in name or name.endswith(".pth") or _OF_SPARK.match(name)):
                path = Path(str(file.locate()))
                if path.is_file():
                    yield name, path


def _dependencies() -> list[Distribution]:
    """Distributions of this project, and of those that it depends on but for what the driver alone imports."""
    distributions: dict[str, Distribution] = {}
    waiting = [NAME]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in distributions or name in _DRIVER_ALONE:
            continue
        try:
            distributions[name] = distribution(name)
        except PackageNotFoundError:  # of another platform or version of Python
            continue
        requirements = (
            requirement for requirement in distributions[name].requires or () if "extra ==" not in requirement
        )
        waiting += [match[0] for requirement in requirements if (match := re.match(r"[\w.-]+", requirement))]
    return list(distributions.values())


def _copy_file(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, to)
