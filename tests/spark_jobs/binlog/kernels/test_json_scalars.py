"""Scalars of JSON: strings as json.dumps has them, lengths, and the room that they need."""

import json

import numpy as np
import pytest

from spark_jobs.binlog.kernels import json_scalars
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.kernel_bytes import address


@pytest.mark.parametrize(
    "string", ["", "plain", "x" * 100, 'quote " here', "back\\slash", "\n\t\b\f\r", "\x01\x1f", "ä日"]
)
def test_strings(string: str) -> None:
    content = string.encode()
    offset, _owner = address(content)
    out = np.zeros(6 * len(content) + 64, np.uint8)
    start = address_of(out)
    end = json_scalars.put_string(offset, len(content), start, start + len(out))
    assert out[: end - start].tobytes().decode() == json.dumps(string, ensure_ascii=False)
    assert json_scalars.put_string(offset, len(content), start, start + len(content)) == json_scalars.JSON_NO_ROOM


@pytest.mark.parametrize(
    "wire, length, length_bytes", [("00", 0, 1), ("02", 2, 1), ("800161", 128, 2), ("80", -1, 0), ("7f", -1, 0)]
)
def test_lengths_of_seven_bits_a_byte(wire: str, length: int, length_bytes: int) -> None:
    content = bytes.fromhex(wire)
    offset, _owner = address(content + bytes(max(length, 0)))
    end = offset + len(content) + max(length, 0)
    assert json_scalars._varying(offset, end) == (length, length_bytes)
