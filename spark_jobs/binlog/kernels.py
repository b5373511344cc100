"""Every numba function of the decoder: loops over bytes and flat arrays, compiled once and cached on disk.

Kernels take addresses (int64) of bytes and numpy arrays for results. They never raise: they report where they stopped
and why, as a code and an offset, and their callers make an error of it that names file, table and column. They stand in
one file because numba keys its cache by a function's own file: after an edit of a helper elsewhere, old code would run.

Put here: what must touch every event, row or value. Not here: anything that runs once a slice, a table or a batch.
"""

# mypy: disable-error-code="no-untyped-call"
# numba's and llvmlite's own functions have no types.

import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from spark_jobs.binlog import memory

Array = NDArray[Any]

# ---- the head: how kernels are compiled, and how they read and write memory ---------------------------------------


CHECKED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
"""NUMBA_DISABLE_JIT=1: kernels run as plain Python, and memory.py checks every byte that they touch."""

address_of: Callable[[memory.Memory], int] = memory.note if CHECKED else memory.address
"""Where an array's or a buffer's first byte lies: the only way in which memory becomes an address for a kernel."""

address_of_parts: Callable[[memory.Memory, Array, Array], int] = memory.note_parts if CHECKED else memory.part_address
"""The same of memory in parts, places and sizes in bytes, where a kernel that leaves one has gone astray."""


_OPTIONS: dict[str, Any] = {"boundscheck": False, "nogil": True, "error_model": "numpy", "_nrt": False}
"""numpy's error model: a division by zero is no exception. Without numba's runtime, so that a kernel makes no array: it
would count the references of each array that one function hands to another, by atomic operations, 15 ns a character in
map_characters; and all that a kernel is given outlives the call."""


def kernel(function: Callable[..., Any]) -> Any:
    """The one decorator of every kernel."""
    if CHECKED:
        return memory.checked(function)
    return numba.njit(cache=True, **_OPTIONS)(function)


def part(function: Callable[..., Any]) -> Any:
    """The decorator of what a kernel does for every value: always inlined, where LLVM by itself would make a call.

    A call costs more than it looks: the vectors that the caller keeps in registers are loaded again after each.
    """
    if CHECKED:
        return memory.checked(function)
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def _load(result: Any, bits: int, *, big_endian: bool = False) -> Any:
    """An intrinsic ``load(address) -> unsigned`` that needs no alignment."""
    if CHECKED:
        return memory.load(bits // 8, big_endian=big_endian)

    @intrinsic
    def load(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            value.align = 1
            return builder.bswap(value) if big_endian else value

        return result(types.int64), generate

    return load


def _store(value_type: Any, bits: int) -> Any:
    """An intrinsic ``store(address, unsigned)`` that needs no alignment."""
    if CHECKED:
        return memory.store(bits // 8)

    @intrinsic
    def store(_typing: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            target = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            builder.store(arguments[1], target).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, value_type), generate

    return store


def _load_at(result: Any, bits: int) -> Any:
    """An intrinsic ``load_at(base, place) -> unsigned``: the number at a place of those that lie there side by side.

    In a loop over places LLVM takes several at once; of ``load(base + 8 * place)``, and ``store``, it makes gathers and
    scatters where the processor has them (AVX-512), since it does not look through addresses that are computed as
    numbers: slower than one after the other.
    """
    if CHECKED:
        plain = memory.load(bits // 8)
        return lambda base, place: plain(base + bits // 8 * place)

    @intrinsic
    def load(_typing: Any, _base: Any, _place: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(_at(builder, bits, *arguments))
            value.align = 1
            return value

        return result(types.int64, types.int64), generate

    return load


def _store_at(value_type: Any, bits: int) -> Any:
    """An intrinsic ``store_at(base, place, unsigned)``, as ``load_at``."""
    if CHECKED:
        plain = memory.store(bits // 8)
        return lambda base, place, value: plain(base + bits // 8 * place, value)

    @intrinsic
    def store(_typing: Any, _base: Any, _place: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            builder.store(arguments[2], _at(builder, bits, *arguments[:2])).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, value_type), generate

    return store


def _at(builder: Any, bits: int, base: Any, place: Any) -> Any:
    return builder.gep(builder.inttoptr(base, ir.IntType(bits).as_pointer()), [place])


def _copy(count: int) -> Any:
    """An intrinsic ``copy(target, source)`` of exactly ``count`` bytes in one vector."""
    if CHECKED:
        return lambda target, source: memory.copy(target, source, count)

    @intrinsic
    def copy(_typing: Any, _target: Any, _source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = ir.VectorType(ir.IntType(8), count).as_pointer()
            value = builder.load(builder.inttoptr(arguments[1], pointer))
            value.align = 1
            builder.store(value, builder.inttoptr(arguments[0], pointer)).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return copy


load8 = _load(types.uint8, 8)
load16 = _load(types.uint16, 16)
load32 = _load(types.uint32, 32)
load64 = _load(types.uint64, 64)
load16_big = _load(types.uint16, 16, big_endian=True)
load32_big = _load(types.uint32, 32, big_endian=True)
load64_big = _load(types.uint64, 64, big_endian=True)
store8 = _store(types.uint8, 8)
store16 = _store(types.uint16, 16)
store32 = _store(types.uint32, 32)
store64 = _store(types.uint64, 64)
load64_at = _load_at(types.uint64, 64)
store8_at = _store_at(types.uint8, 8)
store32_at = _store_at(types.uint32, 32)
store64_at = _store_at(types.uint64, 64)
copy16 = _copy(16)
copy32 = _copy(32)


def _memmove() -> Any:
    """An intrinsic ``memmove(target, source, count)``: for runs longer than a few vectors."""

    @intrinsic
    def copy(_typing: Any, _target: Any, _source: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            byte = ir.IntType(8).as_pointer()
            target, source = (builder.inttoptr(argument, byte) for argument in arguments[:2])
            cgutils.raw_memmove(builder, target, source, arguments[2], 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return copy


memmove: Any = memory.copy if CHECKED else _memmove()


def _read() -> Any:
    """An intrinsic ``read(descriptor, target, count)``: as of POSIX, bytes read, 0 at the end, -1 where it failed."""

    @intrinsic
    def read(_typing: Any, _descriptor: Any, _target: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word, number, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(word, [number, byte, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "read")
            descriptor, target = builder.trunc(arguments[0], number), builder.inttoptr(arguments[1], byte)
            return builder.call(function, [descriptor, target, arguments[2]])

        return types.int64(types.int64, types.int64, types.int64), generate

    return read


read: Any = memory.read if CHECKED else _read()


def _prefetch() -> Any:
    """An intrinsic ``prefetch(address)``: asks for the cache line there, which need not exist, and does not wait."""
    if CHECKED:
        return lambda _address: None

    @intrinsic
    def fetch(_typing: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            to_read, kept, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
            builder.call(function, [builder.inttoptr(arguments[0], byte), to_read, kept, of_data])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return fetch


prefetch = _prefetch()


def _trailing_zeros() -> Any:
    """An intrinsic ``trailing_zeros(word)`` of 64 bits, one of them set."""
    if CHECKED:
        return lambda word: (int(word) & -int(word)).bit_length() - 1

    @intrinsic
    def count(_typing: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), generate

    return count


trailing_zeros = _trailing_zeros()


def _without() -> Any:
    """An intrinsic ``without(address, bit)``: a set bit for each of the eight words there that lacks the one of bit."""
    if CHECKED:
        words = memory.load(8)
        return lambda address, bit: np.uint8(sum((not words(address + 8 * k) & bit) << k for k in range(8)))

    @intrinsic
    def test(_typing: Any, _address: Any, _bit: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            eight = ir.VectorType(ir.IntType(64), 8)
            value = builder.load(builder.inttoptr(arguments[0], eight.as_pointer()))
            value.align = 1
            one = builder.insert_element(ir.Constant(eight, ir.Undefined), arguments[1], ir.Constant(ir.IntType(32), 0))
            wanted = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))
            lacks = builder.icmp_unsigned("==", builder.and_(value, wanted), ir.Constant(eight, [0] * 8))
            return builder.bitcast(lacks, ir.IntType(8))

        return types.uint8(types.int64, types.uint64), generate

    return test


without = _without()


def _ones() -> Any:
    """An intrinsic ``ones(byte)``: how many bits are set."""
    if CHECKED:
        return lambda byte: int(byte).bit_count()

    @intrinsic
    def count(_typing: Any, _byte: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.zext(builder.ctpop(arguments[0]), ir.IntType(64))

        return types.int64(types.uint8), generate

    return count


ones = _ones()


def _run_generated() -> Any:
    """An intrinsic ``run_generated(address, …)``: calls a function of eight words and no result (rows/codegen.py)."""

    @intrinsic
    def run(
        _typing: Any,
        _code: Any,
        _q: Any,
        _end: Any,
        _n: Any,
        _rows: Any,
        _steps: Any,
        _nulls: Any,
        _null_rows: Any,
        _state: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 8)
            builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    return run


run_generated: Any = None if CHECKED else _run_generated()


@part
def load48(address: int) -> Any:
    """Six bytes, little-endian: a table id."""
    return np.int64(load32(address)) | np.int64(load16(address + 4)) << 32


# ---- CRC32 (the polynomial of zlib), checked for every event ------------------------------------------------------


def _crc_tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The sixteen tables of slice-by-16: ``[k][b]`` is the state of byte b followed by k zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(15):
        tables.append((tables[-1] >> 8) ^ table[tables[-1] & 0xFF])
    return np.array(tables, dtype=np.uint32)


_CRC = _crc_tables()


def _features() -> set[str]:
    """What this processor has beside the common; nothing where numba is told for which processor to compile."""
    if CHECKED or numba.config.CPU_NAME or numba.config.CPU_FEATURES:  # type: ignore[attr-defined]
        return set()
    return {name for name, here in llvmlite.binding.get_host_cpu_features().items() if here}


_FEATURES = _features()
_SHUFFLES = {16: "llvm.x86.ssse3.pshuf.b.128", 32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
"""Look up sixteen bytes, each by four bits: so many at once."""
HAS_CLMUL = "pclmul" in _FEATURES
"""Whether this processor multiplies polynomials (x86 PCLMULQDQ); elsewhere the tables do the work."""


def _power(exponent: int) -> int:
    """x^exponent mod P, bit-reflected, as what multiplies 64 bits and moves them on (Intel 323102, "Fast CRC")."""
    remainder = 1
    for _ in range(exponent):
        remainder = remainder << 1 ^ (0x104C11DB7 if remainder >> 31 & 1 else 0)
    return int(f"{remainder:032b}"[::-1], 2) << 1


def _move(size: int) -> tuple[int, int]:
    """What moves the low and the high half of 128 bits ``size`` bytes on."""
    return _power(8 * size + 32), _power(8 * size - 32)


_BLOCK = 64
"""Bytes that are folded at once, in four lanes."""
_BLOCKS = 4
"""Blocks of a long run that are folded side by side: none waits for the one before it."""
_REDUCE = (_power(96) << 32, 0xB4E5B025F7011641, 0x1DB710641)
"""x^96 modulo P, x^95 divided by P, P: what reduces 128 bits with 32 zeros behind them, bit-reflected."""


@kernel
def _crc_16(low: Any, high: Any) -> Any:
    """The state after sixteen bytes, given as two little-endian words with the state before mixed into the first."""
    state = np.uint32(0)
    for k in range(8):
        state ^= _CRC[15 - k, (low >> np.uint64(8 * k)) & np.uint64(255)]
        state ^= _CRC[7 - k, (high >> np.uint64(8 * k)) & np.uint64(255)]
    return state


@kernel
def _crc_rest(address: int, count: int, state: int) -> Any:
    while count >= 16:
        state = _crc_16(load64(address) ^ np.uint64(state), load64(address + 8))
        address += 16
        count -= 16
    for k in range(count):
        state = _CRC[0, (state ^ load8(address + k)) & np.uint32(255)] ^ (state >> np.uint32(8))
    return state


def _while(
    builder: Any, begun: list[Any], goes_on: Callable[[list[Any]], Any], once: Callable[[list[Any]], list[Any]]
) -> list[Any]:
    """Emits a loop: ``goes_on`` asks values before each round, ``once`` makes the next of them. Returns the last."""
    before = builder.block
    test, body, after = (builder.append_basic_block(name) for name in ("loop.test", "loop.body", "loop.after"))
    builder.branch(test)
    builder.position_at_end(test)
    values = [builder.phi(value.type) for value in begun]
    builder.cbranch(goes_on(values), body, after)
    builder.position_at_end(body)
    following = once(values)
    for phi, first, next_one in zip(values, begun, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(next_one, builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    return values


def _loaded(builder: Any, address: Any, kind: Any) -> Any:
    """A value of any type from anywhere."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


_MULTIPLIES = {2: "llvm.x86.pclmulqdq", 4: "llvm.x86.pclmulqdq.256", 8: "llvm.x86.pclmulqdq.512"}


def _times(builder: Any, left: Any, right: Any, halves: int) -> Any:
    """Products of polynomials, of each 128 bits: left's low 64 (halves 0x.0) or high (0x.1), right's (0x0., 0x1.)."""
    name, byte = _MULTIPLIES[left.type.count], ir.IntType(8)
    kind = ir.FunctionType(left.type, [left.type, left.type, byte])
    multiply = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(multiply, [left, right, ir.Constant(byte, halves)])


def _moved(builder: Any, value: Any, constants: Any) -> Any:
    """Each 128 bits moved on by the constants' distance."""
    return builder.xor(*(_times(builder, value, constants, halves) for halves in (0x00, 0x11)))


def _lanes(builder: Any, value: Any) -> list[Any]:
    """The 128 bits side by side in a vector."""
    pairs = [ir.Constant(ir.VectorType(ir.IntType(32), 2), [k, k + 1]) for k in range(0, value.type.count, 2)]
    return [builder.shuffle_vector(value, value, pair) for pair in pairs]


def _reduce(builder: Any, value: Any, quotients: Any, divisor: Any) -> Any:
    """128 bits reduced to the CRC32 state of these sixteen bytes: to 96 bits, then by Barrett's way."""
    quad, number = ir.VectorType(ir.IntType(32), 4), ir.IntType(32)
    zeros = ir.Constant(quad, [0] * 4)

    def words(vector: Any, *chosen: int) -> Any:
        mask = ir.Constant(ir.VectorType(number, 4), list(chosen))
        return builder.bitcast(builder.shuffle_vector(builder.bitcast(vector, quad), zeros, mask), vector.type)

    value = builder.xor(words(value, 4, 2, 3, 4), _times(builder, value, quotients, 0x00))
    value = words(value, 1, 2, 3, 4)
    part = _times(builder, _times(builder, value, quotients, 0x10), divisor, 0x00)
    return builder.extract_element(builder.bitcast(builder.xor(value, part), quad), ir.Constant(number, 2))


class _Folding:
    """Emits CRC32 by vectors of ``size`` bytes: blocks of 64 are folded onto each other in four lanes of 128 bits.

    What is left of whole blocks comes first, with zeros before it, which change nothing once the state is mixed into
    the first four bytes; so no step depends on the count but how often the loop goes round. An event being short, and
    the next one's steps many, a processor sees little beyond the one that it is at: the fewer steps wait for each
    other, the better.
    """

    def __init__(self, builder: Any, size: int) -> None:
        self.builder = builder
        self.kind = ir.VectorType(ir.IntType(64), size // 8)
        self.steps = [self.word(size * k) for k in range(_BLOCK // size)]
        near = [k for n in (48, 32, 16) for k in _move(n)]
        words = [*_move(_BLOCK) * 4, *near, 0, 0, *_move(_BLOCKS * _BLOCK) * 4, *_REDUCE, 0]
        self.constants = self.hidden("crc_moves", ir.Constant(ir.ArrayType(ir.IntType(64), len(words)), words))

    @staticmethod
    def word(number: int) -> Any:
        return ir.Constant(ir.IntType(64), number)

    def hidden(self, name: str, content: Any) -> Any:
        """Where constants stand, which LLVM is kept from knowing.

        It held them in registers through the whole scan and so stored them whenever that calls something; and where a
        process's stack happens to lie so that 64 of these bytes reach across two pages, that took as long as the rest.
        """
        table = cgutils.global_constant(self.builder, name, content)
        table.align = _BLOCK
        kind = ir.FunctionType(self.word(0).type, [self.word(0).type])
        place = self.builder.ptrtoint(table, self.word(0).type)
        return self.builder.asm(kind, "", "=r,0", [place], side_effect=True)

    def block(self, place: Any) -> list[Any]:
        """The 64 bytes there."""
        return [_loaded(self.builder, self.builder.add(place, step), self.kind) for step in self.steps]

    def half(self, place: Any, distance: int) -> Any:
        """The 128 bits there."""
        return _loaded(self.builder, self.builder.add(place, self.word(distance)), ir.VectorType(ir.IntType(64), 2))

    def first(self, address: Any, past: Any) -> tuple[list[Any], Any]:
        """(the first ``past + 1`` bytes with zeros before them, what to mix into the next block); 64 bytes are read."""
        masks = [*[0] * 64, *[0xFF] * 64, *[0] * 64, *[0xFF] * 4, *[0] * 76]
        content = ir.Constant(ir.ArrayType(ir.IntType(8), len(masks)), masks)
        builder = self.builder
        mask = builder.add(builder.add(self.hidden("crc_masks", content), past), self.word(1))
        found = self.block(builder.sub(builder.add(address, past), self.word(63)))
        chosen = map(builder.and_, found, self.block(mask))
        begun = map(builder.xor, chosen, self.block(builder.add(mask, self.word(128))))
        return list(begun), self.half(mask, 192)

    def folded(self, values: list[Any], rest: Any, place: Any, end: Any) -> Any:
        """The state after the block ``values`` and those from ``place`` to ``end``; ``rest`` is mixed into the next."""
        builder, zeros, count = self.builder, ir.Constant(rest.type, [0, 0]), self.kind.count
        widened = ir.Constant(ir.VectorType(ir.IntType(32), count), [min(k, 2) for k in range(count)])
        far = _loaded(builder, self.constants, self.kind)

        def once(now: list[Any]) -> list[Any]:
            *carried, rest, place = now
            found = self.block(place)
            found[0] = builder.xor(found[0], builder.shuffle_vector(rest, zeros, widened))
            after = [
                builder.xor(_moved(builder, one, far), next_one) for one, next_one in zip(carried, found, strict=True)
            ]
            return [*after, zeros, builder.add(place, self.word(_BLOCK))]

        begun = [*values, rest, place]
        *values, _, _ = _while(builder, begun, lambda now: builder.icmp_unsigned("<", now[-1], end), once)
        return self.merged(values)

    def folded_side_by_side(self, state: Any, address: Any, end: Any) -> Any:
        """The state after ``state`` and the bytes from ``address`` to ``end``, a multiple of _BLOCKS blocks."""
        builder, count = self.builder, len(self.steps)
        far = _loaded(builder, builder.add(self.constants, self.word(2 * _BLOCK)), self.kind)
        steps = [self.word(k * _BLOCK) for k in range(_BLOCKS)]
        begun = [vector for step in steps for vector in self.block(builder.add(address, step))]
        begun[0] = builder.xor(begun[0], self.mixed(state))

        def once(now: list[Any]) -> list[Any]:
            *carried, place = now
            found = [vector for step in steps for vector in self.block(builder.add(place, step))]
            after = [builder.xor(_moved(builder, one, far), other) for one, other in zip(carried, found, strict=True)]
            return [*after, builder.add(place, self.word(_BLOCKS * _BLOCK))]

        begun.append(builder.add(address, self.word(_BLOCKS * _BLOCK)))
        *values, _ = _while(builder, begun, lambda now: builder.icmp_unsigned("<", now[-1], end), once)
        near = _loaded(builder, self.constants, self.kind)
        block = values[:count]
        for k in range(count, len(values), count):
            pairs = zip(block, values[k : k + count], strict=True)
            block = [builder.xor(_moved(builder, one, near), other) for one, other in pairs]
        return self.merged(block)

    def mixed(self, state: Any) -> Any:
        """A state where it meets the first vector's bytes."""
        nothing, first = ir.Constant(self.kind, [0] * self.kind.count), ir.Constant(ir.IntType(32), 0)
        return self.builder.insert_element(nothing, self.builder.zext(state, ir.IntType(64)), first)

    def merged(self, values: list[Any]) -> Any:
        """The state after four lanes."""
        builder = self.builder
        near = self.block(builder.add(self.constants, self.word(_BLOCK)))
        *_, last = _lanes(builder, values[-1])
        parts = [lane for pair in zip(values, near, strict=True) for lane in _lanes(builder, _moved(builder, *pair))]
        value = functools.reduce(builder.xor, parts[:3], last)
        return _reduce(
            builder, value, *(self.half(self.constants, distance) for distance in (3 * _BLOCK, 3 * _BLOCK + 16))
        )


def _folding(size: int) -> tuple[Any, Any, Any]:
    """Three intrinsics that give the state after some bytes, by vectors of ``size`` bytes.

    fold(address, count): of all, at least four; the bytes before, with which the first are a block, are read.
    fold_on(state, address, count): after the state, of whole blocks, at least one.
    fold_long(state, address, count): the same of a multiple of _BLOCKS blocks.
    """

    @intrinsic
    def fold(_typing: Any, _address: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, count = arguments
            folding = _Folding(builder, size)
            past = builder.and_(builder.sub(count, folding.word(1)), folding.word(_BLOCK - 1))
            values, rest = folding.first(address, past)
            place = builder.add(builder.add(address, past), folding.word(1))
            return folding.folded(values, rest, place, builder.add(address, count))

        return types.uint32(types.int64, types.int64), generate

    @intrinsic
    def fold_on(_typing: Any, _state: Any, _address: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            state, address, count = arguments
            folding = _Folding(builder, size)
            values = [ir.Constant(folding.kind, [0] * folding.kind.count)] * len(folding.steps)
            nothing, first = ir.Constant(ir.VectorType(ir.IntType(64), 2), [0, 0]), ir.Constant(ir.IntType(32), 0)
            rest = builder.insert_element(nothing, builder.zext(state, ir.IntType(64)), first)
            return folding.folded(values, rest, address, builder.add(address, count))

        return types.uint32(types.uint32, types.int64, types.int64), generate

    @intrinsic
    def fold_long(_typing: Any, _state: Any, _address: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            state, address, count = arguments
            return _Folding(builder, size).folded_side_by_side(state, address, builder.add(address, count))

        return types.uint32(types.uint32, types.int64, types.int64), generate

    return fold, fold_on, fold_long


HAS_PAIR_CLMUL = {"pclmul", "vpclmulqdq", "avx2"} <= _FEATURES
"""Whether it multiplies two pairs of polynomials at once (VPCLMULQDQ on registers of 32 bytes)."""
HAS_WIDE_CLMUL = {"pclmul", "vpclmulqdq", "avx512f", "avx512bw"} <= _FEATURES
"""Whether it multiplies four pairs at once (VPCLMULQDQ, AVX-512)."""
_fold, _fold_on, _fold_long = _folding(64 if HAS_WIDE_CLMUL else 32 if HAS_PAIR_CLMUL else 16)


@kernel
def _crc_at_the_front(address: int, count: int) -> Any:
    """As _crc_folded, without a byte before these: first what is left of whole blocks, then of _BLOCKS of them."""
    head = count & (_BLOCK - 1)
    state = _crc_rest(address, head, np.uint32(0xFFFFFFFF))
    some = count & (_BLOCKS * _BLOCK - 1)
    if head < some:
        state = _fold_on(state, address + head, some - head)
    return _fold_long(state, address + some, count - some) if some < count else state


@part
def _crc_folded(address: int, count: int, before: int) -> Any:
    """By carry-less multiplication."""
    if before < _BLOCK or count < 4:
        return _crc_at_the_front(address, count)
    return _fold(address, count)


@part
def _crc_by_tables(address: int, count: int, _before: int) -> Any:
    return _crc_rest(address, count, np.uint32(0xFFFFFFFF))


_crc_state = _crc_folded if HAS_CLMUL else _crc_by_tables


@part
def _crc32(address: int, count: int, before: int) -> Any:
    """What ``zlib.crc32`` gives for ``count`` bytes; ``before``: how many that stand before them may be read."""
    return _crc_state(address, count, before) ^ np.uint32(0xFFFFFFFF)


crc32: Any = memory.crc32 if CHECKED else _crc32
"""In plain Python this loop would take longer than all others together."""


def _state_before_zeros(state: int, count: int) -> int:
    """Which state becomes ``state`` by ``count`` bytes of zeros."""
    for _ in range(8 * count):
        state = (state ^ 0xEDB88320) << 1 | 1 if state >> 31 else state << 1
    return state


JOINT = _state_before_zeros(0xFFFFFFFF, 4) ^ 0xFFFFFFFF
"""What a checksum is changed by (XOR) that joins its event to the next: behind it the state is all ones then, with
which every event begins.

So joined, events that stand one behind the other are one message whose CRC32 is 0 if each checksum fits: many short
ones are verified as fast as a long one. Nothing is lost by that. A state is linear in the bytes: what differs in an
event adds the remainder that its own checksum would show, times a power of x, by which no remainder becomes 0. Errors
in several events escape where their remainders add up to 0, once in 2^32 times, which is what a CRC32 promises of one.
"""


@part
def _join(checksum: int) -> None:
    """Joins the event that ends in this checksum to the next; done again, it has its own checksum back."""
    store32(checksum, load32(checksum) ^ np.uint32(JOINT))


@part
def _separate(place: Any, after: int) -> None:
    """Gives the joined events that lie between two addresses their own checksums back."""
    while place < after:
        place += np.int64(load32(place + 9))
        _join(place - 4)


# ---- the scan: one walk over event headers ------------------------------------------------------------------------

# What an event means for the walk. binlog/events/types.py gives every type code one of these.
(
    UNKNOWN,  # no type of this number is known
    STOPS,  # known, and it cannot be passed over
    FORMAT,
    CONTROL,  # stands outside transactions: file head, rotation, stop
    IGNORED,  # known to be irrelevant; counted
    INNER,  # belongs to the statement whose QUERY follows; counted as irrelevant by itself
    GTID,
    GTID_TAGGED,
    GTID_ANONYMOUS,
    GTID_MARIADB,
    QUERY,
    LOAD_QUERY,  # EXECUTE_LOAD_QUERY: a QUERY with 13 more bytes of post-header
    QUERY_COMPRESSED,
    TABLE_MAP,
    ROWS,
    PAYLOAD,
    XID,
    XA_PREPARE,
) = range(18)

# Bits of a scanned event's mark.
MARK_BEGINS = 1  # first event of a transaction
MARK_ENDS = 2  # last event of a transaction
MARK_CONTROL = 4  # outside any transaction
MARK_STATEMENT = 8  # a QUERY whose text somebody has to read
MARK_ROWS = 16  # a row event
MARK_STATEMENT_ENDS = 32  # a row event with STMT_END_F: the table maps open until here are closed
MARK_IGNORED = 64  # known to be irrelevant
MARK_ANY_TABLE = 128  # may touch tables that its header does not name

# Columns of the transactions' array (int64).
TX_START = 0  # file offset of the first event
TX_STOP = 1  # file offset after the last event; 0 while the end has not been seen
TX_GTID = 2  # which GTID: one of GTID_NONE …
TX_HIGH = 3  # MySQL: first 8 bytes of the UUID, little-endian; MariaDB: domain id
TX_LOW = 4  # MySQL: last 8 bytes of the UUID, little-endian; MariaDB: server id
TX_NUMBER = 5  # transaction number within the UUID or domain
TX_COMMITTED = 6  # µs since 1970 UTC: immediate commit timestamp, else the first event's second
TX_FLAGS = 7  # the bits TX_HAS_ROWS …
TX_TAG = 8  # four cells: up to 32 characters of a GTID's tag, zeros behind them
TX_COLUMNS = 12

GTID_NONE, GTID_MYSQL, GTID_TAG, GTID_DOMAIN, GTID_GIVEN = range(5)
TX_HAS_ROWS, TX_XA, TX_ROLLED_BACK = 1, 2, 4

# Cells of the scan's state (int64), kept from one buffer to the next.
S_EVENTS = 0  # events noted of this buffer
S_TRANSACTIONS = 1  # rows of the transactions' array in use; the last one may be open
S_MAPS = 2  # table maps open in the statement
S_PHASE = 3  # OUTSIDE …
S_FLAVOR = 4  # 1 for MariaDB: its GTID event begins the transaction, a BEGIN may still follow
S_COMPLETE = 5  # place after the last event that ends a transaction or stands outside any, where rows alone are noted
S_COMPLETE_EVENTS = 6  # and how many are noted up to there
S_RECENT = 7  # ordinals + 1 of the last maps by table id: a body is compared with the one before it, not hashed again
RECENT = 64
S_CELLS = S_RECENT + RECENT

OUTSIDE, BEGUN, INSIDE = range(3)  # BEGUN: a GTID was read and the next QUERY decides

# Why a scan stopped.
(
    SCANNED,  # every whole event is done
    NEW_MAP,  # a TABLE_MAP body that was not seen before: register it and go on
    MAPS_FULL,  # more maps open in one statement than the array holds: enlarge it and go on
    BAD_LENGTH,  # shorter than its fixed parts, or longer than a server writes
    BAD_CHECKSUM,
    NOT_KNOWN,
    CANNOT_PASS,
    NO_MAP,  # a row event whose table id no open TABLE_MAP has
    NOT_ENDED,  # a transaction begins, or the file ends by an event, inside another one
    AGAIN_FORMAT,  # a second FORMAT_DESCRIPTION
    EVENTS_FULL,  # more events or transactions than the arrays hold: enlarge them and go on
    NOT_PLAIN,  # a payload, rows that are packed or left out, XA, a ROLLBACK: not for a walk that notes rows alone
) = range(12)

# Cells of a row event whose rows are to be decoded.
(
    E_ADDRESS,  # in memory; as many bytes as the row kernel reads beyond an event are readable behind it
    E_LENGTH,  # without a checksum
    E_OFFSET,  # in the file; of the payload event for what was inside one
    E_COMMIT,  # its transaction's commit time (µs)
    E_LEAD,  # rows of other tables between the event before it and itself, where both have one offset
    E_GROUP,  # whose its rows are
) = range(6)
E_CELLS = 6
E_BYTES = 8 * E_CELLS

HEADER = 19
_START_ENCRYPTION = np.uint8(164)
LONGEST_EVENT = (1 << 30) + (1 << 16)  # max_allowed_packet is at most 1 GiB; an event adds its own head
_DUMMY_TABLE = 0xFFFFFF  # a row event of this id only closes the statement's maps (server: rows_event.h)
_IGNORABLE = np.uint8(28)
_LAST_PLAIN = np.uint8(32)
CHOSEN_ANY_TABLE, CHOSEN_PACKED, CHOSEN_BLANKED, CHOSEN_UNDECIDED = 1, 2, 4, 8
"""A payload; a row event that is not plain; one whose content was left out; a transaction of XA or with a ROLLBACK."""
_BLANKED = 11  # bytes of a blanked row event's body at least: id 6, flags 2, the type it was, RD (events/redaction.py)

Q_OTHER, Q_BEGIN, Q_COMMIT, Q_ROLLBACK, Q_SAVEPOINT, Q_XA_START, Q_XA_END, Q_XA, Q_ROLLBACK_TO = range(9)


@part
def _word(address: int, count: int) -> Any:
    """Up to eight bytes as one little-endian word, letters in lower case."""
    value = np.uint64(0)
    for k in range(count):
        value |= np.uint64(load8(address + k) | np.uint8(0x20)) << np.uint64(8 * k)
    return value


def _spelled(text: bytes) -> int:
    return int.from_bytes(bytes(byte | 0x20 for byte in text), "little")


_BEGIN = _spelled(b"BEGIN")
_COMMIT = _spelled(b"COMMIT")
_ROLLBACK = _spelled(b"ROLLBACK")
_SAVEPOINT = (_spelled(b"SAVEPOIN"), _spelled(b"T "))
_TO = _spelled(b" TO ")
_RELEASE = (_spelled(b"RELEASE "), _spelled(b"SAVEPOIN"))
_XA = _spelled(b"XA ")
_XA_START = (_spelled(b"START"), _spelled(b"BEGIN"), _spelled(b"END"))


@part
def query_class(text: int, count: int) -> Any:  # noqa: PLR0911 - one a keyword
    """Which of Q_OTHER … the ``count`` bytes of a QUERY's text are. The server writes these words itself, bare."""
    if count == 5 and _word(text, 5) == np.uint64(_BEGIN):
        return Q_BEGIN
    if count == 6 and _word(text, 6) == np.uint64(_COMMIT):
        return Q_COMMIT
    if count > 3 and _word(text, 3) == np.uint64(_XA):
        if count > 8:
            word = _word(text + 3, 5)
            if word == np.uint64(_XA_START[0]) or word == np.uint64(_XA_START[1]):
                return Q_XA_START
        if count > 6 and _word(text + 3, 3) == np.uint64(_XA_START[2]):
            return Q_XA_END
        return Q_XA
    if count < 8:
        return Q_OTHER
    word = _word(text, 8)
    if word == np.uint64(_ROLLBACK):
        if count == 8:
            return Q_ROLLBACK
        if count > 12 and _word(text + 8, 4) == np.uint64(_TO):
            return Q_ROLLBACK_TO
    if word == np.uint64(_SAVEPOINT[0]) and count > 10 and _word(text + 8, 2) == np.uint64(_SAVEPOINT[1]):
        return Q_SAVEPOINT
    if word == np.uint64(_RELEASE[0]) and count > 17 and _word(text + 8, 8) == np.uint64(_RELEASE[1]):
        return Q_SAVEPOINT
    return Q_OTHER


@kernel
def body_hash(address: int, count: int) -> Any:
    """A spread of a TABLE_MAP's body over 32 bits; equal bodies are told by their bytes, not by this."""
    state = np.uint64(count) * np.uint64(0x9E3779B97F4A7C15)
    while count >= 8:
        state = (state ^ load64(address)) * np.uint64(0xD6E8FEB86659FD93)
        state ^= state >> np.uint64(32)
        address += 8
        count -= 8
    for k in range(count):
        state = (state ^ np.uint64(load8(address + k))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64((state ^ (state >> np.uint64(32))) & np.uint64(0x7FFFFFFF))


@part
def _same(left: int, right: int, count: int) -> Any:
    while count >= 32:
        differs = (load64(left) ^ load64(right)) | (load64(left + 8) ^ load64(right + 8))
        differs |= (load64(left + 16) ^ load64(right + 16)) | (load64(left + 24) ^ load64(right + 24))
        if differs:
            return False
        left += 32
        right += 32
        count -= 32
    while count >= 8:
        if load64(left) != load64(right):
            return False
        left += 8
        right += 8
        count -= 8
    for k in range(count):  # noqa: SIM110 - numba compiles no generators
        if load8(left + k) != load8(right + k):
            return False
    return True


@kernel
def find_map(address: int, count: int, slots: Array, bodies: Array) -> Any:
    """Ordinal of a known TABLE_MAP body, or -1.

    slots: ordinals by hash, -1 where free; bodies: [address, length] by ordinal.
    """
    mask = len(slots) - 1
    slot = body_hash(address, count) & mask
    while slots[slot] >= 0:
        ordinal = slots[slot]
        if bodies[ordinal, 1] == count and _same(bodies[ordinal, 0], address, count):
            return np.int64(ordinal)
        slot = (slot + 1) & mask
    return np.int64(-1)


@part
def _recent_map(address: int, count: int, state: Array, bodies: int, table_id: int) -> Any:
    """As find_map, where the body is that of the last map of the same id (or of one that shares its place).

    bodies: the address of what find_map has.
    """
    ordinal = state[np.uintp(S_RECENT + (table_id & (RECENT - 1)))] - 1
    known = bodies + 16 * ordinal
    if ordinal >= 0 and np.int64(load64(known + 8)) == count and _same(np.int64(load64(known)), address, count):
        return ordinal
    return np.int64(-1)


@part
def _begin(transaction: Array, start: int, header: int) -> Any:
    for k in range(TX_COLUMNS):
        transaction[np.uintp(k)] = 0
    transaction[TX_START] = start
    transaction[TX_COMMITTED] = np.int64(load32(header)) * 1000000


@kernel
def _varlen(place: int, end: int) -> Any:
    """(value, place after it) of a variable-length integer; place -1 where it reaches beyond ``end``.

    As many ones as the first byte ends in, so many bytes follow; eight of them are the number itself
    (libs/mysql/serialization/readme.md).
    """
    if place >= end:
        return np.uint64(0), np.int64(-1)
    first = load8(place)
    more = 0
    while more < 8 and (first >> np.uint8(more)) & np.uint8(1):
        more += 1
    if place + 1 + more > end:
        return np.uint64(0), np.int64(-1)
    value = np.uint64(0)
    for k in range(more):
        value |= np.uint64(load8(place + 1 + k)) << np.uint64(8 * k)
    if more < 8:
        value = value << np.uint64(7 - more) | np.uint64(first) >> np.uint64(more + 1)
    return value, place + 1 + more


@kernel
def _tagged_uuid(transaction: Array, place: int, end: int) -> Any:
    """Sixteen variable-length integers, a byte each."""
    for k in range(16):
        value, place = _varlen(place, end)
        if place < 0:
            return place
        transaction[TX_HIGH + k // 8] |= np.int64((value & np.uint64(255)) << np.uint64(8 * (k % 8)))
    return place


@kernel
def _tag(transaction: Array, place: int, end: int) -> Any:
    """A length of at most 32 and as many characters."""
    length, place = _varlen(place, end)
    if place < 0 or length > np.uint64(32) or place + np.int64(length) > end:
        return np.int64(-1)
    for k in range(np.int64(length)):
        transaction[TX_TAG + k // 8] |= np.int64(load8(place + k)) << np.int64(8 * (k % 8))
    return place + np.int64(length)


@kernel
def _read_tagged(transaction: Array, body: int, count: int) -> Any:
    """A GTID_TAGGED_LOG event (libs/mysql/binlog/event/control_events.h, Gtid_event): numbered fields in rising order.

    Fields: 0 flags, 1 UUID, 2 number (signed), 3 tag, 4 and 5 logical clock, 6 immediate commit µs; more follow.
    Returns whether it could be read.
    """
    end = body + count
    version, place = _varlen(body, end)
    if place < 0 or version != np.uint64(1):
        return False
    size, place = _varlen(place, end)
    if place < 0 or size != np.uint64(count):
        return False
    needed, place = _varlen(place, end)
    if place < 0 or needed > np.uint64(11):
        return False
    transaction[TX_GTID] = GTID_TAG
    while place < end:
        number, place = _varlen(place, end)
        if place < 0:
            return False
        if number > np.uint64(6):
            break
        if number == np.uint64(1):
            place = _tagged_uuid(transaction, place, end)
        elif number == np.uint64(3):
            place = _tag(transaction, place, end)
        else:
            value, place = _varlen(place, end)
            if number == np.uint64(2):
                transaction[TX_NUMBER] = np.int64(value >> np.uint64(1))
            elif number == np.uint64(6):
                transaction[TX_COMMITTED] = np.int64(value)
        if place < 0:
            return False
    return transaction[TX_NUMBER] > 0


@part
def _read_gtid(transaction: Array, meaning: int, header: int, body: int, count: int) -> Any:
    """Fills in GTID and commit time from a GTID event's ``count`` bytes of body (sql/log_event.h Gtid_log_event)."""
    if meaning == GTID_MARIADB:
        transaction[TX_GTID] = GTID_DOMAIN
        transaction[TX_HIGH] = np.int64(load32(body + 8))
        transaction[TX_LOW] = np.int64(load32(header + 5))
        transaction[TX_NUMBER] = np.int64(load64(body))
        return
    if meaning == GTID:
        transaction[TX_GTID] = GTID_MYSQL
        transaction[TX_HIGH] = np.int64(load64(body + 1))
        transaction[TX_LOW] = np.int64(load64(body + 9))
        transaction[TX_NUMBER] = np.int64(load64(body + 17))
    if count >= 49:  # 8.0.1 and later: 55 bits of µs, and a bit that tells of an original timestamp after them
        transaction[TX_COMMITTED] = load48(body + 42) | np.int64(load8(body + 48) & np.uint8(0x7F)) << 48


@part
def _gtid_length(meaning: int) -> Any:
    """The least body of a GTID event: flags 1, UUID 16, number 8; MariaDB: number 8, domain 4, flags 1."""
    return 13 if meaning == GTID_MARIADB else 25


@part
def query_text(body: int, count: int, meaning: int) -> Any:
    """Offset of a QUERY's text within its body, or -1 where its parts do not fit."""
    fixed = 26 if meaning == LOAD_QUERY else 13
    if count < fixed + 1:
        return np.int64(-1)
    text = fixed + np.int64(load16(body + 11)) + np.int64(load8(body + 8)) + 1
    return text if text <= count else np.int64(-1)


@part
def _query(  # noqa: PLR0911 - one a keyword
    body: int,
    count: int,
    meaning: int,
    state: Array,
    transaction: Array,
) -> Any:
    """The mark of a QUERY event in a transaction; moves the state on. -1: its parts do not fit; -2: nested BEGIN."""
    text = query_text(body, count, meaning)
    if text < 0:
        return -1
    found = Q_OTHER
    if meaning == QUERY:
        found = query_class(body + text, count - text)
    if found in (Q_BEGIN, Q_XA_START):
        if state[S_PHASE] == INSIDE and not state[S_FLAVOR]:
            return -2
        state[S_PHASE] = INSIDE
        if found == Q_XA_START:
            transaction[TX_FLAGS] |= TX_XA
            return MARK_STATEMENT
        return 0
    if found == Q_COMMIT:
        state[S_PHASE] = OUTSIDE
        return MARK_ENDS
    if found == Q_ROLLBACK:
        state[S_PHASE] = OUTSIDE
        transaction[TX_FLAGS] |= TX_ROLLED_BACK
        return MARK_ENDS | MARK_STATEMENT
    if found == Q_ROLLBACK_TO and transaction[TX_FLAGS] & TX_HAS_ROWS:
        # Logged where a table without transactions took part: its rows stay, others since the savepoint do not.
        transaction[TX_FLAGS] |= TX_ROLLED_BACK
        return MARK_STATEMENT
    if found in (Q_SAVEPOINT, Q_ROLLBACK_TO):
        return MARK_IGNORED
    if found == Q_XA_END:
        transaction[TX_FLAGS] |= TX_XA
        return MARK_STATEMENT
    if found == Q_XA:
        transaction[TX_FLAGS] |= TX_XA
    elif state[S_PHASE] == INSIDE:
        return MARK_STATEMENT
    state[S_PHASE] = OUTSIDE
    return MARK_ENDS | MARK_STATEMENT


@part
def _is_blanked_rows(header: int, count: int, meanings: Array) -> Any:
    """Whether an IGNORABLE event is a row event whose content was left out when the log was extracted."""
    if count < _BLANKED or not load16(header + 17) & np.uint16(0x80):
        return False
    body = header + HEADER
    return meanings[load8(body + 8)] == ROWS and load8(body + 9) == np.uint8(82) and load8(body + 10) == np.uint8(68)


@part
def _note_rows(event: int, address: int, length: int, offset: int, commit: int, group: int) -> None:
    """Fills in the cells of a row event, for decode_rows."""
    store64(event + 8 * E_ADDRESS, np.uint64(address))
    store64(event + 8 * E_LENGTH, np.uint64(length))
    store64(event + 8 * E_OFFSET, np.uint64(offset))
    store64(event + 8 * E_COMMIT, np.uint64(commit))
    store64(event + 8 * E_LEAD, np.uint64(0))
    store64(event + 8 * E_GROUP, np.uint64(group))


@kernel
def _meaning_of_others(header: int, count: int, meaning: int, at: int, phase: int, meanings: Array) -> Any:
    """(what it means, why it cannot be passed) for an event that is not of those a transaction is made of.

    What it means is FORMAT, CONTROL, IGNORED, or ROWS where it is one whose content was left out; at: its place in the
    file.
    """
    code = load8(header + 4)
    is_ignorable = load16(header + 17) & np.uint16(0x80) != 0  # LOG_EVENT_IGNORABLE_F
    if meaning == UNKNOWN:
        if not is_ignorable:
            return UNKNOWN, NOT_KNOWN
        meaning = IGNORED
    if meaning == STOPS:
        if code != _START_ENCRYPTION or not is_ignorable:
            return STOPS, CANNOT_PASS
        meaning = IGNORED  # so marked by a server that sends what it has decrypted (sql/sql_repl.cc)
    if meaning == IGNORED:
        if phase != OUTSIDE and code == _IGNORABLE and _is_blanked_rows(header, count, meanings):
            meaning = ROWS  # of its table, to which it belongs, and without a row
        return meaning, SCANNED
    if phase != OUTSIDE:
        return meaning, NOT_ENDED
    if meaning == FORMAT and at > 4:
        return meaning, AGAIN_FORMAT
    return meaning, SCANNED


@part
def _walk(
    address: int,
    place: Any,
    size: int,
    base: int,
    checksum: int,
    meanings: Array,
    state: Array,
    cells: Any,
    rows: Any,
    transactions: Array,
    open_maps: Array,
    slots: Array,
    bodies: Array,
) -> Any:
    """Walks events from ``place`` while whole ones are there; returns (why it stopped, place).

    Either all events are noted and their checksums verified, or the row events that somebody wants are, as the row
    kernel wants to know of them, and checksums are joined (JOINT), for the caller to verify. What is not plain then
    stops the walk.

    address: of the buffer; base: file offset of its first byte; checksum: bytes of CRC32 after each event, 4 or 0;
    meanings: uint8[256] by type code. cells: offsets … marks, a cell an event each; transactions: [n, TX_COLUMNS]. Or
    rows: wanted, as choose_rows has it, and [n, E_CELLS] row events; transactions: [1, TX_COLUMNS], the one that is
    open. What is not given of these two is None.
    open_maps: [n, 2] table id, ordinal; slots, bodies: see find_map.
    No byte outside [address, address + size) is read.
    """
    n = state[S_EVENTS]
    why = SCANNED
    least = HEADER + checksum
    maps_at = open_maps.ctypes.data
    bodies_at = bodies.ctypes.data
    while place + HEADER <= size:
        if cells is not None and (n == len(cells[0]) or state[S_TRANSACTIONS] == len(transactions)):
            why = EVENTS_FULL
            break
        header = address + place
        length = np.int64(load32(header + 9))
        if length < least or length > LONGEST_EVENT:
            why = BAD_LENGTH
            break
        if place + length > size:
            break
        code = load8(header + 4)
        meaning = np.int64(meanings[np.uintp(code)])
        body = header + HEADER
        count = length - least
        if cells is not None and checksum and crc32(header, length - 4, place) != load32(header + length - 4):
            why = BAD_CHECKSUM
            break
        table = np.int64(-1)
        mark = 0
        if meaning <= IGNORED:
            meaning, why = _meaning_of_others(header, count, meaning, base + place, state[S_PHASE], meanings)
            if why != SCANNED:
                break
            if meaning != IGNORED and meaning != ROWS:  # noqa: PLR1714 - numba is slow at tuples
                mark = MARK_CONTROL
            elif meaning == IGNORED and state[S_PHASE] == OUTSIDE:
                mark = MARK_CONTROL | MARK_IGNORED
        if not mark:
            begins = state[S_PHASE] == OUTSIDE
            is_gtid = meaning >= GTID and meaning <= GTID_MARIADB
            if is_gtid:
                if not begins:
                    why = NOT_ENDED
                    break
                if meaning != GTID_TAGGED and count < _gtid_length(meaning):
                    why = BAD_LENGTH
                    break
            elif meaning == TABLE_MAP:
                if count < 8 + 2:
                    why = BAD_LENGTH
                    break
                table_id = load48(body)
                table = _recent_map(body + 6, count - 6, state, bodies_at, table_id)
                if table < 0:
                    table = find_map(body + 6, count - 6, slots, bodies)
                    if table < 0:
                        why = NEW_MAP
                        break
                    state[S_RECENT + (table_id & (RECENT - 1))] = table + 1
                if state[S_MAPS] == len(open_maps):
                    why = MAPS_FULL
                    break
                opened = maps_at + 16 * state[S_MAPS]
                store64(opened, np.uint64(table_id))
                store64(opened + 8, np.uint64(table))
                state[S_MAPS] += 1
            elif meaning == ROWS:
                if count < 8:
                    why = BAD_LENGTH
                    break
                table_id = load48(body)
                for k in range(state[S_MAPS] - 1, -1, -1):
                    if np.int64(load64(maps_at + 16 * k)) == table_id:
                        table = np.int64(load64(maps_at + 16 * k + 8))
                        break
                if table < 0 and table_id != _DUMMY_TABLE:
                    why = NO_MAP
                    break
                mark = MARK_ROWS if table >= 0 and code != _IGNORABLE else MARK_IGNORED
            row = np.int64(0)
            if cells is not None:
                state[S_TRANSACTIONS] += begins
                row = state[S_TRANSACTIONS] - 1
            transaction = transactions[np.uintp(row)]
            if begins:
                _begin(transaction, base + place, header)
                state[S_PHASE] = BEGUN
                mark |= MARK_BEGINS
            ends = False
            if meaning == ROWS:
                state[S_PHASE] = INSIDE
                transaction[TX_FLAGS] |= TX_HAS_ROWS
                if load16(body + 6) & np.uint16(1):  # STMT_END_F
                    mark |= MARK_STATEMENT_ENDS
                    state[S_MAPS] = 0
                if rows is not None and table >= 0:
                    wanted, noted = rows
                    group = wanted[np.uintp(table)]
                    if group >= 0:
                        if code > _LAST_PLAIN or code == _IGNORABLE:
                            why = NOT_PLAIN
                            break
                        _note_rows(
                            noted.ctypes.data + E_BYTES * n, header, length - checksum, base + place,
                            transaction[TX_COMMITTED], group,
                        )  # fmt: skip
                        n += 1
            elif meaning == TABLE_MAP:
                state[S_PHASE] = INSIDE
            elif is_gtid:
                if meaning == GTID_TAGGED:
                    if not _read_tagged(transaction, body, count):
                        why = BAD_LENGTH
                        break
                else:
                    _read_gtid(transaction, meaning, header, body, count)
                    if meaning == GTID_MARIADB:
                        flags = load8(body + 12)
                        if not flags & np.uint8(1):  # FL_STANDALONE
                            state[S_PHASE] = INSIDE
                        if flags & np.uint8(0xC0):  # FL_PREPARED_XA, FL_COMPLETED_XA
                            transaction[TX_FLAGS] |= TX_XA
            elif meaning == XID:
                ends = True
            elif meaning in (QUERY, LOAD_QUERY, QUERY_COMPRESSED):
                found = _query(body, count, meaning, state, transaction)
                if found < 0:
                    why = BAD_LENGTH if found == -1 else NOT_ENDED
                    break
                mark |= found
                ends = found & MARK_ENDS != 0
            elif meaning in (PAYLOAD, XA_PREPARE):
                ends = True
                if meaning == PAYLOAD:
                    mark |= MARK_ANY_TABLE
                else:
                    transaction[TX_FLAGS] |= TX_XA
            else:
                mark |= MARK_IGNORED
            if ends:
                mark |= MARK_ENDS
                transaction[TX_STOP] = base + place + length
                state[S_PHASE] = OUTSIDE
                state[S_MAPS] = 0
                if rows is not None and (meaning == PAYLOAD or transaction[TX_FLAGS] & (TX_XA | TX_ROLLED_BACK)):
                    why = NOT_PLAIN
                    break
        if cells is not None:
            offsets, lengths, codes, tables, owners, marks = cells
            event = np.uintp(n)  # of a signed one, numba asks whether it counts from the end
            offsets[event] = place
            lengths[event] = length
            codes[event] = code
            tables[event] = table
            owners[event] = -1 if mark & MARK_CONTROL else state[S_TRANSACTIONS] - 1
            marks[event] = mark
            n += 1
        elif checksum:
            _join(header + length - 4)
        place += length
        if rows is not None and mark & (MARK_ENDS | MARK_CONTROL):
            state[S_COMPLETE] = place
            state[S_COMPLETE_EVENTS] = n
    state[S_EVENTS] = n
    return why, place


@kernel
def scan(
    address: int,
    place: Any,
    size: int,
    base: int,
    checksum: int,
    meanings: Array,
    state: Array,
    cells: Any,
    transactions: Array,
    open_maps: Array,
    slots: Array,
    bodies: Array,
) -> Any:
    """Notes every event from ``place`` on and verifies its checksum; arguments and result are _walk's."""
    return _walk(
        address, place, size, base, checksum, meanings, state, cells, None, transactions, open_maps, slots, bodies
    )


# ---- the cut: where slices begin and end --------------------------------------------------------------------------

SLICE_CONTROL, SLICE_ROWS, SLICE_STATEMENT = range(3)


@kernel
def _reach(offsets: Array, lengths: Array, first: int, last: int) -> Any:
    """Bytes from the start of event ``first`` to the end of event ``last``."""
    return offsets[last] + lengths[last] - offsets[first]


@kernel
def _put(slices: Array, count: int, first: int, after: int, kind: int) -> Any:
    slices[count, 0] = first
    slices[count, 1] = after
    slices[count, 2] = kind
    return count + 1


@kernel
def cut(
    offsets: Array,
    lengths: Array,
    owners: Array,
    marks: Array,
    transactions: Array,
    base: int,
    target: int,
    undecided: int,
    final: int,
    slices: Array,
) -> Any:
    """Groups scanned events into slices [first event, event after the last, kind]; returns (slices, first event left).

    A small transaction is never split but around a statement; slices of whole ones grow until ``target`` bytes. One
    larger than that, or begun in an earlier slice, shares no slice with another. One that is not complete stays while
    it is not yet large, or ``undecided``: the next QUERY will tell what it is. So does the slice being filled, unless
    ``final``.
    """
    n = len(offsets)
    count = 0
    start = 0  # first event of the slice being filled
    kind = -1  # of the slice being filled; -1: there is none
    i = 0
    while i < n:
        owner = owners[i]
        if owner < 0:
            if kind >= 0 and kind != SLICE_CONTROL:
                count = _put(slices, count, start, i, kind)
                kind = -1
            if kind < 0:
                start = i
                kind = SLICE_CONTROL
            i += 1
            continue
        last = i
        while last < n - 1 and not marks[last] & MARK_ENDS:
            last += 1
        complete = marks[last] & MARK_ENDS != 0
        large = _reach(offsets, lengths, i, last) > target or transactions[owner, TX_START] < base + offsets[i]
        if not complete and (final or undecided or not large):
            break
        ended_otherwise = transactions[owner, TX_FLAGS] & (TX_XA | TX_ROLLED_BACK) != 0
        standalone = complete and not ended_otherwise and marks[last] & MARK_STATEMENT != 0
        whole = ended_otherwise or standalone
        if kind >= 0 and (large or whole or kind != SLICE_ROWS):
            count = _put(slices, count, start, i, kind)
            kind = -1
        if kind < 0:
            start = i
        kind = SLICE_STATEMENT if whole else SLICE_ROWS
        alone = large or whole
        for j in range(i, last + 1):
            if marks[j] & MARK_STATEMENT and not whole:
                if j > start:
                    count = _put(slices, count, start, j, kind)
                count = _put(slices, count, j, j + 1, SLICE_STATEMENT)
                start = j + 1
                alone = True
                continue
            may = large and not standalone and j < last and not marks[j] & MARK_BEGINS
            if may and _reach(offsets, lengths, start, j) >= target:
                count = _put(slices, count, start, j + 1, kind)
                start = j + 1
        if not complete:
            return count, start
        i = last + 1
        if start < i and (alone or _reach(offsets, lengths, start, last) >= target):
            count = _put(slices, count, start, i, kind)
            start = i
        if start == i:
            kind = -1
    if kind >= 0 and final:
        count = _put(slices, count, start, i, kind)
        start = i
    return count, start if kind >= 0 and not final else i


# ---- the dump: packets of the replication protocol become the bytes of a file --------------------------------------
# source/binlog_dump.py reads a connection in large pieces, which begin and end anywhere; this loop takes off what is
# not the file's: packet heads, and events that the server makes up for the connection.

# Cells of a dump's state (int64), kept from one piece to the next.
D_POSITION = 0  # file offset of the next byte that is kept
D_STOP = 1  # file offset to end at
D_BOUNDARY = 2  # file offset after the last whole event
D_PACKET = 3  # bytes of the packet under way that have not come yet
D_EVENT = 4  # the same of its event, which may go on in further packets
D_GOES_ON = 5  # whether the next packet goes on with the event
D_LEFT_OUT = 6  # whether the event under way is not the file's
D_SEQUENCE = 7  # number of the next packet, of one byte
D_FORMATS = 8  # format events so far: one begins every dump
D_EVENTS = 9  # whole events kept
D_BEHIND = 10  # bytes of the packet that was left behind, whole
D_CELLS = 11

# Why the loop over packets stopped.
(
    DUMP_MORE,  # more bytes have to come
    DUMP_FULL,  # the target is full
    DUMP_STOPPED,  # the offset to end at is reached
    # These leave the packet behind them, whole:
    DUMP_END,  # EOF: the server has no more
    DUMP_IDLE,  # a heartbeat: the server waits for something new
    DUMP_ROTATED,  # a made-up ROTATE names the file that comes now
    DUMP_FORMAT,  # the file's FORMAT_DESCRIPTION
    DUMP_REFUSED,  # an error packet
    # These stay before the packet:
    DUMP_SEQUENCE,  # its number is not the next one
    DUMP_HOLE,  # its event ends further on than the bytes so far lead to
    DUMP_AGAIN,  # its event ends before that: it was sent already
    DUMP_STRANGE,  # no packet, or no event, that can stand here
) = range(12)

LONGEST_PACKET = 0xFFFFFF  # one as long as this goes on in the next
DUMP_PADDING = 32  # bytes behind the source and the target that may be touched
_WHOLE = 1 << 16  # the longest packet of those that are looked at whole
_ARTIFICIAL = np.uint16(0x20)  # LOG_EVENT_ARTIFICIAL_F


@kernel
def _judge_event(header: int, event: int, position: int, formats: int) -> Any:  # noqa: PLR0911 - one a kind
    """What an event is to the dump, by its header: DUMP_MORE for one to keep, -1 for one to leave out, else why."""
    code = load8(header + 4)
    log_pos = np.int64(load32(header + 13))
    made_up = load16(header + 17) & _ARTIFICIAL != 0
    if code == np.uint8(15):
        return DUMP_FORMAT if formats == 0 else DUMP_STRANGE
    if code == np.uint8(27) or code == np.uint8(41):
        return DUMP_IDLE
    if code == np.uint8(4) and (made_up or load32(header) == 0):
        return DUMP_ROTATED
    if made_up:
        return -1
    if formats == 0:
        return DUMP_STRANGE
    if log_pos == 0:  # MariaDB: START_ENCRYPTION repeated for a later start; from 11.4 on, a transaction's events
        return -1 if code == _START_ENCRYPTION else DUMP_MORE
    ahead = (log_pos - position - event) & 0xFFFFFFFF
    if ahead == 0:
        return DUMP_MORE
    return DUMP_HOLE if ahead < 0x80000000 else DUMP_AGAIN


@kernel
def unpack_dump(source: int, size: int, target: int, room: int, state: Array) -> Any:  # noqa: PLR0911 - one a reason
    """Copies the bytes of events that are the file's; returns (why it stopped, bytes taken, bytes written).

    source: ``size`` bytes as they came, with the first that was not taken before in front; target: ``room`` bytes.
    Behind both, DUMP_PADDING more may be touched. A format event is written where the dump begins with the file.
    """
    place = 0
    out = 0
    while True:
        if state[D_PACKET] > 0:
            count = min(state[D_PACKET], size - place)
            if not state[D_LEFT_OUT]:
                count = min(count, room - out, state[D_STOP] - state[D_POSITION])
                if count > 0:
                    _copy_text(target + out, source + place, count)
                out += count
                state[D_POSITION] += count
            place += count
            state[D_PACKET] -= count
            state[D_EVENT] -= count
            if not state[D_LEFT_OUT]:
                if state[D_EVENT] == 0:
                    state[D_BOUNDARY] = state[D_POSITION]
                    state[D_EVENTS] += 1
                if state[D_POSITION] == state[D_STOP]:
                    return DUMP_STOPPED, place, out
            if state[D_PACKET] > 0:
                return DUMP_FULL if not state[D_LEFT_OUT] and out == room else DUMP_MORE, place, out
        if size - place < 4:
            return DUMP_MORE, place, out
        packet = source + place
        length = np.int64(load32(packet) & np.uint32(LONGEST_PACKET))
        in_sequence = np.int64(load8(packet + 3)) == state[D_SEQUENCE]
        goes_on = np.int64(length == LONGEST_PACKET)
        if state[D_GOES_ON]:
            if not in_sequence:
                return DUMP_SEQUENCE, place, out
            if length > state[D_EVENT] or (not goes_on and length != state[D_EVENT]):
                return DUMP_STRANGE, place, out
            why = DUMP_MORE
            place += 4
        else:
            if length == 0:
                return DUMP_STRANGE, place, out
            if size - place < 4 + length and size - place < 5 + HEADER:
                return DUMP_MORE, place, out
            status = load8(packet + 4)
            event = np.int64(0)
            if status == np.uint8(0xFF):
                why = DUMP_REFUSED
            elif not in_sequence:
                return DUMP_SEQUENCE, place, out
            elif status == np.uint8(0xFE) and length < 9:
                why = DUMP_END
            elif status != np.uint8(0) or length <= HEADER:
                return DUMP_STRANGE, place, out
            else:
                event = np.int64(load32(packet + 5 + 9))
                if event < length - 1 or (event > length - 1 and not goes_on):
                    return DUMP_STRANGE, place, out
                why = _judge_event(packet + 5, event, state[D_POSITION], state[D_FORMATS])
            if why > DUMP_REFUSED:
                return why, place, out
            if why > DUMP_STOPPED:
                if length > _WHOLE:
                    return DUMP_STRANGE, place, out
                if size - place < 4 + length:
                    return DUMP_MORE, place, out
                if why == DUMP_FORMAT:
                    count = min(event, state[D_STOP] - state[D_POSITION])
                    if state[D_POSITION] == 4:
                        if count > room - out:
                            return DUMP_FULL, place, out
                        _copy_text(target + out, packet + 5, count)
                        out += count
                        state[D_POSITION] += count
                        if count == event:
                            state[D_BOUNDARY] = state[D_POSITION]
                            state[D_EVENTS] += 1
                    state[D_FORMATS] = 1
                state[D_BEHIND] = length
                state[D_SEQUENCE] = (state[D_SEQUENCE] + 1) & 0xFF
                return why, place + 4 + length, out
            state[D_EVENT] = event
            state[D_LEFT_OUT] = np.int64(why < 0)
            length -= 1
            place += 5
        state[D_PACKET] = length
        state[D_GOES_ON] = goes_on
        state[D_SEQUENCE] = (state[D_SEQUENCE] + 1) & 0xFF


# ---- packed events: the heads of payloads, and rows walked without being decoded -----------------------------------
# binlog/events/transaction_payload.py and binlog/rows/row_events.py turn packed events into plain ones in memory; these
# loops help them.

PH_OFFSET = 0  # of the payload, from the event's header on
PH_SIZE = 1  # bytes of the payload
PH_TYPE = 2  # its compression, one of PAYLOAD_ZSTD …
PH_CLAIMED = 3  # bytes that it claims to inflate to, -1 where it does not say
PH_COLUMNS = 4

PAYLOAD_ZSTD = 0
PAYLOAD_NONE = 255
_MORE = 1 << 62


@kernel
def _lenenc(place: int, end: int) -> Any:
    """(value, place after it) of a length-encoded integer; place -1 where there is none before ``end``."""
    if place >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(load8(place))
    if first < 251:
        return first, place + 1
    size = np.int64(0)
    if first == 252:
        size = np.int64(2)
    elif first == 253:
        size = np.int64(3)
    elif first == 254:
        size = np.int64(8)
    if size == 0 or place + 1 + size > end:
        return np.int64(0), np.int64(-1)
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(load8(place + 1 + k)) << (8 * k)
    if value < 0 or value > _MORE:
        return np.int64(0), np.int64(-1)
    return value, place + 1 + size


@kernel
def _payload_head(header: int, end: int, head: Array) -> Any:
    """Reads fields (number, length, content), all length-encoded, up to the number 0; whether they make sense."""
    head[PH_SIZE] = head[PH_TYPE] = head[PH_CLAIMED] = -1
    place: Any = header + HEADER
    while True:
        field, place = _lenenc(place, end)
        if place < 0:
            return False
        if field == 0:
            break
        length, place = _lenenc(place, end)
        if place < 0 or place + length > end:
            return False
        if field <= 3:
            value, after = _lenenc(place, place + length)
            if after < 0:
                return False
            head[field] = value
        place += length
    head[PH_OFFSET] = place - header
    return head[PH_TYPE] >= 0 and head[PH_SIZE] == end - place


@kernel
def payload_heads(addresses: Array, lengths: Array, heads: Array) -> Any:
    """Fills ``heads`` [n, PH_COLUMNS] from TRANSACTION_PAYLOAD events; returns the first that makes no sense, or n.

    Source: libs/mysql/binlog/event/codecs/binary.cpp. Its field numbers are those of the columns: 1 payload size,
    2 compression type, 3 uncompressed size; unknown fields are passed over. lengths: without a checksum.
    """
    for event in range(len(addresses)):
        if not _payload_head(addresses[event], addresses[event] + lengths[event], heads[event]):
            return event
    return len(addresses)


@kernel
def complete_events(marks: Array) -> Any:
    """How many events there are up to the last one with which a transaction ends, or that stands outside any."""
    for event in range(len(marks) - 1, -1, -1):
        if marks[event] & (MARK_ENDS | MARK_CONTROL):
            return event + 1
    return 0


@kernel
def choose_rows(
    count: int,
    marks: Array,
    codes: Array,
    tables: Array,
    transactions: Array,
    wanted: Array,
    chosen: Array,
    groups: Array,
) -> Any:
    """Finds the row events among the first ``count`` events whose rows somebody wants: (how many, what else is there).

    wanted: the group by ordinal of a table map, -1 for rows that nobody wants. chosen, groups: event and group of each.
    What else: bits CHOSEN_….
    """
    n = np.uintp(0)
    other = 0
    for k in range(count):
        event = np.uintp(k)
        mark = marks[event]
        if mark & MARK_ROWS:
            group = wanted[np.uintp(tables[event])]
            if group >= 0:
                chosen[n] = k
                groups[n] = group
                n += np.uintp(1)
                if codes[event] > _LAST_PLAIN:
                    other |= CHOSEN_PACKED
        elif mark & MARK_ANY_TABLE:
            other |= CHOSEN_ANY_TABLE
        elif codes[event] == _IGNORABLE and tables[event] >= 0 and wanted[tables[event]] >= 0:
            other |= CHOSEN_BLANKED
    for k in range(len(transactions)):
        if transactions[k, TX_FLAGS] & (TX_XA | TX_ROLLED_BACK):
            other |= CHOSEN_UNDECIDED
    return np.int64(n), other


@kernel
def gather_rows(
    chosen: Array,
    places: Array,
    sizes: Array,
    codes: Array,
    owners: Array,
    transactions: Array,
    base: int,
    checksum: int,
    address: int,
    readable: int,
    gathered: Array,
    chosen_codes: Array,
    chosen_owners: Array,
) -> Any:
    """What the row kernel wants to know of the chosen events of a scan; the first that ends beyond ``readable``.

    places, sizes, codes, owners, transactions: as scan filled them; base, checksum: as scan got them; address: of the
    buffer's first byte; readable: offset in it. gathered: [5, n] addresses, lengths without a checksum, offsets in the
    file, commit times, zeros.
    """
    late = len(chosen)
    for k in range(len(chosen)):
        at = np.uintp(k)
        event = np.uintp(chosen[at])
        place = places[event]
        length = sizes[event] - checksum
        owner = owners[event]
        gathered[0, at] = address + place
        gathered[1, at] = length
        gathered[2, at] = base + place
        gathered[3, at] = transactions[np.uintp(owner), TX_COMMITTED]
        gathered[4, at] = 0
        chosen_codes[at] = codes[event]
        chosen_owners[at] = owner
        if place + length > readable and late == len(chosen):
            late = k
    return late


@kernel
def _rows_head(header: int, end: int, columns: int) -> Any:
    """Address of a row event's first bitmap of present columns, -1 where its head is cut or its columns are others."""
    code = load8(header + 4)
    q: Any = header + HEADER + 8
    if (code >= 30 and code <= 39) or code >= 169:
        if q + 2 > end:
            return np.int64(-1)
        q += np.int64(load16(q))
    count, q = _lenenc(q, end)
    return q if q >= 0 and count == columns else np.int64(-1)


@kernel
def rows_body(header: int, end: int, columns: int, images: int) -> Any:
    """Bytes before the first row of a row event with ``images`` bitmaps, -1 where there are not as many."""
    q = _rows_head(header, end, columns)
    if q < 0:
        return q
    q += images * ((columns + 7) >> 3)
    return q - header if q <= end else np.int64(-1)


@kernel
def packed_rows(addresses: Array, lengths: Array, columns: int, images: Array, bodies: Array, out: int) -> Any:
    """Copies row events one behind the other to the address ``out``; ``bodies``: where the rows of each begin.

    Returns how many there are before one whose head does not hold the bitmaps of ``images``.
    """
    for k in range(len(addresses)):
        bodies[k] = rows_body(addresses[k], addresses[k] + lengths[k], columns, images[k])
        if bodies[k] < 0:
            return k
        memmove(out, addresses[k], lengths[k])
        out += lengths[k]
    return len(addresses)


@kernel
def interleave(heads: int, starts: Array, lengths: Array, contents: int, sizes: Array, out: int) -> None:
    """Writes to ``out`` each head, ``lengths`` bytes from ``starts`` on, then the next ``sizes`` of ``contents``."""
    for k in range(len(starts)):
        memmove(out, heads + starts[k], lengths[k])
        memmove(out + lengths[k], contents, sizes[k])
        out += lengths[k] + sizes[k]
        contents += sizes[k]


@kernel
def _is_set(bitmap: int, bit: int) -> Any:
    return (load8(bitmap + (bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1) != 0


@kernel
def _count_set(bitmap: int, bits: int) -> Any:
    count: Any = np.int64(0)
    for k in range(bits):
        count += _is_set(bitmap, k)
    return count


@kernel
def _past_field(q: Any, end: int, size: int) -> Any:
    """The address after a value; size: its bytes, or below zero those of the length before it. -1 beyond ``end``."""
    if size < 0:
        if q - size > end:
            return np.int64(-1)
        length = np.int64(0)
        for k in range(-size):
            length |= np.int64(load8(q + k)) << (8 * k)
        q += length - size
    else:
        q += size
    return q if q <= end else np.int64(-1)


@kernel
def _past_image(q: int, end: int, present: int, columns: int, sizes: Array, spots: Array) -> Any:
    """The address after a row image, -1 beyond ``end``. spots[column]: where its value lies; 0 absent, -1 NULL."""
    bits = q
    q += (_count_set(present, columns) + 7) >> 3
    if q > end:
        return np.int64(-1)
    place = 0
    for c in range(columns):
        spots[c] = 0
        if _is_set(present, c):
            if _is_set(bits, place):
                spots[c] = -1
            else:
                spots[c] = q
                q = _past_field(q, end, sizes[c])
                if q < 0:
                    return q
            place += 1
    return q


@kernel
def count_rows(
    addresses: Array, lengths: Array, columns: int, sizes: Array, documents: Array, spots: Array, counts: Array
) -> Any:
    """Fills ``counts`` with the rows of each event of one table; returns the first event that is cut, or n.

    lengths: without a checksum. sizes: per column the bytes of a value, or below zero those of the length before it.
    documents: 1 for JSON columns, which partial updates tell apart. spots: room for a number a column.
    """
    bitmap_bytes = (columns + 7) >> 3
    for event in range(len(addresses)):
        header = addresses[event]
        end = header + lengths[event]
        code = load8(header + 4)
        is_update = code == 31 or code == 24 or code == 39  # noqa: PLR1714 - numba is slow at tuples
        first = _rows_head(header, end, columns)
        q = first + (2 if is_update else 1) * bitmap_bytes
        if first < 0 or q > end or code > 39:
            return event
        counts[event] = 0
        whole = _is_full(first, columns) and (not is_update or _is_full(first + bitmap_bytes, columns))
        while q < end or (counts[event] == 0 and not whole):  # one row without bytes, of images without columns
            start = q
            q = _past_image(q, end, first, columns, sizes, spots)
            if q >= 0 and code == 39:
                q, _partial = _past_shared(q, end, documents)
            if q >= 0 and is_update:
                q = _past_image(q, end, first + bitmap_bytes, columns, sizes, spots)
            if q < 0 or start == q < end:  # cut, or rows of no columns, which could be any number
                return event
            counts[event] += 1
    return len(addresses)


@kernel
def _past_shared(q: int, end: int, documents: Array) -> Any:
    """(address after what stands between the images of a partial update, address of its bits or 0); -1 beyond ``end``.

    Value options: 0, or 1 with a bit for each JSON column of the table behind it (sql/rpl_record.cc).
    """
    options, q = _lenenc(q, end)
    if q < 0 or options > 1:
        return np.int64(-1), np.int64(0)
    if options == 0:
        return q, np.int64(0)
    count: Any = np.int64(0)
    for k in range(len(documents)):
        count += documents[k]
    bits = q
    q += (count + 7) >> 3
    return (q if q <= end else np.int64(-1)), bits


CELL_EVENT, CELL_ROW, CELL_COLUMN, CELL_BEFORE, CELL_DIFFS = range(5)
CELL_COLUMNS = 5


@kernel
def _put_bytes(out: int, place: int, source: int, count: int) -> Any:
    """Copies to ``out + place`` unless ``out`` is 0, and returns the place after it."""
    if out:
        memmove(out + place, source, count)
    return place + count


@kernel
def plain_updates(
    addresses: Array,
    lengths: Array,
    columns: int,
    sizes: Array,
    documents: Array,
    cells: Array,
    contents: Array,
    starts: Array,
    before: Array,
    after: Array,
    out: int,
    failed: Array,
) -> Any:
    """Rewrites PARTIAL_UPDATE_ROWS events as UPDATE_ROWS events at ``out``; returns how many cells hold diffs, or -1.

    A first run with out = 0 finds the cells and counts the bytes without their documents; the second, with the
    documents (contents: [n, 2] address and length, by cell), writes. starts[event]: bytes before it, one more than
    events. cells: [n, CELL_COLUMNS], the first n found; CELL_BEFORE is the address of the document before (of the
    length in front of it), 0 absent, -1 NULL; CELL_DIFFS that of the diffs, their length of 4 bytes in front.
    failed: event and row where -1 is returned. before, after: room for a number a column.
    """
    bitmap_bytes = (columns + 7) >> 3
    cell = np.int64(0)
    place = np.int64(0)
    for event in range(len(addresses)):
        failed[0], failed[1] = event, -1
        starts[event] = place
        header = addresses[event]
        end = header + lengths[event]
        first = _rows_head(header, end, columns)
        q = first + 2 * bitmap_bytes
        if first < 0 or q > end:
            return np.int64(-1)
        begun = place
        place = _put_bytes(out, place, header, q - header)
        row = np.int64(0)
        while q < end:
            failed[1] = row
            start = q
            q = _past_image(q, end, first, columns, sizes, before)
            if q < 0:
                return np.int64(-1)
            place = _put_bytes(out, place, start, q - start)
            q, bits = _past_shared(q, end, documents)
            if q < 0:
                return np.int64(-1)
            start = q
            q = _past_image(q, end, first + bitmap_bytes, columns, sizes, after)
            if q < 0:
                return np.int64(-1)
            document = 0
            for c in range(columns):
                if not documents[c]:
                    continue
                if bits and _is_set(bits, document) and after[c] > 0:
                    if cell < len(cells):
                        cells[cell, CELL_EVENT] = event
                        cells[cell, CELL_ROW] = row
                        cells[cell, CELL_COLUMN] = c
                        cells[cell, CELL_BEFORE] = before[c]
                        cells[cell, CELL_DIFFS] = after[c]
                    place = _put_bytes(out, place, start, after[c] - start)
                    start = _past_field(after[c], end, sizes[c])
                    if cell < len(contents):
                        if out:
                            store32(out + place, np.uint32(contents[cell, 1]))
                        place = _put_bytes(out, place + 4, contents[cell, 0], contents[cell, 1])
                    cell += 1
                document += 1
            place = _put_bytes(out, place, start, q - start)
            row += 1
        if out:
            store8(out + begun + 4, np.uint8(31))
            store32(out + begun + 9, np.uint32(place - begun))
    starts[len(addresses)] = place
    return cell


# ---- decoding rows ------------------------------------------------------------------------------------------------
# What the row kernel does with a column is its kind; types/ chooses it. Fixed kinds fill slots of a fixed width, kinds
# of variable length fill int32 offsets and bytes.

SKIP = 0  # parameter 0: size on the wire
COPY_1, COPY_2, COPY_4, COPY_8 = 1, 2, 3, 4
UINT8_TO_16, UINT16_TO_32, UINT32_TO_64, UINT64_TO_128 = 5, 6, 7, 8
INT24_TO_32, UINT24_TO_32 = 9, 10
LITTLE_TO_64, BIG_TO_64, BIG_TO_128 = 11, 12, 13  # parameter 0: size on the wire, 1 to 8
# parameters: size, bytes of the fraction, microseconds in one unit of it
YEAR_TO_16, DATE_TO_32, DATETIME_TO_64, TIMESTAMP_TO_64, TIME_TO_64 = 14, 15, 16, 17, 18
# parameters: size, bytes of the lead, whole groups, bytes of the tail, 10 ^ digits of the tail, 10 ^ digits of the lead
DECIMAL_18, DECIMAL_38 = 19, 20
COPY_N = 21  # parameter 0: size on the wire and of the slot
TEXT_1, TEXT_2, TEXT_3, TEXT_4 = 24, 25, 26, 27  # a length of 1 to 4 bytes, then bytes
PADDED = 28  # a length of 1 byte, then bytes; parameter 0: the length to which zero bytes are added
SKIP_1, SKIP_2, SKIP_3, SKIP_4 = 32, 33, 34, 35  # lengths as above, nothing kept

DONE, BLOCK_FULL, CUT_SHORT, BAD_VALUE, PARTIAL_IMAGE, OTHER_COLUMN_COUNT = 0, 1, 2, 3, 4, 5
"""Why decode_rows came back. CUT_SHORT and BAD_VALUE name a column in ``state[4]`` (-1: the row's null bitmap)."""

R_ROWS, R_EVENT, R_PLACE, R_ORDINAL, R_COLUMN, R_MASKS, R_FRESH, R_USUAL = range(8)
"""Cells of decode_rows' state: see there."""
R_CELLS = 8

(
    B_ROWS,  # rows filled
    B_CAPACITY,  # rows that there is room for; 0 where no block is open
    B_COLUMNS,
    B_WORDS,  # of null bits a row and image
    B_STEPS,  # address of steps[program, column, STEP_CELLS]
    B_NULLS,  # address of nulls[program, row of capacity, word], a set bit for a null
    B_VARIABLE,  # address of the steps' numbers whose text nothing bounds but the events: their room is looked after
    B_VARIABLES,  # how many they are
    B_KEPT,  # address of the steps' numbers of program 1 that keep values
    B_KEPTS,  # how many they are
    B_HAS_BEFORE,  # 1 once a row of the block has a before image that is kept
    B_ROOM,  # bytes of text there is room for at least; below 32: to be counted
    B_MARKED,  # address of marked[program, column]: 1 where slots hold marks
    B_OPS,  # addresses of what each row has beside its columns
    B_PLACES,
    B_ORDINALS,
    B_COMMITTED,
    B_SOURCES,  # the row's event; 0 where nobody asks for it
    B_ROW_CODE,  # addresses of code generated for the table (binlog/rows/codegen.py), 0 where there is none
    B_UPDATE_CODE,
    B_TAKES_PARTIAL,  # 1: images without all columns are read; a column that is left out counts as null
    B_PARTIAL,  # 1 once a row of the block has such an image
) = range(22)
"""Cells of int64 that describe the block which one table's rows go into."""
B_CELLS = 22

STEP_KIND, STEP_SLOT, STEP_WIDTH, STEP_TEXT, STEP_USED, STEP_CAPACITY, STEP_PARAMETERS = range(7)
"""What the row kernel does with one column, cells of int64: its kind, the address of its slots and their width, the
address of its text, bytes of it used, bytes there are; then six parameters of the kind."""
STEP_CELLS = 12
STEP_BYTES = 8 * STEP_CELLS

DATE_MARK = -(1 << 31)
TIME_MARK = -(1 << 63)
"""A date that no calendar has stands in its slot as mark + packed bits, under a null; no real one is that small."""

_MARK_64 = np.uint64(1 << 63)


def _calendar() -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.uint8]]]:
    """Days since 1970-01-01 before a month's first day, and the month's length, by ``year * 13 + month``.

    The length is 0 where year or month is 0: no date there has a place in a calendar.
    """
    year, month = np.divmod(np.arange(1 << 17), 13)
    starts = np.zeros(1 << 17, np.int32)
    lengths = np.zeros(1 << 17, np.uint8)
    real = (year >= 1) & (year <= 9999) & (month >= 1)
    first = (year[real] - 1970).astype("M8[Y]").astype("M8[M]") + (month[real] - 1)
    starts[real] = first.astype("M8[D]").astype(np.int64) - 1
    lengths[real] = ((first + 1).astype("M8[D]") - first.astype("M8[D]")).astype(np.int64)
    return starts, lengths


MONTH_START, MONTH_LENGTH = _calendar()
CALENDAR: tuple[int, int] = address_of(MONTH_START), address_of(MONTH_LENGTH)
"""Addresses of both."""


@part
def _is_full(bitmap: int, columns: int) -> Any:
    """Whether all of the first ``columns`` bits are set."""
    while columns >= 64:
        if load64(bitmap) != ~np.uint64(0):
            return False
        bitmap += 8
        columns -= 64
    rest = (np.uint64(1) << np.uint64(columns)) - np.uint64(1)
    return load64(bitmap) & rest == rest


@kernel
def _spread(mask: int, bits: int, end: int, columns: int, target: int) -> Any:
    """Null bits of a partial image's columns into null bits of all: a column that the mask leaves out counts as null.

    Returns the place after ``bits``, beyond ``end`` where they are cut. ``target`` has whole words of 8 bytes.
    """
    taken = 0
    word = np.uint64(0)
    for c in range(columns):
        null = np.uint8(1)
        if (load8(mask + (c >> 3)) >> np.uint8(c & 7)) & np.uint8(1):
            if taken & 7 == 0 and bits + (taken >> 3) >= end:
                return end + 1
            null = (load8(bits + (taken >> 3)) >> np.uint8(taken & 7)) & np.uint8(1)
            taken += 1
        word |= np.uint64(null) << np.uint64(c & 63)
        if c & 63 == 63 or c == columns - 1:
            store64(target + 8 * (c >> 6), word)
            word = np.uint64(0)
    return bits + ((taken + 7) >> 3)


@kernel
def image_masks(addresses: Array, columns: int, masks: Array) -> None:
    """Which columns the images of row events hold, a set bit for each, from events that decode_rows has been through.

    masks: uint64[event, 2, word], zeroed; 0: the row's image, 1: an update's before image.
    """
    size = (columns + 7) >> 3
    for k in range(len(addresses)):
        code = load8(addresses[k] + 4)
        place = addresses[k] + 27
        if code >= 30:
            place += np.int64(load16(place))
        place += 3 if load8(place) > 250 else 1
        is_update = code == 31 or code == 24  # noqa: PLR1714 - numba is slow at tuples
        for image in range(2 if is_update else 1):
            program = 1 if is_update and image == 0 else 0
            for c in range(columns):
                bit = (load8(place + (c >> 3)) >> np.uint8(c & 7)) & np.uint8(1)
                masks[k, program, c >> 6] |= np.uint64(bit) << np.uint64(c & 63)
            place += size


@part
def _zero_slot(slot: int, width: int) -> Any:
    if width == 8:
        store64(slot, np.uint64(0))
    elif width == 4:
        store32(slot, np.uint32(0))
    elif width == 2:
        store16(slot, np.uint16(0))
    elif width == 16:
        store64(slot, np.uint64(0))
        store64(slot + 8, np.uint64(0))
    else:
        for k in range(width):
            store8(slot + k, np.uint8(0))


@kernel
def _decimal_18(q: int, slot: int, lead: int, whole: int, tail: int, tail_scale: int, lead_scale: int) -> Any:
    """DECIMAL of at most 18 digits (decimal.cc, bin2decimal) into 16 bytes; False where a group has too many digits."""
    negative = (load8(q) & np.uint8(128)) == 0
    flip = np.uint64(0xFFFFFFFF) if negative else np.uint64(0)
    sign = np.uint64(0x80000000)
    value = np.int64(0)
    good: Any = True
    if lead:
        part = ((np.uint64(load32_big(q)) ^ sign) ^ flip) >> np.uint64(32 - 8 * lead)
        value = np.int64(part)
        good = value < lead_scale
        sign = np.uint64(0)
        q += lead
    for _ in range(whole):
        part = (np.uint64(load32_big(q)) ^ sign) ^ flip
        value = value * 1000000000 + np.int64(part)
        good &= part < np.uint64(1000000000)
        sign = np.uint64(0)
        q += 4
    if tail:
        part = ((np.uint64(load32_big(q)) ^ sign) ^ flip) >> np.uint64(32 - 8 * tail)
        value = value * tail_scale + np.int64(part)
        good &= np.int64(part) < tail_scale
    if negative:
        value = -value
    store64(slot, np.uint64(value))
    store64(slot + 8, np.uint64(value >> 63))
    return good


@kernel
def _decimal_38(q: int, slot: int, lead: int, whole: int, tail: int, tail_scale: int, lead_scale: int) -> Any:
    """As _decimal_18, for up to 38 digits, in 128 bits."""
    negative = (load8(q) & np.uint8(128)) == 0
    flip = np.uint64(0xFFFFFFFF) if negative else np.uint64(0)
    sign = np.uint64(0x80000000)
    mask = np.uint64(0xFFFFFFFF)
    low = np.uint64(0)
    high = np.uint64(0)
    good: Any = True
    for k in range(whole + 2):
        if k == 0:
            size, scale = lead, lead_scale
        elif k <= whole:
            size, scale = 4, 1000000000
        else:
            size, scale = tail, tail_scale
        if size == 0:
            continue
        part = ((np.uint64(load32_big(q)) ^ sign) ^ flip) >> np.uint64(32 - 8 * size)
        good &= np.int64(part) < scale
        sign = np.uint64(0)
        q += size
        factor = np.uint64(scale)
        first = (low & mask) * factor + part
        second = (low >> np.uint64(32)) * factor + (first >> np.uint64(32))
        low = (second << np.uint64(32)) | (first & mask)
        high = high * factor + (second >> np.uint64(32))
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
    store64(slot, low)
    store64(slot + 8, high)
    return good


@kernel
def _date(q: int, slot: int, month_start: int, month_length: int) -> Any:
    """DATE: day, month, year in 5, 4, 15 bits. False (and the mark in the slot) where no calendar has it."""
    packed = np.int64(load16(q)) | np.int64(load8(q + 2)) << 16
    day = packed & 31
    month = (packed >> 5) & 15
    year = packed >> 9
    if month <= 12 and year <= 9999 and 0 < day <= np.int64(load8(month_length + year * 13 + month)):
        store32(slot, np.uint32(np.int64(np.int32(load32(month_start + 4 * (year * 13 + month)))) + day))
        return True
    store32(slot, np.uint32(np.int64(0x80000000) + packed))
    return False


@kernel
def _datetime(q: int, slot: int, fraction_size: int, unit: int, month_start: int, month_length: int) -> Any:
    """DATETIME(f) (my_time.cc, my_datetime_packed_from_binary). 0: in the slot, 1: marked there, 2: no value."""
    bits = load64_big(q)
    packed = np.int64(bits >> np.uint64(24)) - 0x8000000000
    fraction = np.int64((bits & np.uint64(0xFFFFFF)) >> np.uint64(24 - 8 * fraction_size)) * unit
    if packed < 0 or fraction > 999999:
        return 2
    month = packed >> 22
    day = (packed >> 17) & 31
    hour = (packed >> 12) & 31
    minute = (packed >> 6) & 63
    second = packed & 63
    if 0 < day <= np.int64(load8(month_length + month)) and hour < 24 and minute < 60 and second < 60:
        days = np.int64(np.int32(load32(month_start + 4 * month))) + day
        seconds = days * 86400 + hour * 3600 + minute * 60 + second
        store64(slot, np.uint64(seconds * 1000000 + fraction))
        return 0
    store64(slot, _MARK_64 | np.uint64(packed << 20 | fraction))
    return 1


@kernel
def _timestamp(q: int, slot: int, fraction_size: int, unit: int) -> Any:
    """TIMESTAMP(f): seconds since 1970, big-endian, then the fraction. Codes as of _datetime; second 0 is no time."""
    bits = load64_big(q)
    seconds = np.int64(bits >> np.uint64(32))
    fraction = np.int64(((bits >> np.uint64(8)) & np.uint64(0xFFFFFF)) >> np.uint64(24 - 8 * fraction_size)) * unit
    if fraction > 999999:
        return 2
    if seconds == 0:
        store64(slot, _MARK_64 | np.uint64(fraction))
        return 1
    store64(slot, np.uint64(seconds * 1000000 + fraction))
    return 0


@kernel
def _time(q: int, slot: int, size: int, fraction_size: int, unit: int) -> Any:
    """TIME(f): the slot's magnitude is hour, minute, second in 10, 6, 6 bits, then microseconds in 24."""
    number = np.int64(load64_big(q) >> np.uint64(64 - 8 * size)) - (np.int64(0x800000) << (8 * fraction_size))
    magnitude = abs(number)
    clock = magnitude >> (8 * fraction_size)
    fraction = (magnitude & ((np.int64(1) << (8 * fraction_size)) - 1)) * unit
    packed = clock << 24 | fraction
    store64(slot, np.uint64(-packed if number < 0 else packed))
    return (clock & 63) < 60 and ((clock >> 6) & 63) < 60 and fraction <= 999999 and clock < (1 << 22)


COPIED = 32


@part
def _copy_text(target: int, source: int, length: int) -> Any:
    """Copies in whole vectors: up to 31 bytes behind both may be touched."""
    copy32(target, source)
    if length > 256:
        memmove(target + 32, source + 32, length - 32)
    else:
        for k in range(32, length, 32):
            copy32(target + k, source + k)


@part
def cell(step: int, place: int) -> Any:
    """One cell of a step, by the step's address: far cheaper than indexing an array of three dimensions."""
    return np.int64(load64(step + 8 * place))


@part
def _mark(nulls: int, marked: int, column: int) -> None:
    """Says that a slot holds a mark under a null."""
    place = nulls + 8 * (column >> 6)
    store64(place, load64(place) | np.uint64(1) << np.uint64(column & 63))
    store8(marked + column, np.uint8(1))


@part
def _no_before(block: int, first: int, after: int) -> None:
    """Says of rows that they have no before image; their slots hold no mark or label, though nobody asks for them."""
    words = cell(block, B_WORDS)
    nulls = cell(block, B_NULLS) + (cell(block, B_CAPACITY) + first) * words * 8
    for k in range((after - first) * words):
        store64_at(nulls, k, ~np.uint64(0))
    for k in range(cell(block, B_KEPTS)):
        step = cell(block, B_STEPS) + np.int64(load64(cell(block, B_KEPT) + 8 * k)) * STEP_BYTES
        slot = cell(step, STEP_SLOT)
        width = cell(step, STEP_WIDTH)
        if cell(step, STEP_KIND) >= TEXT_1:
            used = np.uint32(cell(step, STEP_USED))
            for row in range(first, after):
                store32_at(slot, row, used)
        elif after == first + 1:
            _zero_slot(slot + width * first, width)
        else:
            for place in range(width * first, width * after):
                store8_at(slot, place, np.uint8(0))


@part
def _take_back(block: int, row: int, program: int, columns: int) -> None:
    """Forgets the text of a row that failed, in columns that it had come through: their slots say where it began."""
    for k in range(columns):
        step = cell(block, B_STEPS) + (program * cell(block, B_COLUMNS) + k) * STEP_BYTES
        if TEXT_1 <= cell(step, STEP_KIND) <= PADDED:
            store64(step + 8 * STEP_USED, np.uint64(load32(cell(step, STEP_SLOT) + 4 * row)))


@part
def _text_room(block: int) -> Any:
    """Bytes of text that every column still has room for."""
    room = np.int64(1) << 62
    for k in range(cell(block, B_VARIABLES)):
        step = cell(block, B_STEPS) + np.int64(load64(cell(block, B_VARIABLE) + 8 * k)) * STEP_BYTES
        room = min(room, cell(step, STEP_CAPACITY) - cell(step, STEP_USED))
    return room


@part
def _put_own(block: int, first: int, after: int, op: Any, offset: int, commit: int, event: int, ordinal: int) -> None:
    """What each of an event's rows has beside its columns; ordinal: of row ``first`` within the event."""
    ops = cell(block, B_OPS)
    places = cell(block, B_PLACES)
    committed = cell(block, B_COMMITTED)
    sources = cell(block, B_SOURCES)
    ordinals = cell(block, B_ORDINALS)
    if after == first + 1:  # a loop's vectors are for more
        store8(ops + first, op)
        store64(places + 8 * first, np.uint64(offset))
        store64(committed + 8 * first, np.uint64(commit))
        if sources:
            store32(sources + 4 * first, np.uint32(event))
        store32(ordinals + 4 * first, np.uint32(ordinal))
        return
    for k in range(first, after):
        store8_at(ops, k, op)
    for k in range(first, after):
        store64_at(places, k, np.uint64(offset))
    for k in range(first, after):
        store64_at(committed, k, np.uint64(commit))
    if sources:
        for k in range(first, after):
            store32_at(sources, k, np.uint32(event))
    for k in range(first, after):
        store32_at(ordinals, k, np.uint32(ordinal + k - first))


@part
def _run_usual(code: int, q: int, end: int, n: int, block: int, state: Array, state_at: int, is_update: Any) -> Any:
    """Rows of an event by generated code, as many as it takes from row ``n`` on; how many there are then.

    ``state[R_PLACE]`` is where it has stopped.
    """
    rows = cell(block, B_CAPACITY)
    run_generated(code, q, end, n, rows, cell(block, B_STEPS), cell(block, B_NULLS), rows, state_at)
    if state[R_ROWS] <= n:
        state[R_PLACE] = q
        return n
    if cell(block, B_HAS_BEFORE) and not is_update:
        _no_before(block, n, state[R_ROWS])
    state[R_USUAL] += state[R_ROWS] - n
    return state[R_ROWS]


@kernel
def _decode_rows(
    block: int,
    n: int,
    most: int,
    q: Any,
    end: int,
    is_update: Any,
    masks: int,
    fresh: Any,
    state: Array,
    month_start: int,
    month_length: int,
) -> Any:
    """Rows by their steps, whatever they are: (why the next cannot be, or DONE; how many there are; where that begins).

    n, most: the first of the block's rows that they become, and how many there may be; [q, end): the bytes that are
    left of their event; masks, fresh: as decode_rows' R_MASKS and R_FRESH. Where a row cannot be, its text is taken
    back and ``state[R_COLUMN]`` says in which column.
    """
    reason = DONE
    column: Any = np.int64(-1)
    rows = cell(block, B_CAPACITY)
    columns = cell(block, B_COLUMNS)
    bitmap_bytes = (columns + 7) >> 3
    words = cell(block, B_WORDS)
    steps_at = cell(block, B_STEPS)
    nulls_at = cell(block, B_NULLS)
    marked_at = cell(block, B_MARKED)
    lacks_before = cell(block, B_HAS_BEFORE) and not is_update
    # An event without bytes of rows holds one row, of images without columns (log_event.cc, write_row).
    while n < most and (q < end or (masks and fresh)):
        row_start = q
        program = 0
        passed: Any = np.int64(0)
        for image in range(2 if is_update else 1):
            program = 1 if is_update and image == 0 else 0
            passed = np.int64(0)
            bitmap = q
            row_nulls = nulls_at + ((program * rows + n) * words) * 8
            if masks:
                bitmap = row_nulls
                q = _spread(masks + image * bitmap_bytes, q, end, columns, bitmap)
                store64(block + 8 * B_PARTIAL, np.uint64(1))
            else:
                q += bitmap_bytes
            column = np.int64(-1)
            if q > end:
                reason = CUT_SHORT
                break
            word = np.uint64(0)
            step = steps_at + program * columns * STEP_BYTES - STEP_BYTES
            for c in range(columns):
                if c & 63 == 0:
                    word = load64(bitmap + (c >> 3))
                    store64(row_nulls + (c >> 3), word)
                step += STEP_BYTES
                kind = cell(step, STEP_KIND)
                slot = cell(step, STEP_SLOT)
                if (word >> np.uint64(c & 63)) & np.uint64(1):
                    if kind >= TEXT_1:
                        if kind <= PADDED:
                            store32(slot + 4 * n, np.uint32(cell(step, STEP_USED)))
                    elif kind != SKIP:
                        _zero_slot(slot + cell(step, STEP_WIDTH) * n, cell(step, STEP_WIDTH))
                    continue
                if kind == COPY_8:
                    store64(slot + 8 * n, load64(q))
                    q += 8
                elif kind == COPY_4:
                    store32(slot + 4 * n, load32(q))
                    q += 4
                elif kind == COPY_2:
                    store16(slot + 2 * n, load16(q))
                    q += 2
                elif kind == COPY_1:
                    store8(slot + n, load8(q))
                    q += 1
                elif kind == TEXT_1 or kind == TEXT_2:  # noqa: PLR1714, SIM109 - ditto
                    length = np.int64(load8(q))
                    q += 1
                    if kind == TEXT_2:
                        length |= np.int64(load8(q)) << 8
                        q += 1
                    if q + length > end:
                        reason = CUT_SHORT
                        column = c
                        break
                    place = cell(step, STEP_USED)
                    store32(slot + 4 * n, np.uint32(place))
                    _copy_text(cell(step, STEP_TEXT) + place, q, length)
                    store64(step + 8 * STEP_USED, np.uint64(place + length))
                    q += length
                elif kind == SKIP:
                    q += cell(step, STEP_PARAMETERS)
                elif kind == SKIP_1:
                    q += 1 + np.int64(load8(q))
                elif kind == SKIP_2:
                    q += 2 + np.int64(load16(q))
                elif kind == UINT8_TO_16:
                    store16(slot + 2 * n, np.uint16(load8(q)))
                    q += 1
                elif kind == UINT16_TO_32:
                    store32(slot + 4 * n, np.uint32(load16(q)))
                    q += 2
                elif kind == UINT32_TO_64:
                    store64(slot + 8 * n, np.uint64(load32(q)))
                    q += 4
                elif kind == UINT64_TO_128:
                    store64(slot + 16 * n, load64(q))
                    store64(slot + 16 * n + 8, np.uint64(0))
                    q += 8
                elif kind == INT24_TO_32:
                    number = np.int64(load16(q)) | np.int64(load8(q + 2)) << 16
                    store32(slot + 4 * n, np.uint32((number ^ 0x800000) - 0x800000))
                    q += 3
                elif kind == UINT24_TO_32:
                    store32(slot + 4 * n, np.uint32(load16(q)) | np.uint32(load8(q + 2)) << np.uint32(16))
                    q += 3
                elif kind == DECIMAL_18 or kind == DECIMAL_38:  # noqa: PLR1714, SIM109 - ditto
                    if kind == DECIMAL_18:
                        good = _decimal_18(
                            q,
                            slot + 16 * n,
                            cell(step, STEP_PARAMETERS + 1),
                            cell(step, STEP_PARAMETERS + 2),
                            cell(step, STEP_PARAMETERS + 3),
                            cell(step, STEP_PARAMETERS + 4),
                            cell(step, STEP_PARAMETERS + 5),
                        )
                    else:
                        good = _decimal_38(
                            q,
                            slot + 16 * n,
                            cell(step, STEP_PARAMETERS + 1),
                            cell(step, STEP_PARAMETERS + 2),
                            cell(step, STEP_PARAMETERS + 3),
                            cell(step, STEP_PARAMETERS + 4),
                            cell(step, STEP_PARAMETERS + 5),
                        )
                    q += cell(step, STEP_PARAMETERS)
                    if not good:
                        reason = BAD_VALUE
                elif kind == DATETIME_TO_64 or kind == TIMESTAMP_TO_64:  # noqa: PLR1714, SIM109 - ditto
                    if kind == DATETIME_TO_64:
                        result = _datetime(
                            q,
                            slot + 8 * n,
                            cell(step, STEP_PARAMETERS + 1),
                            cell(step, STEP_PARAMETERS + 2),
                            month_start,
                            month_length,
                        )
                    else:
                        result = _timestamp(
                            q, slot + 8 * n, cell(step, STEP_PARAMETERS + 1), cell(step, STEP_PARAMETERS + 2)
                        )
                    q += cell(step, STEP_PARAMETERS)
                    if result == 1:
                        _mark(row_nulls, marked_at + program * columns, c)
                    elif result == 2:
                        reason = BAD_VALUE
                elif kind == DATE_TO_32:
                    if not _date(q, slot + 4 * n, month_start, month_length):
                        _mark(row_nulls, marked_at + program * columns, c)
                    q += 3
                elif kind == TIME_TO_64:
                    if not _time(
                        q,
                        slot + 8 * n,
                        cell(step, STEP_PARAMETERS),
                        cell(step, STEP_PARAMETERS + 1),
                        cell(step, STEP_PARAMETERS + 2),
                    ):
                        reason = BAD_VALUE
                    q += cell(step, STEP_PARAMETERS)
                elif kind == YEAR_TO_16:
                    year = np.int64(load8(q))
                    store16(slot + 2 * n, np.uint16(1900 + year if year else 0))
                    q += 1
                elif kind == LITTLE_TO_64:
                    store64(
                        slot + 8 * n, load64(q) & (~np.uint64(0) >> np.uint64(64 - 8 * cell(step, STEP_PARAMETERS)))
                    )
                    q += cell(step, STEP_PARAMETERS)
                elif kind == BIG_TO_64:
                    store64(slot + 8 * n, load64_big(q) >> np.uint64(64 - 8 * cell(step, STEP_PARAMETERS)))
                    q += cell(step, STEP_PARAMETERS)
                elif kind == BIG_TO_128:
                    store64(slot + 16 * n, load64_big(q) >> np.uint64(64 - 8 * cell(step, STEP_PARAMETERS)))
                    store64(slot + 16 * n + 8, np.uint64(0))
                    q += cell(step, STEP_PARAMETERS)
                elif kind == COPY_N:
                    memmove(slot + cell(step, STEP_PARAMETERS) * n, q, cell(step, STEP_PARAMETERS))
                    q += cell(step, STEP_PARAMETERS)
                elif kind == TEXT_3 or kind == TEXT_4:  # noqa: PLR1714, SIM109 - ditto
                    length = np.int64(load16(q)) | np.int64(load8(q + 2)) << 16
                    q += 3
                    if kind == TEXT_4:
                        length |= np.int64(load8(q)) << 24
                        q += 1
                    if q + length > end:
                        reason = CUT_SHORT
                        column = c
                        break
                    place = cell(step, STEP_USED)
                    store32(slot + 4 * n, np.uint32(place))
                    memmove(cell(step, STEP_TEXT) + place, q, length)
                    store64(step + 8 * STEP_USED, np.uint64(place + length))
                    q += length
                elif kind == PADDED:
                    length = np.int64(load8(q))
                    q += 1
                    if q + length > end or length > cell(step, STEP_PARAMETERS):
                        reason = CUT_SHORT if q + length > end else BAD_VALUE
                        column = c
                        break
                    place = cell(step, STEP_USED)
                    store32(slot + 4 * n, np.uint32(place))
                    memmove(cell(step, STEP_TEXT) + place, q, length)
                    for k in range(length, cell(step, STEP_PARAMETERS)):
                        store8(cell(step, STEP_TEXT) + place + k, np.uint8(0))
                    store64(step + 8 * STEP_USED, np.uint64(place + cell(step, STEP_PARAMETERS)))
                    q += length
                elif kind == SKIP_3:
                    q += 3 + (np.int64(load16(q)) | np.int64(load8(q + 2)) << 16)
                else:
                    q += 4 + np.int64(load32(q))
                if q > end:
                    reason = CUT_SHORT
                if reason != DONE:
                    column = c
                    break
            passed = column if column >= 0 else columns
            if reason != DONE:
                break
            if is_update and image == 0 and q == end and not masks:
                reason = CUT_SHORT  # an update ends in an after image
                column = np.int64(-1)
                break
        if masks and q == row_start and q < end:
            reason = CUT_SHORT  # bytes behind a row without any: no row would ever come to them
            column = np.int64(-1)
        if reason != DONE:
            if is_update and program == 0:
                _take_back(block, n, 1, columns)
            _take_back(block, n, program, passed)
            state[R_COLUMN] = column
            return reason, n, row_start
        if lacks_before:
            _no_before(block, n, n + 1)
        n += 1
        fresh = np.int64(0)
    return DONE, n, q


_AHEAD = 8
"""Events between the one that is read and the one whose first and last bytes are asked for. Those of one table lie
apart, by the other tables' and by what a transaction has besides rows, and no processor guesses where the next one is;
how a long one goes on it sees by itself."""


@kernel
def decode_rows(
    events: int,
    count: int,
    blocks: Array,
    state: Array,
    month_start: int,
    month_length: int,
) -> Any:
    """Fills blocks from row events, those of one table after the other or of many by turns, and says why it came back.

    Program 0 (first index of steps, marked, nulls) is the row: the after image, or a delete's. Program 1 is the before
    image of updates. A value's bytes are read up to 64 beyond the event's end, never further: lengths are checked
    before they are followed.

    events, count: address of E_CELLS cells an event, one after the other, and how many there are. E_GROUP: which of
        ``blocks`` its rows go into; E_LEAD: of two events with one E_OFFSET row ordinals go on from one to the other.
    blocks: addresses of B_CELLS cells each.
    state: next R_EVENT, R_PLACE: address inside it (0: at its start), R_ORDINAL of the row inside it, R_COLUMN of a
        failure, R_MASKS: address of the event's column masks where an image is partial (0: all are full), R_FRESH: 1
        where no row of the event was read yet, R_USUAL: how many rows generated code took; R_ROWS and R_PLACE are where
        that code says how far it came. It carries over to the next call, which BLOCK_FULL asks for: with another block
        for the group of R_EVENT.
    month_start, month_length: addresses of these tables.
    """
    event = state[R_EVENT]
    q = state[R_PLACE]
    ordinal = state[R_ORDINAL]
    masks = state[R_MASKS]
    fresh = state[R_FRESH]
    state_at = state.ctypes.data
    reason = DONE
    state[R_COLUMN] = -1
    while event < count and reason == DONE:
        at = events + E_BYTES * event
        header = cell(at, E_ADDRESS)
        code = load8(header + 4)
        end = header + cell(at, E_LENGTH)
        block = blocks[np.uintp(cell(at, E_GROUP))]
        n = cell(block, B_ROWS)
        rows = cell(block, B_CAPACITY)
        if n == rows:
            reason = BLOCK_FULL
            break
        columns = cell(block, B_COLUMNS)
        bitmap_bytes = (columns + 7) >> 3
        if event + _AHEAD < count:
            ahead = cell(at, E_CELLS * _AHEAD + E_ADDRESS)
            prefetch(ahead)
            prefetch(ahead + cell(at, E_CELLS * _AHEAD + E_LENGTH) - 1)
        is_update = code == 31 or code == 24  # noqa: PLR1714 - numba is slow at tuples
        if q == 0:
            if event == 0 or cell(at, E_OFFSET) != cell(at, E_OFFSET - E_CELLS):
                ordinal = np.int64(0)
            ordinal += cell(at, E_LEAD)
            q = header + 27
            if code >= 30:
                q += np.int64(load16(q))  # extra row information; the length counts its own two bytes
            if q >= end or (code >= 30 and q < header + 29):
                reason = CUT_SHORT
                q = np.int64(0)
                break
            columns_there = np.int64(load8(q))
            q += 1
            if columns_there > 250:
                columns_there = np.int64(load16(q))
                q += 2
            if columns_there != columns:
                reason = OTHER_COLUMN_COUNT
                q = np.int64(0)
                break
            images = 2 if is_update else 1
            if q + images * bitmap_bytes > end:
                reason = CUT_SHORT
                break
            masks = np.int64(0)
            for image in range(images):
                if not _is_full(q + image * bitmap_bytes, columns):
                    masks = q
            q += images * bitmap_bytes
            if masks and not cell(block, B_TAKES_PARTIAL):
                reason = PARTIAL_IMAGE
                break
            fresh = np.int64(1)
        room = cell(block, B_ROOM) - (end - q)
        if room < 32:
            room = _text_room(block) - (end - q)
            if room < 32:
                reason = BLOCK_FULL
                break
        store64(block + 8 * B_ROOM, np.uint64(room))
        if is_update and not cell(block, B_HAS_BEFORE) and cell(block, B_KEPTS):
            store64(block + 8 * B_HAS_BEFORE, np.uint64(1))
            _no_before(block, 0, n)
        op = np.uint8(1)
        if is_update:
            op = np.uint8(2)
        elif code == 32 or code == 25:  # noqa: PLR1714 - numba is slow at tuples
            op = np.uint8(3)
        first = n
        usual = cell(block, B_UPDATE_CODE) if is_update else cell(block, B_ROW_CODE)
        if masks:
            usual = 0
        if usual and q < end:  # here and not in the loop alone: what that prepares takes longer than one usual row
            n = _run_usual(usual, q, end, n, block, state, state_at, is_update)
            q = state[R_PLACE]
        while q < end or (masks and fresh):
            if n == rows:
                reason = BLOCK_FULL
                break
            most = n + 1 if usual else rows
            reason, n, q = _decode_rows(
                block, n, most, q, end, is_update, masks, fresh, state, month_start, month_length
            )
            if reason != DONE:
                break
            fresh = np.int64(0)
            if usual and q < end and n < rows:
                n = _run_usual(usual, q, end, n, block, state, state_at, is_update)
                q = state[R_PLACE]
        if n > first:
            ordinal += n - first
            fresh = np.int64(0)
        store64(block + 8 * B_ROWS, np.uint64(n))
        _put_own(block, first, n, op, cell(at, E_OFFSET), cell(at, E_COMMIT), event, ordinal - n + first)
        if reason != DONE:
            break
        event += 1
        q = np.int64(0)
    state[R_EVENT] = event
    state[R_PLACE] = q
    state[R_ORDINAL] = ordinal
    state[R_MASKS] = masks
    state[R_FRESH] = fresh
    return reason


# ---- passes: read, scanned and decoded by turns, while each is plain ------------------------------------------------

(
    P_FILLED,  # bytes that lie in the memory
    P_BASE,  # file offset of its first one
    P_ENDED,  # file offset after the last complete transaction or control event whose rows were decoded
    P_ENDING,  # the same once this pass is done
    P_EARLY,  # whether rows of the transaction that is open were decoded
    P_EVENTS,  # row events of this pass; -1: it is to be read yet
    P_DONE,  # bytes that it takes
    P_SCANNED,  # bytes that were scanned, P_DONE and those that are scanned again
    P_OPEN,  # whether this pass has rows of the transaction that is open behind it
) = range(9)
"""What is known between two calls of take_passes, cells of int64."""
P_CELLS = 9

PASSES_FULL, PASSES_STOPPED, PASSES_OVER, PASSES_NEWS = range(4)
"""Why take_passes came back: P_BASE is behind ``until``; the row kernel has; nothing more could be read, or there is no
room for it; what Python has to see first. The last two leave the pass as if never scanned, its bytes in the memory."""


@part
def _copy_words(source: Array, target: Array, count: int) -> None:
    """The first so many of 64 bits each."""
    for k in range(count):
        store64_at(target.ctypes.data, k, load64_at(source.ctypes.data, k))


@kernel
def _take_up(
    descriptor: int,
    address: int,
    room: int,
    step: int,
    held: int,
    checksum: int,
    meanings: Array,
    scanner: Any,
    rows: Any,
    passes: Array,
) -> Any:
    """Reads and scans until a transaction is complete, or more than ``held`` bytes of one are there.

    Returns (why, bytes whose checksums are joined). Where why is not PASSES_FULL, all is to be as it was.
    """
    state, open_maps, transaction, slots, bodies = scanner
    state[S_EVENTS] = 0
    state[S_COMPLETE] = 0
    base = passes[P_BASE]
    place = np.int64(0)
    while True:
        before = passes[P_FILLED]
        after = min(before + step, room)
        while passes[P_FILLED] < after:
            count = read(descriptor, address + passes[P_FILLED], after - passes[P_FILLED])
            if count < 0:
                return PASSES_OVER, place  # where a signal came it is Python's turn
            if count == 0:
                break
            passes[P_FILLED] += count
        if passes[P_FILLED] == before:
            return PASSES_OVER, place
        verified = place
        why, place = _walk(
            address, place, passes[P_FILLED], base, checksum, meanings, state, None, rows, transaction, open_maps,
            slots, bodies,
        )  # fmt: skip
        if why != SCANNED or (checksum and crc32(address + verified, place - verified, verified)):
            return PASSES_NEWS, place
        if state[S_PHASE] != OUTSIDE and transaction[0, TX_FLAGS] & (TX_XA | TX_ROLLED_BACK):
            return PASSES_NEWS, place
        done = state[S_COMPLETE]
        events = state[S_COMPLETE_EVENTS] if done else np.int64(0)
        passes[P_ENDING] = base + done if done else passes[P_ENDED]
        passes[P_OPEN] = 0
        if base + place - passes[P_ENDING] > held:
            passes[P_OPEN] = state[S_EVENTS] > events
            events = state[S_EVENTS]
            done = place
        if done:
            passes[P_EVENTS] = events
            passes[P_DONE] = done
            passes[P_SCANNED] = place
            return PASSES_FULL, place


@kernel
def take_passes(
    descriptor: int,
    address: int,
    room: int,
    step: int,
    held: int,
    until: int,
    checksum: int,
    meanings: Array,
    scanner: Any,
    kept: Any,
    rows: Any,
    blocks: Array,
    state: Array,
    passes: Array,
    month_start: int,
    month_length: int,
) -> Any:
    """Pass after pass of a file: read, scanned, its rows decoded. Returns (why, what decode_rows said).

    Between two passes Python finds its own code and data out of the cache, and of small ones it would take most of the
    time; but in these alone what was read is in the second-level cache still when it is scanned and decoded.

    descriptor: of the file. address, room: the memory, and how much of it may be read into; behind that there are as
    many bytes as the row kernel reads beyond an event. step: bytes to read at once; held: as FileDecoder's HELD.
    checksum, meanings: as scan's. scanner: its state, open maps, the transaction that is open, slots, bodies; kept:
    arrays like its open maps and transaction. rows: as _walk's, with room for all that may be in the
    memory. blocks, state, month_start, month_length: as decode_rows'.
    """
    scan_state, open_maps, transaction, _, _ = scanner
    kept_maps, kept_transaction = kept
    _, noted = rows
    while passes[P_BASE] < until:
        if passes[P_EVENTS] < 0:
            phase = scan_state[S_PHASE]
            maps = scan_state[S_MAPS]
            _copy_words(open_maps, kept_maps, 2 * maps)
            _copy_words(transaction, kept_transaction, TX_COLUMNS)
            why, joined = _take_up(descriptor, address, room, step, held, checksum, meanings, scanner, rows, passes)
            done = passes[P_DONE] if why == PASSES_FULL else np.int64(0)
            if checksum:
                _separate(address + done, address + joined)
            if why != PASSES_FULL:
                scan_state[S_PHASE] = phase
                scan_state[S_MAPS] = maps
                _copy_words(kept_maps, open_maps, 2 * maps)
                _copy_words(kept_transaction, transaction, TX_COLUMNS)
                return why, DONE
            for k in range(R_CELLS):
                state[k] = 0
        count = passes[P_EVENTS]
        reason = decode_rows(noted.ctypes.data, count, blocks, state, month_start, month_length)
        if reason != DONE:
            return PASSES_STOPPED, reason
        done = passes[P_DONE]
        if passes[P_ENDING] != passes[P_ENDED]:
            passes[P_EARLY] = 0
        passes[P_EARLY] |= passes[P_OPEN]
        passes[P_ENDED] = passes[P_ENDING]
        if done < passes[P_SCANNED]:
            scan_state[S_PHASE] = OUTSIDE
            scan_state[S_MAPS] = 0
        passes[P_FILLED] -= done
        passes[P_BASE] += done
        memmove(address, address + done, passes[P_FILLED])
        passes[P_EVENTS] = -1
    return PASSES_FULL, DONE


@kernel
def end_texts(block: int) -> None:
    """Writes where the text of a block's last row ends, in each column that has text: the block is complete."""
    for k in range(2 * cell(block, B_COLUMNS)):
        step = cell(block, B_STEPS) + k * STEP_BYTES
        if TEXT_1 <= cell(step, STEP_KIND) <= PADDED:
            store32(cell(step, STEP_SLOT) + 4 * cell(block, B_ROWS), np.uint32(cell(step, STEP_USED)))


@kernel
def validities(nulls: Array, rows: int, columns: Array, bitmaps: int, size: int, counts: Array) -> None:
    """Arrow's validity bitmaps of some columns from ``nulls[row, word]``, each at ``size`` bytes from the one before.

    counts: the number of nulls in each.
    """
    whole = rows & ~7 if nulls.shape[1] == 1 else 0  # eight rows at once, where a row has one word
    for j in range(len(columns)):
        word = columns[j] >> 6
        shift = np.uint64(columns[j] & 63)
        bitmap = bitmaps + j * size
        count = np.int64(0)
        for first in range(0, whole, 8):
            bits = without(nulls.ctypes.data + 8 * first, np.uint64(1) << shift)
            store8(bitmap + (first >> 3), bits)
            count += 8 - ones(bits)
        for first in range(whole, rows, 8):
            bits = np.uint8(0xFF)
            for k in range(min(8, rows - first)):
                if (nulls[first + k, word] >> shift) & np.uint64(1):
                    bits &= ~(np.uint8(1) << np.uint8(k))
                    count += 1
            store8(bitmap + (first >> 3), bits)
        counts[j] = count


# ---- text of columns ----------------------------------------------------------------------------------------------


HAS_SHUFFLE = "ssse3" in _FEATURES
"""Whether this processor looks up sixteen bytes at once (x86 PSHUFB); elsewhere each character is looked at."""


def _utf8_errors() -> tuple[list[int], list[int], list[int]]:
    """What may be wrong with two bytes side by side: by the first's high half, its low half, the second's high half.

    It is wrong where all three say so. Source: Keiser and Lemire, Validating UTF-8 In Less Than One Instruction Per
    Byte (2020), figures 4 and 5.
    """
    short, long, overlong_3, large, surrogate, overlong_2, large_1000, two = (1 << k for k in range(8))
    overlong_4, any_lead = large_1000, short | long | two
    first_high = [long] * 8 + [two] * 4
    first_high += [short | overlong_2, short, short | overlong_3 | surrogate, short | large | large_1000 | overlong_4]
    first_low = [any_lead | overlong_3 | overlong_2 | overlong_4, any_lead | overlong_2, any_lead, any_lead]
    first_low += [any_lead | large] + [any_lead | large | large_1000] * 11
    first_low[0xD] |= surrogate
    continuing = long | overlong_2 | two
    second_high = [short] * 8 + [continuing | overlong_3 | large_1000 | overlong_4, continuing | overlong_3 | large]
    second_high += [continuing | surrogate | large] * 2 + [short] * 4
    return first_high, first_low, second_high


def _utf8_blocks(size: int) -> Any:
    """An intrinsic ``utf8_blocks(address, blocks)``: not 0 where something is wrong in so many times ``size`` bytes.

    A character that the end cuts is not wrong.
    """
    some_bytes, some_words = ir.VectorType(ir.IntType(8), size), ir.VectorType(ir.IntType(64), size // 8)
    tables = [ir.Constant(some_bytes, table * (size // 16)) for table in _utf8_errors()]

    def all_of(number: int) -> Any:
        return ir.Constant(some_bytes, [number] * size)

    def wrong(builder: Any, before: Any, block: Any) -> Any:
        """Bits for what is wrong up to each byte of a block."""

        def called(name: str, *arguments: Any) -> Any:
            kind = ir.FunctionType(some_bytes, [some_bytes, some_bytes])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

        def earlier(count: int) -> Any:
            mask = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(size - count, 2 * size - count)))
            return builder.shuffle_vector(before, block, mask)

        first = earlier(1)
        halves = builder.lshr(first, all_of(4)), builder.and_(first, all_of(15)), builder.lshr(block, all_of(4))
        found = [called(_SHUFFLES[size], *pair) for pair in zip(tables, halves, strict=True)]
        pair = builder.and_(builder.and_(found[0], found[1]), found[2])
        third = called(f"llvm.usub.sat.v{size}i8", earlier(2), all_of(0xE0 - 0x80))
        fourth = called(f"llvm.usub.sat.v{size}i8", earlier(3), all_of(0xF0 - 0x80))
        return builder.xor(pair, builder.and_(builder.or_(third, fourth), all_of(0x80)))

    @intrinsic
    def check(_typing: Any, _address: Any, _blocks: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word, zeros = ir.IntType(64), all_of(0)

            def looked(values: list[Any]) -> list[Any]:
                at, before, seen = values
                place = builder.add(arguments[0], builder.mul(at, ir.Constant(word, size)))
                block = _loaded(builder, place, some_bytes)
                return [builder.add(at, ir.Constant(word, 1)), block, builder.or_(seen, wrong(builder, before, block))]

            begun = [ir.Constant(word, 0), zeros, zeros]
            [_, _, seen] = _while(builder, begun, lambda now: builder.icmp_unsigned("<", now[0], arguments[1]), looked)
            words = builder.bitcast(seen, some_words)
            parts = [builder.extract_element(words, ir.Constant(word, k)) for k in range(size // 8)]
            return functools.reduce(builder.or_, parts)

        return types.uint64(types.int64, types.int64), generate

    return check


UTF8_BLOCK = 64 if "avx512bw" in _FEATURES else 32 if "avx2" in _FEATURES else 16
_LONG = 4 * UTF8_BLOCK
"""Bytes of text that are worth looking at in blocks."""


@part
def _no_blocks(_address: int, _blocks: int) -> Any:
    return np.uint64(0)


utf8_blocks: Any = _utf8_blocks(UTF8_BLOCK) if HAS_SHUFFLE else _no_blocks


@part
def _in_blocks(address: int, count: int) -> Any:
    """Bytes at a text's beginning that are whole characters, but for less than one block; -1 where some are not."""
    blocks = count // UTF8_BLOCK
    if utf8_blocks(address, blocks) != 0:
        return np.int64(-1)
    done = blocks * UTF8_BLOCK
    for k in range(1, min(3, done) + 1):
        byte = load8(address + done - k)
        if byte >= np.uint8(0xC0):
            return done - k
        if byte < np.uint8(0x80):
            break
    return done


@kernel
def _valid_utf8(address: int, count: int) -> Any:
    """Whether the bytes are UTF-8 as RFC 3629 has it: shortest form, no surrogates, at most U+10FFFF."""
    i = np.int64(0)
    if HAS_SHUFFLE and count >= _LONG:
        i = _in_blocks(address, count)
        if i < 0:
            return False
    while i < count:
        if i + 8 <= count:
            high = load64(address + i) & np.uint64(0x8080808080808080)
            if high == 0:
                i += 8
                continue
            i += trailing_zeros(high) >> 3
        if i + 4 <= count:  # two and three bytes at once, where one comparison tells
            word = load32(address + i)
            lead = word & np.uint32(0xFF)
            if word & np.uint32(0xC0C0F0) == np.uint32(0x8080E0) and lead not in (0xE0, 0xED):
                i += 3
                continue
            if word & np.uint32(0xC0E0) == np.uint32(0x80C0) and lead >= 0xC2:
                i += 2
                continue
        lead = np.uint32(load8(address + i))
        if lead < 0x80:
            i += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if i + size > count:
            return False
        second = load8(address + i + 1)
        least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        most = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if second < least or second > most:
            return False
        for k in range(2, size):
            if load8(address + i + k) & np.uint8(0xC0) != np.uint8(0x80):
                return False
        i += size
    return True


@kernel
def is_ascii(address: int, count: int) -> Any:
    """Whether no byte has its highest bit set."""
    seen = np.uint64(0)
    i = np.int64(0)
    while i < count & ~7:
        words: Any = min((count - i) >> 3, 512)
        for k in range(words):
            seen |= load64_at(address + i, k)
        if seen & np.uint64(0x8080808080808080) != 0:
            return False
        i += 8 * words
    while i < count:
        seen |= np.uint64(load8(address + i))
        i += 1
    return (seen & np.uint64(0x8080808080808080)) == 0


@kernel
def invalid_utf8(offsets: Array, address: int, bad: Array) -> Any:
    """Marks in ``bad`` the rows whose bytes are not UTF-8; returns how many."""
    rows = len(offsets) - 1
    if is_ascii(address + offsets[0], np.int64(offsets[rows] - offsets[0])):  # as most text is
        return 0
    whole = _valid_utf8(address + offsets[0], np.int64(offsets[rows] - offsets[0]))
    if whole:
        # A run that is UTF-8 as a whole is so in parts where no part begins inside a character.
        filled = rows
        while filled and offsets[filled - 1] == offsets[rows]:
            filled -= 1
        for row in range(filled):
            if load8(address + offsets[np.uintp(row)]) & np.uint8(0xC0) == np.uint8(0x80):
                whole = False
                break
    count = 0
    if not whole:
        for row in range(rows):
            if not _valid_utf8(address + offsets[row], np.int64(offsets[row + 1] - offsets[row])):
                bad[row] = 1
                count += 1
    return count


@kernel
def map_bytes(
    offsets: Array,
    address: int,
    table: Array,
    sizes: Array,
    new_offsets: Array,
    out: int,
    bad: Array,
) -> Any:
    """Single-byte text to UTF-8: ``table[byte]`` holds ``sizes[byte]`` bytes, 0 for a byte without a character.

    Rows with such a byte are marked in ``bad`` and left empty. ``out`` needs 3 bytes a byte and 8 more. Returns the
    number of marked rows.
    """
    place = np.int64(0)
    count = 0
    for row in range(len(offsets) - 1):
        new_offsets[row] = place
        for i in range(offsets[row], offsets[row + 1]):
            byte = load8(address + i)
            if sizes[byte] == 0:
                bad[row] = 1
                break
            store32(out + place, table[byte])
            place += sizes[byte]
        if bad[row]:
            place = np.int64(new_offsets[row])
            count += 1
    new_offsets[len(offsets) - 1] = place
    return count


NO_CHARACTER = np.uint32(0xFFFFFFFF)
QUADS = 39420
"""Codes of four bytes that gb18030 has for the Basic Multilingual Plane, 8130 8130 to 8431 A439."""
_QUADS_ABOVE = 189000
"""The place among these codes of 9030 8130, which is U+10000."""


@kernel
def _put_character(out: int, point: Any) -> Any:
    """A code point in UTF-8; up to four bytes are stored. Returns how many count."""
    if point < 0x80:
        store8(out, np.uint8(point))
        return 1
    low = np.uint32(0x80) | (point & np.uint32(63))
    if point < 0x800:
        store16(out, np.uint16(np.uint32(0xC0) | point >> np.uint32(6) | low << np.uint32(8)))
        return 2
    middle = np.uint32(0x80) | ((point >> np.uint32(6)) & np.uint32(63))
    if point < 0x10000:
        high = np.uint32(0xE0) | point >> np.uint32(12)
        store32(out, high | middle << np.uint32(8) | low << np.uint32(16))
        return 3
    high = np.uint32(0x80) | ((point >> np.uint32(12)) & np.uint32(63))
    top = np.uint32(0xF0) | point >> np.uint32(18)
    store32(out, top | high << np.uint32(8) | middle << np.uint32(16) | low << np.uint32(24))
    return 4


@kernel
def _quad(q: int, quads: Array) -> Any:
    """The character of four bytes of gb18030, or NO_CHARACTER."""
    first, second = np.int64(load8(q)) - 0x81, np.int64(load8(q + 1)) - 0x30
    third, fourth = np.int64(load8(q + 2)) - 0x81, np.int64(load8(q + 3)) - 0x30
    if first < 0 or third < 0 or third > 125 or fourth < 0 or fourth > 9:
        return NO_CHARACTER
    place = ((first * 10 + second) * 126 + third) * 10 + fourth
    if place < len(quads):
        return quads[place]
    if _QUADS_ABOVE <= place < _QUADS_ABOVE + 0x100000:
        return np.uint32(0x10000 + place - _QUADS_ABOVE)
    return NO_CHARACTER


@kernel
def _read_character(q: int, left: int, sizes: Array, pairs: Array, triples: Array, quads: Array) -> Any:
    """(code point, bytes) of the character at q, of which ``left`` bytes are there."""
    size = sizes[load8(q)]
    if size == 1:
        return pairs[load8(q)], 1
    if size == 2 and left >= 2:
        if len(quads) and left >= 4 and load8(q + 1) - np.uint8(0x30) < 10:
            return _quad(q, quads), 4
        return pairs[load16_big(q)], 2
    if size == 3 and left >= 3:
        return triples[load16_big(q + 1)], 3
    return NO_CHARACTER, 0


@kernel
def map_characters(
    offsets: Array,
    address: int,
    sizes: Array,
    pairs: Array,
    triples: Array,
    quads: Array,
    new_offsets: Array,
    out: int,
    bad: Array,
) -> Any:
    """Text of one to four bytes a character to UTF-8, in sets whose first 128 characters are ASCII.

    sizes: bytes of a character by its first; pairs: code points by one or two bytes, big-endian, triples by the last
    two of three; quads as _quad takes them, empty in other sets than gb18030. Rows, results and room as in map_bytes.
    """
    place = np.int64(0)
    count = 0
    for row in range(len(offsets) - 1):
        new_offsets[row] = place
        i, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while i < end:
            if i + 8 <= end and load64(address + i) & np.uint64(0x8080808080808080) == 0:
                store64(out + place, load64(address + i))
                i += 8
                place += 8
                continue
            point, size = _read_character(address + i, end - i, sizes, pairs, triples, quads)
            if point == NO_CHARACTER:
                bad[row] = 1
                break
            i += size
            place += _put_character(out + place, point)
        if bad[row]:
            place = np.int64(new_offsets[row])
            count += 1
    new_offsets[len(offsets) - 1] = place
    return count


@kernel
def map_units(
    offsets: Array,
    address: int,
    width: int,
    big_endian: bool,
    surrogates: bool,
    new_offsets: Array,
    out: int,
    bad: Array,
) -> Any:
    """Text in units of two or four bytes to UTF-8; ``surrogates``: pairs of them are one character.

    Rows, results and room as in map_bytes.
    """
    place = np.int64(0)
    count = 0
    for row in range(len(offsets) - 1):
        new_offsets[row] = place
        i, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while i < end:
            if i + width > end:
                bad[row] = 1
                break
            if width == 4:
                point = load32_big(address + i)
            else:
                point = np.uint32(load16_big(address + i)) if big_endian else np.uint32(load16(address + i))
            i += width
            if surrogates and 0xD800 <= point < 0xDC00 and i + 2 <= end:
                low = np.uint32(load16_big(address + i)) if big_endian else np.uint32(load16(address + i))
                if 0xDC00 <= low < 0xE000:
                    point = (
                        np.uint32(0x10000) + ((point & np.uint32(0x3FF)) << np.uint32(10)) + (low & np.uint32(0x3FF))
                    )
                    i += 2
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                bad[row] = 1
                break
            place += _put_character(out + place, point)
        if bad[row]:
            place = np.int64(new_offsets[row])
            count += 1
    new_offsets[len(offsets) - 1] = place
    return count


@kernel
def hex_text(offsets: Array, address: int, rows: Array, new_offsets: Array, out: Array) -> Any:
    """Lower-case hex of the bytes of the chosen rows."""
    place = np.int64(0)
    for k in range(len(rows)):
        new_offsets[k] = place
        for i in range(offsets[rows[k]], offsets[rows[k] + 1]):
            byte = load8(address + i)
            for half in (byte >> np.uint8(4), byte & np.uint8(15)):
                out[place] = half + np.uint8(48 if half < 10 else 87)
                place += 1
    new_offsets[len(rows)] = place


@kernel
def split_geometry(
    offsets: Array, address: int, nulls: Array, srids: Array, new_offsets: Array, out: Array, bad: Array
) -> Any:
    """Takes the SRID, four bytes, off each value; the rest stands in ``out``.

    Rows without an SRID, or with one that int32 cannot hold, are marked in ``bad``, and counted.
    """
    place = np.int64(0)
    count = 0
    for row in range(len(srids)):
        new_offsets[row] = place
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if nulls[row]:
            continue
        srid = np.int64(load32(address + start)) if end - start >= 4 else np.int64(-1)
        if srid < 0 or srid > 2147483647:
            bad[row] = 1
            count += 1
            continue
        srids[row] = srid
        for i in range(start + 4, end):
            out[place] = load8(address + i)
            place += 1
    new_offsets[len(srids)] = place
    return count


@kernel
def _digits(out: Array, place: int, number: int, count: int) -> Any:
    """Writes ``number`` in ``count`` digits; returns the place after them."""
    for k in range(count):
        out[place + count - 1 - k] = np.uint8(48 + number % 10)
        number //= 10
    return place + count


@kernel
def time_text(packed: Array, nulls: Array, digits: int, new_offsets: Array, out: Array) -> Any:
    """TIME as the server prints it (my_time.cc, my_time_to_str) from slots of TIME_TO_64; 18 bytes a row suffice."""
    place = np.int64(0)
    for row in range(len(packed)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        value = packed[row]
        if value < 0:
            out[place] = 45
            place += 1
            value = -value
        hour = (value >> 36) & 1023
        place = _digits(out, place, hour, 3 if hour > 99 else 2)
        for part in (value >> 30, value >> 24):
            out[place] = 58
            place = _digits(out, place + 1, part & 63, 2)
        if digits:
            out[place] = 46
            fraction = value & 0xFFFFFF
            for _ in range(6 - digits):
                fraction //= 10
            place = _digits(out, place + 1, fraction, digits)
    new_offsets[len(packed)] = place


@kernel
def decimal_text(values: Array, nulls: Array, sizes: Array, whole: int, new_offsets: Array, out: Array) -> Any:
    """DECIMAL as the server prints it, from its own bytes ``values[row, byte]``; ``nulls`` marks rows left empty.

    sizes: the number of digits of each group; whole: how many groups stand before the point. Returns the first row with
    a group of too many digits, or -1.
    """
    place = np.int64(0)
    for row in range(len(values)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        negative = values[row, 0] < 128
        start = place
        if negative:
            out[place] = 45
            place += 1
        first = place
        q = 0
        zero: Any = True
        for k in range(len(sizes)):
            if k == whole:
                place = _without_zeros(out, first, place)
                out[place] = 46
                place += 1
            size = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[sizes[k]]
            number = np.int64(0)
            for _ in range(size):
                byte = values[row, q] ^ np.uint8(128 if q == 0 else 0)
                number = number << 8 | np.int64(~byte & np.uint8(255) if negative else byte)
                q += 1
            if number >= 10 ** sizes[k]:
                return row
            zero &= number == 0
            place = _digits(out, place, number, sizes[k])
        if whole == len(sizes):
            place = _without_zeros(out, first, place)
        if negative and zero:
            for k in range(start, place - 1):
                out[k] = out[k + 1]
            place -= 1
    new_offsets[len(values)] = place
    return -1


@kernel
def _without_zeros(out: Array, first: int, place: int) -> Any:
    """Takes leading zeros away from the digits in [first, place), leaving at least one digit."""
    if first == place:
        out[place] = 48
        return place + 1
    skip = 0
    while first + skip < place - 1 and out[first + skip] == 48:
        skip += 1
    for k in range(first, place - skip):
        out[k] = out[k + skip]
    return place - skip


@kernel
def label_offsets(numbers: Array, starts: Array, new_offsets: Array) -> Any:
    """Where the label of each row will stand; label k is ``starts[k + 1] - starts[k]`` bytes long.

    Returns the first row whose number is beyond the labels, or -1.
    """
    count = np.uint64(len(starts) - 1)
    place = np.int64(0)
    for row in range(len(numbers)):
        new_offsets[row] = place
        label = numbers[row]
        if label >= count:
            return row
        place += starts[label + np.uint64(1)] - starts[label]
    new_offsets[len(numbers)] = place
    return -1


@kernel
def copy_labels(numbers: Array, starts: Array, labels: int, new_offsets: Array, out: int) -> Any:
    """The label of each row to its place; ``COPIED`` bytes behind the labels and behind ``out`` may be touched."""
    for row in range(len(numbers)):
        size = np.int64(new_offsets[row + 1] - new_offsets[row])
        if size:
            _copy_text(out + new_offsets[row], labels + starts[numbers[row]], size)


@kernel
def join_labels(masks: Array, nulls: Array, starts: Array, labels: Array, new_offsets: Array, out: Array) -> Any:
    """SET members in the order of their definition, joined by commas; ``out`` needs the text of all labels a row.

    Label k is ``labels[starts[k]:starts[k + 1]]``. Returns the first row with a bit beyond the labels, or -1. Bit 63 is
    none of these: MySQL 5.7 sets it for a second unknown member, where sql_mode lets these pass (sql/strfunc.cc,
    find_set), and prints nothing for it.
    """
    count = len(starts) - 1
    place = np.int64(0)
    for row in range(len(masks)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        mask = masks[row]
        if count < 64 and (mask & np.uint64(0x7FFFFFFFFFFFFFFF)) >> np.uint64(count):
            return row
        first = True
        for k in range(count):
            if (mask >> np.uint64(k)) & np.uint64(1):
                if not first:
                    out[place] = 44
                    place += 1
                first = False
                for i in range(starts[k], starts[k + 1]):
                    out[place] = labels[i]
                    place += 1
    new_offsets[len(masks)] = place
    return -1


@kernel
def _hex_digits(out: Array, place: int, number: int, count: int) -> Any:
    """Writes ``number`` in ``count`` lower-case hex digits; returns the place after them."""
    for k in range(count):
        half = (number >> (4 * (count - 1 - k))) & 15
        out[place + k] = 48 + half if half < 10 else 87 + half
    return place + count


@kernel
def uuid_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """``00112233-4455-6677-8899-aabbccddeeff`` from sixteen bytes in this order; 36 bytes a row."""
    place = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        for k in range(16):
            if k == 4 or k == 6 or k == 8 or k == 10:  # noqa: PLR1714 - numba is slow at tuples
                out[place] = 45
                place += 1
            place = _hex_digits(out, place, np.int64(load8(address + offsets[row] + k)), 2)
    new_offsets[len(nulls)] = place


@kernel
def _dotted(out: Array, place: int, source: int) -> Any:
    for k in range(4):
        if k:
            out[place] = 46
            place += 1
        number = np.int64(load8(source + k))
        place = _digits(out, place, number, 3 if number > 99 else 2 if number > 9 else 1)
    return place


@kernel
def inet4_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """Four bytes as four decimal numbers; at most 15 bytes a row."""
    place = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = place
        if not nulls[row]:
            place = _dotted(out, place, address + offsets[row])
    new_offsets[len(nulls)] = place


@kernel
def inet6_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """As MariaDB prints it (sql_type_inet.cc, Inet6::to_string): at most 39 bytes a row.

    The first of the longest runs of zero words is ``::``, be it of one word, and the last two words of ``::`` and
    ``::ffff:`` are dotted.
    """
    place = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        source = address + offsets[row]
        gap, longest, run = -1, 0, 0
        for word in range(8):
            run = run + 1 if load16_big(source + 2 * word) == 0 else 0
            if run > longest:
                gap, longest = word + 1 - run, run
        word = 0
        while word < 8:
            if word == gap:
                if word == 0:
                    out[place] = 58
                    place += 1
                out[place] = 58
                place += 1
                word += longest
                continue
            mapped = longest == 5 and load16_big(source + 10) == 0xFFFF
            if word == 6 and gap == 0 and (longest == 6 or mapped):
                place = _dotted(out, place, source + 12)
                break
            number = np.int64(load16_big(source + 2 * word))
            digits = 4 if number > 0xFFF else 3 if number > 0xFF else 2 if number > 0xF else 1
            place = _hex_digits(out, place, number, digits)
            word += 1
            if word < 8:
                out[place] = 58
                place += 1
    new_offsets[len(nulls)] = place


# ---- the shortest digits of a double ------------------------------------------------------------------------------
# Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020): of all decimals that read back as the double
# the shortest, and of these the closest. David Gay's dtoa, which servers use, finds the same digits.


def _powers_of_ten() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """``[k - TEN_LOW]`` is 10^k rounded up to 128 bits, the highest of them set: high word, low word."""
    rows = []
    for k in range(_TEN_LOW, _TEN_HIGH + 1):
        above, below = 10 ** max(k, 0), 10 ** max(-k, 0)
        shift = 127 - ((above.bit_length() - 1) if k >= 0 else -below.bit_length())
        whole = -((-above << max(shift, 0)) // (below << max(-shift, 0)))
        rows.append([whole >> 64, whole & ((1 << 64) - 1)])
    return np.array(rows, np.uint64)


_TEN_LOW, _TEN_HIGH = -292, 324
_TENS = _powers_of_ten()


def _high() -> Any:
    """An intrinsic ``high(a, b)``: the upper 64 of the 128 bits of a product."""

    @intrinsic
    def multiply(_typing: Any, _a: Any, _b: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            wide = ir.IntType(128)
            product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return multiply


high64: Any = memory.high64 if CHECKED else _high()


@kernel
def _rounded_to_odd(power: int, factor: Any) -> Any:
    """A power of ten times a factor, without the lower 128 bits; the lowest bit left tells of any in them."""
    above = high64(_TENS[power, 0], factor)
    below = _TENS[power, 0] * factor
    total = below + high64(_TENS[power, 1], factor)
    if total < below:
        above += np.uint64(1)
    return above | (np.uint64(1) if total > np.uint64(1) else np.uint64(0))


@kernel
def shortest(bits: Any) -> Any:
    """(digits, exponent): the value of a finite double that is not 0, its sign left out, is digits * 10^exponent."""
    fraction = bits & np.uint64(0xFFFFFFFFFFFFF)
    biased: Any = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    two, four, forty = np.uint64(2), np.uint64(4), np.uint64(40)
    number = fraction | np.uint64(1 << 52) if biased else fraction
    q = (biased or 1) - 1075
    if -52 <= q <= 0 and number & ((np.uint64(1) << np.uint64(-q)) - np.uint64(1)) == 0:
        return number >> np.uint64(-q), np.int64(0)
    closer = fraction == 0 and biased > 1
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    power = -k - _TEN_LOW
    least = _rounded_to_odd(power, (four * number - two + np.uint64(closer)) << shift)
    value = _rounded_to_odd(power, (four * number) << shift)
    most = _rounded_to_odd(power, (four * number + two) << shift)
    odd = number & np.uint64(1)
    least += odd
    most -= odd
    digits = value >> two
    if digits >= np.uint64(10):
        shorter = digits // np.uint64(10)
        down = least <= forty * shorter
        up = forty * shorter + forty <= most
        if down != up:
            return shorter + np.uint64(up), k + 1
    down = least <= four * digits
    up = four * digits + four <= most
    if down == up:
        middle = four * digits + two
        up = value > middle or (value == middle and (digits & np.uint64(1)) != np.uint64(0))
    return digits + np.uint64(up), k


# ---- JSON ---------------------------------------------------------------------------------------------------------
# Source: MySQL sql-common/json_binary.h (the bytes), sql-common/json_dom.cc, wrapper_to_string (the text).

(
    JSON_SMALL_OBJECT,
    JSON_LARGE_OBJECT,
    JSON_SMALL_ARRAY,
    JSON_LARGE_ARRAY,
    JSON_LITERAL,
    JSON_INT16,
    JSON_UINT16,
    JSON_INT32,
    JSON_UINT32,
    JSON_INT64,
    JSON_UINT64,
    JSON_DOUBLE,
    JSON_STRING,
) = range(13)
JSON_OPAQUE = 15
JSON_DEPTH = 100
"""The most containers inside one another (json_syntax_check.cc, JSON_DOCUMENT_MAX_DEPTH)."""

JSON_ROOM = 96
"""Bytes that the text of anything but a string or a blob fits into, punctuation included."""

JSON_NO_ROOM, JSON_BAD = -1, -2
"""In place of a place in the text: it did not fit; the bytes are no document."""

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_BASE64_LINE = 76
"""Characters after which the server's base64 begins a new line (mysys/base64.cc)."""

_NEWDECIMAL, _VAR_STRING = 246, 253
_DATE_TYPE, _TIME_TYPE, _DATETIME_TYPE, _TIMESTAMP_TYPE = 10, 11, 12, 7


@kernel
def _put_number(out: int, number: Any, count: int) -> Any:
    """``count`` digits; returns the address after them."""
    for k in range(count):
        store8(out + count - 1 - k, np.uint8(np.uint64(48) + number % np.uint64(10)))
        number = number // np.uint64(10)
    return out + count


@kernel
def _count_digits(number: Any) -> Any:
    count = 1
    while number >= np.uint64(10):
        number = number // np.uint64(10)
        count += 1
    return count


@kernel
def _put_unsigned(out: int, number: Any) -> Any:
    return _put_number(out, number, _count_digits(number))


@kernel
def _put_signed(out: int, number: int) -> Any:
    if number < 0:
        store8(out, np.uint8(45))
        return _put_unsigned(out + 1, np.uint64(-number))
    return _put_unsigned(out, np.uint64(number))


@kernel
def put_double(out: int, bits: Any) -> Any:
    """A finite double as JSON text has it (strings/dtoa.cc, my_gcvt); returns the address after it.

    There is no exponent from 1e-15 to 1e15, and beyond where there is a fraction; whole numbers end in ``.0``.
    """
    if bits >> np.uint64(63):
        store8(out, np.uint8(45))
        out += 1
    if bits << np.uint64(1) == np.uint64(0):
        store32(out, np.uint32(0x302E30))  # 0.0
        return out + 3
    digits, exponent = shortest(bits & np.uint64(0x7FFFFFFFFFFFFFFF))
    while digits % np.uint64(10) == np.uint64(0):
        digits = digits // np.uint64(10)
        exponent += 1
    count = _count_digits(digits)
    point = count + exponent  # digits before the point
    if point < -14 or (point > 15 and count <= point):
        end = _put_number(out + 1, digits, count)
        store8(out, load8(out + 1))
        if count > 1:
            store8(out + 1, np.uint8(46))
            out = end
        else:
            out += 1
        store8(out, np.uint8(101))
        return _put_signed(out + 1, point - 1)
    if point <= 0:
        store16(out, np.uint16(0x2E30))  # 0.
        for k in range(-point):
            store8(out + 2 + k, np.uint8(48))
        return _put_number(out + 2 - point, digits, count)
    if count <= point:
        out = _put_number(out, digits, count)
        for _ in range(point - count):
            store8(out, np.uint8(48))
            out += 1
        store16(out, np.uint16(0x302E))  # .0
        return out + 2
    end = _put_number(out + 1, digits, count)
    for k in range(point):
        store8(out + k, load8(out + k + 1))
    store8(out + point, np.uint8(46))
    return end


@kernel
def _plain_run(source: int, start: int, count: int) -> Any:
    """The first place in [start, count) whose byte a JSON string must escape, or count."""
    i = start
    ones, tops = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    while i + 8 <= count:
        word = load64(source + i)
        quote = word ^ np.uint64(0x2222222222222222)
        slash = word ^ np.uint64(0x5C5C5C5C5C5C5C5C)
        low = (word - np.uint64(0x2020202020202020)) & ~word
        if (low | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops:
            break
        i += 8
    while i < count:
        byte = load8(source + i)
        if byte < 32 or byte == 34 or byte == 92:  # noqa: PLR1714 - numba is slow at tuples
            break
        i += 1
    return i


@kernel
def _put_escape(out: int, byte: Any) -> Any:
    short = 0
    if byte == 34 or byte == 92:  # noqa: PLR1714 - numba is slow at tuples
        short = int(byte)
    elif byte == 8:
        short = 98
    elif byte == 9:
        short = 116
    elif byte == 10:
        short = 110
    elif byte == 12:
        short = 102
    elif byte == 13:
        short = 114
    store8(out, np.uint8(92))
    if short:
        store8(out + 1, np.uint8(short))
        return out + 2
    store8(out + 1, np.uint8(117))
    store16(out + 2, np.uint16(0x3030))
    store8(out + 4, np.uint8(48 + (byte >> np.uint8(4))))
    half = byte & np.uint8(15)
    store8(out + 5, half + np.uint8(48 if half < 10 else 87))
    return out + 6


@kernel
def _put_string(source: int, count: int, out: int, limit: int) -> Any:
    """A JSON string in its quotes; returns the address after it, or JSON_NO_ROOM."""
    if out + count + 2 > limit:
        return JSON_NO_ROOM
    store8(out, np.uint8(34))
    out += 1
    i = np.int64(0)
    while True:
        run = _plain_run(source, i, count)
        if out + (run - i) + 8 > limit:
            return JSON_NO_ROOM
        memmove(out, source + i, run - i)
        out += run - i
        if run == count:
            break
        out = _put_escape(out, load8(source + run))
        i = run + 1
    store8(out, np.uint8(34))
    return out + 1


@kernel
def _put_base64(kind: int, source: int, count: int, out: int, limit: int) -> Any:
    """``"base64:type15:…"``; line ends inside are escaped. Returns the address after it, or JSON_NO_ROOM."""
    groups = (count + 2) // 3
    if out + 24 + 4 * groups + 2 * (4 * groups // _BASE64_LINE) > limit:
        return JSON_NO_ROOM
    store8(out, np.uint8(34))
    store64(out + 1, np.uint64(0x743A343665736162))  # base64:t
    store32(out + 9, np.uint32(0x657079))  # ype
    out = _put_unsigned(out + 12, np.uint64(kind))
    store8(out, np.uint8(58))
    out += 1
    line = 0
    for group in range(groups):
        if line == _BASE64_LINE:
            store16(out, np.uint16(0x6E5C))
            out += 2
            line = 0
        bits = np.uint32(0)
        left = count - 3 * group
        for k in range(3):
            bits = bits << np.uint32(8) | np.uint32(load8(source + 3 * group + k) if k < left else 0)
        for k in range(4):
            letter = _BASE64[(bits >> np.uint32(18 - 6 * k)) & np.uint32(63)]
            store8(out + k, letter if k <= left else np.uint8(61))
        out += 4
        line += 4
    store8(out, np.uint8(34))
    return out + 1


@kernel
def _put_clock(out: int, clock: int, fraction: int) -> Any:
    """``hh:mm:ss.ffffff`` from hour, minute, second in 10, 6, 6 bits."""
    hour = (clock >> 12) & 1023
    out = _put_number(out, np.uint64(hour), 3 if hour > 99 else 2)
    for part in (clock >> 6, clock):
        store8(out, np.uint8(58))
        out = _put_number(out + 1, np.uint64(part & 63), 2)
    store8(out, np.uint8(46))
    return _put_number(out + 1, np.uint64(fraction), 6)


@kernel
def _put_moment(kind: int, source: int, count: int, out: int) -> Any:
    """A date or time (my_time.cc, TIME_from_longlong_…_packed) in quotes; or JSON_BAD."""
    if count != 8:
        return JSON_BAD
    packed = np.int64(load64(source))
    if packed == -9223372036854775808:
        return JSON_BAD
    store8(out, np.uint8(34))
    out += 1
    magnitude = abs(packed)
    clock, fraction = magnitude >> 24, magnitude & 0xFFFFFF
    if fraction > 999999:
        return JSON_BAD
    if kind == _TIME_TYPE:
        if packed < 0:
            store8(out, np.uint8(45))
            out += 1
        out = _put_clock(out, clock & 0x3FFFFF, fraction)
    else:
        days = clock >> 17
        year, month = (days >> 5) // 13, (days >> 5) % 13
        if year > 9999:
            return JSON_BAD
        out = _put_number(out, np.uint64(year), 4)
        for part in (month, days & 31):
            store8(out, np.uint8(45))
            out = _put_number(out + 1, np.uint64(part), 2)
        if kind != _DATE_TYPE:
            store8(out, np.uint8(32))
            out = _put_clock(out + 1, clock & 0x1FFFF, fraction)
    store8(out, np.uint8(34))
    return out + 1


@kernel
def _put_decimal(source: int, count: int, out: int) -> Any:
    """A DECIMAL (decimal.cc, bin2decimal) whose precision and scale stand before it; or JSON_BAD.

    Whole groups of digits are counted: DECIMAL(65) may come with a precision of 72, and 81 is what nine groups hold.
    """
    if count < 3:
        return JSON_BAD
    precision: Any = np.int64(load8(source))
    scale: Any = np.int64(load8(source + 1))
    whole = precision - scale
    if precision > 81 or whole < 0:
        return JSON_BAD
    q, end = source + 2, source + count
    flip = np.uint8(0 if load8(q) & np.uint8(128) else 255)
    sign = np.uint8(128)
    if flip:
        store8(out, np.uint8(45))
        out += 1
    first = out
    for part in range(2):
        left = whole if part == 0 else scale
        if part == 1:
            if out == first:
                store8(out, np.uint8(48))
                out += 1
            if left == 0:
                break
            store8(out, np.uint8(46))
            out += 1
        while left:
            digits = (left % 9 or 9) if part == 0 else min(left, 9)
            size = (digits + 1) // 2 if digits < 9 else 4
            if q + size > end:
                return JSON_BAD
            number = np.uint64(0)
            for _ in range(size):
                number = number << np.uint64(8) | np.uint64(load8(q) ^ sign ^ flip)
                sign = np.uint8(0)
                q += 1
            if number >= np.uint64(10**digits):
                return JSON_BAD
            if part == 1 or out > first:
                out = _put_number(out, number, digits)
            elif number:
                out = _put_unsigned(out, number)
            left -= digits
    return out if q == end else JSON_BAD


@kernel
def _varying(at: int, end: int) -> Any:
    """(length, bytes of it) of a string: seven bits a byte, the lowest first; (-1, 0) where it leads beyond ``end``."""
    length = np.int64(0)
    for k in range(5):
        if at + k >= end:
            break
        byte = np.int64(load8(at + k))
        length |= (byte & 127) << (7 * k)
        if byte < 128:
            return (length, k + 1) if length <= end - at - k - 1 else (np.int64(-1), 0)
    return np.int64(-1), 0


@kernel
def _put_opaque(at: int, end: int, out: int, limit: int) -> Any:
    """A value of an SQL type that JSON has no type for: its type code, length and bytes."""
    if at >= end:
        return JSON_BAD
    kind = np.int64(load8(at))
    length, used = _varying(at + 1, end)
    if length < 0:
        return JSON_BAD
    source = at + 1 + used
    if kind == _VAR_STRING:
        return _put_string(source, length, out, limit)
    if kind == _NEWDECIMAL:
        return _put_decimal(source, length, out)
    if kind == _DATE_TYPE or kind == _TIME_TYPE or kind == _DATETIME_TYPE or kind == _TIMESTAMP_TYPE:  # noqa: PLR1714, SIM109
        return _put_moment(kind, source, length, out)
    return _put_base64(kind, source, length, out, limit)


@kernel
def _put_scalar(kind: int, at: int, end: int, out: int, limit: int) -> Any:  # noqa: PLR0911 - one a type
    """The address after the text of anything but a container, or JSON_NO_ROOM, JSON_BAD."""
    if kind == JSON_STRING:
        length, used = _varying(at, end)
        return JSON_BAD if length < 0 else _put_string(at + used, length, out, limit)
    if kind == JSON_OPAQUE:
        return _put_opaque(at, end, out, limit)
    if kind > JSON_STRING:
        return JSON_BAD
    size = 1 if kind == JSON_LITERAL else 2 if kind <= JSON_UINT16 else 4 if kind <= JSON_UINT32 else 8
    if at + size > end:
        return JSON_BAD
    if kind == JSON_LITERAL:
        which = load8(at)
        if which > 2:
            return JSON_BAD
        if which == 2:
            store32(out, np.uint32(0x736C6166))
            store8(out + 4, np.uint8(101))
            return out + 5
        store32(out, np.uint32(0x65757274 if which else 0x6C6C756E))
        return out + 4
    if kind == JSON_INT16:
        return _put_signed(out, np.int64(np.int16(load16(at))))
    if kind == JSON_UINT16:
        return _put_unsigned(out, np.uint64(load16(at)))
    if kind == JSON_INT32:
        return _put_signed(out, np.int64(np.int32(load32(at))))
    if kind == JSON_UINT32:
        return _put_unsigned(out, np.uint64(load32(at)))
    if kind == JSON_INT64:
        return _put_signed(out, np.int64(load64(at)))
    if kind == JSON_UINT64:
        return _put_unsigned(out, load64(at))
    bits = load64(at)
    return JSON_BAD if (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF) else put_double(out, bits)


@kernel
def _offset_at(address: int, wide: int) -> Any:
    return np.int64(load32(address)) if wide else np.int64(load16(address))


@kernel
def _put_document(at: int, end: int, out: int, limit: int, stack: Array) -> Any:  # noqa: PLR0911 - ends early on damage
    """The text of one document; returns the address after it, or JSON_NO_ROOM, JSON_BAD.

    An offset leads forward, beyond the entries of its container and not out of it: a document cannot hold itself. One
    value may stand in many entries all the same, so damaged bytes are bounded by the room, not by their own length.
    """
    depth = 0
    kind = np.int64(load8(at))
    at += 1
    while True:
        if out + JSON_ROOM > limit:
            return JSON_NO_ROOM
        if kind <= JSON_LARGE_ARRAY:
            wide = kind & 1
            width = 2 + 2 * wide
            if at + 2 * width > end or depth == JSON_DEPTH:
                return JSON_BAD
            count, size = _offset_at(at, wide), _offset_at(at + width, wide)
            keys = at + 2 * width
            values = keys + count * (width + 2) if kind <= JSON_LARGE_OBJECT else keys
            if size > end - at or values + count * (1 + width) > at + size:
                return JSON_BAD
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = kind, at, at + size, count
            stack[depth, 4], stack[depth, 5], stack[depth, 6] = np.int64(0), keys, values
            depth += 1
            store8(out, np.uint8(123 if kind <= JSON_LARGE_OBJECT else 91))
            out += 1
        else:
            out = _put_scalar(kind, at, end, out, limit)
            if out < 0:
                return out
        while depth and stack[depth - 1, 4] == stack[depth - 1, 3]:
            depth -= 1
            if out >= limit:
                return JSON_NO_ROOM
            store8(out, np.uint8(125 if stack[depth, 0] <= JSON_LARGE_OBJECT else 93))
            out += 1
        if depth == 0:
            return out
        top = depth - 1
        base, end, count, index = stack[top, 1], stack[top, 2], stack[top, 3], stack[top, 4]
        stack[top, 4] = index + 1
        wide = stack[top, 0] & 1
        width = 2 + 2 * wide
        header = stack[top, 6] + count * (1 + width)
        if out + 8 > limit:
            return JSON_NO_ROOM
        if index:
            store16(out, np.uint16(0x202C))
            out += 2
        if stack[top, 0] <= JSON_LARGE_OBJECT:
            entry = stack[top, 5] + index * (width + 2)
            key, length = base + _offset_at(entry, wide), np.int64(load16(entry + width))
            if key < header or key + length > end:
                return JSON_BAD
            out = _put_string(key, length, out, limit)
            if out < 0 or out + 2 > limit:
                return JSON_NO_ROOM
            store16(out, np.uint16(0x203A))
            out += 2
        entry = stack[top, 6] + index * (1 + width)
        kind = np.int64(load8(entry))
        if JSON_LITERAL <= kind <= JSON_UINT16 or (wide and (kind == JSON_INT32 or kind == JSON_UINT32)):  # noqa: PLR1714, SIM109
            at = entry + 1
        else:
            at = base + _offset_at(entry + 1, wide)
            if at < header or at >= end:
                return JSON_BAD


@kernel
def json_text(
    offsets: Array, address: int, nulls: Array, state: Array, new_offsets: Array, out: int, capacity: int, stack: Array
) -> Any:
    """The text of binary JSON documents, as CAST(… AS CHAR) has it. Returns 0, JSON_NO_ROOM or JSON_BAD.

    state: the row, and the place in ``out``, to go on from; where it stopped. ``out`` may be continued in a larger one.
    stack: int64[JSON_DEPTH, 7]. A value without bytes is what an implicit default leaves: null (field.cc, val_json).
    """
    place = state[1]
    for row in range(state[0], len(offsets) - 1):
        new_offsets[row] = place
        state[0] = row
        state[1] = place
        if nulls[row]:
            continue
        start, end = address + offsets[row], address + offsets[row + 1]
        if place + JSON_ROOM > capacity:
            return JSON_NO_ROOM
        if start == end:
            store32(out + place, np.uint32(0x6C6C756E))
            place += 4
            continue
        after = _put_document(start, end, out + place, out + capacity, stack)
        if after < 0:
            return after
        if not _valid_utf8(out + place, after - out - place):
            return JSON_BAD
        place = after - out
    new_offsets[len(offsets) - 1] = place
    state[1] = place
    return 0
