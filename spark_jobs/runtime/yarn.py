"""YARN as the master: what it must have before Spark's driver starts, and what its end of an application means.

Put here: the ResourceManager, asked by Hadoop's own client in this process's JVM. Not here: Spark's settings
(spark_session.py), or the JVM (jvm.py).

Spark's driver asks a ResourceManager that does not answer for fifteen minutes, and of an application that has ended it
says that a call failed. So the ResourceManager is asked here, before and after.
"""

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import ConfigError, JvmEnded
from spark_jobs.text.disclosure import foreign

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "yarn"
ARCHIVES = "spark.yarn.dist.archives"
"""Setting for archives. By ``spark.archives`` the driver and each executor would fetch and unpack what YARN has
unpacked already."""
_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IMPATIENT = {
    "yarn.resourcemanager.connect.max-wait.ms": "10000",
    "yarn.resourcemanager.connect.retry-interval.ms": "1000",
    "ipc.client.connect.max.retries": "0",
    "ipc.client.connect.max.retries.on.timeouts": "0",
    "ipc.client.connect.timeout": "3000",
}
"""Settings of Hadoop's client: ten attempts, half a minute at most where nothing answers at all."""
_NO_CONNECTION = re.compile(
    r"to (?P<address>\S+) failed on [a-z ]+ exception: [\w.$]+: (?P<cause>[^;\n]+)"
    r"|Invalid host name: .*?destination host is: \"?(?P<host>[^\";]+)\"?(?P<port>:\d+)"
)
_OF_HADOOP = "spark.hadoop."
_LAST = "For more detailed output, check the application tracking page"
_STATED = re.compile(r"Diagnostics: (?:\[[^\]]*\])?([^\n]+)")
_PRINTED = re.compile(r"Last \d+ bytes of stderr :\n((?:.+\n)+)")
_CONTAINER = re.compile(r"\[pid=\d+,containerID=(\w+)\]")
_TOO_LARGE = re.compile(r"Container killed by YARN for exceeding \w+ memory limits?\. (.+? memory used)")
_STATES = ("FINISHED", "FAILED", "KILLED")
_ENDING = 10
"""Seconds that the ResourceManager has, after a call failed, to report that the application ended."""

_client: Any = None
_application: str | None = None


def require_settings() -> None:
    """Check that a variable of the environment names the folder of YARN's settings. Raises ConfigError."""
    named = {name: folder for name in _FOLDERS if (folder := os.environ.get(name))}
    if not named:
        raise ConfigError(
            "spark.master: yarn: the environment has no HADOOP_CONF_DIR; set it to the folder of the cluster's "
            "yarn-site.xml, core-site.xml and hdfs-site.xml"
        )
    for name, folder in named.items():
        if not Path(folder).is_dir():
            raise ConfigError(f"spark.master: yarn: {name} is {folder}, and there is no such folder")


def require_manager(confs: dict[str, str]) -> None:
    """Check that the ResourceManager answers. Raises ConfigError; the JVM runs, and ``confs`` are Spark's settings."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    global _client  # noqa: PLW0603 - a process has one session, wherever that is
    SparkContext._ensure_initialized()  # noqa: SLF001 - nothing public has the JVM yet
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    of_hadoop = {key.removeprefix(_OF_HADOOP): value for key, value in confs.items() if key.startswith(_OF_HADOOP)}
    for key, value in (of_hadoop | _IMPATIENT).items():
        settings.set(key, value)
    client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
    try:
        client.init(settings)
        client.start()
        client.getYarnClusterMetrics()
    except Py4JJavaError as error:
        if silence := no_answer(str(error)):
            folder = next(os.environ[name] for name in _FOLDERS if os.environ.get(name))
            raise ConfigError(
                f"spark.master: yarn: the ResourceManager does not answer at {silence}; see that it runs, and that "
                f"yarn-site.xml in {folder} names it"
            ) from error
        return  # of what else is wrong, such as a ticket, Spark speaks
    _client = client


def no_answer(text: str) -> str | None:
    """Address that Hadoop's client had no answer from, and why; None where the failure is another."""
    match = _NO_CONNECTION.search(text)
    if match is None:
        return None
    if match["host"]:
        return f"{match['host']}{match['port']} (unknown host)"
    return f"{match['address']} ({match['cause'].strip()})"


def follow(session: "SparkSession") -> None:
    """Note the application of this session, which ``ended_by`` asks for from now on."""
    global _application  # noqa: PLW0603 - as above
    _application = session.sparkContext.applicationId


def ended_by(error: Exception) -> JvmEnded | None:
    """Error that an error of Spark's means which comes of the application's end; None for others."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    global _application  # noqa: PLW0603 - as above
    if _application is None or _client is None:
        return None
    number = _application
    until = time.monotonic() + (_ENDING if _is_shutdown_message(str(error)) else 0)
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    try:
        application_id = jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(number)
        while str((report := _client.getApplicationReport(application_id)).getYarnApplicationState()) not in _STATES:
            if time.monotonic() >= until:
                return None
            time.sleep(0.5)
        diagnostics = str(report.getDiagnostics())
    except (Py4JError, ConnectionError):  # the ResourceManager is gone, or the JVM
        return None
    _application = None
    reason = cause(diagnostics) or foreign(diagnostics, 1)
    return JvmEnded(
        f"spark.master: yarn: YARN has ended {number} in the middle of the work: {reason}; Spark's messages "
        f"about executors are above, and yarn logs -applicationId {number} prints their output. Every table is at its "
        "last commit; run it again"
    )


def memory_limit_message(text: str) -> str | None:
    """Message of Spark about an executor whose container YARN has ended for its size; None if not that."""
    match = _TOO_LARGE.search(text)
    if match is None:
        return None
    return (
        f"YARN ended its container, with {match[1]}; raise spark.executor.memoryOverhead in spark.conf, or lower "
        "spark.task_bytes"
    )


def cause(diagnostics: str) -> str | None:
    """Reason why a container failed, in one line, out of what the ResourceManager says of its application.

    None if not that.

    What the container printed last comes before the node's own words.
    """
    text = diagnostics.split(_LAST, maxsplit=1)[0]
    if match := _PRINTED.search(text):
        return foreign(match[1].strip().splitlines()[-1], 1)
    match = _STATED.search(text)
    return foreign(_CONTAINER.sub(r"\1", match[1]), 1) if match else None


def _is_shutdown_message(text: str) -> bool:
    """True if Spark raises it where its application has ended, or is about to."""
    return any(sign in text for sign in ("SparkContext was shut down", "stopped SparkContext", "awaitResult"))
