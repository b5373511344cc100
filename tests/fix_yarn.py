"""YARN for tests. Put here: its fixture. Not here: its processes (cluster/yarn.py)."""

import shutil
from collections.abc import Iterator

import pytest

from spark_jobs.errors import ConfigError
from tests.cluster.yarn import Yarn, hadoop_jars
from tests.fix_cluster import KEYS

DEBUG = "yarn.nodemanager.log-container-debug-info.enabled"
"""By default a copy of the script that starts a container, with its variables, is among the container's logs."""
WHITELIST = "JAVA_HOME,HADOOP_COMMON_HOME,HADOOP_HDFS_HOME,HADOOP_CONF_DIR,PATH,LANG,TZ"
"""Variables of a NodeManager that containers get, as docs/clusters/yarn.md has them before the keys."""


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """The run's only YARN; its NodeManagers have a store's keys in their environment, and pass them on.

    Skipped where Hadoop's jars cannot be had.
    """
    try:
        hadoop_jars()
    except ConfigError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("yarn")
    settings = {"yarn.nodemanager.env-whitelist": ",".join([WHITELIST, *KEYS]), DEBUG: "false"}
    with Yarn(folder, settings, KEYS) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)
