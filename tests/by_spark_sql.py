"""Tables by Spark SQL that the engine would take. Put here: how. Not here: what is compared."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_jobs.engine import routing


@contextmanager
def by_spark_sql() -> Iterator[None]:
    """Every table goes by Spark SQL."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("why_silver_by_sql", "why_not_merged"):
            patched.setattr(routing, name, lambda *_: "a test")
        yield
