"""Machine code that is installed with the package: made when a wheel is built, or when ``make`` sets up.

Put here: the format of its files, and reading what fits this processor. Not here: processors (targets.py), making the
files (build.py), or what is compiled at its first use (cache.py).

A file has the code of one target, in three parts: the SHA-256 of the rest in hex and a newline; then, compressed by
zstd, a line of JSON, and entries as numba's cache has them. In the line, ``key`` names what the code depends on, and
``entries`` has offset and size in bytes of each entry by its name.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import zstandard

from spark_jobs.binlog.kernels.targets import CodeTarget, fitting_target, is_named

FOLDER = "built"
"""Folder of the files, in this package."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Code of kernels. entries: by ``entry_name``. lack: why there is none, or none of a kernel."""

    entries: Mapping[str, memoryview]
    lack: str


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


def file_name(target: CodeTarget) -> str:
    """The name of a target's file, of this version of Python."""
    return f"{target.name}-{sys.implementation.cache_tag}.code"


def entry_name(function: Any, signature: Any) -> str:
    """``module.function`` and the types of the arguments, as numba writes them."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}{signature}"


def encoded(target: CodeTarget, entries: Mapping[str, bytes]) -> bytes:
    """The file of a target."""
    ranges, offset = {}, 0
    for name, entry in entries.items():
        ranges[name] = [offset, len(entry)]
        offset += len(entry)
    head = json.dumps({"key": _key(target), "entries": ranges}).encode()
    content = zstandard.ZstdCompressor(level=19).compress(b"\n".join([head, b"".join(entries.values())]))
    return b"\n".join([_digest(content), content])


def decoded(target: CodeTarget, content: bytes) -> dict[str, memoryview]:
    """Entries of a target's file. Raises ValueError where it is damaged, or of other sources or versions."""
    digest, _, compressed = content.partition(b"\n")
    if _digest(compressed) != digest:
        raise ValueError(f"{file_name(target)} is damaged")
    head, _, code = zstandard.ZstdDecompressor().decompress(compressed).partition(b"\n")
    described = json.loads(head)
    if described["key"] != _key(target):
        raise ValueError(f"{file_name(target)} is of other sources or versions")
    view = memoryview(code)
    return {name: view[offset : offset + size] for name, (offset, size) in described["entries"].items()}


@functools.cache
def installed() -> MachineCode:
    """Machine code that is installed for this processor; where none can be used it is empty, and says why."""
    target = fitting_target()
    if target is None:
        named = "NUMBA_CPU_NAME or NUMBA_CPU_FEATURES names a processor"
        reason = named if is_named() else "no machine code is made for this processor"
        return MachineCode({}, reason)
    try:
        content = resources.files(__package__).joinpath(FOLDER, file_name(target)).read_bytes()
        return MachineCode(decoded(target, content), f"{file_name(target)} lacks a kernel")
    except OSError:
        return MachineCode({}, f"{file_name(target)} is missing")
    except ValueError as error:
        return MachineCode({}, str(error))


def _key(target: CodeTarget) -> list[str]:
    """All that the code of a target depends on."""
    triple = llvmlite.binding.get_process_triple()
    return [sources_hash(), numba.__version__, llvmlite.__version__, triple, *target.options().values()]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
