"""Failure of a step: the message of the error, and a retry where the error may pass.

Put here: what is tried again, and the text of a failure. Not here: what is wrong (spark_jobs/errors.py).
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import dagster as dg

from spark_jobs.errors import (
    AccessDenied,
    AnotherLog,
    ConfigError,
    DecodeError,
    DeliveryDenied,
    JvmEnded,
    StratalogError,
    TableStopped,
)
from spark_jobs.runtime.engine_errors import meaning
from spark_jobs.runtime.interrupt import interruptible
from spark_jobs.text.codes import code_of
from spark_jobs.text.remedies import advised

RETRY = dg.RetryPolicy(max_retries=2, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""A lost connection and a lost race pass; what does not pass says so (``failing``). It is no step's own policy: Dagster
would begin a step again that was interrupted, and a terminated run would go on."""
_LASTING = (ConfigError, AccessDenied, DeliveryDenied, DecodeError, TableStopped, AnotherLog, JvmEnded)


@contextmanager
def failing() -> Iterator[None]:
    """Turn an error that has a message for the user into a failed step with that message and nothing else.

    Where its run is terminated, the block ends at once, by KeyboardInterrupt, and Spark's jobs with it.
    """
    try:
        with interruptible():
            yield
    except Exception as error:
        failure = _failure(error)
        if failure:
            raise failure from None
        raise


def _failure(error: Exception) -> dg.Failure | None:
    """The failure of a step by an error that has a message for the user; None for another error."""
    cause = meaning(error) or error
    if not isinstance(cause, StratalogError):
        return None
    return dg.Failure(advised(cause), {"code": code_of(cause)}, allow_retries=not isinstance(cause, _LASTING))


def retried(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A step's function that asks to be tried again, by ``RETRY``, after what may pass; an interrupt ends its run."""

    def events(context: Any, **inputs: Any) -> Iterator[Any]:
        with _retrying(context):
            yield from compute(context, **inputs)

    def result(context: Any, **inputs: Any) -> Any:
        with _retrying(context):
            return compute(context, **inputs)

    return wraps(compute)(events if inspect.isgeneratorfunction(compute) else result)


@contextmanager
def _retrying(context: Any) -> Iterator[None]:
    try:
        yield
    except dg.DagsterError:
        raise
    except Exception as error:
        failure = error if isinstance(error, dg.Failure) else _failure(error)
        # A request beyond the last would put Dagster's words about retries before the message.
        is_last = context.retry_number >= RETRY.max_retries
        if failure and (is_last or not failure.allow_retries):
            raise failure from None
        if is_last:
            raise
        raise dg.RetryRequested(RETRY.max_retries, RETRY.calculate_delay(context.retry_number + 1)) from error
