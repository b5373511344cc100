"""A key as users name it on the command line: ``COLUMN=VALUE,…``.

Put here: its columns and values as texts. Not here: what the values are (row_history/key_texts.py,
pipeline/mending/wanted_keys.py).
"""

import re

_BETWEEN = re.compile(r",(?=[^,=]+=)")
"""Between two columns of a key; a value may have commas."""


def values_by_column(text: str) -> dict[str, str] | None:
    """The value of each column; None where a part of the text is not ``COLUMN=VALUE``."""
    pairs = [part.partition("=") for part in _BETWEEN.split(text)]
    if not all(name.strip() and separator for name, separator, _ in pairs):
        return None
    return {name.strip(): value for name, _, value in pairs}
