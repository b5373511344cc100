"""Kernels and their parts compute what their Python does, wrapped to 64 bits."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from spark_jobs.binlog.kernels import compile as compiling

FEATURES = "from spark_jobs.binlog.kernels.compile import FEATURES; print(len(FEATURES))"


@pytest.mark.parametrize("number, expected", [(0, 1), (41, 42), ((1 << 63) - 1, -(1 << 63))])
def test_a_part_computes_with_64_bits(number: int, expected: int) -> None:
    @compiling.part
    def following(value: Any) -> Any:
        return value + 1

    assert following(np.int64(number)) == expected


def test_division_by_zero_raises_nothing() -> None:
    @compiling.part
    def half(value: Any, by: Any) -> Any:
        return value / by

    with np.errstate(divide="ignore"):
        assert half(np.float64(1), np.float64(0)) == np.inf


@pytest.mark.parametrize(
    "name", ["NUMBA_DISABLE_JIT", pytest.param("NUMBA_CPU_NAME", marks=[pytest.mark.thorough, pytest.mark.processes])]
)
def test_nothing_special_is_used_where_the_processor_is_not_this_one(name: str) -> None:
    environment = os.environ | {name: "1" if name == "NUMBA_DISABLE_JIT" else "generic"}
    command = [sys.executable, "-c", FEATURES]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "0\n"
