"""The usual verbs by each way of running Spark, on a lake in a folder and on a store: equal rows, equal output.

Put here: that table. Not here: masks, stops, renames by each way (test_connect.py, test_standalone.py).
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_standalone import settings
from tests.cluster.ways import LOCAL, Bucket, Way
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


@pytest.mark.parametrize("place", ["a folder", "a store"])
@pytest.mark.parametrize("spark", ["this process", "Connect", "a standalone cluster"])
def test_verbs_leave_equal_rows(
    spark: str,
    place: str,
    expected: tuple[dict[str, str], dict[str, Counter[str]]],
    ways: Ways,
    stored_lake: Bucket,
    keyed_server: Server,
    keyed_cluster: Cluster,
    tmp_path: Path,
    summary: list[str],
) -> None:
    if (spark, place) == ("this process", "a folder"):
        pytest.skip("it is what the others are compared with")
    keys: dict[str, dict[str, Any]] = {
        "this process": LOCAL,
        "Connect": {"remote": keyed_server.remote},
        "a standalone cluster": settings(keyed_cluster),
    }
    bucket = stored_lake if place == "a store" else None
    way: Way = ways(tmp_path / "demo", keys[spark], is_demo=True, tables=TABLES, bucket=bucket)
    printed = way.usual_verbs()
    way.close()
    assert (printed, way.tables()) == expected
    tables = way.tables()
    rows = sum(map(Counter.total, tables.values()))
    kind = f" ({KIND})" if bucket else ""
    summary.append(f"usual verbs by {spark} in {place}{kind}: {rows:,} rows in {len(tables)} tables, equal")
