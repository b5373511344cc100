"""Docstrings and comments are where a reader looks for them.

Put here: the rules about which modules, classes and functions have a docstring, and which bodies have a comment. Not
here: what these say (docs/test_language.py looks at the words).
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.source_trees import nodes_of, tree_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("assets", "dagster_project", "spark_jobs", "stratalog")
BODY_LINES, BODY_STATEMENTS, PUBLIC_LINES = 15, 2, 10
"""A longer body has a comment, unless it is one paragraph: so many statements at its own level, or a constructor, whose
fields have docstrings. A longer public function has a docstring."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files_of(folder: str) -> list[Path]:
    return sorted(ROOT.joinpath(folder).rglob("*.py"))


def comments_in(text: str) -> set[int]:
    """Lines with a comment for readers: not one for a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    marks = ("# noqa", "# type:", "# fmt:")
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT and not token.string.startswith(marks)}


def body_of(function: Function) -> list[ast.stmt]:
    """The statements of a function but for its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def bare_bodies(text: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Functions of several paragraphs without any comment, as ``line: name``."""
    comments = comments_in(text)
    for node in nodes:
        if isinstance(node, Function) and node.name != "__init__" and (body := body_of(node)):
            last = node.end_lineno or node.lineno
            is_long = last - body[0].lineno + 1 > BODY_LINES and len(body) > BODY_STATEMENTS
            if is_long and not comments & set(range(node.lineno, last + 1)):
                yield f"{node.lineno}: {node.name}"


def without_docstring(node: ast.AST) -> Iterator[str]:
    """Public classes, and public functions above ten lines, that say nothing of themselves, as ``line: name``."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef) or child.name.startswith("_"):
            continue
        is_long = (child.end_lineno or child.lineno) - child.lineno + 1 > PUBLIC_LINES
        if ast.get_docstring(child) is None and (is_long or isinstance(child, ast.ClassDef)):
            yield f"{child.lineno}: {child.name}"
        if isinstance(child, ast.ClassDef):
            yield from without_docstring(child)


_NAMED = re.compile(r"(?:^|(?<=[.;] ))((?:\w+, )*[a-z_]\w*): ")
"""Names that a paragraph of a docstring says something of."""


def parameters_of(node: Function) -> set[str]:
    given = node.args
    listed = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in listed if argument}


def unknown_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names in docstrings of functions and dataclasses that are no parameter and no field, as ``line: name``."""
    for node in nodes:
        if isinstance(node, Function):
            known = parameters_of(node)
        elif isinstance(node, ast.ClassDef) and not node.bases:
            fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
            known = {field.id for field in fields if isinstance(field, ast.Name)}
            known |= {
                name for part in node.body if isinstance(part, Function) for name in (part.name, *parameters_of(part))
            }
        else:
            continue
        # The first paragraph is prose. A class may list the values of a field, too.
        for paragraph in (ast.get_docstring(node) or "").split("\n\n")[1:]:
            text = " ".join(paragraph.split())
            named = [name for match in _NAMED.finditer(text) for name in match[1].split(", ")]
            if _NAMED.match(text) and (named[0] in known or isinstance(node, Function)):
                yield from (f"{node.lineno}: {name}" for name in named if name not in known)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_docstring_says_something_of_is_there(folder: str) -> None:
    unknown = [
        f"{path.relative_to(ROOT)}:{name}" for path in files_of(folder) for name in unknown_names(nodes_of(path))
    ]
    assert unknown == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_body_of_several_paragraphs_has_a_comment(folder: str) -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in files_of(folder)
        for name in bare_bodies(path.read_text(encoding="utf-8"), nodes_of(path))
    ]
    assert bare == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_public_has_a_docstring(folder: str) -> None:
    trees = {path: tree_of(path) for path in files_of(folder)}
    assert [str(path) for path, tree in trees.items() if ast.get_docstring(tree) is None] == []
    assert [
        f"{path.relative_to(ROOT)}:{name}" for path, tree in trees.items() for name in without_docstring(tree)
    ] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_package_says_what_belongs_in_it(folder: str) -> None:
    packages = [path for path in files_of(folder) if path.name == "__init__.py"]
    docstrings = {str(path): ast.get_docstring(tree_of(path)) or "" for path in packages}
    assert [path for path, text in docstrings.items() if "Put here" not in text or "Not here" not in text] == []


def test_what_a_rule_does_not_find_is_no_rule() -> None:
    body = "".join(f"    a{at} = {at}\n" for at in range(BODY_LINES + 1))
    for comment, bare in (("", ["1: f"]), ("    # noqa: X\n", ["1: f"]), ("    # Why.\n", [])):
        text = f"def f():\n{comment}{body}"
        assert [*bare_bodies(text, ast.walk(ast.parse(text)))] == bare
    text = 'def f(a):\n    """Text.\n\n    a: a number. b: another.\n    """'
    assert [*unknown_names(ast.walk(ast.parse(text)))] == ["1: b"]
    assert [*without_docstring(ast.parse(f"class A:\n    b = 0\n\ndef f():\n{body}\ndef _g():\n{body}"))] == [
        *("1: A", "4: f")
    ]
