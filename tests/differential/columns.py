"""What is declared, stored and asked for of one column, in a dialect; how literals are written.

Put here: values that all kinds of columns share. Not here: the kinds (scalars.py, kinds.py).
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np

Json: TypeAlias = Any
Make: TypeAlias = Callable[[Random, "Dialect"], "Column"]
Literal: TypeAlias = Callable[[Random], str]
Query: TypeAlias = tuple[str, Callable[[str], Json]]
"""An SQL expression over ``{c}``, and what reads its text."""
EVERYTHING = frozenset({"names", "signs", "charsets", "labels", "labels of one character set"})
"""What a log may tell of columns besides their types. "declared types" are told by servers only: UUID is a BINARY."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server is. characters: of each character set, those that it converts there and back."""

    vendor: str
    version: tuple[int, ...]
    characters: dict[str, str]

    def since(self, mysql: tuple[int, ...] | None, mariadb: tuple[int, ...] | None) -> bool:
        """True if it has what came with these versions; None where a vendor never had it."""
        first = {"mysql": mysql, "mariadb": mariadb}[self.vendor]
        return first is not None and self.version >= first


@dataclass(frozen=True, slots=True)
class Column:
    """A column's declaration and values.

    odd: values that are stored, changed or not, only where sql_mode does not forbid it. without: what a log must tell
    of the column for that value, each with ``shown`` and ``read`` again for a log that does not tell it; the first such
    counts. found: applied to the decoder's value before comparing. edit: an expression over ``{c}`` that changes a part
    of a value.
    """

    declared: str
    value: Literal
    expression: str
    reader: Callable[[str], Json]
    odd: Literal | None = None
    without: tuple[tuple[str, Query], ...] = ()
    comparable: Callable[[Json], Json] | None = None
    edit: Literal | None = None

    @property
    def is_undeclared(self) -> bool:
        """True if no log tells its type."""
        return any(need == "declared types" for need, _ in self.without)

    def query_for(self, knows: frozenset[str]) -> Query:
        """Expression and reader, for a log that tells some of EVERYTHING."""
        return next((query for need, query in self.without if need not in knows), (self.expression, self.reader))


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of columns. here: on which servers."""

    make: Make
    here: Callable[[Dialect], bool] = lambda _: True


def hexed(data: bytes) -> str:
    return f"x'{data.hex()}'"


def quoted(text: str) -> str:
    """A literal of any text, whatever sql_mode and connection are."""
    return f"_utf8mb4 {hexed(text.encode())}"


def bytes_of(text: str) -> Json:
    return {"base64": base64.b64encode(bytes.fromhex(text)).decode()}


def unknown_text(text: str) -> Json:
    """Text of an unknown character set, of which a server told the hex."""
    try:
        return bytes.fromhex(text).decode()
    except UnicodeDecodeError:
        return bytes_of(text)


def shortest(text: str) -> float:
    """The shortest number that reads back as the FLOAT that a server told as a DOUBLE."""
    return float(str(np.float32(float(text))))


def instant(text: str) -> str:
    return text if text.startswith("0000-00-00") else f"{text.replace(' ', 'T')}Z"


def one_of(*literals: str) -> Literal:
    return lambda random: random.choice(literals)


def mostly(usual: Literal, *edges: str) -> Literal:
    return lambda random: random.choice(edges) if edges and random.random() < 0.4 else usual(random)
