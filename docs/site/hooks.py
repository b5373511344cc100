"""Additions to MkDocs for the site: navigation, pages from outside docs/, short addresses, and llms.txt.

The site is built from the pages where they are, so that links work in a clone, too. `make site` runs it.

Put here: which files are in the site, and where. Not here: which pages a section has (docs/README.md), or the look
(mkdocs.yml).
"""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from spark_jobs.cli.page_list import pages_by_section

ROOT = Path(__file__).parents[2]
FIRST_PAGES = ("README.md", "docs/README.md")
"""Pages before all others, which are listed in the second one."""
FILES = ("LICENSE", "Containerfile", "corpus/LICENSE")
"""Targets of links besides pages, pictures and examples."""
FOLDERS = ("docs/pictures", "docs/examples")


def listed() -> Iterator[tuple[str, str]]:
    """Each page by its path in the tree, after the section that it is in."""
    sections = pages_by_section(ROOT / "docs")
    for page in FIRST_PAGES:
        yield next(iter(sections)), page
    for section, section_pages in sections.items():
        for page in section_pages:
            yield section, page.removeprefix("../") if page.startswith("../") else f"docs/{page}"


def pages() -> list[str]:
    """Every page, by its path in the tree: those that are listed outside of docs/, and all of docs/."""
    outside = (page for _, page in listed() if not page.startswith("docs/"))
    return [*outside, *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]


def assets() -> list[str]:
    """Files that are copied as they are."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    return [*FILES, *(str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts)]


def address(path: str) -> str:
    """Address of a file of the tree in the site: docs/ at its top, the tree's own files under project/."""
    full_path = PurePosixPath(path)
    if path in FIRST_PAGES:
        return "index.html" if path == "README.md" else "documentation/index.html"
    inside = full_path.relative_to("docs") if full_path.parts[0] == "docs" else PurePosixPath("project", full_path)
    if full_path.suffix != ".md":
        return str(inside)
    folder = inside.parent if full_path.stem == "README" else inside.with_suffix("")
    return str(folder / "index.html").lower()


def navigation() -> list[Any]:
    """The navigation of MkDocs: pages by section, those of a folder under the title of its README."""
    entries: list[Any] = []
    for section, section_pages in groupby(listed(), key=lambda entry: entry[0]):
        parts: list[Any] = []
        for first, folder_pages in groupby((page for _, page in section_pages), key=_readme_of):
            folder = [*folder_pages]
            title, _ = summary((ROOT / first).read_text(encoding="utf-8"))
            parts.append({title: folder} if len(folder) > 1 else first)
        entries.append({section: parts})
    return entries


def _readme_of(page: str) -> str:
    """README of a page's folder in docs/, or the page itself where there is none."""
    readme = PurePosixPath(page).with_name("README.md")
    is_in_folder = readme.parent.parent == PurePosixPath("docs") and (ROOT / readme).exists()
    return str(readme) if is_in_folder else page


def summary(text: str) -> tuple[str, str]:
    """A page's title and its first paragraph, without marks of Markdown."""
    head = re.search(r"^# (.+)$", text, re.MULTILINE)
    prose = re.sub(r"```.*?```", "", text[head.end() :] if head else text, flags=re.DOTALL)
    paragraphs = (part.strip("\n") for part in prose.split("\n\n"))
    first = next((part for part in paragraphs if part and not part.startswith(("#", "|", "- ", "    "))), "")
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", first).replace("**", "").replace("`", "")
    return head[1] if head else "", " ".join(plain.split())


def llms_text(site: str) -> str:
    """llms.txt: each page with its address, title and first paragraph, by section (llmstxt.org)."""
    title, first = summary((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [f"# {title}", "", f"> {first}"]
    section = ""
    for part, page in listed():
        if part != section:
            section = part
            lines += ["", f"## {section}", ""]
        title, first = summary((ROOT / page).read_text(encoding="utf-8"))
        link = site + address(page).removesuffix("index.html")
        lines.append(f"- [{title}]({link or './'}): {first}" if first else f"- [{title}]({link or './'})")
    return "\n".join(lines) + "\n"


def on_config(config: Any) -> Any:
    """Puts the navigation into the configuration."""
    config.nav = navigation()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Replaces the files of docs/ by the pages and assets of the tree; the theme's own stay."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    for path in (*pages(), *assets()):
        files.append(File(path, str(ROOT), config.site_dir, use_directory_urls=True, dest_uri=address(path)))
    return files


def on_post_build(config: Any) -> None:
    """Writes llms.txt beside the pages."""
    text = llms_text(config.site_url or "")
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")
