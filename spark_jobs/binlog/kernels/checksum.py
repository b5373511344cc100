"""CRC32 (the polynomial of zlib), checked for every event: by carry-less multiplication, or by tables.

Put here: computing, joining and separating checksums. Not here: which events have one (event_scan.py).
"""

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spark_jobs.binlog.kernels import memory
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.compile import FEATURES, kernel, part
from spark_jobs.binlog.kernels.intrinsics import load8, load64, loaded, while_loop


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
HAS_CLMUL = "pclmul" in FEATURES
"""True if this processor multiplies polynomials (x86 PCLMULQDQ); elsewhere the tables do the work."""


def _power(exponent: int) -> int:
    """x^exponent mod P, bit-reflected, as what multiplies 64 bits and moves them on (Intel 323102, "Fast CRC")."""
    remainder = 1
    for _ in range(exponent):
        remainder = remainder << 1 ^ (0x104C11DB7 if remainder >> 31 & 1 else 0)
    return int(f"{remainder:032b}"[::-1], 2) << 1


def _move(size: int) -> tuple[int, int]:
    """Matrices that move the low and the high half of 128 bits ``size`` bytes on."""
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

    def words(vector: Any, *lanes: int) -> Any:
        mask = ir.Constant(ir.VectorType(number, 4), list(lanes))
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
        """Address of constants, which LLVM is kept from knowing.

        It held them in registers through the whole scan and so stored them whenever that calls something; and where a
        process's stack happens to lie so that 64 of these bytes reach across two pages, that took as long as the rest.
        """
        table = cgutils.global_constant(self.builder, name, content)
        table.align = _BLOCK
        kind = ir.FunctionType(self.word(0).type, [self.word(0).type])
        offset = self.builder.ptrtoint(table, self.word(0).type)
        return self.builder.asm(kind, "", "=r,0", [offset], side_effect=True)

    def block(self, offset: Any) -> list[Any]:
        """The 64 bytes there."""
        return [loaded(self.builder, self.builder.add(offset, step), self.kind) for step in self.steps]

    def half(self, offset: Any, distance: int) -> Any:
        """The 128 bits there."""
        return loaded(self.builder, self.builder.add(offset, self.word(distance)), ir.VectorType(ir.IntType(64), 2))

    def first(self, address: Any, past: Any) -> tuple[list[Any], Any]:
        """(the first ``past + 1`` bytes with zeros before them, what to mix into the next block); 64 bytes are read."""
        masks = [*[0] * 64, *[0xFF] * 64, *[0] * 64, *[0xFF] * 4, *[0] * 76]
        content = ir.Constant(ir.ArrayType(ir.IntType(8), len(masks)), masks)
        builder = self.builder
        mask = builder.add(builder.add(self.hidden("crc_masks", content), past), self.word(1))
        content_vectors = self.block(builder.sub(builder.add(address, past), self.word(63)))
        masked = map(builder.and_, content_vectors, self.block(mask))
        initial = map(builder.xor, masked, self.block(builder.add(mask, self.word(128))))
        return list(initial), self.half(mask, 192)

    def folded(self, values: list[Any], rest: Any, offset: Any, end: Any) -> Any:
        """The state after the block ``values`` and those from ``offset`` to ``end``.

        ``rest`` is mixed into the next.
        """
        builder, zeros, count = self.builder, ir.Constant(rest.type, [0, 0]), self.kind.count
        widened = ir.Constant(ir.VectorType(ir.IntType(32), count), [min(k, 2) for k in range(count)])
        far = loaded(builder, self.constants, self.kind)

        # A round folds the carried block over the next; what is mixed into its first bytes comes from before.
        def once(now: list[Any]) -> list[Any]:
            *carried, rest, offset = now
            block = self.block(offset)
            block[0] = builder.xor(block[0], builder.shuffle_vector(rest, zeros, widened))
            after = [
                builder.xor(_moved(builder, vector, far), next_vector)
                for vector, next_vector in zip(carried, block, strict=True)
            ]
            return [*after, zeros, builder.add(offset, self.word(_BLOCK))]

        initial = [*values, rest, offset]
        *values, _, _ = while_loop(builder, initial, lambda now: builder.icmp_unsigned("<", now[-1], end), once)
        return self.merged(values)

    def folded_side_by_side(self, state: Any, address: Any, end: Any) -> Any:
        """The state after ``state`` and the bytes from ``address`` to ``end``, a multiple of _BLOCKS blocks."""
        builder, count = self.builder, len(self.steps)
        far = loaded(builder, builder.add(self.constants, self.word(2 * _BLOCK)), self.kind)
        steps = [self.word(k * _BLOCK) for k in range(_BLOCKS)]
        initial = [vector for step in steps for vector in self.block(builder.add(address, step))]
        initial[0] = builder.xor(initial[0], self.mixed(state))

        # One round loads _BLOCKS blocks and folds the carried vectors over them; independent vectors hide the latency.
        def once(now: list[Any]) -> list[Any]:
            *carried, offset = now
            loaded_vectors = [vector for step in steps for vector in self.block(builder.add(offset, step))]
            after = [
                builder.xor(_moved(builder, folded_vector, far), next_vector)
                for folded_vector, next_vector in zip(carried, loaded_vectors, strict=True)
            ]
            return [*after, builder.add(offset, self.word(_BLOCKS * _BLOCK))]

        initial.append(builder.add(address, self.word(_BLOCKS * _BLOCK)))
        *values, _ = while_loop(builder, initial, lambda now: builder.icmp_unsigned("<", now[-1], end), once)
        # The carried blocks are folded into one, then that into the state.
        near = loaded(builder, self.constants, self.kind)
        block = values[:count]
        for k in range(count, len(values), count):
            pairs = zip(block, values[k : k + count], strict=True)
            block = [
                builder.xor(_moved(builder, folded_vector, near), next_vector) for folded_vector, next_vector in pairs
            ]
        return self.merged(block)

    def mixed(self, state: Any) -> Any:
        """A state where it meets the first vector's bytes."""
        zeros, first = ir.Constant(self.kind, [0] * self.kind.count), ir.Constant(ir.IntType(32), 0)
        return self.builder.insert_element(zeros, self.builder.zext(state, ir.IntType(64)), first)

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

    # Generated code: each function emits the same folding for another beginning.
    @intrinsic
    def fold(_typing: Any, _address: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, count = arguments
            folding = _Folding(builder, size)
            past = builder.and_(builder.sub(count, folding.word(1)), folding.word(_BLOCK - 1))
            values, rest = folding.first(address, past)
            offset = builder.add(builder.add(address, past), folding.word(1))
            return folding.folded(values, rest, offset, builder.add(address, count))

        return types.uint32(types.int64, types.int64), generate

    @intrinsic
    def fold_on(_typing: Any, _state: Any, _address: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            state, address, count = arguments
            folding = _Folding(builder, size)
            values = [ir.Constant(folding.kind, [0] * folding.kind.count)] * len(folding.steps)
            zeros, first = ir.Constant(ir.VectorType(ir.IntType(64), 2), [0, 0]), ir.Constant(ir.IntType(32), 0)
            rest = builder.insert_element(zeros, builder.zext(state, ir.IntType(64)), first)
            return folding.folded(values, rest, address, builder.add(address, count))

        return types.uint32(types.uint32, types.int64, types.int64), generate

    @intrinsic
    def fold_long(_typing: Any, _state: Any, _address: Any, _count: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            state, address, count = arguments
            return _Folding(builder, size).folded_side_by_side(state, address, builder.add(address, count))

        return types.uint32(types.uint32, types.int64, types.int64), generate

    return fold, fold_on, fold_long


HAS_PAIR_CLMUL = {"pclmul", "vpclmulqdq", "avx2"} <= FEATURES
"""True if it multiplies two pairs of polynomials at once (VPCLMULQDQ on registers of 32 bytes)."""
HAS_WIDE_CLMUL = {"pclmul", "vpclmulqdq", "avx512f", "avx512bw"} <= FEATURES
"""True if it multiplies four pairs at once (VPCLMULQDQ, AVX-512)."""
_fold, _fold_on, _fold_long = _folding(64 if HAS_WIDE_CLMUL else 32 if HAS_PAIR_CLMUL else 16)


@kernel
def _crc_at_the_front(address: int, count: int) -> Any:
    """CRC32 as _crc_folded, without a byte before these: first the rest of blocks, then the rest of _BLOCKS of them."""
    head = count & (_BLOCK - 1)
    state = _crc_rest(address, head, np.uint32(0xFFFFFFFF))
    remainder = count & (_BLOCKS * _BLOCK - 1)
    if head < remainder:
        state = _fold_on(state, address + head, remainder - head)
    return _fold_long(state, address + remainder, count - remainder) if remainder < count else state


@part
def _crc_folded(address: int, count: int, before: int) -> Any:
    """CRC32 by carry-less multiplication."""
    if before < _BLOCK or count < 4:
        return _crc_at_the_front(address, count)
    return _fold(address, count)


@part
def _crc_by_tables(address: int, count: int, _before: int) -> Any:
    return _crc_rest(address, count, np.uint32(0xFFFFFFFF))


_crc_state = _crc_folded if HAS_CLMUL else _crc_by_tables


@part
def _crc32(address: int, count: int, before: int) -> Any:
    """Result of ``zlib.crc32`` for ``count`` bytes; ``before``: how many that stand before them may be read."""
    return _crc_state(address, count, before) ^ np.uint32(0xFFFFFFFF)


crc32: Any = memory.crc32 if CHECKED else _crc32
"""CRC32 of bytes. In plain Python this loop would take longer than all others together."""
