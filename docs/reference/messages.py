"""The page of all messages, from the positions in the code that raise them.

Put here: which texts an error may have, and the code that each gets. Not here: causes, which
docs/troubleshooting.md has.
"""

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from spark_jobs import errors
from spark_jobs.errors import StratalogError
from spark_jobs.text.codes import MessageCode, as_markdown
from spark_jobs.text.remedies import filled, has_own_remedy, remedy_of

ROOT = Path(__file__).parents[2]
_TREES = ("spark_jobs", "assets", "dagster_project", "stratalog")
CLASSES: dict[str, type[StratalogError]] = {
    name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, StratalogError)
}
_ELIDED = "…"
FIRST = 1001
_ALIKE = 0.75
"""Share of a message that stays where it is reworded."""
_PASSED_ON = {
    "SourceError": (
        "cannot be reached",
        "cannot be reached: Connection refused",
        "cannot be reached: Name or service not known",
    )
}
"""Texts by class that a function makes (``source/connection.py::refusal``), for callers in other modules to raise."""
_SHORTEST = 8
"""Letters that a text needs to be searched for."""


class Texts:
    """Texts that the expressions of one module may be; a part that is known at run time alone is elided."""

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
                return ["".join(self._expression_text(value) for value in node.values)]
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

    def _expression_text(self, node: ast.expr) -> str:
        texts = self.of(node) if isinstance(node, ast.Constant) else []
        return texts[0] if texts else _ELIDED

    def _of_function(self, name: str) -> list[str]:
        """Texts that a function of the module may return."""
        if name in self._callers:
            return []
        self._callers.append(name)
        returns = (node for node in ast.walk(self._functions[name]) if isinstance(node, ast.Return) and node.value)
        texts = [text for node in returns if node.value for text in self.of(node.value)]
        self._callers.pop()
        return texts


def raise_sites() -> Iterator[tuple[str, list[str]]]:
    """The class and the texts of each error that the code makes."""
    for path in sorted(path for tree in _TREES for path in (ROOT / tree).rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        texts = Texts(module)
        for node in ast.walk(module):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in CLASSES:
                    yield name, texts.of(first)


@cache
def messages() -> dict[str, list[str]]:
    """All texts by class, each once. Parsing all modules takes seconds, so it is done once a process."""
    by_class: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in raise_sites():
        by_class[name] |= {_searchable(text) for text in (*texts, *_PASSED_ON.get(name, ()))}
    searchable = {
        name: sorted(text for text in texts if sum(map(str.isalpha, text)) >= _SHORTEST)
        for name, texts in by_class.items()
    }
    return {name: searchable[name] for name in CLASSES if searchable.get(name)}


def _searchable(text: str) -> str:
    """Without the source or table before it, and without what is elided at its ends."""
    line = re.sub(rf"\{{\w+\}}|{_ELIDED}+", _ELIDED, " ".join(text.split()))
    return line.strip(f" {_ELIDED}:;,.=")


def assigned(before: Sequence[MessageCode], texts: Mapping[str, Sequence[str]]) -> list[MessageCode]:
    """The codes of these messages by class: those that they had, of a reworded message too, and new ones at the end.

    The code of a message that there is no more stays without a message, so that no other gets it.
    """
    entries = [(name, "") for name in CLASSES] + [(name, text) for name, lines in texts.items() for text in lines]
    code_by_message = {(code.cls, code.text): code.code for code in before}
    free = [code for code in before if code.text and (code.cls, code.text) not in set(entries)]
    codes: dict[str, MessageCode] = {code.code: MessageCode(code.code, "", "") for code in before}
    number = max((int(code.code.removeprefix("SL-")) for code in before), default=FIRST - 1)
    for name, text in entries:
        number_text = code_by_message.get((name, text))
        if number_text is None:
            close = [code for code in free if text and _is_reworded(code, name, text)]
            if close:
                free.remove(close[0])
                number_text = close[0].code
            else:
                number += 1
                number_text = f"SL-{number}"
        codes[number_text] = MessageCode(number_text, name, text)
    return [codes[code] for code in sorted(codes)]


def _is_reworded(before: MessageCode, name: str, text: str) -> bool:
    """True if a message is one that was there before: of another class, or with some other words."""
    same_class = before.cls == name
    return before.text == text or (same_class and SequenceMatcher(None, before.text, text).ratio() >= _ALIKE)


def lines_of(codes: Iterable[MessageCode]) -> str:
    """The text of codes.tsv."""
    return "".join(f"{code.code}\t{code.cls}\t{code.text}\n" for code in codes)


def linked(advice: str) -> str:
    """A remedy with links to the pages that it names."""
    return re.sub(r"\(stratalog docs ([\w/-]+)(#[\w-]+)?\)", r"([\1](../\1.md\2))", advice)


def page(codes: Sequence[MessageCode]) -> Iterator[str]:
    """The lines below the head of the page."""
    for name, cls in CLASSES.items():
        of_class = [code for code in codes if code.cls == name]
        rows = [code for code in of_class if code.text and has_own_remedy(cls, code.text)]
        without = [code.code for code in of_class if code not in rows]
        meaning = (cls.__doc__ or "").partition("\n")[0]
        default = linked(filled(remedy_of(cls, "") or ""))
        yield from ("", f"## {name}", "", meaning, "", f"What to do: {default}.", "")
        yield from textwrap.wrap(f"Codes: {', '.join(without)}.", 120)
        yield from ("", "| code | message | what to do |", "| --- | --- | --- |") if rows else ()
        for code in rows:
            cells = (code.code, as_markdown(code.text), linked(filled(remedy_of(cls, code.text) or "")))
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
