"""The page of all messages has what the code raises: each text, and what to do."""

import ast
import re
from pathlib import Path

import pytest

from docs.reference.messages import CLASSES, Texts, linked, raise_sites
from spark_jobs.text.codes import catalogue
from spark_jobs.text.remedies import remedy_of

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
    raised = list(raise_sites())
    unknown = [name for name, texts in raised if not texts]
    assert len(raised) > 500
    assert len(unknown) < len(raised) / 10


def test_each_code_is_on_the_page_once_and_each_row_has_a_remedy() -> None:
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == list(CLASSES)
    listed = re.findall(r"SL-\d{4}", PAGE.partition("\n## ")[2])
    assert sorted(listed) == [code.code for code in catalogue() if code.cls]
    rows = re.findall(r"^\| SL-\d{4} \| (`.*`) \| (.+) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 50
    assert all(len(advice) > 10 for _, advice in rows)


def test_what_to_do_is_that_of_the_message_s_kind() -> None:
    assert remedy_of(CLASSES["LakeError"], "restore bronze from a backup; run again") is None
    assert "howto/new-source#at-the-server" in (remedy_of(CLASSES["SourceError"], "answered: no") or "")
    assert (remedy_of(CLASSES["ConfigError"], "sources: missing") or "").startswith("see the allowed values")
    assert linked("x (stratalog docs howto/purge#a)") == "x ([howto/purge](../howto/purge.md#a))"
