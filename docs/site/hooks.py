"""Additions to MkDocs for the site: pages from outside docs/, short addresses, and llms.txt.

The site is built from the pages where they are, so that links work in a clone, too. `make site` runs it.

Put here: which files are in the site, and where. Not here: the navigation and the look (mkdocs.yml).
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[2]
TOP_PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/RESULTS.md",
    "corpus/README.md",
    "tests/README.md",
)
"""Pages that are not in docs/."""
FILES = ("LICENSE", "Containerfile", "corpus/LICENSE")
"""Targets of links besides pages, pictures and examples."""
FOLDERS = ("docs/pictures", "docs/examples")


def pages() -> list[str]:
    """Every page, by its path in the tree."""
    return [*TOP_PAGES, *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))]


def assets() -> list[str]:
    """Files that are copied as they are."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    return [*FILES, *(str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts)]


def address(path: str) -> str:
    """Address of a file of the tree in the site: docs/ at its top, the tree's own files under project/."""
    full_path = PurePosixPath(path)
    if path == "README.md":
        return "index.html"
    inside = full_path.relative_to("docs") if full_path.parts[0] == "docs" else PurePosixPath("project", full_path)
    if full_path.suffix != ".md":
        return str(inside)
    folder = inside.parent if full_path.stem == "README" else inside.with_suffix("")
    return str(folder / "index.html").lower()


def complete(navigation: list[Any]) -> list[Any]:
    """The navigation with each folder, an entry that ends with a slash, replaced by its pages."""
    entries: list[Any] = []
    for entry in navigation:
        if isinstance(entry, dict):
            entries.append({title: complete(part) if isinstance(part, list) else part for title, part in entry.items()})
        elif entry.endswith("/"):
            entries += [page for page in pages() if page.startswith(entry) and not page.endswith("README.md")]
        else:
            entries.append(entry)
    return entries


def listed(navigation: list[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Each page of a complete navigation, with the section at the top that it is in."""
    for entry in navigation:
        if isinstance(entry, str):
            yield section, entry
            continue
        for title, part in entry.items():
            if isinstance(part, str):
                yield section, part
            else:
                yield from listed(part, section or title)


def summary(text: str) -> tuple[str, str]:
    """A page's title and its first paragraph, without marks of Markdown."""
    head = re.search(r"^# (.+)$", text, re.MULTILINE)
    prose = re.sub(r"```.*?```", "", text[head.end() :] if head else text, flags=re.DOTALL)
    paragraphs = (part.strip("\n") for part in prose.split("\n\n"))
    first = next((part for part in paragraphs if part and not part.startswith(("#", "|", "- ", "    "))), "")
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", first).replace("**", "").replace("`", "")
    return head[1] if head else "", " ".join(plain.split())


def llms_text(navigation: list[Any], site: str) -> str:
    """llms.txt: each page with its address, title and first paragraph, by section (llmstxt.org)."""
    title, first = summary((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [f"# {title}", "", f"> {first}"]
    section = ""
    for part, page in listed(navigation):
        if part != section:
            section = part
            lines += ["", f"## {section}", ""]
        title, first = summary((ROOT / page).read_text(encoding="utf-8"))
        link = site + address(page).removesuffix("index.html")
        lines.append(f"- [{title}]({link or './'}): {first}" if first else f"- [{title}]({link or './'})")
    return "\n".join(lines) + "\n"


def on_config(config: Any) -> Any:
    """Puts the pages of folders into the navigation."""
    config.nav = complete(config.nav)
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
    text = llms_text(config.nav, config.site_url or "")
    (Path(config.site_dir) / "llms.txt").write_text(text, encoding="utf-8")
