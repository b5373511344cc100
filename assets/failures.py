"""How a step fails: with the message of an error, and tried again where the error may pass.

Put here: what is tried again, and the text of a failure. Not here: what is wrong (spark_jobs/errors.py).
"""

from types import TracebackType

import dagster as dg

from spark_jobs.errors import AnotherLog, ConfigError, DecodeError, JvmEnded, StratalogError, TableStopped
from spark_jobs.runtime.engine_errors import meaning
from spark_jobs.text.remedies import advised

RETRY = dg.RetryPolicy(max_retries=2, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""A lost connection and a lost race pass; what does not pass says so (``failing``)."""
_LASTING = (ConfigError, DecodeError, TableStopped, AnotherLog, JvmEnded)


class failing:  # noqa: N801 - reads as a statement: with failing():
    """Turns an error that has a message for the user into a failed step with that message and nothing else."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            error = meaning(error) or error
        if isinstance(error, StratalogError):
            raise dg.Failure(advised(error), allow_retries=not isinstance(error, _LASTING)) from None
