"""Addresses as kernels get them, checked and not."""

import os
import subprocess
import sys

import numpy as np
import pytest

from spark_jobs.binlog.kernels.addresses import address_of, address_of_parts
from tests.services.dev_server import ROOT

SCRIPT = """
from spark_jobs.binlog.kernels import addresses, memory
print(addresses.CHECKED, addresses.address_of is memory.note, addresses.address_of_parts is memory.note_parts)
"""


def test_an_address_is_that_of_the_first_byte() -> None:
    array = np.arange(10, dtype=np.int64)
    assert address_of(array) == array.ctypes.data
    assert address_of(array[2:]) == array.ctypes.data + 16


def test_memory_in_parts_has_the_address_of_its_whole() -> None:
    content, offsets, sizes = np.zeros(32, np.uint8), np.array([0, 8]), np.array([8, 24])
    assert address_of_parts(content, offsets, sizes) == content.ctypes.data


@pytest.mark.slow
@pytest.mark.parametrize("setting, checked", [("1", True), ("0", False), ("", False)])
def test_without_compilation_every_access_is_checked(setting: str, *, checked: bool) -> None:
    variables = os.environ | {"NUMBA_DISABLE_JIT": setting, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stdout.split() == [str(checked)] * 3
