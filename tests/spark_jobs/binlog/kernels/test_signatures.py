"""The table of signatures is of kernels that there are, in numba's own types."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba import types

from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.signatures import signatures
from tests.source_trees import tree_of

PACKAGE = "spark_jobs.binlog.kernels"
SOURCES = Path(__file__).parents[4] / "spark_jobs"
KERNELS = SOURCES / "binlog" / "kernels"
SIGNATURES = list(signatures())


def test_types_are_numbas() -> None:
    (scan,) = (arguments for name, arguments in SIGNATURES if name == "event_scan.scan")
    assert scan[:6] == (*[types.int64] * 5, types.uint8[::1])
    assert isinstance(scan[7], types.Tuple)
    assert scan[8] == types.Array(types.int64, 2, "C")
    (labels,) = (arguments for name, arguments in SIGNATURES if name == "value_text.copy_labels")
    assert labels[0] == types.Array(types.uint64, 1, "C", readonly=True)


def test_each_is_listed_once_and_of_a_kernel() -> None:
    assert len(set(SIGNATURES)) == len(SIGNATURES)
    for name, _ in SIGNATURES:
        module, _, function = name.partition(".")
        assert callable(getattr(importlib.import_module(f"{PACKAGE}.{module}"), function))


@pytest.mark.skipif(CHECKED, reason="nothing is compiled where kernels run as plain Python")
def test_every_kernel_that_the_project_calls_is_listed() -> None:
    named = {name for path in SOURCES.rglob("*.py") if path.parent != KERNELS for name in kernel_names(tree_of(path))}
    modules = {name: importlib.import_module(f"{PACKAGE}.{name}") for name, _ in named}
    called = {f"{module}.{name}" for module, name in named if hasattr(getattr(modules[module], name), "py_func")}
    assert len(called) > 30
    assert called <= {name for name, _ in SIGNATURES}


def kernel_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names of the package of kernels that a module uses, each with the module that has it."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules = {alias.name for node in imports if node.module == PACKAGE for alias in node.names}
    for node in imports:
        package, _, module = str(node.module).rpartition(".")
        if package == PACKAGE:
            yield from ((module, alias.name) for alias in node.names)
    for value in ast.walk(tree):
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id in modules:
            yield value.value.id, value.attr
