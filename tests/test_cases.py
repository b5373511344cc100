"""docs/cases.md names tests that are there, and leaves no case out."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "cases.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z]\d\d) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_stands_once() -> None:
    wanted = [f"B{number:02}" for number in range(1, 32)]
    wanted += [f"T{number:02}" for number in range(1, 20)] + [f"D{number:02}" for number in range(1, 12)]
    wanted += [f"D{number}" for number in range(17, 41)] + [f"S{number:02}" for number in range(1, 10)]
    wanted += [f"P{number:02}" for number in range(1, 5)]
    assert [case for case, _, _ in ROWS] == wanted


def test_every_named_test_exists() -> None:
    named = {(case, path, name) for case, _, text in ROWS for path, name in re.findall(r"`(\S+\.py)::(\w+)`", text)}
    missing = {one for one in named if not (TESTS / one[1]).is_file() or one[2] not in functions(one[1])}
    assert named
    assert not missing


def test_a_case_without_a_test_says_so() -> None:
    said = re.compile("not yet|does not apply", re.IGNORECASE)
    silent = {case for case, _, text in ROWS if "::" not in text and not said.match(text)}
    assert not silent
