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
    with location(tmp_path) as code_location:
        code_location.pipeline.tables_file.write_text(
            json.dumps({"tables": [{"source": "shop", "schema": "shop", "table": "orders"}]})
        )
        defs = dg.Definitions.merge(code_location.defs(), dg.Definitions(assets=[totals]))
        cursor = None
        requests = []
        # Twice the same position: a backfill moves none, and its rows are other rows.
        for position in (None, "mysql-bin.000001:500", None, "mysql-bin.000001:500"):
            if position:
                metadata = {checkpoint.END: position}
                code_location.instance.report_runless_asset_event(dg.AssetMaterialization(ORDERS, metadata=metadata))
            ticked = dg.evaluate_automation_conditions(
                defs, code_location.instance, asset_selection=dg.AssetSelection.all(), cursor=cursor
            )
            cursor = ticked.cursor
            requests.append(ticked.total_requested)
            if ticked.total_requested:
                code_location.instance.report_runless_asset_event(dg.AssetMaterialization(totals.key))
        assert requests == [0, 1, 0, 1]
