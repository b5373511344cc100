from typing import Any

import dagster as dg
import pytest

from assets import failures
from assets.keys import delivery_key
from dagster_project.build import build_defs
from tests.lakes.code_location import GivenSession
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.mysql, pytest.mark.usefixtures("brief_retries")]


@pytest.fixture
def brief_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are tried again as often as ever, and without the 40 seconds between."""
    monkeypatch.setattr(failures, "RETRY", dg.RetryPolicy(max_retries=failures.RETRY.max_retries, delay=0.01))


@pytest.mark.thorough
def test_a_target_table_is_an_asset_with_its_checkpoint(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline = copy.pipeline()
    copy.run(pipeline)
    copy.shop.execute("INSERT INTO t VALUES (2)")
    key = delivery_key("copy", (copy.schema, "t"))
    with dg.DagsterInstance.ephemeral() as instance:
        definitions = build_defs(pipeline, {"spark": GivenSession(copy.shop.spark)})
        assert definitions.resolve_asset_graph().get(key).group_name == "copy"
        assert definitions.resolve_job_def("sync_shop").execute_in_process(instance=instance).success
        result = definitions.resolve_job_def("deliver_copy").execute_in_process(instance=instance)
        [materialization] = [
            event.materialization for event in result.get_asset_materialization_events() if event.asset_key == key
        ]
        copy.require_same("t")
        metadata = {name: value.value for name, value in materialization.metadata.items()}
        assert metadata["delivery/position"] == copy.progress()[0]["position"]
        assert (metadata["delivery/rows"], metadata["delivery/windows"]) == (1, 1)
        copy.shop.execute("INSERT INTO t VALUES (3)", f"INSERT INTO `{copy.schema}`.t VALUES (3)")
        assert definitions.resolve_job_def("sync_shop").execute_in_process(instance=instance).success
        result = definitions.resolve_job_def("deliver_copy").execute_in_process(instance=instance, raise_on_error=False)
        assert not result.success


def test_what_the_user_may_not_fails_a_step_at_once(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline = copy.pipeline()
    copy.shop.run(pipeline)
    with dg.DagsterInstance.ephemeral() as instance:
        definitions = build_defs(pipeline, {"spark": GivenSession(copy.shop.spark)})
        job = definitions.resolve_job_def("deliver_copy")

        def failed() -> str:
            """The only failure of the job, which is not tried again."""
            result = job.execute_in_process(instance=instance, raise_on_error=False)
            assert not [event for event in result.all_events if event.is_step_up_for_retry]
            [failure] = [event.step_failure_data for event in result.all_events if event.is_step_failure]
            assert failure.user_failure_data
            return failure.user_failure_data.description or ""

        # A table, then the delivery.
        copy.execute(f"REVOKE CREATE ON `{copy.schema}`.* FROM writer@'%'")
        assert f"GRANT CREATE ON `{copy.schema}`.* TO 'writer'@'%'" in failed()
        copy.execute("REVOKE ALL ON stratalog.* FROM writer@'%'")
        assert "GRANT SELECT, INSERT, UPDATE, CREATE ON `stratalog`.* TO 'writer'@'%'" in failed()


@pytest.mark.thorough
def test_tables_in_order_are_assets_that_move_together(copy: Copy) -> None:
    """Selecting one of them delivers the log for all, so that transactions stay whole; a stop fails the step."""
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO u VALUES (1)",
    )
    pipeline = copy.pipeline(apply="ordered")
    copy.run(pipeline)
    keys = [delivery_key("copy", (copy.schema, name)) for name in ("t", "u")]
    with dg.DagsterInstance.ephemeral() as instance:
        definitions = build_defs(pipeline, {"spark": GivenSession(copy.shop.spark)})
        job = definitions.resolve_job_def("deliver_copy")

        def delivered(**options: Any) -> tuple[bool, dict[dg.AssetKey | None, dict[str, Any]]]:
            assert copy.shop.run(pipeline)[1].stopped == {}
            result = job.execute_in_process(instance=instance, raise_on_error=False, **options)
            return result.success, {
                event.asset_key: {name: value.value for name, value in event.materialization.metadata.items()}
                for event in result.get_asset_materialization_events()
            }

        copy.shop.execute("START TRANSACTION", "INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (2), (3)", "COMMIT")
        is_success, metadata = delivered()
        assert is_success
        copy.require_same("t", "u")
        positions = {row["table_name"]: row["position"] for row in copy.progress()}
        assert [metadata[key]["delivery/rows"] for key in keys] == [1, 2]
        assert {metadata[key]["delivery/position"] for key in keys} == {positions["shop"]}
        # Nothing new: no table has a materialization.
        assert delivered() == (True, {})
        copy.shop.execute("START TRANSACTION", "DELETE FROM t WHERE id = 2", "DELETE FROM u", "COMMIT")
        is_success, metadata = delivered(asset_selection=[keys[0]])
        assert (is_success, [*metadata]) == (True, [keys[0]])
        copy.require_same("t", "u")
        # A statement in its place is in the metadata; what stands in the way stops all of them.
        copy.shop.execute("ALTER TABLE t ADD n INT", "INSERT INTO t VALUES (9, 9)", "INSERT INTO u VALUES (9)")
        copy.shop.execute(f"INSERT INTO `{copy.schema}`.u VALUES (9)")
        is_success, metadata = delivered()
        assert not is_success
        copy.shop.execute(f"DELETE FROM `{copy.schema}`.u")
        is_success, metadata = delivered()
        assert is_success
        copy.require_same("t", "u")
