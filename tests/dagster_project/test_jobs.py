"""Which assets the jobs take in."""

from pathlib import Path

import dagster as dg
import pytest

from dagster_project.build import build_defs
from spark_jobs.config.loader import from_keys
from tests.lakes.code_location import location

pytestmark = pytest.mark.dagster


def test_one_job_over_all_and_one_a_source(tmp_path: Path) -> None:
    sources = {"shop": {"files": "./binlogs"}, "archive": {"files": "./archive"}}
    with location(tmp_path, sources=sources) as code_location:
        defs = code_location.defs()
        of = {name: defs.resolve_job_def(name) for name in ("sync", "sync_shop", "sync_archive")}
        upkeep = defs.resolve_job_def("maintenance")
        assert not [job for job in defs.resolve_all_job_defs() if job.name.startswith("load_")], "files have no tables"
    keys = {name: {key.to_user_string() for key in job.asset_layer.selected_asset_keys} for name, job in of.items()}
    assert keys["sync_shop"] == {"bronze/shop", "published/shop"}
    assert keys["sync"] == keys["sync_shop"] | keys["sync_archive"]
    assert of["sync_shop"].tags["stratalog/source"] == "shop"
    assert "stratalog/source" not in of["sync"].tags
    assert all(job.executor_def == dg.in_process_executor for job in (*of.values(), upkeep))
    pools = {node.name: node.definition.pool for node in upkeep.graph.nodes}  # type: ignore[attr-defined] # steps are ops
    assert pools == {f"maintain_{name}": f"stratalog_source_{name}" for name in sources}, "one writer at a time"


def test_jobs_of_long_work_are_not_ended_by_the_limit_of_short_runs(tmp_path: Path) -> None:
    keys = {"lake": "./lake", "sources": {"shop": {"mysql": {"user": "repl"}}}, "verify": True}
    defs = build_defs(from_keys(keys, tmp_path / "pipeline.yaml", {}), tables=[("shop", "shop", "orders")])
    tags = {job.name: job.tags.get("dagster/max_runtime") for job in defs.resolve_all_job_defs()}
    # What is in no pool keeps nothing from running, whatever became of its host.
    assert {name for name, limit in tags.items() if limit == "0"} == {"load_shop_tables", "table_at"}
    held = {"mend_shop_tables", "backfill_range", "maintenance", "verify"}
    assert {name for name, limit in tags.items() if limit == "86400"} == held
    assert "stratalog/source" not in defs.resolve_job_def("load_shop_tables").tags, "runs of the source do not wait"
