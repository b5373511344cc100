"""Assets of a user's own that follow the downstream tables by declarative conditions."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets import checkpoint
from dagster_project.build import build_defs
from spark_jobs.config import known_tables
from tests.binlogs.segment_spec import Insert
from tests.lakes.code_location import CodeLocation, GivenSession, location

pytestmark = pytest.mark.dagster

ORDERS, LINES = dg.AssetKey(["downstream", "shop", "orders"]), dg.AssetKey(["downstream", "shop", "lines"])


@dg.asset(deps=[ORDERS], automation_condition=dg.AutomationCondition.eager())
def totals() -> None: ...


@dg.asset(deps=[LINES], automation_condition=dg.AutomationCondition.any_deps_updated())
def quantities() -> None: ...


@dg.asset(deps=[ORDERS, LINES], automation_condition=dg.AutomationCondition.any_deps_updated())
def orders_and_lines() -> None: ...


class Follower:
    """What Dagster's automation sensor requests, tick by tick; a requested asset is made at once."""

    def __init__(self, code_location: CodeLocation) -> None:
        self.location = code_location
        self._cursor: object = None

    def tick(self) -> list[str]:
        defs = dg.Definitions.merge(
            build_defs(self.location.pipeline, {"spark": GivenSession(self.location.spark)}),
            dg.Definitions(assets=[totals, quantities, orders_and_lines]),
        )
        instance = self.location.instance
        ticked = dg.evaluate_automation_conditions(
            defs,
            instance,
            asset_selection=dg.AssetSelection.all(),
            cursor=self._cursor,  # type: ignore[arg-type] # of the tick before
        )
        self._cursor = ticked.cursor
        requested = [key for key in (totals.key, quantities.key, orders_and_lines.key) if ticked.get_num_requested(key)]
        for key in requested:
            instance.report_runless_asset_event(dg.AssetMaterialization(key))
        return [key.to_user_string() for key in requested]


def test_an_asset_behind_a_downstream_table_follows_its_materializations(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        known_tables.add(code_location.pipeline.tables_file, {("shop", "shop", "orders"), ("shop", "shop", "lines")})
        follower = Follower(code_location)
        requests = []
        # Twice the same position: a backfill moves none, and its rows are other rows.
        for position in (None, "mysql-bin.000001:500", None, "mysql-bin.000001:500"):
            if position:
                metadata = {checkpoint.END: position}
                code_location.instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS, metadata=metadata))
            requests.append(follower.tick())
        assert requests == [[], ["totals", "orders_and_lines"], [], ["totals", "orders_and_lines"]]


@pytest.mark.thorough
@pytest.mark.spark
def test_assets_are_requested_by_runs_that_changed_their_tables_and_by_no_others(
    tmp_path: Path, spark: SparkSession
) -> None:
    with location(tmp_path, spark) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, 1)))
        assert code_location.run().success
        follower = Follower(code_location)
        follower.tick()  # what the first run made

        assert replace(code_location, spark=None).run().success, "nothing new: it starts no Spark"
        assert follower.tick() == []

        code_location.write(2, Insert("shop.orders", (2, "b")))
        assert code_location.run().success
        assert follower.tick() == ["totals", "orders_and_lines"], "shop.lines has not changed"

        code_location.write(3, Insert("shop.lines", (2, 2)))
        assert code_location.run().success
        assert follower.tick() == ["quantities", "orders_and_lines"]
        assert follower.tick() == []
