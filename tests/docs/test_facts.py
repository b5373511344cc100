"""What pages list is what the code has: keys of Dagster's metadata, keys of commits, messages."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from spark_jobs import errors
from spark_jobs.text.remedies import KINDS, Kind
from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def modules(*trees: str) -> Iterator[Path]:
    for tree in trees:
        yield from sorted((ROOT / tree).rglob("*.py"))


@cache
def texts(*trees: str) -> str:
    """All texts in the code, without what is between them."""
    nodes = (node for path in modules(*trees) for node in nodes_of(path))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_every_metadata_key_is_listed() -> None:
    text = page("dagster.md")
    names = re.compile(
        r"(?:binlog|rows|run|table|tables|delta|schema|backfill|source|checkpoint|gc|load|brought|delivery)/[a-z_]+"
    )
    metadata_lines = {line for line in texts("assets", "dagster_project").splitlines() if names.fullmatch(line)}
    assert len(metadata_lines) > 50
    assert {key for key in metadata_lines if f"`{key}`" not in text} == set()


def test_every_listed_key_of_a_commit_exists() -> None:
    section = page("lake.md").partition("## Metadata of a commit")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| ", section, re.MULTILINE)
    listed = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    sources = [path.read_text(encoding="utf-8") for path in modules("spark_jobs")]
    assert len(listed) > 15
    assert listed <= {key for source in sources for key in re.findall(r'\bmember\("(\w+)"', source)}


BROKEN = re.findall(r"^\| `([^`|]+)` \|", page("howto/broken-table.md"), re.MULTILINE)
FAILED_OVER = [
    line
    for line in re.findall(r"^\| \*([^*|]+)\* \|", page("failover.md"), re.MULTILINE)
    if not line.startswith("the message")
]
TROUBLE = [
    message
    for cell in re.findall(r"^\| (`.*?`) (?:with .*? )?\| ", page("troubleshooting.md"), re.MULTILINE)
    for message in re.findall(r"`([^`]+)`", cell)
]


@pytest.mark.parametrize("message", BROKEN + FAILED_OVER + TROUBLE)
def test_the_code_has_the_message(message: str) -> None:
    """Names and positions, of which the pages have an example, are left out: shop, Table_map, and what is elided."""
    parts = re.split(r" ?… ?|\bshop(?:\.orders)?\b|Table_map", message)
    code = texts("spark_jobs")
    assert [part.strip(" ;") for part in parts if part.strip(" ;") not in code] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.pattern[:40])
def test_every_kind_of_message_that_gets_a_remedy_is_in_the_table(kind: Kind) -> None:
    """An elided word may be any, such as the verb of a statement."""
    messages = [message.replace("…", "INSERT") for message in TROUBLE]
    assert [message for message in messages if re.search(kind.pattern, message)]


def test_every_class_of_errors_is_in_the_table() -> None:
    classes = {cls.__name__ for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)}
    section = page("troubleshooting.md").partition("## Any other message")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert listed == classes - {"StratalogError"}


def test_there_are_messages() -> None:
    assert len(BROKEN) > 10
    assert len(FAILED_OVER) == 5
    assert len(TROUBLE) > 25
