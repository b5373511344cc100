"""The usual verbs by each way of running Spark, on a lake in a folder and on a store: equal rows, equal output.

Put here: that table. Not here: masks, stops, renames by each way (test_connect.py, test_standalone.py).
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import test_yarn
from tests.cluster.test_standalone import settings
from tests.cluster.test_yarn import jars_of_nodes
from tests.cluster.ways import LOCAL, Bucket, Way
from tests.cluster.yarn import Yarn
from tests.fix_cluster import Cluster, Server, Ways
from tests.fix_store import KIND

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.stores, pytest.mark.long]
TABLES = ("carts", "orders", "products")


@pytest.fixture(scope="module")
def expected(ways: Ways, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, Counter[str]]]:
    """What verbs print and leave in a folder by a session of the process itself."""
    way: Way = ways(tmp_path_factory.mktemp("usual") / "demo", LOCAL, is_demo=True, tables=TABLES)
    printed = way.usual_verbs()
    way.close()
    return printed, way.tables()


def placed(spark: str, request: pytest.FixtureRequest, jars: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """``spark:`` of a pipeline, and variables of a run's environment. jars: a new folder for those of nodes."""
    if spark == "Connect":
        server: Server = request.getfixturevalue("keyed_server")
        return {"remote": server.remote}, {}
    if spark == "a standalone cluster":
        cluster: Cluster = request.getfixturevalue("keyed_cluster")
        return settings(cluster), {}
    if spark == "YARN":
        yarn: Yarn = request.getfixturevalue("yarn")
        conf = jars_of_nodes(jars, request.getfixturevalue("shared_bucket"))
        return test_yarn.settings(conf), yarn.variables
    return LOCAL, {}


@pytest.mark.parametrize("place", ["a folder", "a store"])
@pytest.mark.parametrize("spark", ["this process", "Connect", "a standalone cluster", "YARN"])
def test_verbs_leave_equal_rows(
    spark: str,
    place: str,
    expected: tuple[dict[str, str], dict[str, Counter[str]]],
    ways: Ways,
    stored_lake: Bucket,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    summary: list[str],
) -> None:
    if (spark, place) == ("this process", "a folder"):
        pytest.skip("it is what the others are compared with")
    bucket = stored_lake if place == "a store" else None
    keys, variables = placed(spark, request, tmp_path / "jars")
    way: Way = ways(tmp_path / "demo", keys, is_demo=True, tables=TABLES, bucket=bucket, variables=variables)
    printed = way.usual_verbs()
    way.close()
    assert (printed, way.tables()) == expected
    tables = way.tables()
    rows = sum(map(Counter.total, tables.values()))
    kind = f" ({KIND})" if bucket else ""
    summary.append(f"usual verbs by {spark} in {place}{kind}: {rows:,} rows in {len(tables)} tables, equal")
