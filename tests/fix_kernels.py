"""Kernels that the project calls in the test's process. Put here: what is required of each call. Not here: tests.

A call by a signature that spark_jobs/binlog/kernels/signatures.py lacks compiles a kernel at each user's first use.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog.kernels.cache import KernelCache
from spark_jobs.binlog.kernels.machine_code import entry_name
from spark_jobs.binlog.kernels.signatures import signatures

_SOURCES = Path(__file__).parents[1] / "spark_jobs"


@pytest.fixture(scope="session", autouse=True)
def _listed_signatures() -> Iterator[None]:
    """Fails a test in which a module of the project calls a kernel by a signature that is not listed."""
    listed = {f"{name}{arguments}" for name, arguments in signatures()}
    load = KernelCache.load_overload

    def checked(self: KernelCache, sig: Any, target_context: Any) -> Any:
        compile_frame = sys._getframe(1)
        is_call = compile_frame.f_back is not None and compile_frame.f_back.f_code.co_name == "_compile_for_args"
        caller = compile_frame.f_back.f_back if is_call and compile_frame.f_back else None
        if caller and Path(caller.f_code.co_filename).is_relative_to(_SOURCES):
            name = entry_name(self._function, sig)
            assert name in listed, f"kernels/signatures.py lacks {name}"
        return load(self, sig, target_context)

    KernelCache.load_overload = checked  # type: ignore[method-assign]
    yield
    KernelCache.load_overload = load  # type: ignore[method-assign]
