import signal
from contextlib import suppress

import dagster as dg
import pytest

from assets.failures import failing
from spark_jobs.errors import (
    ConfigError,
    DecodeError,
    JvmEnded,
    LakeError,
    LostRace,
    SourceError,
    StratalogError,
    TableStopped,
    Truncated,
)
from spark_jobs.text.codes import code_of
from spark_jobs.text.remedies import advised


@pytest.mark.parametrize(
    "error, is_retried",
    [
        (SourceError("the server is away"), True),
        (LostRace("another writer"), True),
        (LakeError("no space"), True),
        (JvmEnded("Spark's JVM ended"), False),
        (DecodeError("bytes"), False),
        (Truncated("bytes"), False),
        (ConfigError("a key"), False),
        (TableStopped("a table"), False),
    ],
)
def test_a_failure_has_the_message_and_is_tried_again_where_that_may_help(
    error: StratalogError, is_retried: bool
) -> None:
    with pytest.raises(dg.Failure) as raised, failing():
        raise error
    assert (raised.value.description, raised.value.allow_retries) == (advised(error), is_retried)
    assert raised.value.metadata["code"].value == code_of(error)
    assert raised.value.__suppress_context__


def test_what_is_not_ours_stays_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), failing():
        raise ZeroDivisionError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_terminated_is_no_step_that_failed(number: signal.Signals) -> None:
    """A finalizer that the signal arrives in drops the exception; the job that was cancelled then fails by its own."""

    def step() -> None:
        with suppress(BaseException):
            signal.raise_signal(number)
        raise LakeError("Job 3 cancelled as part of cancellation of all jobs")

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), dg.raise_execution_interrupts(), failing():
        step()
    signal.signal(number, before)
