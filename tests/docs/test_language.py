"""Pages, docstrings and comments use the terms of the glossary in ARCHITECTURE.md, and no paraphrases of them.

A docstring starts with what the thing is or returns, or with what it does.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site.hooks import pages
from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[2]
GENERATED = {"cli.md", "configuration.md", "messages.md", "python.md"}
PAGES = [page for page in map(ROOT.joinpath, pages()) if page.parent.name != "reference" or page.name not in GENERATED]
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
NO_FIRST_WORDS = frozenset(
    (
        *("About", "Above", "After", "Although", "Among", "As", "At", "Because", "Before", "Behind", "Below", "Beside"),
        *("Between", "Beyond", "But", "By", "During", "Except", "For", "From", "How", "If", "In", "Inside", "Into"),
        *("Not", "Of", "Off", "On", "Once", "Or", "Out", "Outside", "Over", "Past", "Per", "Since", "So", "Than"),
        *("That", "There", "They", "This", "Those", "Though", "Through", "To", "Toward", "Under", "Unless", "Until"),
        *("Up", "Upon", "What", "When", "Where", "Whether", "Which", "While", "Who", "Whose", "Why", "With", "Within"),
        *("Without", "Its", "Their", "Nobody", "Whoever", "Somewhere", "Instead", "Called"),
        *("Goes", "Has", "Says", "Stands", "Tells"),
    )
)
"""Words that begin no name of a thing, prepositions, conjunctions and pronouns; and verbs that have better ones."""
FOLDERS = ["spark_jobs", "assets", "dagster_project", "stratalog"]
ANY_PARAPHRASE = re.compile(rf"\b(?:{'|'.join(PARAPHRASES)})\b", re.IGNORECASE)


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


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, with their lines."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    yield from docstrings_of(path)


def docstrings_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a module and all that is in it, fields too, with their lines."""
    for node in nodes_of(path):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield node.lineno, docstring


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_paraphrase_in_docstrings_and_comments(folder: str) -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {phrase}; say {term}"
        for path in sorted(ROOT.joinpath(folder).rglob("*.py"))
        for line, text in texts_of(path)
        if (words := re.sub(r"`[^`]*`", " ", text)) and ANY_PARAPHRASE.search(words)
        for phrase, term in PARAPHRASES.items()
        if re.search(rf"\b{phrase}\b", words, re.IGNORECASE)
    ] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_starts_with_a_noun_or_a_verb(folder: str) -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {docstring.partition(chr(10))[0]}"
        for path in sorted(ROOT.joinpath(folder).rglob("*.py"))
        for line, docstring in docstrings_of(path)
        if re.split(r"[^\w-]", docstring, maxsplit=1)[0] in NO_FIRST_WORDS
    ] == []
