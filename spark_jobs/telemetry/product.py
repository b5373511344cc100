"""Name and version of this program, as other systems get them.

Put here: the version, which is that of the installed package. Not here: a sum over its code (runtime/executors.py).
"""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

NAME = "Stratalog"


@cache
def version() -> str:
    """The version; ``not installed`` for a copy of the code that no package manager knows."""
    try:
        return installed_version("stratalog")
    except PackageNotFoundError:
        return "not installed"
