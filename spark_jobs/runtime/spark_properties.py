"""File of Spark's settings, by which a JVM begins: settings can be secret, and arguments are for all to see.

Put here: the file's text and mode. Not here: which settings a JVM has (spark_session.py), or who starts it (jvm.py,
standing/keeper.py).

Format: java.util.Properties#load, https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html
"""

import os
from collections.abc import Mapping
from pathlib import Path


def write_properties(path: Path, settings: Mapping[str, str]) -> list[str]:
    """Write settings for this user alone. Returns the arguments of spark-submit by which it reads them.

    Raises OSError where the file cannot be written.
    """
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
    return ["--load-spark-defaults", "--properties-file", str(path)]


def private_opener(path: str, flags: int) -> int:
    """Opener of ``open``: the file is this user's alone, and a link is not followed."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _escaped(text: str) -> str:
    """A key or value as Java reads it from a file of properties."""
    return "".join(f"\\{c}" if c in "\\:=#! " else {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c, c) for c in text)
