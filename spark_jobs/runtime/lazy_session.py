"""A Spark session that is made at its first use: a run that has nothing for Spark to do starts no JVM.

Columns and expressions (``F.col``) need a session that is there: whoever makes them first calls ``start_session``.

Put here: standing in for a session. Not here: how one is made (spark_session.py). Nothing here imports pyspark.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _LazySession:
    """Makes the session when the first of its attributes is asked for; every attribute is the session's."""

    def __init__(self, make: "Callable[[], SparkSession]") -> None:
        self._stratalog_make = make
        self._stratalog_lock = threading.RLock()
        self._stratalog_session: SparkSession | None = None

    def _stratalog_started(self) -> "SparkSession":
        with self._stratalog_lock:
            if self._stratalog_session is None:
                self._stratalog_session = self._stratalog_make()
            return self._stratalog_session

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copies, pickles and inspects, and is no use of the session
            raise AttributeError(name)
        return getattr(self._stratalog_started(), name)


def lazy_session(make: "Callable[[], SparkSession]") -> "SparkSession":
    """A session that ``make`` makes at its first use, by whichever thread that is; once."""
    return cast("SparkSession", _LazySession(make))


def session_if_started(spark: "SparkSession") -> "SparkSession | None":
    """The session itself; None where it is a lazy one that nothing has used."""
    return spark._stratalog_session if isinstance(spark, _LazySession) else spark  # noqa: SLF001 - of this module


def start_session(spark: "SparkSession") -> "SparkSession":
    """The session itself, made where it is a lazy one: by this thread, which should be the main one (interrupt.py)."""
    return spark._stratalog_started() if isinstance(spark, _LazySession) else spark  # noqa: SLF001 - of this module
