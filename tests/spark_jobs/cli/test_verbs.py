"""What becomes of an interrupt and of every kind of error: one line and an exit status, no trace."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import errors
from spark_jobs.cli import verbs
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.text.remedies import has_remedy
from tests.fix_cli import Stratalog

ROOT = Path(__file__).parents[3]
IMPORTS = "import time:"
"""What every line begins with in which Python names a module that is imported (PYTHONPROFILEIMPORTTIME)."""


def wait_for_import(process: subprocess.Popen[str], module: str) -> None:
    """Reads what a process says, until it has imported a module."""
    assert process.stderr
    assert any(line.split("|")[-1].strip() == module for line in process.stderr), f"{module} is not imported"


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["click.globals", "rich.text", "pydantic.json_schema", "spark_jobs.config.loader", "spark_jobs.cli.run_report"],
)
def test_an_interrupt_of_imports_is_one_line(pipeline_file: Path, module: str) -> None:
    command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", "pipeline.yaml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPROFILEIMPORTTIME": "1"}
    with subprocess.Popen(
        command, cwd=pipeline_file.parent, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for_import(process, module)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        lines = [line for line in process.stderr if not line.startswith(IMPORTS)]
    assert (process.returncode, lines) == (130, ["interrupted\n"])


def classes_of(base: type[StratalogError] = StratalogError) -> Iterator[type[StratalogError]]:
    """Those that all modules share."""
    yield base
    for cls in [cls for cls in base.__subclasses__() if cls.__module__ == errors.__name__]:
        yield from classes_of(cls)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """From here on a verb fails so when it reads its configuration."""

    def load(_: Path) -> Any:
        raise error

    monkeypatch.setattr("spark_jobs.config.loader.load", load)


@pytest.mark.parametrize("cls", list(classes_of()), ids=lambda cls: cls.__name__)
def test_every_class_of_errors_is_one_line_with_a_remedy_and_its_status(
    cls: type[StratalogError], stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, cls("shop: mysql-bin.000001:4: shop.t: it is wrong"))
    ran = stratalog("schema", "-c", "pipeline.yaml")
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("shop: mysql-bin.000001:4: shop.t: it is wrong")
    if issubclass(cls, ConfigError):
        assert ran.status == 2
    else:
        assert ran.status == 1
        assert has_remedy(ran.err)


@pytest.mark.parametrize(
    "error, status, expected",
    [
        (ModuleNotFoundError("No module named 'sqlglot'", name="sqlglot"), 2, "the Python package sqlglot is missing"),
        (MemoryError(), 1, "the memory of this machine does not suffice"),
        (OSError(28, "No space left on device", "/lake/x"), 1, "/lake/x: No space left on device; remove the cause"),
        (OSError(24, "Too many open files"), 1, "Too many open files; remove the cause"),
        (KeyError("a\nb"), 1, "KeyError: 'a\\nb'; this is an error of Stratalog: report it"),
        (RecursionError("maximum recursion depth exceeded"), 1, "RecursionError: maximum recursion depth exceeded; "),
    ],
)
def test_what_nobody_raises_on_purpose_is_one_line_too(
    error: Exception, status: int, expected: str, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, error)
    ran = stratalog("schema", "-c", "pipeline.yaml")
    assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1)
    assert ran.err.startswith(expected)


def test_a_trace_is_shown_to_who_asks_for_it(stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyError("x"))
    monkeypatch.setenv("STRATALOG_DEBUG", "1")
    assert "Traceback" in stratalog("schema", "-c", "pipeline.yaml").err


def test_a_current_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert verbs.unexpected_error_message(FileNotFoundError(2, "No such file or directory")).startswith(
        "the current directory is"
    )


CONFIGURATIONS: dict[str, tuple[str | bytes | None, str]] = {
    "is missing": (None, "pipeline.yaml: cannot be read: No such file or directory"),
    "is a directory": ("/", "cannot be read: Is a directory"),
    "is empty": ("", "pipeline.yaml"),
    "is no UTF-8": (b"lake: \xff\n", "pipeline.yaml"),
    "is no YAML": ("lake: [", "pipeline.yaml"),
    "has an unset variable": ("lake: ${NOT_SET_ANYWHERE}\nsources: {shop: {files: .}}\n", "NOT_SET_ANYWHERE"),
    "has a lake below a file": (
        "lake: ./pipeline.yaml/x\nsources: {shop: {files: .}}\n",
        "is no folder; name a folder",
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_that_is_wrong(name: str, stratalog: Stratalog, tmp_path: Path) -> None:
    content, expected = CONFIGURATIONS[name]
    path = tmp_path / "pipeline.yaml"
    if content == "/":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.write_text(content, encoding="utf-8")
    ran = stratalog("changes", "-c", path)
    assert ran.status in (1, 2)
    assert "Traceback" not in ran.err
    assert expected in ran.err


@pytest.mark.parametrize(
    "java, expected",
    [
        (None, "Java 17 or newer is needed and java does not start"),
        ("nowhere", "nowhere/bin/java does not start: install a JDK 17"),
        ("11.0.2", "java is 11.0.2: install a JDK 17"),
    ],
)
def test_java_that_is_missing_or_old(
    java: str | None,
    expected: str,
    pipeline_file: Path,
    tmp_path: Path,
    stratalog: Stratalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if java:
        home = tmp_path / java
        monkeypatch.setenv("JAVA_HOME", str(home))
        if java != "nowhere":
            (home / "bin").mkdir(parents=True)
            (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{java}\"'\n")
            (home / "bin" / "java").chmod(0o755)
    ran = stratalog("export", "-c", pipeline_file, "--source", "shop", "--to", tmp_path / "out")
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert expected in ran.err


def test_a_cache_that_cannot_be_written(
    pipeline_file: Path, tmp_path: Path, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATALOG_CACHE", str(pipeline_file / "cache"))
    ran = stratalog("export", "-c", pipeline_file, "--source", "shop", "--to", tmp_path / "out")
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "cannot be written (Not a directory): name another by STRATALOG_CACHE" in ran.err


SHELL: dict[str, tuple[str, int, str]] = {
    "closed standard output": ("{} changes {log} >&-", 1, "standard output cannot be written: Bad file descriptor"),
    "closed standard input": ("{} changes - <&-", 1, "standard input cannot be read: Bad file descriptor"),
    "closed standard error": ("{} changes nowhere.000001 2>&-", 1, ""),
    "all closed": ("{} changes {log} <&- >&- 2>&-", 1, ""),
    "a full disk": ("{} changes {log} >/dev/full", 1, "standard output cannot be written: No space left on device"),
    "a file that may not grow": ("ulimit -f 0; {} changes {log} >out", 1, "standard output cannot be written: File"),
    "an ASCII locale": ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {} changes {log}", 0, ""),
    "a locale that is not there": ("LC_ALL=xx_YY.latin9 PYTHONUTF8=0 {} events {log}", 0, ""),
    "no home or temporary directory": (
        "env -u HOME TERM=no TMPDIR=/nowhere TZ=No/Where {} changes {log}",
        0,
        "",
    ),
    "a directory that is gone": (
        "mkdir g; cd g; rmdir ../g; {} check -c ../pipeline.yaml",
        1,
        "the current directory is gone",
    ),
}


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("name", SHELL)
def test_what_a_shell_can_do_to_a_process(name: str, pipeline_file: Path) -> None:
    command, status, expected = SHELL[name]
    program = f"{sys.executable} -m spark_jobs.cli"
    script = command.replace("{}", program).replace("{log}", str(pipeline_file.parent / "binlogs" / "mysql-bin.000001"))
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=pipeline_file.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    errors = ran.stderr.decode()
    assert ran.returncode == status, errors
    assert "Traceback" not in errors
    assert expected in errors
    assert errors.count("\n") == (1 if expected else 0)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["click", "pydantic", "pyarrow"])
def test_a_package_that_is_missing(package: str, pipeline_file: Path) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None; sys.path.insert(0, {str(ROOT)!r}); "
        "sys.argv = ['stratalog', 'verify', '-c', 'pipeline.yaml', '--log']; "
        "from spark_jobs.cli import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=pipeline_file.parent, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Traceback" not in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith(f"the Python package {package} is missing")
