"""ARCHITECTURE.md and the questions of docs/contributing.md name packages, files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")


def spans(text: str) -> list[str]:
    """What stands between backticks, outside of blocks of code."""
    return sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))))


SPANS = spans(TEXT)
NAMED = [span for span in SPANS if re.fullmatch(r"[\w/.]+(?:/|\.py|\.md)(?:::[\w.]+)?", span)]
WALKS = re.findall(r"^### (.+)\n\n((?:\d+\. .*\n)+)", TEXT, re.MULTILINE)
QUESTIONS = re.findall(r"^\| ([^|]+\?) \| `([^`|]+)` \|$", CONTRIBUTING, re.MULTILINE)


def file_of(path: str) -> Path | None:
    """The file or folder, from the tree's root or from spark_jobs."""
    return next((full_path for full_path in (ROOT / path, ROOT / "spark_jobs" / path) if full_path.exists()), None)


def names(tree: ast.Module | ast.ClassDef) -> dict[str, ast.AST]:
    """What a module or class defines, by name."""
    defined: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        defined |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return defined


@pytest.mark.parametrize("span", NAMED)
def test_a_path_and_its_name_exist(span: str) -> None:
    path, _, name = span.partition("::")
    file = file_of(path)
    assert file, f"there is no {path}"
    scope: ast.AST | None = ast.parse(file.read_text(encoding="utf-8")) if name else None
    for part in filter(None, name.split(".")):
        assert isinstance(scope, ast.Module | ast.ClassDef)
        scope = names(scope).get(part)
        assert scope, f"{path} defines no {name}"


def test_names_are_among_what_is_checked() -> None:
    assert {"binlog/types/__init__.py::TYPES", "errors.py::LostRace", "errors.py", "silver/"} <= set(NAMED)


def test_every_package_is_listed() -> None:
    packages = {f"{path.parent.name}/" for path in ROOT.joinpath("spark_jobs").glob("*/__init__.py")}
    assert packages <= set(SPANS)


def test_there_are_five_walks_of_at_most_ten_lines() -> None:
    assert [title for title, _ in WALKS] == ["A byte", "A row", "A position", "A DDL statement", "A backfill"]
    assert all(len(steps.splitlines()) <= 10 for _, steps in WALKS)


def test_each_question_has_one_answer() -> None:
    assert len(QUESTIONS) == len({question for question, _ in QUESTIONS}) >= 20


@pytest.mark.parametrize("question, path", QUESTIONS)
def test_the_answer_to_a_question_exists(question: str, path: str) -> None:
    assert (ROOT / path).is_file(), question
