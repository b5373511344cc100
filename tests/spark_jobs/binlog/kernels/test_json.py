"""Documents as text: whole, in room that is too small, and damaged."""

from typing import Any

import numpy as np
import pytest

from spark_jobs.binlog.kernels import json, json_scalars
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.binary_json import text, write
from tests.binlogs.kernel_bytes import address

VALUES: list[Any] = [None, True, -7, 1.5, "a", [], {}, [1, [2, {"a": []}]], {"k": {"l": [None]}}, ["x" * 300]]


def rendered(documents: list[bytes], capacity: int) -> tuple[int, int, str]:
    """(code, row where it stopped, text of the rows before it)."""
    offset, _owner = address(b"".join(documents))
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int32)
    new_offsets, out = np.zeros(len(documents) + 1, np.int32), np.zeros(capacity, np.uint8)
    state, stack = np.zeros(2, np.int64), np.zeros((json.JSON_DEPTH, 7), np.int64)
    nulls = np.zeros(len(documents), np.uint8)
    code = json.json_text(offsets, offset, nulls, state, new_offsets, address_of(out), capacity, stack)
    return code, int(state[0]), out[: state[1]].tobytes().decode()


def test_documents() -> None:
    documents = [write(value) for value in VALUES]
    assert rendered(documents, 4096) == (0, len(VALUES) - 1, "".join(map(text, documents)))


@pytest.mark.parametrize("capacity", [0, 95, 110, 300])
def test_room_that_is_too_small(capacity: int) -> None:
    documents = [write(value) for value in VALUES]
    code, row, output = rendered(documents, capacity)
    assert code == json_scalars.JSON_NO_ROOM
    assert output == "".join(map(text, documents[:row]))


@pytest.mark.parametrize("damaged", [b"\x63", b"\x00", write([1, "abc"])[:-1], b"\x0c\xff\xff\xff\xff\xff"])
def test_bytes_that_are_no_document(damaged: bytes) -> None:
    assert rendered([write("first"), damaged], 4096) == (json_scalars.JSON_BAD, 1, '"first"')
