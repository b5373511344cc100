"""The site of the pages: every page is in the navigation, every file has an address of its own, and llms.txt."""

import re
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from docs.site.hooks import address, assets, listed, llms_text, navigation, on_config, pages, summary

ROOT = Path(__file__).parents[2]
SECTIONS = [
    *("Start", "How it works", "Sources", "Tables and columns", "Operate", "Query engines and downstream"),
    *("Deliveries and subscriptions", "Reference", "Contribute"),
]


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without the packages that its tags name."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader


def paths_in(entries: list[Any]) -> list[str]:
    """The pages of a navigation in order."""
    paths: list[str] = []
    for entry in entries:
        paths += [entry] if isinstance(entry, str) else paths_in([*chain.from_iterable(entry.values())])
    return paths


def test_docs_readme_lists_every_page_once() -> None:
    assert sorted(page for _, page in listed()) == sorted(pages())


def test_the_navigation_is_that_list() -> None:
    assert "nav" not in CONFIG, "pages are listed in docs/README.md alone"
    entries = on_config(SimpleNamespace()).nav
    assert paths_in(entries) == [page for _, page in listed()]
    assert [title for entry in entries for title in entry] == SECTIONS


def test_pages_of_a_folder_are_under_the_title_of_its_readme() -> None:
    operate = next(entry["Operate"] for entry in navigation() if "Operate" in entry)
    (clusters,) = [part["Spark elsewhere"] for part in operate if "Spark elsewhere" in part and isinstance(part, dict)]
    assert clusters[:2] == ["docs/clusters/README.md", "docs/clusters/connect.md"]


def test_a_broken_link_fails_the_build() -> None:
    assert CONFIG["strict"] is True
    assert set(CONFIG["validation"]["links"].values()) == {"warn"}
    commands = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert commands == ["mkdocs build"], "with -q, warnings do not count"


def test_no_two_files_have_one_address() -> None:
    addresses = [address(path).lower() for path in (*pages(), *assets())]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize(
    "path, expected",
    [
        ("README.md", "index.html"),
        ("docs/README.md", "documentation/index.html"),
        ("docs/tutorial.md", "tutorial/index.html"),
        ("docs/clusters/README.md", "clusters/index.html"),
        ("docs/pictures/graph.png", "pictures/graph.png"),
        ("docs/contributing.md", "contributing/index.html"),
        ("CONTRIBUTING.md", "project/contributing/index.html"),
        ("tests/README.md", "project/tests/index.html"),
        ("LICENSE", "project/LICENSE"),
    ],
)
def test_addresses(path: str, expected: str) -> None:
    assert address(path) == expected


@pytest.mark.parametrize(
    "text, first",
    [
        ("# T\n\nA [link](x.md) and `code`,\nin **two** lines.\n\nMore.\n", "A link and code, in two lines."),
        ("# T\n\n```yaml\na: 1\n```\n\n- a list\n\n| a table |\n\n    a command\n\nProse.", "Prose."),
        ("# T\n", ""),
    ],
)
def test_a_summary_is_the_title_and_the_first_paragraph(text: str, first: str) -> None:
    assert summary(text) == ("T", first)


@pytest.mark.parametrize("page", pages())
def test_every_page_has_a_title(page: str) -> None:
    assert summary((ROOT / page).read_text(encoding="utf-8"))[0]


def test_llms_text() -> None:
    lines = llms_text("https://docs.example.org/").splitlines()
    assert lines[0] == "# Stratalog"
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == SECTIONS
    assert sum(line.startswith("- [") for line in lines) == len(pages())
    tutorial = next(line for line in lines if line.startswith("- [Tutorial]"))
    assert tutorial.startswith("- [Tutorial](https://docs.example.org/tutorial/): ")
