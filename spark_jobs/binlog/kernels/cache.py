"""Folder of compiled kernels on disk, whose name is the hash of this package's sources.

numba keys a function's cache by the function's own file. A kernel contains the code of helpers in other files too, so
after an edit of a helper alone the old code would run.

Put here: where compiled code is stored, and when it is removed. Not here: what is compiled (compile.py).
"""

import functools
import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache

PREFIX = "kernels-"
"""Prefix of the folders' names."""


@functools.cache
def sources_hash() -> str:
    """The hash of all of this package's modules, names and bytes."""
    digest = hashlib.sha256()
    for source in sorted(resources.files(__package__).iterdir(), key=lambda source: source.name):
        if source.name.endswith(".py"):
            content = source.read_bytes()
            digest.update(f"{source.name}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:32]


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
        """Nothing: a folder that was removed is not made again, since its sources are no more."""

    def get_source_stamp(self) -> str:
        return sources_hash()

    def get_disambiguator(self) -> Any:
        return self._line


class _CacheFolder(CompileResultCacheImpl):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._locator = _Locator(self._locator)


class KernelCache(FunctionCache):
    """numba's cache of one function, in that folder."""

    _impl_class = _CacheFolder

    def save_overload(self, sig: Any, data: Any) -> None:
        # The folder is gone where a process with newer sources has removed it. Nobody would look for this code there.
        with suppress(FileNotFoundError):
            super().save_overload(sig, data)


def load_all(compiled: Any) -> int:
    """Loads what the cache of a kernel holds for this processor. Returns how many signatures that is."""
    cache, codegen = compiled._cache, compiled.targetctx.codegen()  # noqa: SLF001 - nothing public lists a cache
    entries = [key for key in cache._cache_file._load_index() if key == cache._index_key(key[0], codegen)]  # noqa: SLF001
    for signature, *_ in entries:
        compiled.compile(signature)
    return len(entries)
