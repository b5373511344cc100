"""Writes the pages of this folder: ``make docs``, or ``python -m docs.reference``.

configuration.md comes from the models of spark_jobs/config/model.py, cli.md from the commands of spark_jobs/cli.

Put here: how they become pages. Not here: a word about a key or an option; that stands where it is defined.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from annotated_types import Ge, Le
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from spark_jobs.cli import cli
from spark_jobs.config.model import Pipeline

FOLDER = Path(__file__).parent
_MADE = "<!-- Made by `make docs` from {}: change it there. -->"
_NOT_A_KEY = ("path",)
"""What a Pipeline knows and no file says."""
_WORDS: dict[Any, str] = {
    str: "text",
    int: "number",
    bool: "`true` or `false`",
    Path: "path",
    SecretStr: "text",
    timedelta: "duration",
}
_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def pages() -> dict[Path, str]:
    """The text of every page by its path."""
    return {FOLDER / "configuration.md": configuration(Pipeline), FOLDER / "cli.md": commands(cli)}


def configuration(model: type[BaseModel]) -> str:
    """A table of a model's keys, those of the models inside it under their paths."""
    lines = [
        "# Keys of pipeline.yaml",
        "",
        _MADE.format("spark_jobs/config/model.py"),
        "",
        "What they are for, and how they go together: [configuration](../configuration.md). Durations are a number and",
        "`d`, `h` or `m`: `30d`, `36h`, `90m`. `NAME` is a name that you choose.",
        "",
        *_table(("key", "value", "default", "meaning"), _keys(model, "", set())),
    ]
    return "\n".join(lines) + "\n"


def _keys(model: type[BaseModel], path: str, shown: set[type[BaseModel]]) -> Iterator[tuple[str, ...]]:
    """A row a key; the keys of a model that stands in two places are listed in the first."""
    for name, field in model.model_fields.items():
        if name in _NOT_A_KEY:
            continue
        key = f"{path}{field.alias or name}"
        inside, suffix = _inside(field.annotation)
        value = "keys" if inside and not suffix else _value(field.annotation, field.metadata)
        yield f"`{key}`", value, _default(field), _prose(field.description or "")
        if inside and inside not in shown:
            shown.add(inside)
            yield from _keys(inside, f"{key}{suffix}.", shown)


def _inside(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model whose keys stand below a key, and what is between: a name that the user chooses, or a list's place."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    suffix = {dict: ".NAME", tuple: "[]"}.get(get_origin(annotation), "")
    found = [(model, suffix or deeper) for one in get_args(annotation) for model, deeper in [_inside(one)] if model]
    return found[0] if found else (None, "")


def _value(annotation: Any, limits: Sequence[Any] = ()) -> str:
    """A type in a user's words."""
    origin, parts = get_origin(annotation), [one for one in get_args(annotation) if one not in (NoneType, Ellipsis)]
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in parts)
    if origin in (Union, UnionType):
        return " or ".join(_value(one, limits) for one in parts)
    if origin is tuple:
        return f"list of {_value(parts[0])}"
    if origin is dict:
        return "names, each with keys" if _inside(annotation)[0] else "names, each with text"
    if origin is not None:  # Annotated
        return _value(parts[0], limits)
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return "keys" if is_model else _WORDS[annotation] + _limited(limits)


def _limited(limits: Sequence[Any]) -> str:
    least = next((one.ge for one in limits if isinstance(one, Ge)), None)
    most = next((one.le for one in limits if isinstance(one, Le)), None)
    return f", {least} to {most}" if most is not None else f", at least {least}" if least is not None else ""


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, timedelta):
        unit, one = next(pair for pair in _UNITS if not field.default % pair[1])
        return f"`{field.default // one}{unit}`"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    plain = isinstance(field.default, str | int)
    return f"`{field.default}`" if plain else "–"


def commands(group: click.Group) -> str:
    """Every verb of a command: what it does, examples, options."""
    lines = ["# The command line", "", _MADE.format("spark_jobs/cli"), "", f"{group.help}", ""]
    lines += ["Results go to standard output, everything else to standard error. The exit status is 0 done, 1 failed,"]
    lines += ["2 wrong use or configuration. `stratalog VERB --help` says the same in a terminal.", ""]
    lines += _options(click.Context(group, info_name="stratalog"))
    for name, command in group.commands.items():
        lines += ["", f"## stratalog {name}", "", *_verb(click.Context(command, info_name=f"stratalog {name}"))]
    return "\n".join(lines) + "\n"


def _verb(context: click.Context) -> list[str]:
    text = inspect.cleandoc(context.command.help or "").replace("\b\n", "")
    told = text.partition("Example: ")[0].strip()
    examples = re.findall(r"Example: ((?:.*\\\n)*.*)", text)
    usage = " ".join([context.info_name or "", *context.command.collect_usage_pieces(context)])
    return [f"`{usage}`", "", told, "", "```sh", *examples, "```", "", *_options(context)]


def _options(context: click.Context) -> list[str]:
    rows = []
    for one in context.command.params:
        if isinstance(one, click.Option):
            metavar = "" if one.is_flag else f" {one.make_metavar(context)}"
            shown = one.show_default and one.default is not None
            default = " Required." if one.required else f" Default: `{one.default}`." if shown else ""
            rows.append((f"`{', '.join(one.opts)}{metavar}`", _prose(one.help or "") + default))
    return _table(("option", "meaning"), rows)


def _prose(text: str) -> str:
    """Docstring text as one cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
