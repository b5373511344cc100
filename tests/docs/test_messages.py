"""The page of all messages has what the code raises: each text, and what to do."""

import ast
import re
from pathlib import Path

import pytest

from docs.reference.messages import CLASSES, Texts, messages, places, remedy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "messages.md").read_text(encoding="utf-8")
MODULE = """
_GONE = "the JVM is gone"

def reason(table):
    if table.key:
        return f"{table} has a key"
    return reason(table)
"""


@pytest.mark.parametrize(
    "expression, texts",
    [
        ("'a text'", ["a text"]),
        ("f'{name}: {size:,d} bytes of {table!r}'", ["…: … bytes of …"]),
        ("'short' if is_short else f'{n} rows'", ["short", "… rows"]),
        ("'begin, ' + end", ["begin, …"]),
        ("{'sources': 'missing', key: text}", ["missing"]),
        ("_GONE", ["the JVM is gone"]),
        ("_GONE.format(what=what)", ["the JVM is gone"]),
        ("reason(table)", ["… has a key"]),
        ("self.reason(table)", ["… has a key"]),
        ("problem.text or 'it has stopped'", ["it has stopped"]),
        ("problem.text", []),
    ],
)
def test_the_texts_of_an_expression(expression: str, texts: list[str]) -> None:
    module = ast.parse(MODULE)
    assert Texts(module).of(ast.parse(expression, mode="eval").body) == texts


def test_nearly_each_place_that_raises_is_understood() -> None:
    """The others pass the text of another error on."""
    raised = list(places())
    unknown = [name for name, texts in raised if not texts]
    assert len(raised) > 500
    assert len(unknown) < len(raised) / 10


def test_each_class_and_each_text_is_on_the_page_with_what_to_do() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == list(messages())
    assert set(CLASSES) - set(messages()) == {"AnotherLog"}, "its texts are made by functions of other modules"
    rows = re.findall(r"^\| (`.*`) \| (.+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == sum(map(len, messages().values())) > 400
    assert all(len(advice) > 10 for _, advice in rows)


def test_what_to_do_is_that_of_the_message_s_kind() -> None:
    assert remedy("LakeError", "restore bronze from a backup; run again") == "the message says it"
    assert "[howto/new-source](../howto/new-source.md#at-the-server)" in remedy("SourceError", "answered: no")
    assert remedy("ConfigError", "sources: missing").startswith("correct the key")
