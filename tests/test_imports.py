"""Imports inside functions: only of what takes long to load, so that a command that needs none of it starts quickly."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.source_trees import nodes_of, tree_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("spark_jobs", "assets", "dagster_project", "stratalog")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SLOW = {"pyspark", "py4j", "delta", "deltalake", "numba", "pyarrow", "numpy", "obstore", "pydantic", "sqlglot"}
"""Libraries that take tenths of a second and more."""
OTHER_REASONS = {
    "spark_jobs/checks/second_reader/peer.py": "a package that is missing is a message of the check alone",
    "spark_jobs/cli/__init__.py": "an interrupt is a message while the verbs' libraries are imported, too",
    "spark_jobs/iceberg/catalogs.py": "pyiceberg comes with an extra, and is loaded where a catalog is named",
    "spark_jobs/runtime/connect.py": "grpc comes with an extra that most installations do not have",
    "spark_jobs/runtime/executors.py": "the function travels to executors, whose code may be another or none",
    "spark_jobs/telemetry/otlp.py": "OpenTelemetry's SDK comes with an extra, and is loaded where a collector is named",
    "spark_jobs/runtime/provision.py": "most calls find everything there, and print nothing by rich",
}
"""Modules whose imports inside functions have a reason of their own."""


@cache
def source_of(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def modules_of(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that an import loads, packages above them too."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.module
        names = [node.module, *(f"{node.module}.{name}" for name in names if source_of(f"{node.module}.{name}"))]
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def imported_by(source: Path) -> frozenset[str]:
    """The modules that the imports at the top of a file load."""
    nodes = tree_of(source).body
    imports = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset(module for node in imports for module in modules_of(node))


@cache
def loaded_by(module: str) -> frozenset[str]:
    """What comes with a module when it is imported, libraries by their first name. Its functions are not run."""
    source = source_of(module)
    if source is None:
        return frozenset({module.split(".", maxsplit=1)[0]})
    modules = {module}
    waiting = [source]
    while waiting:
        for name in imported_by(waiting.pop()):
            path = source_of(name)
            if path and name not in modules:
                waiting.append(path)
            modules.add(name if path else name.split(".")[0])
    return frozenset(modules)


def inside_functions(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    for function in nodes_of(path):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_import_inside_a_function_spares_a_slow_one(path: Path) -> None:
    quick = {
        ast.unparse(node)
        for node in inside_functions(path)
        if not any(loaded_by(module) & SLOW for module in modules_of(node))
    }
    assert not quick or str(path.relative_to(ROOT)) in OTHER_REASONS, "these belong to the top of the file"


def test_reasons_are_of_modules_that_are_there() -> None:
    assert all((ROOT / name).is_file() for name in OTHER_REASONS)
