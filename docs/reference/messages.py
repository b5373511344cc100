"""The page of all messages, from the places in the code that raise them.

Put here: which texts an error may have, and what ``advised`` adds to each. Not here: causes, which
docs/troubleshooting.md has.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from spark_jobs import errors
from spark_jobs.errors import ConfigError, StratalogError, Unsupported
from spark_jobs.text.remedies import advised, kind_of, says_what_to_do

ROOT = Path(__file__).parents[2]
_TREES = ("spark_jobs", "assets", "dagster_project", "stratalog")
CLASSES: dict[str, type[StratalogError]] = {
    name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, StratalogError)
}
_ELIDED = "…"
_SHORTEST = 8
"""Letters that a text needs to be searched for."""


class Texts:
    """What the expressions of one module may be as text; a part that is known at run time alone is elided."""

    def __init__(self, module: ast.Module) -> None:
        self._functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
        self._constants = {
            target.id: node.value
            for node in module.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._callers: list[str] = []

    def of(self, node: ast.expr) -> list[str]:
        """The texts; none where nothing of it is known."""
        alternatives: list[ast.expr] = []
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr():
                return ["".join(self._part(value) for value in node.values)]
            case ast.BinOp(op=ast.Add()):
                left, right = self.of(node.left) or [_ELIDED], self.of(node.right) or [_ELIDED]
                return [a + b for a in left for b in right]
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)) if name in self._functions:
                return self._of_function(name)
            case ast.IfExp():
                alternatives = [node.body, node.orelse]
            case ast.BoolOp(values=values) | ast.Dict(values=values):
                alternatives = values
            case ast.Name(id=name) if name in self._constants:
                alternatives = [self._constants[name]]
            case ast.Call(func=ast.Attribute(value=template, attr="format")):
                alternatives = [template]
        return [text for alternative in alternatives for text in self.of(alternative)]

    def _part(self, node: ast.expr) -> str:
        texts = self.of(node) if isinstance(node, ast.Constant) else []
        return texts[0] if texts else _ELIDED

    def _of_function(self, name: str) -> list[str]:
        """What a function of the module may return."""
        if name in self._callers:
            return []
        self._callers.append(name)
        returns = (node for node in ast.walk(self._functions[name]) if isinstance(node, ast.Return) and node.value)
        texts = [text for node in returns if node.value for text in self.of(node.value)]
        self._callers.pop()
        return texts


def places() -> Iterator[tuple[str, list[str]]]:
    """The class and the texts of each error that the code makes."""
    for path in sorted(path for tree in _TREES for path in (ROOT / tree).rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        texts = Texts(module)
        for node in ast.walk(module):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in CLASSES:
                    yield name, texts.of(first)


def messages() -> dict[str, list[str]]:
    """All texts by class, each once."""
    by_class: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in places():
        by_class[name] |= {_searchable(text) for text in texts}
    searchable = {
        name: sorted(text for text in texts if sum(map(str.isalpha, text)) >= _SHORTEST)
        for name, texts in by_class.items()
    }
    return {name: searchable[name] for name in CLASSES if searchable.get(name)}


def _searchable(text: str) -> str:
    """Without the source or table before it, and without what is elided at its ends."""
    line = re.sub(rf"\{{\w+\}}|{_ELIDED}+", _ELIDED, " ".join(text.split()))
    return line.strip(f" {_ELIDED}:;,.=")


def remedy(name: str, text: str) -> str:
    """What to do about a message."""
    if says_what_to_do(text):
        return "the message says it"
    if issubclass(CLASSES[name], ConfigError):
        return "correct the key, the option or the variable that it names"
    if issubclass(CLASSES[name], Unsupported) and kind_of(text) is None:
        return "[limits](../limits.md); the table that stops says more ([a broken table](../howto/broken-table.md))"
    advice = advised(CLASSES[name](text)).removeprefix(f"{text}; ")
    return re.sub(r"\(docs/([\w/-]+)\.md(#[\w-]+)?\)", r"([\1](../\1.md\2))", advice)


def page() -> Iterator[str]:
    """The lines below the head of the page."""
    for name, texts in messages().items():
        yield from ("", f"## {name}", "", "| message | what to do |", "| --- | --- |")
        for text in texts:
            fence = "``" if "`" in text else "`"
            cell = f"{fence}{text}{fence}".replace("|", "\\|")
            yield f"| {cell} | {remedy(name, text).replace('|', chr(92) + '|')} |"
