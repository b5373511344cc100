"""Sizes of files, classes and functions: what a reader can hold in mind."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("spark_jobs", "assets", "dagster_project", "stratalog", "tests", "benchmarks", "corpus", "docs", "spec")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
FILE_LINES, CLASS_LINES, FUNCTION_LINES, POSITIONAL = 600, 300, 50, 5
LONG_FILES: set[str] = set()
"""Files that may be longer: tables that are generated."""
LONG_FUNCTIONS = {
    "spark_jobs/delta/commits.py::commit",
    "spark_jobs/delta/data_files.py::write_parts",
}
"""Functions that may be longer; those of kernels are loops that numba compiles, and none of them is counted."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_kernel(path: Path) -> bool:
    return path.parent == ROOT / "spark_jobs" / "binlog" / "kernels"


def definitions(path: Path, *kinds: type[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in nodes_of(path):
        if isinstance(node, kinds):
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield node


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    assert node.end_lineno
    return node.end_lineno - node.lineno + 1


def test_a_file_is_read_in_one_sitting() -> None:
    long = {name_of(path) for path in FILES if len(path.read_text(encoding="utf-8").splitlines()) > FILE_LINES}
    assert long == LONG_FILES


def test_a_class_has_one_subject() -> None:
    assert not [
        f"{name_of(path)}::{node.name}"
        for path in FILES
        for node in definitions(path, ast.ClassDef)
        if lines_of(node) > CLASS_LINES
    ]


def test_a_function_is_a_few_paragraphs() -> None:
    long = {
        f"{name_of(path)}::{node.name}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] in ("spark_jobs", "assets", "dagster_project", "stratalog")
        if not is_kernel(path)
        for node in definitions(path, ast.FunctionDef, ast.AsyncFunctionDef)
        if lines_of(node) > FUNCTION_LINES
    }
    assert long == LONG_FUNCTIONS


@pytest.mark.parametrize("folder", ["spark_jobs", "assets", "dagster_project", "stratalog"])
def test_arguments_beyond_five_are_given_by_name(folder: str) -> None:
    functions = [
        f"{name_of(path)}::{node.name}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == folder and not is_kernel(path)
        for node in definitions(path, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if len([*node.args.posonlyargs, *node.args.args]) - is_method(node) > POSITIONAL
    ]
    assert functions == []


def is_method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
