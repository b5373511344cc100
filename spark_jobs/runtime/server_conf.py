"""Needs of a Spark Connect server for a pipeline: ``python -m spark_jobs.runtime.server_conf pipeline.yaml``.

Put here: settings that no session can set, as the lines of a file for ``spark-submit --properties-file``. Not here:
settings of sessions (spark_session.py, connect.py).

No secret is among them: a server reads keys of a store from its own environment.
"""

import sys
from pathlib import Path

from spark_jobs.config.loader import load
from spark_jobs.config.store import LakeStore
from spark_jobs.errors import StratalogError
from spark_jobs.runtime import python_daemon
from spark_jobs.runtime.hadoop import store_confs, store_jars
from spark_jobs.runtime.key_providers import trust_options
from spark_jobs.runtime.provision import delta_jars
from spark_jobs.runtime.spark_session import ALWAYS


def server_confs(store: LakeStore | None) -> dict[str, str]:
    """Settings by key: Delta, warm Python workers, and with a store its jars and how it is reached.

    Raises ConfigError where the jars cannot be had.
    """
    jars = [*delta_jars(), *store_jars(store)]
    confs = {"spark.jars": ",".join(map(str, jars)), "spark.python.daemon.module": python_daemon.MODULE, **ALWAYS}
    if store:
        confs |= store_confs(store)
        if trust := trust_options(store.settings):
            confs |= dict.fromkeys(("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), trust)
    return confs


def main(arguments: list[str]) -> int:
    """Print the settings of the pipeline's server. Returns the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m spark_jobs.runtime.server_conf pipeline.yaml\n")
        return 2
    try:
        confs = server_confs(load(Path(arguments[0])).spark.lake_store)
    except StratalogError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    sys.stdout.writelines(f"{key} {value}\n" for key, value in confs.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
