"""Values that are no text, as text: against Python's own."""

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from spark_jobs.binlog.kernels import value_text
from spark_jobs.binlog.kernels.addresses import address_of

WORDS = [bytes(16), bytes(range(16)), b"\xff" * 16, bytes(range(240, 256))]


def texts(kernel: Any, values: list[bytes]) -> list[str]:
    content = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    new_offsets, out = np.zeros(len(values) + 1, np.int32), np.zeros(64 * len(values), np.uint8)
    kernel(offsets, address_of(content), np.zeros(len(values), np.uint8), new_offsets, out)
    return [out[new_offsets[row] : new_offsets[row + 1]].tobytes().decode() for row in range(len(values))]


@pytest.mark.parametrize(
    "kernel, size, expected",
    [
        (value_text.inet4_text, 4, lambda value: str(IPv4Address(value))),
        (value_text.uuid_text, 16, lambda value: str(UUID(bytes=value))),
    ],
)
def test_texts(kernel: Any, size: int, expected: Callable[[bytes], str]) -> None:
    values = [word[:size] for word in WORDS]
    assert texts(kernel, values) == [expected(value) for value in values]


@pytest.mark.parametrize("rows", [[], [1], [3, 0]])
def test_hexadecimal_of_the_rows_chosen(rows: list[int]) -> None:
    content = np.frombuffer(b"".join(WORDS), np.uint8)
    new_offsets, out = np.zeros(len(rows) + 1, np.int32), np.zeros(200, np.uint8)
    offsets = np.arange(0, 65, 16, dtype=np.int32)
    value_text.hex_text(offsets, address_of(content), np.array(rows, np.int64), new_offsets, out)
    assert out[: new_offsets[-1]].tobytes().decode() == "".join(WORDS[row].hex() for row in rows)
