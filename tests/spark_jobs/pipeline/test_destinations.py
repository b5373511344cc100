from pathlib import Path

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import from_keys
from spark_jobs.pipeline.destinations import why_not_anew


def test_a_table_that_routes_merge_with_others_begins_no_column_anew(tmp_path: Path) -> None:
    keys = {"lake": str(tmp_path), "sources": {"shop": {"files": str(tmp_path)}}}
    merging = from_keys(keys | {"routes": [{"from": "shop.a_*", "to": "shop.a"}]}, tmp_path / "pipeline.yaml")
    reasons = [why_not_anew(merging, "shop", TableName("shop", name)) for name in ("a_1", "b")]
    assert reasons == ["routes merge it with others into shop.a", None]
