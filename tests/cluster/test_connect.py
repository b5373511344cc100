"""Spark Connect: each verb against a real server. Put here: what Connect alone has. Not here: a master's address."""

from pathlib import Path

import pytest

from tests.cluster.ways import LOCAL, Way
from tests.fix_cluster import Server

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Way:
    """The recorded demo, taken in by a session of the process itself."""
    way = Way(tmp_path_factory.mktemp("local") / "demo", LOCAL, is_demo=True)
    way.run("run")
    return way


def test_a_run_leaves_the_tables_that_one_in_this_process_leaves(connect: Server, local: Way, tmp_path: Path) -> None:
    way = Way(tmp_path / "demo", {"remote": connect.remote}, is_demo=True)
    ran = way.run("run")
    assert "Warning" not in ran.err
    assert way.tables() == local.tables()
    assert sum(map(len, way.tables().values())) > 1_500


def test_all_verbs_leave_the_tables_that_they_leave_in_this_process(connect: Server, tmp_path: Path) -> None:
    ways = Way(tmp_path / "local", LOCAL), Way(tmp_path / "connect", {"remote": connect.remote})
    local, remote = (way.every_verb() for way in ways)
    assert remote == local
    assert ways[1].tables() == ways[0].tables()
