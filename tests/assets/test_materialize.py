from pathlib import Path

import dagster as dg
import pytest

from assets.checkpoint import Comparison
from assets.materialize import StepResult, materialized, resynced
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from tests.binlogs.timelines import at

KEY = dg.AssetKey(["silver", "shop", "t"])


@pytest.mark.parametrize("version, data_version", [(None, "b.000001:500"), ("7", "7")])
def test_assets_after_a_table_are_unsynced_where_its_position_or_version_changed(
    version: str | None, data_version: str
) -> None:
    result = materialized(KEY, StepResult(at(500), {"rows": 7}, version), Comparison(None, at(400)))
    assert result.data_version == dg.DataVersion(data_version)
    assert result.metadata
    assert result.metadata["rows"] == 7


@pytest.mark.parametrize("position, count", [(at(500), 0), (at(400), 1)])
def test_a_position_that_dagster_has_wrong_is_materialized_again(
    tmp_path: Path, position: Position, count: int
) -> None:
    table = Table(str(tmp_path), plain=False)
    comparison = Comparison(position, at(500))
    results = list(resynced(KEY, comparison, Head(3, 2, Checkpoint(at(500), "batch")), table))
    assert len(results) == count
    assert list(resynced(KEY, comparison, None, table)) == [], "there is nothing to show of a table that is not there"
