"""The usual verbs by each way of running Spark, on a lake in a folder and on a store: equal rows, equal output.

Put here: that table. Not here: masks, stops, renames by each way (test_connect.py, test_standalone.py).
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import LOCAL, Bucket, Deployment
from tests.cluster.test_standalone import settings
from tests.fix_cluster import Cluster, DeploymentFactory, Server
from tests.fix_store import KIND

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.stores, pytest.mark.long]
TABLES = ("carts", "orders", "products")


@pytest.fixture(scope="module")
def expected(
    deployments: DeploymentFactory, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], dict[str, Counter[str]]]:
    """What verbs print and leave in a folder by a session of the process itself."""
    deployment: Deployment = deployments(tmp_path_factory.mktemp("usual") / "demo", LOCAL, is_demo=True, tables=TABLES)
    printed = deployment.usual_verbs()
    deployment.close()
    return printed, deployment.tables()


@pytest.mark.parametrize("location", ["a folder", "a store"])
@pytest.mark.parametrize("spark", ["this process", "Connect", "a standalone cluster"])
def test_verbs_leave_equal_rows(
    spark: str,
    location: str,
    expected: tuple[dict[str, str], dict[str, Counter[str]]],
    deployments: DeploymentFactory,
    stored_lake: Bucket,
    keyed_server: Server,
    keyed_cluster: Cluster,
    tmp_path: Path,
    summary: list[str],
) -> None:
    if (spark, location) == ("this process", "a folder"):
        pytest.skip("it is what the others are compared with")
    keys: dict[str, dict[str, Any]] = {
        "this process": LOCAL,
        "Connect": {"remote": keyed_server.remote},
        "a standalone cluster": settings(keyed_cluster),
    }
    bucket = stored_lake if location == "a store" else None
    deployment: Deployment = deployments(tmp_path / "demo", keys[spark], is_demo=True, tables=TABLES, bucket=bucket)
    printed = deployment.usual_verbs()
    deployment.close()
    assert (printed, deployment.tables()) == expected
    tables = deployment.tables()
    rows = sum(map(Counter.total, tables.values()))
    kind = f" ({KIND})" if bucket else ""
    summary.append(f"usual verbs by {spark} in {location}{kind}: {rows:,} rows in {len(tables)} tables, equal")
