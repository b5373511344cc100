"""Every numba function of the decoder: loops over bytes and flat arrays, compiled once and cached on disk.

Kernels take addresses (int64) of bytes and numpy arrays for results. They never raise: they report where they stopped
and why, as a code and an offset, and their callers make an error of it that names file, table and column.

``from spark_jobs.binlog.kernels import MODULE`` imports a module of kernels at the first use of one of its names, since
numba is a third of what a command costs that decodes nothing. Modules of this package import from each other by name.

Put here: what must touch every event, row or value; callers name its module. Not here: anything that runs once a slice,
a table or a batch.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

COMPILED = (
    *("charset_text", "dump_packets", "event_scan", "intrinsics", "json", "json_scalars", "packed_events"),
    *("result_rows", "row_blocks", "row_decode", "row_images", "slice_cut", "table_maps", "utf8", "value_text"),
)
"""Modules that callers outside this package use, and that need numba."""


class _LateModule(ModuleType):
    """Placeholder of a module, which is imported when one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in COMPILED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _LateModule(f"{__name__}.{name}")
