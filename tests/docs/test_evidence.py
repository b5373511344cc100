"""The page of evidence is what its records say."""

import json
from pathlib import Path

from docs.evidence.__main__ import FINDINGS, PAGE, page

TESTS = Path(__file__).parents[1]


def test_the_page_is_what_would_be_made() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m docs.evidence writes it again"


def test_each_finding_has_a_test_that_is_there() -> None:
    for finding in json.loads(FINDINGS.read_text(encoding="utf-8")):
        file, _, name = finding["test"].partition("::")
        text = (TESTS / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, finding
