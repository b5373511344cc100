"""Compilation of kernels: numba's options, the decorators, what the processor has.

Put here: what every kernel shares at compile time. Not here: any kernel, any intrinsic.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
from numpy.typing import NDArray

from spark_jobs.binlog.kernels import memory
from spark_jobs.binlog.kernels.cache import KernelCache, load_all

Array = NDArray[Any]


CHECKED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
"""NUMBA_DISABLE_JIT=1: kernels run as plain Python, and memory.py checks every byte that they touch."""

address_of: Callable[[memory.Memory], int] = memory.note if CHECKED else memory.address
"""Address of an array's or a buffer's first byte: the only way in which memory becomes an address for a kernel."""

address_of_parts: Callable[[memory.Memory, Array, Array], int] = memory.note_parts if CHECKED else memory.part_address
"""The same of memory in parts, offsets and sizes in bytes, where a kernel that leaves one has gone astray."""


_OPTIONS: dict[str, Any] = {"boundscheck": False, "nogil": True, "error_model": "numpy", "_nrt": False}
"""numpy's error model: a division by zero is no exception. Without numba's runtime, so that a kernel makes no array: it
would count the references of each array that one function hands to another, by atomic operations, 15 ns a character in
map_characters; and all that a kernel is given outlives the call."""


_kernels: list[Any] = []


def kernel(function: Callable[..., Any]) -> Any:
    """The one decorator of every kernel."""
    if CHECKED:
        return memory.checked(function)
    compiled = numba.njit(**_OPTIONS)(function)
    compiled._cache = KernelCache(function)  # noqa: SLF001 - as numba's cache=True does, by another key
    _kernels.append(compiled)
    return compiled


def load_cached() -> int:
    """Loads the machine code of every kernel that is cached on disk, before any is called. Returns how many were."""
    return sum(load_all(kernel) for kernel in _kernels)


def part(function: Callable[..., Any]) -> Any:
    """The decorator of what a kernel does for every value: always inlined, where LLVM by itself would make a call.

    A call costs more than it looks: the vectors that the caller keeps in registers are loaded again after each.
    """
    if CHECKED:
        return memory.checked(function)
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def _features() -> set[str]:
    """Features of this processor besides the common ones; none where numba is told for which processor to compile."""
    if CHECKED or numba.config.CPU_NAME or numba.config.CPU_FEATURES:  # type: ignore[attr-defined]
        return set()
    return {name for name, here in llvmlite.binding.get_host_cpu_features().items() if here}


FEATURES = _features()
