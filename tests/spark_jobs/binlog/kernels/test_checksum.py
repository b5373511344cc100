"""CRC32 as zlib computes it, by each method that a processor may have."""

import os
import subprocess
import sys
import zlib
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir

from spark_jobs.binlog.kernels import checksum
from spark_jobs.binlog.kernels.addresses import CHECKED
from tests.binlogs.kernel_bytes import address


@given(content=st.binary(max_size=400), before=st.integers(0, 100))
def test_crc32(content: bytes, before: int) -> None:
    offset, _owner = address(content)
    rest = content[before:]
    if len(content) >= before:
        assert checksum._crc32(offset + before, len(rest), before) == zlib.crc32(rest)


@pytest.mark.parametrize("count", [*range(300), 4096, 65537])
def test_crc32_of_long_runs(count: int) -> None:
    content = np.random.default_rng(count).bytes(64 + count)
    offset, _owner = address(content)
    for before in (0, 64):
        assert checksum._crc32(offset + before, count, before) == zlib.crc32(content[before : before + count])


@given(content=st.binary(max_size=200), state=st.integers(0, 0xFFFFFFFF))
def test_the_tables_of_crc32(content: bytes, state: int) -> None:
    """They serve processors without PCLMULQDQ, and the first event of a buffer."""
    offset, _owner = address(content)
    slow = checksum._crc_rest(offset, len(content), np.uint32(state))
    assert slow ^ 0xFFFFFFFF == zlib.crc32(content, state ^ 0xFFFFFFFF)


def in_halves(builder: Any, left: Any, right: Any, halves: int) -> Any:
    """Products of polynomials by vectors half as large, for a processor that has none so large."""
    count = left.type.count
    lower, upper = ([*range(k, k + count // 2)] for k in (0, count // 2))
    parts = [ir.Constant(ir.VectorType(ir.IntType(32), count // 2), part) for part in (lower, upper)]

    def half(vector: Any, part: Any) -> Any:
        return builder.shuffle_vector(vector, vector, part)

    products = [checksum._times(builder, half(left, part), half(right, part), halves) for part in parts]
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))
    return builder.shuffle_vector(*products, lanes)


@pytest.mark.skipif(not checksum.HAS_CLMUL, reason="this processor does not multiply polynomials")
@pytest.mark.parametrize("size", [16, 32, 64])
def test_crc32_folded_by_vectors_of_each_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this processor does without, because it has larger ones or none so large, too."""
    largest = 8 if checksum.HAS_WIDE_CLMUL else 4 if checksum.HAS_PAIR_CLMUL else 2
    times = checksum._times

    def divided(builder: Any, left: Any, right: Any, halves: int) -> Any:
        method = in_halves if left.type.count > largest else times
        return method(builder, left, right, halves)

    monkeypatch.setattr(checksum, "_times", divided)
    fold, fold_on, fold_long = checksum._folding(size)
    before, run_bytes = np.uint32(7), checksum._BLOCKS * 64

    @numba.njit
    def states(address: int, count: int, blocks: int, long: int) -> Any:
        return fold(address, count), fold_on(before, address, blocks), fold_long(before, address, long)

    for count in [*range(4, 500), 4096, 65537]:
        content = np.random.default_rng(count).bytes(64 + count + run_bytes)
        offset, _owner = address(content)
        counts = count, count + 63 & -64, count + run_bytes - 1 & -run_bytes
        expected = [zlib.crc32(content[64:][:size], initial) for size, initial in zip(counts, (0, ~7, ~7), strict=True)]
        assert [state ^ 0xFFFFFFFF for state in states(offset + 64, *counts)] == expected


AT_THE_EDGE = """
import ctypes, mmap, numpy, zlib
from spark_jobs.binlog.kernels import checksum
from spark_jobs.binlog.kernels.addresses import address_of
PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * PAGE)
start = address_of(numpy.frombuffer(memory, numpy.uint8)) + PAGE
content = bytes(k * 7 % 251 for k in range(PAGE))
memory[PAGE : 2 * PAGE] = content
for edge in (start - PAGE, start + PAGE):
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(edge), PAGE, 0) == 0
for before in (*range(70), 1000):
    for count in (*range(200), 1000, PAGE - before):
        first, last = content[before : before + count], content[PAGE - count :]
        assert checksum._crc32(start + before, count, before) == zlib.crc32(first)
        assert checksum._crc32(start + PAGE - count, count, PAGE - count) == zlib.crc32(last)
"""


@pytest.mark.skipif(CHECKED, reason="nothing is compiled where kernels run as plain Python")
def test_crc32_reads_nothing_but_what_it_may() -> None:
    """On a page between two that nobody may read: one byte too far would end the process."""
    process = subprocess.run([sys.executable, "-c", AT_THE_EDGE], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


ELSEWHERE = """
import numpy, zlib
from spark_jobs.binlog.kernels import checksum, utf8
from spark_jobs.binlog.kernels.addresses import address_of
content = numpy.frombuffer(bytes(range(200)), numpy.uint8)
right = checksum._crc32(address_of(content), 200, 0) == zlib.crc32(content)
print(checksum.HAS_CLMUL, utf8.HAS_SHUFFLE, right)
"""


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.skipif(CHECKED, reason="nothing is compiled where kernels run as plain Python")
def test_numba_may_be_told_for_which_processor_to_compile() -> None:
    """With instructions that this one has and the other has not, LLVM would end the process."""
    environment = os.environ | {"NUMBA_CPU_NAME": "generic"}
    command = [sys.executable, "-c", ELSEWHERE]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert output.split() == ["False", "False", "True"]
