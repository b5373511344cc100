import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import dagster as dg
import pytest

from assets.failures import RETRY, failing, retried
from spark_jobs.errors import (
    AccessDenied,
    ConfigError,
    DecodeError,
    DeliveryDenied,
    DeliveryError,
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
        (AccessDenied("a password"), False),
        (DeliveryDenied("a privilege"), False),
        (DeliveryError("a deadlock"), True),
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


def dagster_events(step: Callable[..., Any]) -> list[dg.DagsterEvent]:
    """The events that a step of a run left, which may have been interrupted."""

    @dg.job(executor_def=dg.in_process_executor)
    def job() -> None:
        dg.op(name="step")(step)()

    with dg.DagsterInstance.ephemeral() as instance:
        with suppress(KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
            job.execute_in_process(instance=instance, raise_on_error=False)
        (run,) = instance.get_runs()
        events = [entry.dagster_event for entry in instance.all_logs(run.run_id)]
    return [event for event in events if event and event.step_key]


def events_of(step: Callable[..., Any]) -> list[str]:
    """Types of the events that say how far a step came."""
    names = [event.event_type_value for event in dagster_events(step)]
    return [name for name in names if name.startswith("STEP_") and name != "STEP_OUTPUT"]


@pytest.mark.parametrize("is_ours", [True, False], ids=["amid the work", "before it"])
def test_a_step_that_is_interrupted_is_not_begun_again(is_ours: bool) -> None:
    @retried
    def step(_: dg.OpExecutionContext) -> None:
        with failing() if is_ours else nullcontext():
            signal.raise_signal(signal.SIGINT)

    assert events_of(step) == ["STEP_START", "STEP_FAILURE"]


@pytest.mark.parametrize(
    "error, times",
    [
        (LakeError("no space"), 3),
        (ZeroDivisionError(), 3),
        (dg.Failure("a table has stopped"), 3),
        (ConfigError("a key"), 1),
        (dg.DagsterInvariantViolationError("a definition"), 1),
    ],
)
def test_a_step_is_begun_again_after_what_may_pass(
    error: Exception, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assets.failures.RETRY", RETRY._replace(delay=0))
    attempts = []

    def fail() -> None:
        raise error

    @retried
    def step(context: dg.OpExecutionContext) -> Iterator[dg.Output[None]]:
        attempts.append(context.retry_number)
        with failing():
            fail()
        yield dg.Output(None)

    events = events_of(step)
    assert attempts == list(range(times))
    assert events.count("STEP_UP_FOR_RETRY") == times - 1
    assert events[-1] == "STEP_FAILURE"


@pytest.mark.parametrize("is_ours", [True, False], ids=["in failing", "outside of it"])
@pytest.mark.parametrize(
    "error, times",
    [(ConfigError("a key"), 1), (AccessDenied("a password"), 1), (SourceError("the server is away"), 3)],
    ids=["configuration", "access", "away"],
)
def test_the_failure_of_a_step_begins_with_the_message(
    error: StratalogError, times: int, is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assets.failures.RETRY", RETRY._replace(delay=0))
    attempts = []

    @retried
    def step(context: dg.OpExecutionContext) -> None:
        attempts.append(context.retry_number)
        with failing() if is_ours else nullcontext():
            raise error

    failure = dagster_events(step)[-1].step_failure_data
    assert attempts == list(range(times))
    assert failure.error
    assert failure.error.message == f"dagster._core.definitions.events.Failure: {advised(error)}\n"
    assert failure.user_failure_data
    assert failure.user_failure_data.description == advised(error)
