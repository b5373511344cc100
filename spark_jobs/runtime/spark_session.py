"""Spark session of this process: the only module that builds one.

Put here: settings that every job needs, and why. Not here: settings of one job (``own_session``), or
Spark Connect's own ways (connect.py).
The same code runs in this process (``local[*]``), on a cluster (a master's address) and through Spark Connect.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import __version__
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_jobs.config.model import Spark
from spark_jobs.config.store import LakeStore
from spark_jobs.errors import ConfigError, JvmEnded
from spark_jobs.runtime import connect, environment, executors, python_daemon, yarn
from spark_jobs.runtime.engine_errors import translated, without_java
from spark_jobs.runtime.hadoop import store_confs, store_jars
from spark_jobs.runtime.jvm import attached, process, require_alive
from spark_jobs.runtime.jvm_output import errors_copied
from spark_jobs.runtime.key_providers import trust_options
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started, start_session
from spark_jobs.runtime.provision import cache_dir, class_archive, delta_jars, require_java, spark_home
from spark_jobs.runtime.standing.attach import Wish, attach
from spark_jobs.runtime.standing.folder import Unusable
from spark_jobs.storage.credentials import variables_of
from spark_jobs.storage.store_access import register_store

log = logging.getLogger(__name__)

ALWAYS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta keeps the snapshots of 10,000 tables, 1.2 MB each though they hold twenty rows: 1,540 of them, in a first
    # run over 1,000 tables, were 1.8 GB of a heap of 4.
    "spark.databricks.delta.delta.log.cacheSize": "200",
}
"""Settings of Spark itself, which no session can change."""
_RUNTIME = {
    "spark.sql.session.timeZone": "UTC",
    # A task decodes its slices once; a second attempt of a slow one would open a second dump connection.
    "spark.speculation": "false",
}
AS_WRITTEN = {
    # What is in a statement is of the source, and ${env:PASSWORD} in a default or a name would be replaced.
    "spark.sql.variable.substitute": "false",
    # Backslashes in literals escape, and names in backticks are names and no regular expressions (text/sql.py).
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
"""Settings by which statements are read; no configuration may have them read otherwise."""
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_COMPILED_FROM = 8 << 20
"""Bytes of log from which Spark's queries are worth compiling.

A merge compiles dozens of classes, again for every table: 40 % of what a JVM did in a run over 60 kB of log, in which
5 tables took 14 to 24 s on a busy machine. Interpreted, the rows of 5 MB take as long as they take compiled."""
_PARTITIONS = "spark.sql.shuffle.partitions"
_KEPT = (*_INTERPRETED, _PARTITIONS)
"""Settings of queries that a session takes over from the one that it is made beside."""
_A_TASK = 64 << 20
"""Bytes of log that one task of a shuffle has at most.

What it sorts, and the part of a file that it writes, are in memory beside each other. By the number of cores alone a
first window of 10 GB was two tasks of 17 million rows, and the end of a JVM of 1 GB."""


def _logging(file: str) -> str:
    """Option of the JVM: Spark logs as a file beside this one has it, and with STRATALOG_DEBUG all of it."""
    name = "log4j2.debug.properties" if os.environ.get("STRATALOG_DEBUG") else file
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name(name).as_uri()}"


JAVA_OPTIONS = _logging("log4j2.properties")
CLUSTER_JAVA_OPTIONS = _logging("log4j2.cluster.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SILENT_CLASSES = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""JVM options by which nothing is said of classes that an archive cannot take, or of an archive that does not fit."""
_LATE_OPTIMISER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Options of the JVM: its optimising compiler takes up code that was run ten times as often as by default.

Of a run over 10 tables it was a fifth of the processor time: it optimised code of Spark's that is run for seconds. What
is run for longer reaches these numbers too."""
_LOCAL = {
    # At their defaults (200 and 50) these cost seconds a commit on one machine.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Tables are named by path; the catalog's folder is never used, but Spark makes it in the current one.
    "spark.sql.warehouse.dir": str(cache_dir() / "warehouse"),
    _JAVA_OPTIONS: JAVA_OPTIONS,
    "spark.python.daemon.module": python_daemon.MODULE,
}
_CLUSTER = {_JAVA_OPTIONS: CLUSTER_JAVA_OPTIONS}
_KEPT_SESSION_CONFS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    # Nothing is uploaded, and by what a session uploads it would have a Python daemon of its own.
    "spark.sql.artifact.isolation.enabled": "false",
    # Work of a run that was killed ends soon, as that of its own JVM does.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    "spark.ui.showConsoleProgress": "false",
    # What is remembered of work that is done serves Spark's UI, which is off.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.connect.ui.retainedStatements": "20",
    "spark.sql.connect.ui.retainedSessions": "20",
}
"""Settings of a server that many runs have one after the other."""
_CONNECT_PYTHON = "spark.sql.execution.pyspark.python"
_LOOPBACK = ("SPARK_LOCAL_IP", "127.0.0.1")
"""Variable of the environment without which Spark looks its machine's own name up before all else, and ends where
nothing knows that name: in a chroot, in some containers, away from the office's network."""


def spark_session(settings: Spark) -> SparkSession:
    """The Spark session of this process, by the ``spark`` settings of a pipeline.

    Raises ConfigError where Java or the cluster's address is missing, JvmEnded where the JVM is gone.
    """
    register_store(settings.lake_store)
    if settings.remote:
        confs = _session_confs(_RUNTIME | AS_WRITTEN) | (
            {_CONNECT_PYTHON: environment.PYTHON} if settings.archive else {}
        )
        return _with_others(connect.connected(settings.remote, confs, settings.conf, archive=_archive(settings)))
    require_alive()
    if settings.keep and process() is None and (session := _kept_session(settings)):
        return session
    local = settings.master.startswith("local")
    archive = None if local else _archive(settings)
    if archive:
        os.environ["PYSPARK_PYTHON"] = environment.PYTHON
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need this environment, not the system's Python
    require_java()
    if local:
        os.environ.setdefault(*_LOOPBACK)
    on_yarn = settings.master == yarn.MASTER
    if on_yarn:
        yarn.require_settings()
    confs = _settings_of_spark(settings)
    if local:
        confs |= _with_classes(confs)
    if archive:
        confs[yarn.ARCHIVES if on_yarn else "spark.archives"] = archive
    session = _started(settings.master, confs)
    return session if local else _with_others(session)


def _settings_of_spark(settings: Spark) -> dict[str, str]:
    """Settings that a JVM begins with. Raises ConfigError where the jars cannot be had."""
    local = settings.master.startswith("local")
    confs = ALWAYS | _RUNTIME | {"spark.ui.showConsoleProgress": "false"} | (_LOCAL if local else _CLUSTER)
    store = settings.lake_store
    confs["spark.jars"] = ",".join(map(str, [*delta_jars(), *store_jars(store)]))
    confs |= store_confs(store)
    confs |= {"spark.master": settings.master, "spark.app.name": "stratalog"} | settings.conf | AS_WRITTEN
    if local:
        confs[_JAVA_OPTIONS] = f"{_LATE_OPTIMISER} {confs[_JAVA_OPTIONS]}"
    if store and (trust := trust_options(store.settings)):
        confs[_JAVA_OPTIONS] = f"{confs.get(_JAVA_OPTIONS, '')} {trust}".strip()
    return confs


def _key_variables(store: LakeStore | None) -> list[str]:
    """Names of the variables that decide who a process is to a store."""
    return list(variables_of(store.scheme, store.settings)) if store else []


def _kept_session(settings: Spark) -> SparkSession | None:
    """A session of the server that stays between runs; None, with a warning, where that cannot be had."""
    assert settings.keep
    session = connect.current()
    if session is not None:
        return session
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault(*_LOOPBACK)
    confs = _settings_of_spark(settings) | _KEPT_SESSION_CONFS

    def starting() -> dict[str, str]:
        require_java()
        return _with_classes(confs)

    wish = Wish(
        confs, starting, settings.keep.total_seconds(), __version__, spark_home(), _key_variables(settings.lake_store)
    )
    try:
        for _ in range(2):
            attachment = attach(wish)
            try:
                port, token, log_file = attachment.port, attachment.token, str(attachment.folder.log)
                session = connect.on_this_machine(port, token, log_file, attachment.detach)
            except JvmEnded as error:
                log.warning("%s; another is started", error)
                attachment.discard()
            else:
                executors.use_others()  # whose code may have been replaced since it was compared
                return session
    except Unusable as reason:
        log.warning("spark.keep: %s; this run starts Spark for itself", reason)
    return None


def _started(master: str, confs: dict[str, str]) -> SparkSession:
    on_yarn = master == yarn.MASTER
    try:
        with errors_copied(), _output_is_errors(), attached(confs):
            if on_yarn:
                yarn.require_manager(confs)
            session = _configured(SparkSession.builder, confs).getOrCreate()
    except (RuntimeError, OSError, Py4JError) as error:
        cause = (yarn.cause(str(error)) if on_yarn else None) or without_java(str(error), 1)
        raise ConfigError(f"Spark did not start on {master}: {cause}") from error
    if on_yarn:
        yarn.follow(session)
    return session


def _archive(settings: Spark) -> str | None:
    """The archive of this environment with the folder that executors unpack it into. Raises ConfigError."""
    if settings.archive is None:
        return None
    if "://" not in settings.archive and not Path(settings.archive).is_file():
        reason = "there is no such file; stratalog package --to FILE makes it"
        raise ConfigError(f"spark.archive: {settings.archive}: {reason}")
    return f"{settings.archive}#{environment.NAME}"


@cache
def _with_others(session: SparkSession) -> SparkSession:
    """The session, whose tasks run where this process's code may not be. Raises ConfigError where it is not."""
    executors.use_others()
    try:
        with translated(""):
            executors.require_same_code(session, slots(session))
    except ConfigError:
        stop_session(session)
        raise
    return session


def _with_classes(confs: Mapping[str, str]) -> dict[str, str]:
    """Options by which Java begins with the classes that were kept; of an archive that does not fit it says nothing."""
    archive = class_archive()
    classes = f"-XX:SharedArchiveFile={archive} {SILENT_CLASSES} " if archive else ""
    return {_JAVA_OPTIONS: classes + confs[_JAVA_OPTIONS]}


@contextmanager
def _output_is_errors() -> Iterator[None]:
    """Standard error in the place of standard output for a process that is started inside.

    Standard output is for results; Delta prints there what it has vacuumed.
    """
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)


def session_over(spark: SparkSession, size: int) -> SparkSession:
    """A session for queries over what ``size`` bytes of log became; a lazy one of a lazy one that is not started.

    Few rows are not worth compiling queries for; many are shuffled into more tasks than there are cores.
    """
    if session_if_started(spark) is None:
        return lazy_session(lambda: session_over(start_session(spark), size))
    tasks, partitions = str(spark.conf.get(_PARTITIONS)), -(-size // _A_TASK)
    settings = {_PARTITIONS: str(partitions)} if tasks.isdigit() and partitions > int(tasks) else {}
    return own_session(spark, settings if size >= _COMPILED_FROM else _INTERPRETED)


def stop_session(spark: SparkSession) -> None:
    """End this process's session, and with it those beside it."""
    if connect.is_connect(spark):
        connect.disconnect()
    else:
        spark.stop()


@cache
def slots(spark: SparkSession) -> int:
    """Number of tasks that Spark runs at a time: into so many parts it divides a range by itself."""
    session = start_session(spark)
    if connect.is_connect(session):  # which has no context to ask
        parts = session.range(1 << 16).select(F.spark_partition_id().alias("part")).distinct()
        return max(1, parts.count())
    return max(1, session.sparkContext.defaultParallelism)


def own_session(spark: SparkSession, confs: dict[str, str]) -> SparkSession:
    """A session beside the given one whose SQL settings nobody else sees.

    Whether it compiles, and into how many tasks it shuffles, is as there.
    """
    spark = start_session(spark)
    if connect.is_connect(spark):
        return connect.attach_channel(_session_confs(connect.conf_values(spark, _KEPT) | confs | AS_WRITTEN))
    inherited = {key: str(spark.conf.get(key)) for key in _KEPT}
    session = spark.newSession()
    for key, value in _session_confs(_RUNTIME | inherited | confs | AS_WRITTEN).items():
        session.conf.set(key, value)
    return session


def _session_confs(confs: dict[str, str]) -> dict[str, str]:
    """Settings that a session may have for itself."""
    return {key: value for key, value in confs.items() if key.startswith(("spark.sql", "spark.databricks", "parquet"))}


def _configured(builder: SparkSession.Builder, confs: dict[str, str]) -> SparkSession.Builder:
    for key, value in confs.items():
        builder = builder.config(key, value)
    return builder
