"""List of the documentation's pages by section, read from docs/README.md, the only file that has it.

Put here: which pages a section has, and their order. Not here: showing pages (pages.py), or the site's navigation
(docs/site/hooks.py).
"""

import re
from pathlib import Path

CONTRIBUTE = "Contribute"
"""Section about the making of Stratalog, which users need not read."""
_LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def pages_by_section(docs: Path) -> dict[str, list[str]]:
    """Pages of each section in order, as paths from the folder of docs/README.md.

    The README of a folder in it stands for the folder: the folder's other pages follow, in the order of its links.
    """
    sections: dict[str, list[str]] = {}
    for line in (docs / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections[line.removeprefix("## ")] = []
        elif sections:
            pages = (page for link in _LINK.findall(line) for page in _with_folder(docs, link))
            sections[[*sections][-1]] += pages
    return sections


def _with_folder(docs: Path, page: str) -> list[str]:
    folder, _, name = page.rpartition("/")
    if name != "README.md" or page.startswith("../"):
        return [page]
    links = _LINK.findall((docs / page).read_text(encoding="utf-8"))
    return [page, *dict.fromkeys(f"{folder}/{link}" for link in links if "/" not in link)]
