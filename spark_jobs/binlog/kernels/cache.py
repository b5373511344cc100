"""Machine code of kernels: what is installed, else what numba compiled at an earlier use and keeps on disk.

numba keys a function's cache by the function's own file. A kernel contains the code of helpers in other files too, so
after an edit of a helper alone the old code would run. The folder's name is the hash of this package's sources.

Put here: where machine code is looked for and stored, and when it is removed. Not here: what is compiled (compile.py),
or the files that are installed (machine_code.py).
"""

import functools
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.compiler import CompileResult

from spark_jobs.binlog.kernels.machine_code import entry_name, installed, sources_hash

PREFIX = "kernels-"
"""Prefix of the folders' names."""


@functools.cache
def _folder(parent: str) -> str:
    """The folder of these sources in the one that numba would use; the process that makes it removes those of others.

    A process that still runs from other sources finds nothing there any more: it compiles what it needs and keeps it
    to itself.
    """
    folder = Path(parent, PREFIX + sources_hash())
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return str(folder)
    for stale in folder.parent.glob(PREFIX + "*"):
        if stale != folder:
            shutil.rmtree(stale, ignore_errors=True)
    return str(folder)


class _Locator:
    """The folder of these sources, inside the place that numba chooses: NUMBA_CACHE_DIR, __pycache__, the user's."""

    def __init__(self, locator: Any) -> None:
        self._py_file = locator._py_file  # noqa: SLF001 - numba names it in its warnings
        self._line = locator.get_disambiguator()
        self._path = _folder(locator.get_cache_path())

    def get_cache_path(self) -> str:
        return self._path

    def ensure_cache_path(self) -> None:
        """Do nothing: a folder that was removed is not made again, since its sources are no more."""

    def get_source_stamp(self) -> str:
        return sources_hash()

    def get_disambiguator(self) -> Any:
        return self._line


class _CacheFolder(CompileResultCacheImpl):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._locator = _Locator(self._locator)


class _Compiled(FunctionCache):
    """numba's cache of one function, in that folder."""

    _impl_class = _CacheFolder

    def save_overload(self, sig: Any, data: Any) -> None:
        # The folder is gone where a process with newer sources has removed it. Nobody would look for this code there.
        with suppress(FileNotFoundError):
            super().save_overload(sig, data)

    def signatures(self, target_context: Any) -> list[Any]:
        """Signatures of what it holds for this processor."""
        codegen = target_context.codegen()
        keys = self._cache_file._load_index()  # noqa: SLF001 - nothing public lists a cache
        return [key[0] for key in keys if key == self._index_key(key[0], codegen)]


class KernelCache(NullCache):
    """The machine code of one kernel, by signature; numba asks here before it compiles."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @functools.cached_property
    def _compiled_code(self) -> Any:
        """Compiled code, made at its first use: each looks for a writable folder, and most processes need none."""
        try:
            return _Compiled(self._function)
        except RuntimeError:  # there is no such folder: each process compiles for itself
            return NullCache()

    @property
    def cache_path(self) -> Any:
        return self._compiled_code.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        entry = installed().entries.get(entry_name(self._function, sig))
        if entry is None:
            return self._compiled_code.load_overload(sig, target_context)
        target_context.refresh()
        return CompileResult._rebuild(target_context, *pickle.loads(entry))  # noqa: SLF001, S301 - our own file

    def save_overload(self, sig: Any, data: Any) -> None:
        self._compiled_code.save_overload(sig, data)

    def signatures(self, target_context: Any) -> list[Any]:
        """Signatures of which there is machine code from earlier uses."""
        return [] if type(self._compiled_code) is NullCache else self._compiled_code.signatures(target_context)
