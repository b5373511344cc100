"""Validation of text as UTF-8 or ASCII, by blocks where the processor looks up many bytes at once.

Put here: judging text. Not here: converting it (charset_text.py).
"""

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spark_jobs.binlog.kernels.compile import FEATURES, Array, kernel, part
from spark_jobs.binlog.kernels.intrinsics import load8, load32, load64, load64_at, loaded, trailing_zeros, while_loop

_SHUFFLES = {16: "llvm.x86.ssse3.pshuf.b.128", 32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
"""Look up sixteen bytes, each by four bits: so many at once."""


HAS_SHUFFLE = "ssse3" in FEATURES
"""True if this processor looks up sixteen bytes at once (x86 PSHUFB); elsewhere each character is looked at."""


def _utf8_errors() -> tuple[list[int], list[int], list[int]]:
    """Errors of two bytes side by side: by the first's high half, its low half, the second's high half.

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
    # Three tables by half bytes: the AND of their entries has a bit for each kind of error in two bytes.
    some_bytes, some_words = ir.VectorType(ir.IntType(8), size), ir.VectorType(ir.IntType(64), size // 8)
    tables = [ir.Constant(some_bytes, table * (size // 16)) for table in _utf8_errors()]

    # Constants, and what is wrong in one block given the block before it.
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

        # Bytes two and three offsets back say whether a continuation byte has to stand here.
        first = earlier(1)
        halves = builder.lshr(first, all_of(4)), builder.and_(first, all_of(15)), builder.lshr(block, all_of(4))
        lookups = [called(_SHUFFLES[size], *pair) for pair in zip(tables, halves, strict=True)]
        pair = builder.and_(builder.and_(lookups[0], lookups[1]), lookups[2])
        third = called(f"llvm.usub.sat.v{size}i8", earlier(2), all_of(0xE0 - 0x80))
        fourth = called(f"llvm.usub.sat.v{size}i8", earlier(3), all_of(0xF0 - 0x80))
        return builder.xor(pair, builder.and_(builder.or_(third, fourth), all_of(0x80)))

    # The loop over the blocks.
    @intrinsic
    def check(_typing: Any, _address: Any, _blocks: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word, zeros = ir.IntType(64), all_of(0)

            def looked(values: list[Any]) -> list[Any]:
                at, before, errors = values
                offset = builder.add(arguments[0], builder.mul(at, ir.Constant(word, size)))
                block = loaded(builder, offset, some_bytes)
                return [
                    builder.add(at, ir.Constant(word, 1)),
                    block,
                    builder.or_(errors, wrong(builder, before, block)),
                ]

            # The errors of all blocks in one vector, and then in one word.
            initial = [ir.Constant(word, 0), zeros, zeros]
            [_, _, errors] = while_loop(
                builder, initial, lambda now: builder.icmp_unsigned("<", now[0], arguments[1]), looked
            )
            words = builder.bitcast(errors, some_words)
            parts = [builder.extract_element(words, ir.Constant(word, k)) for k in range(size // 8)]
            return functools.reduce(builder.or_, parts)

        return types.uint64(types.int64, types.int64), generate

    return check


UTF8_BLOCK = 64 if "avx512bw" in FEATURES else 32 if "avx2" in FEATURES else 16
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
    checked = blocks * UTF8_BLOCK
    for k in range(1, min(3, checked) + 1):
        byte = load8(address + checked - k)
        if byte >= np.uint8(0xC0):
            return checked - k
        if byte < np.uint8(0x80):
            break
    return checked


@kernel
def valid_utf8(address: int, count: int) -> Any:
    """True if the bytes are UTF-8 as RFC 3629 has it: shortest form, no surrogates, at most U+10FFFF."""
    # Long texts are looked at in blocks first; the rest, less than a block, follows below.
    i = np.int64(0)
    if HAS_SHUFFLE and count >= _LONG:
        i = _in_blocks(address, count)
        if i < 0:
            return False
    while i < count:
        # Eight bytes at a time while they are ASCII.
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
        # Any other character by its lead byte: how many bytes follow, and within which bounds the first is.
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
        lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if second < lowest or second > highest:
            return False
        for k in range(2, size):
            if load8(address + i + k) & np.uint8(0xC0) != np.uint8(0x80):
                return False
        i += size
    return True


@kernel
def is_ascii(address: int, count: int) -> Any:
    """True if no byte has its highest bit set."""
    union = np.uint64(0)
    i = np.int64(0)
    while i < count & ~7:
        words: Any = min((count - i) >> 3, 512)
        for k in range(words):
            union |= load64_at(address + i, k)
        if union & np.uint64(0x8080808080808080) != 0:
            return False
        i += 8 * words
    while i < count:
        union |= np.uint64(load8(address + i))
        i += 1
    return (union & np.uint64(0x8080808080808080)) == 0


@kernel
def invalid_utf8(offsets: Array, address: int, bad: Array) -> Any:
    """Marks in ``bad`` the rows whose bytes are not UTF-8; returns how many."""
    rows = len(offsets) - 1
    if is_ascii(address + offsets[0], np.int64(offsets[rows] - offsets[0])):  # as most text is
        return 0
    all_valid = valid_utf8(address + offsets[0], np.int64(offsets[rows] - offsets[0]))
    if all_valid:
        # A run that is UTF-8 as a whole is so in parts where no part begins inside a character.
        filled = rows
        while filled and offsets[filled - 1] == offsets[rows]:
            filled -= 1
        for row in range(filled):
            if load8(address + offsets[np.uintp(row)]) & np.uint8(0xC0) == np.uint8(0x80):
                all_valid = False
                break
    count = 0
    if not all_valid:
        for row in range(rows):
            if not valid_utf8(address + offsets[row], np.int64(offsets[row + 1] - offsets[row])):
                bad[row] = 1
                count += 1
    return count
