"""Hypothesis and what surrounds thousands of small tests. Put here: settings for all tests. Not here: strategies, which
stand beside what they describe."""

import gc
import os

from hypothesis import settings

_SHARE = int(os.environ.get("STRATALOG_EXAMPLES", "100")) / 100
"""Of its random examples each test runs as many; `make test-fast` says a quarter."""


def examples(number: int) -> settings:
    """A test's settings that runs so many of them."""
    return settings(max_examples=max(4, round(number * _SHARE)))


settings.register_profile(
    "stratalog",
    examples(100),
    deadline=None,  # the first call of a kernel compiles it
    derandomize=bool(os.environ.get("CI")),  # the same examples at every run; new ones are for our own machines
    print_blob=True,
)
settings.load_profile("stratalog")


def pytest_collection_finish() -> None:
    """The collector visits no more what stays until the end: some 4,000 tests and the modules that they import."""
    gc.freeze()
