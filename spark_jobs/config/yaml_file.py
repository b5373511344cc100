"""YAML files as plain dicts, lists and values, in bounded time; no text becomes a value of another type.

Scalars are those of YAML 1.2: true and false, decimal numbers, null; all else is text, and so is every key. ``yes``,
``33:06``, ``0123`` and dates, which YAML 1.1 turns into other values, stay the text that they are.

Put here: reading the file, and what makes it none. Not here: what its keys mean (model.py).
"""

import re
from pathlib import Path
from typing import Any

import yaml

from spark_jobs.errors import ConfigError

VARIABLE = "STRATALOG_CONFIG"
"""Environment variable with the path of the file; without it, the file is FILE_NAME in the current directory."""
FILE_NAME = "pipeline.yaml"
MOST_BYTES = 1 << 20
MOST_LEVELS = 50
MOST_VALUES = 100_000
"""Bounds of a file: its size, how deep it nests, and its values with every alias counted as what it stands for."""
_DIGITS = 39
"""Digits of a whole number at most; a DECIMAL of the lake has 38. What is longer stays text."""
_MERGE = "tag:yaml.org,2002:merge"
_TEXT, _NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float"))
_LEADING_ZERO = re.compile(r"[-+]?0\d+")


class _Loader(yaml.SafeLoader):
    """Makes nodes, whose scalars have the tags of YAML 1.2."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _form, _first in (
    (_BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_INT, rf"[-+]?(?:0|[1-9][0-9]{{0,{_DIGITS - 1}}})", "-+0123456789"),
    (_FLOAT, rf"[-+]?(?:\.[0-9]+|[0-9]{{1,{_DIGITS}}}\.[0-9]*)(?:[eE][-+]?[0-9]{{1,3}})?", "-+.0123456789"),
    (_MERGE, r"<<", "<"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_form})\Z"), list(_first))


def read(path: Path) -> dict[str, Any]:
    """The file's keys. Raises ConfigError, naming the file and, where there is one, the line."""
    # A file that is not there may be one that nobody named.
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        advice = f"name the file by -c FILE or {VARIABLE}, or write one: stratalog init"
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; {advice}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: has more than {MOST_BYTES >> 10} KiB, which no configuration needs")
    try:
        return _parsed(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid YAML: byte {error.start} is not UTF-8") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {_on_a_line(error)}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _on_a_line(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        location = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return location + "; ".join(filter(None, (error.context, error.problem)))
    return " ".join(str(error).split())


def _parsed(text: str) -> dict[str, Any]:
    _require_bounded(text)
    node = yaml.compose(text, _Loader)
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError("must hold keys such as lake: and sources:")
    return _mapping(node)


def _require_bounded(text: str) -> None:
    """Check the size of a YAML text by the parser's events, which need no recursion. Raises ConfigError."""
    bounds = _DocumentBounds()
    for event in yaml.parse(text, _Loader):
        problem = bounds.take(event)
        if problem:
            raise ConfigError(f"line {event.start_mark.line + 1 if event.start_mark else '?'}: {problem}")


class _DocumentBounds:
    """Bounds of a file up to an event."""

    def __init__(self) -> None:
        self._count = 0
        self._sizes: dict[str, int] = {}
        """Values under an anchor."""
        self._open: list[tuple[str | None, int]] = []
        """Anchors of the lists and mappings around, and the count before each."""

    def take(self, event: yaml.Event) -> str | None:
        """Take the problems of a file."""
        # An alias counts as much as what it stands for: a few of them can grow to billions of values.
        if isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _ in self._open):
                return f"*{event.anchor} stands inside of what it stands for"
            self._count += self._sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._count))
            self._count += 1
        elif isinstance(event, yaml.ScalarEvent):
            self._count += 1
            self._sizes |= {event.anchor: 1} if event.anchor else {}
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            self._sizes |= {anchor: self._count - before} if anchor else {}
        if len(self._open) > MOST_LEVELS:
            return f"nests more than {MOST_LEVELS} levels deep"
        return f"has more than {MOST_VALUES:,} values, with aliases" if self._count > MOST_VALUES else None


def _node_value(node: yaml.Node) -> Any:
    """The value of a node: YAML 1.1's core tags alone, so that a file means what it shows. Raises ConfigError."""
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    if isinstance(node, yaml.SequenceNode):
        return [_node_value(item) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)
    text: str = node.value
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL and text.lower() in ("true", "false"):
        return text.lower() == "true"
    # 010 would be octal 8 to YAML 1.1: the user has to say which is meant.
    if node.tag in (_TEXT, _MERGE):
        if node.style is None and _LEADING_ZERO.fullmatch(text):
            raise _refused(node, f"{text} begins with a zero: write the number without it, or put text into quotes")
        return text
    try:
        return {_INT: int, _FLOAT: float}[node.tag](text)
    except (KeyError, ValueError):
        raise _refused(node, f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not known here") from None


def _mapping(node: yaml.MappingNode) -> dict[str, Any]:
    """A mapping with its merge keys (``<<``) laid under it. Raises ConfigError for a key that is given twice."""
    mapping: dict[str, Any] = {}
    merged: list[dict[str, Any]] = []
    keys = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused(key, "a key must be text or a number")
        if key.value in keys:
            raise _refused(key, f"the key {key.value!r} is given twice")
        keys.add(key.value)
        if key.tag == _MERGE:
            merged = _merged_keys(value)
        else:
            mapping[key.value] = _node_value(value)
    # The mapping's own keys win over merged ones.
    for base in merged:
        mapping = {**base, **mapping}
    return mapping


def _merged_keys(node: yaml.Node) -> list[dict[str, Any]]:
    """Merged keys of ``<<``: of one mapping or of several, of which the first one counts."""
    parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
    mappings = [part for part in parts if isinstance(part, yaml.MappingNode)]
    if len(mappings) != len(parts):
        raise _refused(node, "<< takes keys and values, or a list of such")
    return [_mapping(mapping) for mapping in mappings]


def _refused(node: yaml.Node, reason: str) -> ConfigError:
    return ConfigError(f"line {node.start_mark.line + 1}: {reason}")
