"""Memory as an address for a kernel, and whether kernels run as plain Python.

Put here: what callers need beside a kernel, without numba. Not here: what checks accesses (memory.py), or how kernels
are compiled (compile.py).
"""

import os
from collections.abc import Callable

from spark_jobs.binlog.kernels import memory

CHECKED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""NUMBA_DISABLE_JIT=1: kernels run as plain Python, and memory.py checks every byte that they touch."""

address_of: Callable[[memory.Memory], int] = memory.note if CHECKED else memory.address
"""Address of an array's or a buffer's first byte: the only way in which memory becomes an address for a kernel."""

address_of_parts: Callable[[memory.Memory, memory.Memory, memory.Memory], int] = (
    memory.note_parts if CHECKED else memory.part_address
)
"""The same of memory in parts, offsets and sizes in bytes, where a kernel that leaves one has gone astray."""
