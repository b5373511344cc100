"""Verb ``docs``: the pages of the documentation, which a wheel has too.

Put here: which page a name means, its sections, searching, and printing. Not here: the pages themselves (docs/), their
list (page_list.py), or codes of messages (spark_jobs/text/codes.py).
"""

import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from rich.markdown import Markdown

import spark_jobs
from spark_jobs import errors
from spark_jobs.cli.app import echo
from spark_jobs.cli.group import ERRORS, Terminal, cli
from spark_jobs.cli.output import print_grid
from spark_jobs.cli.page_list import CONTRIBUTE, pages_by_section
from spark_jobs.errors import ConfigError
from spark_jobs.text import codes
from spark_jobs.text.progress import erased
from spark_jobs.text.remedies import filled, remedy_of
from spark_jobs.text.suggestions import did_you_mean

_PACKAGE = Path(spark_jobs.__file__).parent
_FENCE = "```"
_WIDEST = 100
"""Columns of a rendered page: longer lines are hard to read."""


def folder() -> Path:
    """Folder of the pages: in an installed package beside its modules, else at the top of the checkout."""
    inside = _PACKAGE / "docs"
    return inside if inside.is_dir() else _PACKAGE.parent / "docs"


def files() -> dict[str, Path]:
    """Each page by its name: its path below docs/ without the suffix, a folder's README by the folder."""
    root = folder()
    return {_name_of(path.relative_to(root).as_posix()): path for path in sorted(root.rglob("*.md"))}


def listed(paths: Collection[str]) -> dict[str, str]:
    """Section of each page by the page's name, in the order of docs/README.md. paths: the pages that are there.

    Pages about the making of Stratalog are shown by name, and neither listed nor searched.
    """
    sections = {title: map(_name_of, pages) for title, pages in pages_by_section(folder()).items()}
    return {name: title for title, names in sections.items() if title != CONTRIBUTE for name in names if name in paths}


def _name_of(path: str) -> str:
    """Name of a page by its path from the tree or from docs/, with an anchor or without."""
    return path.partition("#")[0].removeprefix("docs/").removesuffix(".md").removesuffix("/README")


@dataclass(frozen=True, slots=True)
class PageSection:
    """A heading and what is below it up to the next.

    Attributes:
        level: the number of hash signs of its heading.
        title: the heading.
        anchor: as links name it; the first section of a page has none.
        lines: its text with the heading.
    """

    level: int
    title: str
    anchor: str
    lines: list[str]


def sections(text: str) -> Iterator[PageSection]:
    """The sections of a page in order; hash signs inside fences begin none."""
    section = PageSection(1, "", "", [])
    is_code = False
    for line in text.splitlines():
        is_code ^= line.lstrip().startswith(_FENCE)
        heading = None if is_code else re.match(r"(#+) (.+)", line)
        if heading:
            if section.lines:
                yield section
            title = heading[2].replace("`", "")
            level = len(heading[1])
            anchor = re.sub(r"[^\w\- ]", "", heading[2].lower()).replace(" ", "-")
            section = PageSection(level, title, anchor if level > 1 else "", [])
        section.lines.append(line)
    yield section


def text_of(name: str) -> str:
    """A page, or the section of one that is named as links do: ``limits#foreign-keys``. Raises ConfigError."""
    page, anchor, paths = _name_of(name), name.partition("#")[2], files()
    if page not in paths:
        below = [f"; did you mean {path}?" for path in paths if path.endswith(f"/{page}")]
        hint = did_you_mean(page, paths) or "".join(below[:1]) or ";"
        raise ConfigError(f"no page {page!r}{hint} list all pages: stratalog docs")
    text = paths[page].read_text(encoding="utf-8")
    if not anchor:
        return text
    # A section has those below it.
    parts = list(sections(text))
    first = next((at for at, part in enumerate(parts) if part.anchor == anchor), None)
    if first is None:
        raise ConfigError(f"{page} has no section {anchor!r}; show the page: stratalog docs {page}")
    following = (at for at in range(first + 1, len(parts)) if parts[at].level <= parts[first].level)
    return "\n".join(line for part in parts[first : next(following, None)] for line in part.lines) + "\n"


def hits(words: str, page: str | None = None) -> Iterator[tuple[str, str, str]]:
    """Sections with all of the words, in any case and order: the name to show them by, the heading, and a line."""
    patterns = [word.casefold() for word in words.split()]
    paths = files()
    for name in listed(paths) if page is None else [_name_of(page)]:
        for section in sections(paths[name].read_text(encoding="utf-8")):
            text = "\n".join(section.lines).casefold()
            if all(pattern in text for pattern in patterns):
                line = max(section.lines, key=lambda line: sum(pattern in line.casefold() for pattern in patterns))
                yield f"{name}#{section.anchor}" if section.anchor else name, section.title, line.strip()


def explained(code: str) -> str:
    """Explanation of a code, as Markdown. Raises ConfigError where there is no such code."""
    entry = next((entry for entry in codes.catalogue() if entry.code == code), None)
    if entry is None or not entry.cls:
        raise ConfigError(f"no message has the code {code}; stratalog docs reference/messages lists all")
    message = codes.as_markdown(entry.text) if entry.text else "Another message of this class."
    cls = getattr(errors, entry.cls)
    advice = filled(remedy_of(cls, entry.text) or "The message says what to do.")
    meaning = (cls.__doc__ or "").partition("\n")[0]
    return f"# {code}\n\n{message}\n\n- Class: {entry.cls}: {meaning}\n- What to do: {advice}\n"


@cli.command()
@click.argument("page", required=False)
@click.option("--search", "words", metavar="WORDS", help="List the sections that contain all of these words.")
def docs(page: str | None, words: str | None) -> None:
    """Show the documentation: pages, sections, codes of messages.

    Without PAGE, list the pages. On a terminal a page is rendered with $PAGER; a file or a pipe gets Markdown.

    \b
    Example: stratalog docs
    Example: stratalog docs limits
    Example: stratalog docs SL-1042
    Example: stratalog docs --search "GTID failover"
    """  # noqa: D301 - click's mark for lines that stay as they are
    if words is not None:
        _print_hits(words, page)
    elif page is None:
        _print_pages()
    elif codes.PATTERN.fullmatch(page.upper()):
        _show(explained(page.upper()))
    else:
        _show(text_of(page))


def _print_pages() -> None:
    paths = files()
    rows = [
        [name, next(sections(paths[name].read_text(encoding="utf-8"))).title, title]
        for name, title in listed(paths).items()
    ]
    print_grid(["page", "title", "section"], rows)


def _print_hits(words: str, page: str | None) -> None:
    if page is not None:
        text_of(page)  # a name that is wrong is not a page without hits
    rows = [[name, title, _cut_line(line)] for name, title, line in hits(words, page)]
    if not rows:
        raise ConfigError(f"no section has all of the words {words!r}; search for fewer of them")
    print_grid(["page", "section", "line"], rows)
    ERRORS.print("show one: stratalog docs PAGE", highlight=False)


def _cut_line(line: str) -> str:
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        echo(text.rstrip("\n"))
        return
    console = Terminal(width=min(Terminal().width, _WIDEST), force_terminal=True)
    with console.capture() as rendered:
        console.print(Markdown(text), soft_wrap=False)
    with erased():
        click.echo_via_pager(rendered.get(), color=True)
