"""A lake on S3 by Spark in this process, by Connect and on a cluster. Put here: that. Not here: the store."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.test_standalone import settings
from tests.cluster.ways import Bucket, Way
from tests.fix_cluster import Cluster, Server, Ways
from tests.gateway import ACCESS, ROOT_SECRET

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.stores]


def require_no_secret(way: Way, *logs: Path) -> None:
    """Neither key is in what programs printed, or in the configuration."""
    for file in (way.config, *logs):
        assert ROOT_SECRET not in file.read_text(encoding="utf-8", errors="replace"), file


def test_a_run_by_connect(
    keyed_server: Server, ways: Ways, s3_lake: Bucket, local_demo: Way, tmp_path: Path, summary: list[str]
) -> None:
    way = ways(tmp_path / "demo", {"remote": keyed_server.remote}, is_demo=True, bucket=s3_lake)
    way.run("run")
    assert way.tables() == local_demo.tables()
    require_no_secret(way, keyed_server.program.log)
    summary.append(of_tables("run", "Connect", way))


def test_a_run_on_a_cluster(
    keyed_cluster: Cluster, ways: Ways, s3_lake: Bucket, local_demo: Way, tmp_path: Path, summary: list[str]
) -> None:
    way = ways(tmp_path / "demo", settings(keyed_cluster), is_demo=True, bucket=s3_lake)
    way.run("run")
    assert way.tables() == local_demo.tables()
    require_no_secret(way, *(worker.log for worker in keyed_cluster.workers))
    summary.append(of_tables("run", "a standalone cluster", way))


def of_tables(verbs: str, spark: str, way: Way) -> str:
    tables = way.tables()
    rows = sum(map(Counter.total, tables.values()))
    return f"{verbs} by {spark} on S3: {rows:,} rows in {len(tables)} tables, as by this process in a folder"


def test_a_server_that_commits_in_another_way_is_one_message(
    connect: Server, ways: Ways, s3_lake: Bucket, tmp_path: Path
) -> None:
    """One with Delta alone: its own log store for S3 looks and puts."""
    way = ways(tmp_path / "demo", {"remote": connect.remote}, is_demo=True, bucket=s3_lake)
    ran = way.run("run", status=2)
    assert re.search(
        r"spark\.remote: sc://\S+: the server has nothing as spark\.delta\.logStore\.s3a\.impl, and not stratalog\."
        r"ConditionalLogStore, so that its commits could overwrite others; start it with ",
        ran.err,
    )
    assert not way.lake.exists()


def test_an_executor_without_keys_is_one_message(cluster: Cluster, ways: Ways, s3_lake: Bucket, tmp_path: Path) -> None:
    way = ways(tmp_path / "demo", settings(cluster), is_demo=True, bucket=s3_lake)
    ran = way.run("run", status=2)
    assert f"has no variable {ACCESS}; set it for the process, and on a cluster for executors" in ran.err
