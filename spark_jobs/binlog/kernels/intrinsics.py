"""Loads, stores and copies by address, and the building blocks of LLVM code that other intrinsics are made of.

Under NUMBA_DISABLE_JIT=1 each is its checked twin of memory.py.

Put here: what one instruction or a few do, whatever the bytes mean. Not here: a loop over events, rows or text.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spark_jobs.binlog.kernels import memory
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.compile import part


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
    """An intrinsic ``load_at(base, offset) -> unsigned``: the number at an offset of those that lie there side by side.

    In a loop over offsets LLVM takes several at once; of ``load(base + 8 * offset)``, and ``store``, it makes gathers
    and scatters where the processor has them (AVX-512), since it does not look through addresses that are computed as
    numbers: slower than one after the other.
    """
    if CHECKED:
        plain = memory.load(bits // 8)
        return lambda base, offset: plain(base + bits // 8 * offset)

    @intrinsic
    def load(_typing: Any, _base: Any, _offset: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(_at(builder, bits, *arguments))
            value.align = 1
            return value

        return result(types.int64, types.int64), generate

    return load


def _store_at(value_type: Any, bits: int) -> Any:
    """An intrinsic ``store_at(base, offset, unsigned)``, as ``load_at``."""
    if CHECKED:
        plain = memory.store(bits // 8)
        return lambda base, offset, value: plain(base + bits // 8 * offset, value)

    @intrinsic
    def store(_typing: Any, _base: Any, _offset: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            builder.store(arguments[2], _at(builder, bits, *arguments[:2])).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, value_type), generate

    return store


def _at(builder: Any, bits: int, base: Any, offset: Any) -> Any:
    return builder.gep(builder.inttoptr(base, ir.IntType(bits).as_pointer()), [offset])


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


def _prefetch() -> Any:
    """An intrinsic ``prefetch(address)``: asks for the cache line there, which need not exist, and does not wait."""
    if CHECKED:
        return lambda _address: None

    @intrinsic
    def fetch(_typing: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            # llvm.prefetch(address, 0 for reading, 3 for all caches, 1 for data).
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            to_read, locality, of_data = (ir.Constant(number, value) for value in (0, 3, 1))
            builder.call(function, [builder.inttoptr(arguments[0], byte), to_read, locality, of_data])
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
            # Eight words are compared with the bit at once.
            eight = ir.VectorType(ir.IntType(64), 8)
            value = builder.load(builder.inttoptr(arguments[0], eight.as_pointer()))
            value.align = 1
            vector = builder.insert_element(
                ir.Constant(eight, ir.Undefined), arguments[1], ir.Constant(ir.IntType(32), 0)
            )
            pattern = builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))
            lacks = builder.icmp_unsigned("==", builder.and_(value, pattern), ir.Constant(eight, [0] * 8))
            return builder.bitcast(lacks, ir.IntType(8))

        return types.uint8(types.int64, types.uint64), generate

    return test


without = _without()


def _bit_count() -> Any:
    """An intrinsic ``bit_count(byte)``: how many bits are set."""
    if CHECKED:
        return lambda byte: int(byte).bit_count()

    @intrinsic
    def count(_typing: Any, _byte: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.zext(builder.ctpop(arguments[0]), ir.IntType(64))

        return types.int64(types.uint8), generate

    return count


bit_count = _bit_count()


@part
def load48(address: int) -> Any:
    """Six bytes, little-endian: a table id."""
    return np.int64(load32(address)) | np.int64(load16(address + 4)) << 32


def while_loop(
    builder: Any, initial: list[Any], goes_on: Callable[[list[Any]], Any], once: Callable[[list[Any]], list[Any]]
) -> list[Any]:
    """Emits a loop: ``goes_on`` asks values before each round, ``once`` makes the next of them. Returns the last."""
    before = builder.block
    test, body, after = (builder.append_basic_block(name) for name in ("loop.test", "loop.body", "loop.after"))
    builder.branch(test)
    builder.position_at_end(test)
    values = [builder.phi(value.type) for value in initial]
    builder.cbranch(goes_on(values), body, after)
    builder.position_at_end(body)
    following = once(values)
    for phi, first, next_value in zip(values, initial, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(next_value, builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    return values


def loaded(builder: Any, address: Any, kind: Any) -> Any:
    """A value of any type from anywhere."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


COPIED = 32


@part
def copy_text(target: int, source: int, length: int) -> Any:
    """Copies in whole vectors: up to 31 bytes behind both may be touched."""
    copy32(target, source)
    if length > 256:
        memmove(target + 32, source + 32, length - 32)
    else:
        for k in range(32, length, 32):
            copy32(target + k, source + k)


@part
def cell(step: int, offset: int) -> Any:
    """One cell of a step, by the step's address: far cheaper than indexing an array of three dimensions."""
    return np.int64(load64(step + 8 * offset))
