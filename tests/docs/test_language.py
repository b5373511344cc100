"""Pages use the terms of the glossary in ARCHITECTURE.md, and not the paraphrases of earlier versions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = {"cli.md", "configuration.md", "python.md"}
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "benchmarks/RESULTS.md", "tests/README.md")
    ),
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name != "reference" or page.name not in GENERATED
    ),
]
PARAPHRASES = {
    "anew": "again, rebuild, overwrite",
    "done over": "rebuild",
    "done again": "replay",
    "led back": "projected backwards",
    "led on": "projected to the present columns",
    "told apart": "identified",
    "told by": "known from",
    "goes on": "continue, resume",
    "stands in": "is stored in",
    "passed over": "quarantined, skipped",
    "left as it": "unchanged",
    "a row a key": "a row per key",
    "behind the(?! primary)": "after the",
}


def prose(text: str) -> str:
    """Without code, links' targets and headings: keys and messages keep their words, and headings are anchors."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.startswith(("#", "    ")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_paraphrase_in_place_of_a_term(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    assert {
        phrase: term for phrase, term in PARAPHRASES.items() if re.search(rf"\b{phrase}\b", text, re.IGNORECASE)
    } == {}
