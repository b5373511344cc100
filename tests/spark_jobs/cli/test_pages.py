import ast
import re
from pathlib import Path

import pytest

from spark_jobs.cli import pages
from spark_jobs.text.codes import catalogue
from tests.fix_cli import Stratalog
from tests.source_trees import tree_of

ROOT = Path(__file__).parents[3]
REFERENCE = re.compile(r"\bstratalog docs ([a-z][\w/-]*)(?:#([\w-]+))?")
TREES = ("spark_jobs", "assets", "dagster_project", "stratalog")


def literals() -> list[tuple[str, str]]:
    """Each text of the code, with its file."""
    texts_by_file = []
    for path in (path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))):
        nodes = list(ast.walk(tree_of(path)))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings]
        texts = [node.value for node in constants if isinstance(node.value, str)]
        texts_by_file += [(str(path.relative_to(ROOT)), text) for text in texts]
    return texts_by_file


def test_each_page_that_a_message_names_has_the_section() -> None:
    named = {match for _, text in literals() for match in REFERENCE.findall(text)}
    assert len(named) > 30
    for page, anchor in named:
        assert pages.text_of(f"{page}#{anchor}" if anchor else page)


def test_no_message_names_a_file_of_a_clone() -> None:
    named = [(file, text) for file, text in literals() if re.search(r"[(;:] ?docs/[\w/-]+\.md", text)]
    assert named == []


def test_without_a_page_pages_are_listed_with_their_titles(stratalog: Stratalog) -> None:
    ran = stratalog("docs")
    listed = {page: rest for page, *rest in (re.split(" {2,}", line) for line in ran.out.splitlines()[1:])}
    assert (ran.status, [*listed][:2]) == (0, ["tutorial", "first-run"]), "not in the order of docs/README.md"
    assert listed["limits"] == ["Limits", "How it works"]
    assert listed["clusters"] == ["Spark elsewhere", "Operate"]
    assert "clusters/emr" in listed
    assert not [name for name in listed if name.startswith("adr") or name == "contributing"]


def test_a_pipe_gets_the_markdown_of_a_page(stratalog: Stratalog) -> None:
    assert stratalog("docs", "docs/limits.md").out == (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert stratalog("docs", "clusters").out.startswith("# Spark elsewhere\n")


def test_a_section_has_those_below_it_and_no_more() -> None:
    text = "# A\n\n## B `x`\n\n```sh\n# no heading\n```\n\n### C\n\n## D\n"
    parts = [(part.level, part.title, part.anchor) for part in pages.sections(text)]
    assert parts == [(1, "A", ""), (2, "B x", "b-x"), (3, "C", "c"), (2, "D", "d")]
    section = pages.text_of("cascades#mend-a-table-whose-rows-are-wrong")
    assert section.startswith("## Mend a table")
    assert len(re.findall(r"^#{1,3} ", section, re.MULTILINE)) == 1


def test_search_lists_sections_that_have_all_of_the_words(stratalog: Stratalog) -> None:
    rows = stratalog("docs", "--search", "ON_CASCADE foreign").out
    assert [line for line in rows.splitlines() if line.startswith("cascades ")]
    ran = stratalog("docs", "--search", "foreign zyxwv")
    assert (ran.status, ran.out) == (2, "")
    only = stratalog("docs", "limits", "--search", "cascade").out.splitlines()[1:]
    assert only
    assert all(line.startswith("limits") for line in only)
    assert stratalog("docs", "docs/limits.md", "--search", "cascade").out.splitlines()[1:] == only
    assert stratalog("docs", "--search", "rejected").err.startswith("no section has all of the words 'rejected'")


@pytest.mark.parametrize(
    "page, message",
    [
        ("limts", "no page 'limts'; did you mean limits? list all pages: stratalog docs"),
        ("limits#nowhere", "limits has no section 'nowhere'; show the page: stratalog docs limits"),
        ("SL-0000", "no message has the code SL-0000; stratalog docs reference/messages lists all"),
    ],
)
def test_a_wrong_name_says_what_there_is(stratalog: Stratalog, page: str, message: str) -> None:
    ran = stratalog("docs", page)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(message)
    assert len(ran.codes) == 1


def test_a_code_shows_its_message_and_what_to_do(stratalog: Stratalog) -> None:
    code = next(code for code in catalogue() if code.text.startswith("holds no binlog files"))
    ran = stratalog("docs", code.code.lower())
    assert (ran.status, ran.err) == (0, "")
    assert "holds no binlog files" in ran.out
    assert "What to do: copy them there" in ran.out


def test_a_remedy_has_words_for_what_a_run_fills_in() -> None:
    code = next(code for code in catalogue() if code.text == "cannot be reached: Connection refused")
    assert "correct host and port of source SOURCE" in pages.explained(code.code)


def test_a_message_with_backticks_is_code_as_a_whole() -> None:
    code = next(code for code in catalogue() if code.text.startswith("`"))
    assert f"\n\n`` {code.text} ``\n\n" in pages.explained(code.code)
