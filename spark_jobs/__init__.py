"""The work: from a source's log to merged tables. Runs without Dagster.

Put here: what must happen before any module is imported, and the imports that the documentation gave in release 0.1.0.
Not here: anything else; each package says what belongs in it.
"""

import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

# delta-rs logs, in colours, what it raises all the same; read when it is loaded.
os.environ.setdefault("RUST_LOG", "off")

_DOCUMENTED = {
    "spark_jobs.config": ("Pipeline", "Retention", "from_keys", "load"),
    "spark_jobs.pipeline": ("lake_of",),
    "spark_jobs.published": ("consistent",),
    "spark_jobs.session": ("spark_session",),
    "spark_jobs.store": ("Store",),
    "spark_jobs.verify": ("verify_source",),
}
"""Names that the documentation of 0.1.0 imported, by module. All of it is in ``stratalog``."""
_PACKAGES = ("spark_jobs.config", "spark_jobs.pipeline")
"""Those of these modules that still exist; each sets its own ``__getattr__``."""


def documented_names(module: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module: the names that were documented there, each with a DeprecationWarning."""

    def get(name: str) -> Any:
        if name not in _DOCUMENTED[module]:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} has moved: import {name} from stratalog; the old import works for one release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module("stratalog"), name)

    return get


for _name in _DOCUMENTED.keys() - set(_PACKAGES):
    # The import system takes a module that its parent package has put into sys.modules.
    sys.modules[_name] = _module = ModuleType(_name, "Moved: import from stratalog.")
    vars(_module)["__getattr__"] = documented_names(_name)
