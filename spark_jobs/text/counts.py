"""Counts in sentences.

Put here: the form of a noun after its number. Not here: sentences.
"""


def counted(count: int, noun: str) -> str:
    """``1 table``, ``2 tables``: for nouns that end with s in the plural."""
    return f"{count:d} {noun}{'' if count == 1 else 's'}"
