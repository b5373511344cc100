"""Hypothesis and what surrounds thousands of small tests. Put here: settings for all tests. Not here: strategies, which
stand beside what they describe."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

_SHARE = int(os.environ.get("STRATALOG_EXAMPLES", "25")) / 100
"""Of its random examples each test runs as many percent: a quarter, and three times as many as there are at night."""


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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The collector visits no more what stays until the end: 12,000 tests and the modules that they import.

    Nor does it visit what has been collected so far, again and again, while they are: that was a third of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
