"""Hypothesis. Put here: its settings for all tests. Not here: strategies, which stand beside what they describe."""

import os

from hypothesis import settings

settings.register_profile(
    "stratalog",
    deadline=None,  # the first call of a kernel compiles it
    derandomize=bool(os.environ.get("CI")),  # the same examples at every run; new ones are for our own machines
    print_blob=True,
)
settings.load_profile("stratalog")
