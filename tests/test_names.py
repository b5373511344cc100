"""Names say what they hold. Put here: the rule that no name is a pronoun or a participle, over the whole tree.

Not here: what a thing is called instead; ARCHITECTURE.md's glossary has the nouns.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_trees import tree_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("assets", "benchmarks", "dagster_project", "docs", "spark_jobs", "spec", "stratalog", "tests")

FORBIDDEN = frozenset(
    [
        *("one", "ones", "other", "others", "another", "such", "same", "either", "neither", "both", "each", "every"),
        *("all", "any", "some", "several", "many", "few", "more", "most", "less", "least", "none", "nothing"),
        *("something", "anything", "everything", "nobody", "somebody", "anybody", "everybody", "someone", "anyone"),
        *("this", "that", "these", "those", "it", "its", "they", "them", "their", "itself", "themselves", "mine"),
        *("ours", "yours", "theirs", "own", "whose", "who", "whom", "what", "which", "where", "when", "why", "how"),
        *("there", "again", "anew", "amid", "whole"),
        *("asked", "begun", "brought", "came", "caught", "chosen", "done", "fed", "felt", "found", "given", "gone"),
        *("got", "grown", "heard", "held", "kept", "known", "left", "lost", "made", "meant", "met", "needed", "read"),
        *("said", "seen", "sent", "shown", "sought", "spent", "taken", "taught", "thought", "thrown", "told", "tried"),
        *("used", "wanted", "went", "won", "written"),
    ]
)
"""Pronouns, words that stand for a noun, and participles: none of them says what a value is."""

VERBS = frozenset({"read"})
"""Participles that are verbs as well, and so names of functions."""

EXCEPTIONS = {
    "spark_jobs/binlog/rows/file_decoder.py": {"wanted"},
    "spark_jobs/bronze/index.py": {"where"},
    "spark_jobs/checks/verify/tables.py": {"wanted"},
    "spark_jobs/cli/status.py": {"everything"},
    "spark_jobs/pipeline/as_of/api.py": {"where"},
    "tests/docs/test_reference.py": {"kept", "which", "one", "other", "wanted"},
}
"""Names with a reason: keywords of the public API, ``where`` as DataFrames have it, ``--all``, keys of a test model."""


def parameters_of(signature: ast.arguments) -> Iterator[ast.arg]:
    """The parameters of a function, without the right operand of a method, which Python calls ``other``."""
    positional = [*signature.posonlyargs, *signature.args]
    is_method = bool(positional) and positional[0].arg == "self"
    for parameter in [*positional, *signature.kwonlyargs, signature.vararg, signature.kwarg]:
        if parameter and not (is_method and parameter.arg == "other"):
            yield parameter


def names_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each name that a module gives to something, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=str(name)) | ast.AsyncFunctionDef(name=str(name)) if name.strip("_") in VERBS:
                continue
            case ast.FunctionDef(name=str(name)) | ast.AsyncFunctionDef(name=str(name)) | ast.ClassDef(name=str(name)):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.alias(asname=str(name)):
                yield name, node.lineno
            case ast.Name(id=str(name), ctx=ast.Store()) | ast.Attribute(attr=str(name), ctx=ast.Store()):
                yield name, node.lineno
            case ast.arguments():
                yield from ((parameter.arg, parameter.lineno) for parameter in parameters_of(node))


def bare(name: str) -> str:
    """A name without its underscores; of a class in small letters. Constants stay as they are: MOST is a limit."""
    name = name.strip("_")
    return name if name.isupper() else name.casefold()


def forbidden_in(path: Path) -> list[str]:
    """The forbidden names of a file, each as ``file:line: name``."""
    file = path.relative_to(ROOT).as_posix()
    names = [(name, line) for name, line in names_in(tree_of(path))]
    # What stands left of something stands beside what is right of it.
    allowed = EXCEPTIONS.get(file, set()) | ({"left"} if "right" in dict(names) else set())
    return [
        f"{file}:{line}: {name}"
        for name, line in names
        if bare(name) in FORBIDDEN - allowed and not name.startswith("__")
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_name_says_what_it_holds(folder: str) -> None:
    files = sorted(ROOT.joinpath(folder).rglob("*.py"))
    assert files
    assert [name for file in files for name in forbidden_in(file)] == []


PRODUCT = ("spark_jobs", "assets", "dagster_project", "stratalog")


def test_a_class_s_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(path for folder in PRODUCT for path in ROOT.joinpath(folder).rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_what_a_rule_does_not_find_is_no_rule() -> None:
    text = "def told(one, *, kept): found = _said = one; [other for other in found]\nclass Held: its: int\n"
    names = {name for name, _ in names_in(ast.parse(text))}
    assert {bare(name) for name in names} & FORBIDDEN == {
        *("told", "one", "kept", "found", "said", "other", "held", "its")
    }
