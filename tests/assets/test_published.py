"""What the last step says of a run, and that stopped tables fail it. Its writing is tested in test_chain.py."""

import dagster as dg
import pytest

from assets.published import fail
from spark_jobs.downstream.publication import Entry

pytestmark = pytest.mark.dagster

STOPPED = Entry("shop", "shop", "orders", "stopped", "shop: shop.orders: ALTER TABLE")


def raised_by(*entries: Entry) -> tuple[dg.Failure | None, dict[str, str]]:
    """What the step raises, and the run's tags after it."""

    @dg.op
    def publish(context: dg.OpExecutionContext) -> None:
        fail(context, entries)

    @dg.job
    def job() -> None:
        publish()

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        run = instance.get_run_by_id(result.run_id)
    assert run
    failed = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
    failure = failed[0] if failed else None
    return (dg.Failure(failure.description, failure.metadata) if failure else None), dict(run.tags)


def test_a_stopped_table_is_named_with_its_reason() -> None:
    failure, tags = raised_by(STOPPED)
    assert failure
    assert failure.description == ("1 stopped, the other tables went through:\nshop.orders: ALTER TABLE")
    assert list(failure.metadata) == ["shop.orders"]
    assert tags["stratalog/stopped_tables"] == "1"
