"""Compilation of kernels: numba's options, decorators, features of the processor, and the notice to a user.

Put here: what every kernel shares at compile time. Not here: any kernel, any intrinsic.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import numba
from numba.core.event import Event, Listener, register
from numpy.typing import NDArray

from spark_jobs.binlog.kernels import COMPILED, memory
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.cache import KernelCache
from spark_jobs.binlog.kernels.machine_code import entry_name, installed
from spark_jobs.binlog.kernels.signatures import signatures
from spark_jobs.binlog.kernels.targets import compiler_features
from spark_jobs.text.progress import doing

log = logging.getLogger(__name__)

Array = NDArray[Any]


# A file of numba's settings says nothing else than the variable that addresses.py looks at.
numba.config.DISABLE_JIT = CHECKED  # type: ignore[attr-defined]

_OPTIONS: dict[str, Any] = {"boundscheck": False, "nogil": True, "error_model": "numpy", "_nrt": False}
"""numpy's error model: a division by zero is no exception. Without numba's runtime, so that a kernel makes no array: it
would count the references of each array that one function hands to another, by atomic operations, 15 ns a character in
map_characters; and all that a kernel is given outlives the call."""


_kernels: dict[str, Any] = {}
"""Kernels by ``module.function``."""


def kernel(function: Callable[..., Any]) -> Any:
    """The one decorator of every kernel."""
    if CHECKED:
        return memory.checked(function)
    compiled = numba.njit(**_OPTIONS)(function)
    compiled._cache = KernelCache(function)  # noqa: SLF001 - as numba's cache=True does, by another key
    _kernels[entry_name(function, "")] = compiled
    return compiled


def load_cached() -> int:
    """Loads the machine code that is installed, or else cached, before any is called. Returns how much there was."""
    for module in COMPILED:
        import_module(f"{__package__}.{module}")
    if installed().entries:
        found = [(_kernels[name], arguments) for name, arguments in signatures() if name in _kernels]
    else:
        found = [
            (compiled, arguments)
            for compiled in _kernels.values()
            for arguments in compiled._cache.signatures(compiled.targetctx)  # noqa: SLF001 - it is ours
        ]
    for compiled, arguments in found:
        compiled.compile(arguments)
    return len(found)


def part(function: Callable[..., Any]) -> Any:
    """The decorator of what a kernel does for every value: always inlined, where LLVM by itself would make a call.

    A call costs more than it looks: the vectors that the caller keeps in registers are loaded again after each.
    """
    if CHECKED:
        return memory.checked(function)
    return numba.njit(forceinline=True, **_OPTIONS)(function)


FEATURES: frozenset[str] = frozenset() if CHECKED else compiler_features()
"""Features of the processor besides the common ones: of this one, or those that numba is told to compile for."""


class _Notice(Listener):
    """Notice that kernels are compiled, all of which takes half a minute: a line at the first, and an activity.

    numba compiles under a lock, so that events come from one thread at a time.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._is_logged = False
        self._activity = ExitStack()

    def on_start(self, event: Event) -> None:
        if not self._is_ours(event):
            return
        self._depth += 1
        if self._depth > 1:  # what a kernel calls
            return
        if not self._is_logged:
            log.info("compiling the decoder, half a minute once: %s", installed().lack)
            self._is_logged = True
        self._activity.enter_context(doing("compiling the decoder"))

    def on_end(self, event: Event) -> None:
        if self._is_ours(event):
            self._depth -= 1
            if not self._depth:
                self._activity.close()

    @staticmethod
    def _is_ours(event: Event) -> bool:
        return str(event.data["dispatcher"].py_func.__module__).startswith(f"{__package__}.")


register("numba:compile", _Notice())
