"""The pages of docs/reference are what `make docs` makes, and say something of every key and option."""

from collections.abc import Iterator
from typing import Annotated, Literal

import click
from pydantic import BaseModel, Field

import stratalog
from docs.reference.__main__ import commands, configuration, key_texts, pages, python
from spark_jobs.config.servers import Model
from spark_jobs.config.values import Duration


def test_the_pages_are_what_would_be_made() -> None:
    """One test of all: finding the texts of all messages takes seconds."""
    texts = pages()
    assert [path.name for path in texts] == ["configuration.md", "cli.md", "python.md", "messages.md", "codes.tsv"]
    outdated = [path.name for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    assert outdated == [], "make docs writes them again"


def models(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in of.__subclasses__():
        yield model
        yield from models(model)


def test_every_key_says_what_it_is_for() -> None:
    silent = {
        f"{model.__name__}.{name}"
        for model in models(Model)
        for name in model.model_fields
        if not key_texts(model).get(name)
    }
    assert silent == {"Pipeline.path"}


def test_the_public_api_is_listed_with_parameters_and_methods() -> None:
    rows = [line for line in python().splitlines() if line.startswith("| `")]
    listed = [row.split("`")[1].partition("(")[0] for row in rows]
    assert [name for name in listed if "." not in name] == stratalog.__all__
    assert {"Store.changes", "Store.first", "FileDecoder.read", "FileDecoder.pending"} <= set(listed)
    (load,) = [row for row in rows if row.startswith("| `load(")]
    assert load == "| `load(path, environment=…)` | " + " ".join((stratalog.load.__doc__ or "").split()) + " |"


class Inner(BaseModel):
    size: int = Field(3, ge=1, le=9)
    """How ``large`` | wide."""


class Outer(BaseModel):
    kept: Duration | None = Field(None)
    """How long."""
    which: Literal["a", "b"] = Field("a")
    """One of two."""
    one: Inner = Field(Inner())
    """Once."""
    named: dict[str, Inner] = Field({})
    """By name."""
    other: tuple[Annotated[str, "limit"], ...] = Field((), alias="from")
    """Several."""
    wanted: bool = Field()
    """A flag."""


def test_keys_stand_under_their_paths_with_values_in_words() -> None:
    table = [line for line in configuration(Outer).splitlines() if line.startswith("| `")]
    assert table == [
        "| `kept` | duration | – | How long. |",
        "| `which` | `a`, `b` | `a` | One of two. |",
        "| `one` | keys | – | Once. |",
        "| `one.size` | number, 1 to 9 | `3` | How `large` \\| wide. |",
        "| `named` | names, each with keys | – | By name. |",
        "| `from` | list of text | – | Several. |",
        "| `wanted` | `true` or `false` | required | A flag. |",
    ]


def test_a_verb_has_its_examples_and_options() -> None:
    @click.command(help="Does it.\n\nAt once.\n\n\b\nExample: tool go --to 1 \\\n   --fast\nExample: tool go")
    @click.option("--to", required=True, metavar="P", help="Where.")
    @click.option("--fast", is_flag=True, help="Soon.")
    @click.option("--rows", default=5, show_default=True, help="How many.")
    def go() -> None: ...

    page = commands(click.Group("tool", {"go": go}, help="A tool."))
    assert "Does it.\n\nAt once.\n\n```sh\ntool go --to 1 \\\n   --fast\ntool go\n```\n" in page
    assert "| `--to P` | Where. Required. |\n| `--fast` | Soon. |\n" in page
    assert "| `--rows INTEGER` | How many. Default: `5`. |" in page
