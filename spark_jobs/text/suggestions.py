"""Names that are meant by one that is none.

Put here: the likest of known names, as the part of a message. Not here: messages.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_LIKENESS = 0.75
"""Likeness that a name must have to be suggested, 1 at most."""


def did_you_mean(word: str, names: Iterable[str], count: int = 1) -> str:
    """``; did you mean orders?`` with the known names that are most like a word, or nothing where none is."""
    near = get_close_matches(word, names, count, _LIKENESS)
    return f"; did you mean {' or '.join(near)}?" if near else ""
