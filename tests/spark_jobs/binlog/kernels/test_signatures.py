"""The table of signatures is of kernels that there are, in numba's own types."""

import importlib

import pytest
from numba import types

from spark_jobs.binlog import kernels
from spark_jobs.binlog.kernels.signatures import signatures

SIGNATURES = list(signatures())


def test_types_are_numbas() -> None:
    (scan,) = (arguments for name, arguments in SIGNATURES if name == "event_scan.scan")
    assert scan[:6] == (*[types.int64] * 5, types.uint8[::1])
    assert isinstance(scan[7], types.Tuple)
    assert scan[8] == types.Array(types.int64, 2, "C")
    (labels,) = (arguments for name, arguments in SIGNATURES if name == "value_text.copy_labels")
    assert labels[0] == types.Array(types.uint64, 1, "C", readonly=True)


def test_each_is_listed_once_and_of_a_kernel() -> None:
    assert len(set(SIGNATURES)) == len(SIGNATURES)
    for name, _ in SIGNATURES:
        module, _, function = name.partition(".")
        assert callable(getattr(importlib.import_module(f"spark_jobs.binlog.kernels.{module}"), function))


@pytest.mark.skipif(kernels.CHECKED, reason="nothing is compiled where kernels run as plain Python")
def test_every_kernel_of_the_package_is_listed() -> None:
    exported = {name for name in kernels.__all__ if hasattr(getattr(kernels, name), "py_func")}
    assert exported <= {name.partition(".")[2] for name, _ in SIGNATURES}
