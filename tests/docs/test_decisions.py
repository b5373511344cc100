"""Decision records: one a subject, half a page, listed in the index; users' pages do not need them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "adr"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
FOR_DEVELOPERS = {ROOT / "docs" / name for name in ("README.md", "contributing.md", "cases.md")}
USER_PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != FOLDER and page not in FOR_DEVELOPERS),
]
TREES = ("assets", "dagster_project", "spark_jobs", "stratalog", "tests", "benchmarks", "docs")
MOST_WORDS = 450
"""Half a page."""


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", USER_PAGES, ids=relative)
def test_a_users_page_links_to_no_decision(page: Path) -> None:
    assert re.findall(r"\badr/\d*", page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("record", RECORDS, ids=relative)
def test_a_record_has_its_number_and_half_a_page(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(record.name[:4])}. ")
    assert len(text.split()) <= MOST_WORDS
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[-2:] == ["Decision", "Rejected"]
    assert re.search(r"^Decided 20\d\d-\d\d-\d\d", text, re.MULTILINE)


def test_the_index_lists_each_record_once() -> None:
    listed = re.findall(r"^\| \[(\d+)\]\((\S+)\) \|", INDEX, re.MULTILINE)
    assert [(str(int(record.name[:4])), record.name) for record in RECORDS] == listed


def test_records_that_the_code_names_exist() -> None:
    files = [path for tree in TREES for path in (ROOT / tree).rglob("*.py")]
    named = {name for path in files for name in re.findall(r"docs/adr/([\w.-]+\w)", path.read_text(encoding="utf-8"))}
    assert {name for name in named if not (FOLDER / name).exists()} == set()
