"""pyarrow without pandas, which a process of the command line never uses.

Put here: that pyarrow does not import it by itself. Not here: anything that reads or writes tables.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)
        return None


def load_without_pandas() -> None:
    """Import pyarrow, and let it look for pandas once where there is none.

    It looks at the first Python value that becomes an array, to know a Series from a list; importing pandas takes as
    long as pyarrow and numba together. ``to_pandas`` imports it all the same.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([1])
    finally:
        sys.meta_path.remove(finder)
