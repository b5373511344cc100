"""Files of tests outlive no power cut. Put here: what is not waited for. Not here: faults of a disk (faults/disk.py).

A disk takes a tenth of a second and more while others write to it, and Dagster's instances ask it at each event.
"""

import os
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


def pytest_configure() -> None:
    """In this process and its forks. What tests say of durability they see by the calls."""
    os.fsync = _not_waited_for  # type: ignore[assignment] # by its only argument
    event.listen(Engine, "connect", _relaxed)


def _not_waited_for(_handle: Any) -> None:
    return None


def _relaxed(connection: Any, _record: Any) -> None:
    """SQLite hands pages to the system alone."""
    if "sqlite" in type(connection).__module__:
        connection.execute("PRAGMA synchronous=OFF")
