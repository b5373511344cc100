"""What the last step says of a run, and that stopped tables fail it. Its writing is tested in test_chain.py."""

from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from assets.adoption import adopt
from assets.published import fail
from dagster_project.build import build_defs
from spark_jobs.downstream.publication import Entry
from tests.lakes import recorded_lake
from tests.lakes.recorded_lake import lineage_of, recorded

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


def no_session() -> None:
    raise AssertionError("a run without news starts no Spark")


def test_a_run_that_fails_for_a_stopped_table_asks_for_no_eager_asset_of_others(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, instance):
        lineage = lineage_of(pipeline)
        for event in adopt(instance, lineage):
            instance.report_runless_asset_event(event)
        table = next(asset.key for asset in lineage.downstream if asset.key != recorded_lake.STOPPED)

        @dg.asset(deps=[table], automation_condition=dg.AutomationCondition.eager())
        def totals() -> None: ...

        instance.report_runless_asset_event(dg.AssetMaterialization(totals.key))
        code = build_defs(pipeline, {"spark": SimpleNamespace(session=no_session)})
        defs = dg.Definitions.merge(code, dg.Definitions(assets=[totals]))
        all_assets = dg.AssetSelection.all()
        before = dg.evaluate_automation_conditions(defs, instance, asset_selection=all_assets)
        job = defs.resolve_implicit_global_asset_job_def()
        selected = [lineage.published, table]
        assert not job.execute_in_process(instance=instance, asset_selection=selected, raise_on_error=False).success
        after = dg.evaluate_automation_conditions(defs, instance, asset_selection=all_assets, cursor=before.cursor)
        assert after.get_num_requested(totals.key) == 0
