import dagster as dg
import pytest

from assets.keys import delivery_key
from dagster_project.build import build_defs
from tests.code_location import GivenSession
from tests.delivered import Copy

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.mysql]


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
