"""Memory as kernels see it where they run as plain Python (NUMBA_DISABLE_JIT=1): every load and store is checked.

Compiled kernels read and write by address and check nothing that their own logic does not. Here the same loads and
stores ask first whether all their bytes lie in one array or buffer that lives and that address_of was asked about, or
that a kernel was given; a store, whether it may be written to. Slow, and meant for tests and fuzzing.

Put here: where large memory comes from, plain twins of the intrinsics (intrinsics.py), what they may touch. Not here:
numba.
"""

import ctypes
import functools
import threading
import weakref
import zlib
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Memory: TypeAlias = Any
"""A numpy array or a pyarrow.Buffer."""

_UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class OutOfBounds(AssertionError):
    """A kernel went beyond the memory that it was given."""


class _MemoryRange:
    """Bytes that belong to one object; ``lives()`` is None once that is gone."""

    __slots__ = ("end", "lives", "start", "writable")

    def __init__(self, owner: Memory, offset: int = 0, size: int | None = None) -> None:
        is_array = isinstance(owner, np.ndarray)
        self.start = address(owner) + offset
        self.end = self.start + (size if size is not None else owner.nbytes if is_array else owner.size)
        self.writable = bool(owner.flags.writeable if is_array else owner.is_mutable)
        self.lives = weakref.ref(owner)


_ranges: list[_MemoryRange] = []
"""Ranges that may be touched, the most recently touched one in front."""
_ranges_of: dict[int, list[_MemoryRange]] = {}
"""The same by the object's id, which another one may have later. Never empty: a whole, or parts."""
_MANY = 256


def rounded(size: int) -> int:
    """Size to allocate for at least so many bytes, at most a quarter more: one of few sizes."""
    step = 1 << max(size.bit_length() - 3, 0)
    return -(-size // step) * step


def fresh(size: int) -> NDArray[np.uint8]:
    """``size`` bytes to write to, with whatever is in them.

    They are taken again once the array, its views and what Arrow made of it are all gone. Allocators give memory of
    this size back to the system, and then every 4 KiB of it is a page fault again, of about 1 µs: as much as it takes
    to decode the rows that fill it.
    """
    if not _LEAST <= size <= _MOST:
        return np.frombuffer(pa.allocate_buffer(size), np.uint8)
    # Sizes are few, so that what is given back fits again; what is never touched of it costs nothing.
    room = rounded(int(size))
    owner = _spare(room) or pa.allocate_buffer(room)
    # Views of an array that owns no memory keep that array alive, not what it was made from.
    lease = np.frombuffer(owner, np.uint8, size)
    weakref.finalize(lease, _give_back, owner).atexit = False
    return lease


_LEAST, _MOST = 1 << 17, 128 << 20
"""Bytes of a memory worth keeping, and of all that are kept at most while nobody uses them."""
_spares: dict[int, pa.Buffer] = {}
"""Spare buffers by address, the one given back last at the end."""
_lock = threading.RLock()
"""Arrow gives memory back from any thread, the garbage collector in the middle of anything."""


def _spare(size: int) -> pa.Buffer | None:
    with _lock:
        fitting = [offset for offset, owner in _spares.items() if size <= owner.size <= 2 * size]
        return _spares.pop(fitting[-1], None) if fitting else None


def _give_back(owner: pa.Buffer) -> None:
    with _lock:
        _spares[owner.address] = owner
        while sum(spare.size for spare in _spares.values()) > _MOST:
            _spares.pop(next(iter(_spares)))


def address(memory: Memory) -> int:
    """Address of the memory's first byte."""
    buffer = pa.py_buffer(memory) if isinstance(memory, np.ndarray) else memory  # ndarray.ctypes takes six times longer
    return int(buffer.address)


def note(memory: Memory) -> int:
    """Address of the memory's first byte; its bytes may be touched from now on, for as long as the object lives."""
    ranges = _ranges_of.get(id(memory))
    if ranges is None or ranges[0].lives() is None:
        _add_ranges(memory, [_MemoryRange(memory)])
    return address(memory)


def part_address(memory: Memory, _offsets: Any, _sizes: Any) -> int:
    """Address of the memory's first byte, whatever parts it has."""
    return address(memory)


def note_parts(memory: Memory, offsets: Any, sizes: Any) -> int:
    """Address of the memory's first byte; its parts may be touched from now on, nothing across or between them."""
    parts = zip(offsets.ravel().tolist(), sizes.ravel().tolist(), strict=True)
    _add_ranges(memory, [_MemoryRange(memory, offset, size) for offset, size in parts] or [_MemoryRange(memory, 0, 0)])
    return address(memory)


def _add_ranges(memory: Memory, ranges: list[_MemoryRange]) -> None:
    if len(_ranges) > _MANY:
        _forget()
    _ranges_of[id(memory)] = ranges
    _ranges[:0] = ranges


def _forget() -> None:
    """Drops what is gone."""
    for key in [key for key, ranges in _ranges_of.items() if ranges[0].lives() is None]:
        del _ranges_of[key]
    _ranges[:] = [log_range for ranges in _ranges_of.values() for log_range in ranges]


def touch(offset: int, count: int, *, write: bool = False) -> int:
    """Moves the range of these bytes to the front. Raises OutOfBounds where there is none."""
    offset = int(offset)
    # Most loads and stores are in the range of the one before.
    if _ranges:
        last = _ranges[0]
        if last.start <= offset and offset + count <= last.end and last.writable >= write and last.lives() is not None:
            return offset
    for k, log_range in enumerate(_ranges):
        if (
            log_range.start <= offset
            and offset + count <= log_range.end
            and log_range.lives() is not None
            and log_range.writable >= write
        ):
            if k:
                _ranges.insert(0, _ranges.pop(k))
            return offset
    # The message names the nearest ranges.
    near = sorted(
        (log_range for log_range in _ranges if log_range.lives() is not None),
        key=lambda log_range: abs(log_range.start - offset),
    )[:2]
    neighbours = ", ".join(f"[{log_range.start:#x}, {log_range.end:#x})" for log_range in near)
    raise OutOfBounds(
        f"{'store to' if write else 'load of'} {count} bytes at {offset:#x}; near: {neighbours or 'nothing'}"
    )


def load(size: int, *, big_endian: bool = False) -> Callable[[int], Any]:
    """``load(address)`` of so many bytes as an unsigned number."""
    number = _UNSIGNED[size]
    order: Literal["big", "little"] = "big" if big_endian else "little"

    def load(offset: int) -> Any:
        return number(int.from_bytes(ctypes.string_at(touch(offset, size, write=False), size), order))

    return load


def store(size: int) -> Callable[[int, Any], None]:
    """``store(address, number)`` of so many bytes, little-endian."""

    def store(offset: int, value: Any) -> None:
        wire = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        ctypes.memmove(touch(offset, size, write=True), wire, size)

    return store


def copy(target: int, source: int, count: int) -> None:
    """Copy bytes as C's memmove does. Raises OutOfBounds."""
    count = int(count)
    if count < 0:
        raise OutOfBounds(f"copy of {count} bytes")
    if count:
        ctypes.memmove(touch(target, count, write=True), touch(source, count, write=False), count)


def crc32(offset: int, count: int, _before: int) -> Any:
    """zlib's own."""
    return np.uint32(zlib.crc32(ctypes.string_at(touch(offset, int(count)), int(count))))


def high64(left: Any, right: Any) -> Any:
    """The upper 64 of the 128 bits of a product."""
    return np.uint64(int(left) * int(right) >> 64)


def _note_arrays(arguments: tuple[Any, ...]) -> None:
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            note(argument)
        elif isinstance(argument, tuple):
            _note_arrays(argument)


_inside = False


def checked(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel as it is, with the arrays that it is given noted; an index beyond one of them is OutOfBounds too."""

    @functools.wraps(kernel)
    def run(*arguments: Any) -> Any:
        global _inside  # noqa: PLW0603 - one kernel at a time: this is for tests
        if _inside:
            return kernel(*arguments)
        _note_arrays(arguments)
        _inside = True
        # As numba has them.
        typed = [np.int64(argument) if type(argument) is int else argument for argument in arguments]
        try:
            with np.errstate(over="ignore"):  # compiled numbers wrap around silently
                return kernel(*typed)
        except IndexError as error:
            raise OutOfBounds(f"{kernel.__name__}: {error}") from error
        finally:
            _inside = False

    return run
