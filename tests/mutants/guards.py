"""Guards of commits, fences, retries, gc and deliveries, and each one's mutant: the guard removed or inverted.

Put here: reading guards.yaml, which has them. Not here: running the tests that have to notice (__main__.py).
"""

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Guard:
    """A position in the product's text.

    file: below the root. before: the text of the guard, which is there once. after: its mutant. tests: arguments of
    pytest, the fastest first; one of them has to fail.
    """

    promise: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def _read() -> tuple[Guard, ...]:
    entries = yaml.safe_load(Path(__file__).with_name("guards.yaml").read_text(encoding="utf-8"))
    return tuple(Guard(**entry | {"tests": tuple(entry["tests"])}) for entry in entries)


GUARDS = _read()
