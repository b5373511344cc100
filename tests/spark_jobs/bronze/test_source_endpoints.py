from pathlib import Path

from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config.loader import from_keys


def test_before_the_first_run_no_endpoint_is_in_use(tmp_path: Path) -> None:
    servers = [{"host": "one"}, {"host": "two"}]
    source = {"mysql": {"user": "repl", "password": "x"}, "endpoints": servers}
    pipeline = from_keys({"lake": str(tmp_path), "sources": {"shop": source}}, tmp_path / "pipeline.yaml")
    listed = [opened.endpoint for opened in endpoints_of(pipeline, "shop").ordered()]
    assert listed == ["one:3306", "two:3306"]
