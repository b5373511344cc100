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
    expected = [f"B{number:02}" for number in range(1, 32)]
    expected += [f"T{number:02}" for number in range(1, 20)] + [f"D{number:02}" for number in range(1, 12)]
    expected += [f"D{number}" for number in range(17, 41)] + [f"S{number:02}" for number in range(1, 10)]
    expected += [f"P{number:02}" for number in range(1, 5)]
    assert [case for case, _, _ in ROWS] == expected


def test_every_named_test_exists() -> None:
    tests_named = {
        (case, path, name) for case, _, text in ROWS for path, name in re.findall(r"`(\S+\.py)::(\w+)`", text)
    }
    missing = {
        entry for entry in tests_named if not (TESTS / entry[1]).is_file() or entry[2] not in functions(entry[1])
    }
    assert tests_named
    assert not missing


def test_a_case_without_a_test_says_so() -> None:
    pattern = re.compile("not yet|does not apply", re.IGNORECASE)
    silent = {case for case, _, text in ROWS if "::" not in text and not pattern.match(text)}
    assert not silent
