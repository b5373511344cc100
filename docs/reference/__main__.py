"""Writes the pages of this folder: ``make docs``, or ``python -m docs.reference``.

configuration.md comes from the models of spark_jobs/config/model.py, cli.md from the commands of spark_jobs/cli,
python.md from the names of stratalog/__init__.py, messages.md and the codes in spark_jobs/text/codes.tsv from
all places that raise an error.

Put here: how they become pages. Not here: a word about a key or an option; that stands where it is defined.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from annotated_types import Ge, Le
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import stratalog
from docs.reference.messages import assigned, lines_of, page
from docs.reference.messages import messages as texts_by_class
from spark_jobs.cli.group import cli
from spark_jobs.config.model import Pipeline
from spark_jobs.text import codes
from spark_jobs.text.codes import MessageCode

FOLDER = Path(__file__).parent
_MADE = "<!-- Made by `make docs` from {}: change it there. -->"
_NOT_A_KEY = ("path",)
"""Facts that a Pipeline knows and no file states."""
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
    return {
        FOLDER / "configuration.md": configuration(Pipeline),
        FOLDER / "cli.md": commands(cli),
        FOLDER / "python.md": python(),
        FOLDER / "messages.md": messages(),
        codes.FILE: lines_of(assigned_codes()),
    }


def assigned_codes() -> list[MessageCode]:
    """The codes of all messages that the code has now."""
    before = codes.catalogue() if codes.FILE.exists() else ()
    return assigned(before, texts_by_class())


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
        *_markdown_table(("key", "value", "default", "meaning"), _keys(model, "", set())),
    ]
    return "\n".join(lines) + "\n"


def _keys(model: type[BaseModel], path: str, listed: set[type[BaseModel]]) -> Iterator[tuple[str, ...]]:
    """A row a key; the keys of a model that stands in two places are listed in the first."""
    texts = key_texts(model)
    for name, field in model.model_fields.items():
        if name in _NOT_A_KEY:
            continue
        key = f"{path}{field.alias or name}"
        inside, suffix = _inside(field.annotation)
        value = "keys" if inside and not suffix else _type_text(field.annotation, field.metadata)
        yield f"`{key}`", value, _default(field), _prose(texts.get(name, ""))
        if inside and inside not in listed:
            listed.add(inside)
            yield from _keys(inside, f"{key}{suffix}.", listed)


@cache
def key_texts(model: type[BaseModel]) -> dict[str, str]:
    """The text below each key of a model. pydantic reads it too, at each import, for a third of a model's time."""
    bases = [base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel]
    texts: dict[str, str] = {}
    for base in bases:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(found, ast.ClassDef)
        for key, text in pairwise(found.body):
            if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                texts[ast.unparse(key.target)] = inspect.cleandoc(str(text.value.value))
    return texts


def _inside(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model whose keys stand below a key, and what is between.

    A name that the user chooses, or a list's position.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    suffix = {dict: ".NAME", tuple: "[]"}.get(get_origin(annotation), "")
    models = [
        (model, suffix or deeper) for argument in get_args(annotation) for model, deeper in [_inside(argument)] if model
    ]
    return models[0] if models else (None, "")


def _type_text(annotation: Any, limits: Sequence[Any] = ()) -> str:
    """A type in a user's words."""
    origin, parts = (
        get_origin(annotation),
        [argument for argument in get_args(annotation) if argument not in (NoneType, Ellipsis)],
    )
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(_type_text(part, limits) for part in parts)
    if origin is tuple:
        return f"list of {_type_text(parts[0])}"
    if origin is dict:
        return "names, each with keys" if _inside(annotation)[0] else "names, each with text"
    if origin is not None:  # Annotated
        return _type_text(parts[0], limits)
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return "keys" if is_model else _WORDS[annotation] + _limited(limits)


def _limited(limits: Sequence[Any]) -> str:
    minimum = next((limit.ge for limit in limits if isinstance(limit, Ge)), None)
    maximum = next((limit.le for limit in limits if isinstance(limit, Le)), None)
    return (
        f", {minimum} to {maximum}" if maximum is not None else f", at least {minimum}" if minimum is not None else ""
    )


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, timedelta):
        unit, size = next(pair for pair in _UNITS if not field.default % pair[1])
        return f"`{field.default // size}{unit}`"
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
    context = click.Context(group)
    for name in group.list_commands(context):  # in the order of --help
        command = group.get_command(context, name)
        assert command is not None
        lines += ["", f"## stratalog {name}", "", *_verb(click.Context(command, info_name=f"stratalog {name}"))]
    return "\n".join(lines) + "\n"


def _verb(context: click.Context) -> list[str]:
    text = inspect.cleandoc(context.command.help or "").replace("\b\n", "")
    description = text.partition("Example: ")[0].strip()
    examples = re.findall(r"Example: ((?:.*\\\n)*.*)", text)
    usage = " ".join([context.info_name or "", *context.command.collect_usage_pieces(context)])
    return [f"`{usage}`", "", description, "", "```sh", *examples, "```", "", *_options(context)]


def _options(context: click.Context) -> list[str]:
    rows = []
    for param in context.command.params:
        if isinstance(param, click.Option) and not param.hidden:
            metavar = "" if param.is_flag else f" {param.make_metavar(context)}"
            has_default = param.show_default and param.default is not None
            default = " Required." if param.required else f" Default: `{param.default}`." if has_default else ""
            variable = f" Environment variable: `{param.envvar}`." if param.envvar else ""
            rows.append((f"`{', '.join(param.opts)}{metavar}`", _prose(param.help or "") + default + variable))
    return _markdown_table(("option", "meaning"), rows)


def python() -> str:
    """A table of the public API: each name with its parameters, and each class with its methods."""
    lines = [
        "# The Python API",
        "",
        _MADE.format("stratalog/__init__.py and the docstrings of its names"),
        "",
        "Import from `stratalog` and from no other package: `spark_jobs`, `assets` and `dagster_project` are internal,",
        "and their modules may move in any release. The public API is the names below and, of the values that they",
        "return, the attributes that a page of this documentation uses. Two module names in commands are public too:",
        "`stratalog.definitions`, which Dagster loads ([deployment](../deployment.md)), and",
        "`spark_jobs.runtime.provision`. Importing `stratalog` is cheap: Spark and Dagster are imported with the first",
        "name that needs them. The packages have type annotations (`py.typed`).",
        "",
        "Examples: [the lake](../lake.md#a-consistent-set-of-tables), [the log](../lake.md#the-log-as-a-library),",
        "[your own assets](../own-assets.md), [verify](../verify.md).",
        "",
        *_markdown_table(("name", "meaning"), _members()),
    ]
    return "\n".join(lines) + "\n"


def _members() -> Iterator[tuple[str, str]]:
    """A row for each public name, and for the methods of classes that are neither models nor exceptions."""
    for name in stratalog.__all__:
        value = getattr(stratalog, name)
        is_model = isinstance(value, type) and issubclass(value, BaseModel)
        is_plain = isinstance(value, type) and not is_model and not issubclass(value, Exception)
        yield f"`{name if isinstance(value, type) and not is_plain else _call(name, value)}`", _docstring_cell(value)
        for method, member in vars(value).items() if is_plain else ():
            if not method.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
                member_name = f"{name}.{method}"
                yield (
                    f"`{member_name if isinstance(member, property) else _call(member_name, member)}`",
                    _docstring_cell(member),
                )


def _call(name: str, function: Any) -> str:
    """A name with its parameters; a default stands in full where it is short."""
    arguments: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        is_short = default is None or isinstance(default, bool | int | str | tuple)
        suffix = "" if default is parameter.empty else f"={default!r}" if is_short else "=…"
        arguments += ["*"] if parameter.kind is parameter.KEYWORD_ONLY and "*" not in arguments else []
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        arguments += [stars + parameter.name + suffix] if parameter.name != "self" else []
    return f"{name}({', '.join(arguments)})"


def _docstring_cell(value: Any) -> str:
    """A docstring as one cell, its list of arguments as sentences."""
    text = re.sub(r"^Args:$", "", inspect.getdoc(value) or "", flags=re.MULTILINE)
    return _prose(re.sub(r"^ +(\w+): (?=[A-Z])", r"``\1``: ", text, flags=re.MULTILINE))


def _prose(text: str) -> str:
    """Docstring text as one cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _markdown_table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def messages() -> str:
    """All messages of errors, by class."""
    lines = [
        "# All messages",
        "",
        _MADE.format("the code that raises them"),
        "",
        "A message of a run, a check or a command begins with a code, such as `[SL-1532]`. Later versions keep the",
        "code, also if they change the words. `stratalog docs SL-1532` prints the message and what to do. Each",
        "class has one remedy. Its codes are listed first: such a message has its remedy in itself, or that of the",
        "class applies. The table below them has the messages with another remedy. `…` stands for names, numbers",
        "and positions. Causes of frequent messages: [troubleshooting](../troubleshooting.md).",
        *page(assigned_codes()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
