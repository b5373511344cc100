"""Assets of a user's own that follow the downstream tables."""

import json
from pathlib import Path

import dagster as dg
import pytest

from assets import checkpoint
from tests.code_location import location

pytestmark = pytest.mark.dagster

ORDERS = dg.AssetKey(["downstream", "shop", "orders"])


@dg.asset(deps=[ORDERS], automation_condition=dg.AutomationCondition.eager())
def totals() -> None: ...


def test_an_asset_behind_a_downstream_table_follows_its_materializations(tmp_path: Path) -> None:
    with location(tmp_path) as made:
        made.pipeline.tables_file.write_text(
            json.dumps({"tables": [{"source": "shop", "schema": "shop", "table": "orders"}]})
        )
        defs = dg.Definitions.merge(made.defs(), dg.Definitions(assets=[totals]))
        cursor = None
        asked = []
        # Twice the same position: a backfill moves none, and its rows are other rows.
        for position in (None, "mysql-bin.000001:500", None, "mysql-bin.000001:500"):
            if position:
                said = {checkpoint.END: position}
                made.instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS, metadata=said))
            ticked = dg.evaluate_automation_conditions(
                defs, made.instance, asset_selection=dg.AssetSelection.all(), cursor=cursor
            )
            cursor = ticked.cursor
            asked.append(ticked.total_requested)
            if ticked.total_requested:
                made.instance.report_runless_asset_event(dg.AssetMaterialization(totals.key))
        assert asked == [0, 1, 0, 1]
