"""The public API: its names, and what importing it costs."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import stratalog

ROOT = Path(__file__).parents[2]


def declared() -> dict[str, str]:
    """The module of each name, as a type checker is told."""
    tree = ast.parse((ROOT / "stratalog" / "__init__.py").read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_the_type_checker_sees_what_is_imported() -> None:
    assert declared() == stratalog._MODULES
    assert sorted(declared()) == sorted(stratalog.__all__)


@pytest.mark.parametrize("name", stratalog.__all__)
def test_a_name_is_its_module_s_and_has_a_docstring(name: str) -> None:
    value = getattr(stratalog, name)
    assert value is getattr(importlib.import_module(declared()[name]), name)
    docstring = value.__doc__ if not inspect.isclass(value) else vars(value).get("__doc__")
    assert docstring
    assert name in dir(stratalog)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'stratalog' has no attribute 'lode'"):
        _ = stratalog.lode  # type: ignore[attr-defined]  # and an error to a type checker


def loaded(code: str) -> set[str]:
    """The top-level packages that a new process has imported after some code."""
    code = f"import sys; {code}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    "code, absent",
    [
        ("import stratalog", {"spark_jobs", "assets", "dagster_project", "dagster", "pyspark", "pydantic", "pyarrow"}),
        ("from stratalog import load", {"dagster", "pyspark", "pyarrow", "numba"}),
        ("from stratalog import FileDecoder", {"dagster", "pyspark", "pydantic"}),
        ("from stratalog import lake_of, spark_session", {"dagster"}),
    ],
)
def test_an_import_loads_what_it_needs(code: str, absent: set[str]) -> None:
    assert loaded(code) & absent == set()


def test_python_m_is_the_command() -> None:
    command = [sys.executable, "-m", "stratalog", "--help"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Usage: stratalog ")


@pytest.mark.parametrize("package", ["stratalog", "assets", "dagster_project", "spark_jobs"])
def test_every_package_of_the_wheel_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
