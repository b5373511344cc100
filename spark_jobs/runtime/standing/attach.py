"""Attaching a run to the standing session that fits it, which is started where there is none.

Put here: what fits, and what is done about a server that does not answer. Not here: the files (folder.py), the server's
process (keeper.py), or sessions on it (runtime/connect.py).

A server's tasks have the environment that it was started with. So it is given no more than what is compared: a run
whose credentials differ gets a server of its own, and what is not compared reaches no task.
"""

import hashlib
import json
import logging
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.config.yaml_file import VARIABLE
from spark_jobs.runtime.executors import code_version
from spark_jobs.runtime.provision import java_program
from spark_jobs.runtime.standing.folder import IS_SUPPORTED, SessionFolder, Unusable, is_listening, session_folder

log = logging.getLogger(__name__)

_PREFIXES = (
    *("ARROW_", "AWS_", "AZURE_", "HADOOP_", "HDFS_", "JAVA_", "JDK_JAVA_", "KRB5", "LC_", "LD_", "MALLOC_"),
    *("NUMBA_", "OMP_", "PYSPARK_", "PYTHON", "SPARK_", "SSL_", "STRATALOG_", "YARN_"),
)
_NAMES = frozenset(
    (
        *("CLASSPATH", "HOME", "LANG", "LANGUAGE", "LOGNAME", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME"),
        *("_JAVA_OPTIONS", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"),
        *(f"{scheme}_proxy" for scheme in ("http", "https", "no", "all")),
        *(f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "NO", "ALL")),
    )
)
"""Variables of the environment that a server and its tasks have, by how they begin and by name."""
_OF_A_PROCESS = frozenset(
    (
        *(VARIABLE, "STRATALOG_DEBUG", "SPARK_REMOTE", "SPARK_ENV_LOADED", "SPARK_CONNECT_MODE", "PYTHONUNBUFFERED"),
        *("SPARK_CONNECT_MODE_ENABLED", "SPARK_CONNECT_AUTHENTICATE_TOKEN", "PYSPARK_SUBMIT_ARGS"),
    )
)
"""Variables of these that are of one process and no task reads."""
_PATIENCE = 200
"""Seconds that a run waits for a server, started by itself or another, before it does without."""
_ENDING = 5
"""Seconds that a server has which did not answer."""
_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Wish:
    """Settings that a server is to be started with.

    settings: of Spark. starting: those of them that are made when a server starts; they follow from what is compared.
    keep: seconds. spark: its version. home: its folder. secrets: names of further variables that tasks read.
    """

    settings: Mapping[str, str]
    starting: Callable[[], Mapping[str, str]]
    keep: float
    spark: str
    home: Path
    secrets: Iterable[str] = ()

    def environment(self) -> dict[str, str]:
        """The variables that its tasks see, but for PATH, of which the programs that it leads to are compared."""
        names = {name for name in os.environ if name in _NAMES or name.startswith(_PREFIXES)} - _OF_A_PROCESS
        return {name: os.environ[name] for name in sorted(names | {*self.secrets} & os.environ.keys())}

    def key(self) -> str:
        """The name of its folder: equal for runs that may have one server."""
        defaults = Path(os.environ.get("SPARK_CONF_DIR") or self.home / "conf", "spark-defaults.conf")
        mask = os.umask(0o077)
        os.umask(mask)
        facts = [
            dict(self.settings),
            self.environment(),
            [self.keep, self.spark, str(self.home), code_version(), sys.executable, shutil.which(java_program())],
            [mask, os.getuid(), os.getgid(), sorted(os.getgroups()), os.environ.get("PYSPARK_SUBMIT_ARGS")],
            # Folders of temporary files can be shared by containers, which do not reach each other's processes.
            [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "pid", "mnt", "user")],
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
            defaults.read_text(encoding="utf-8") if defaults.is_file() else "",
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(slots=True)
class Attachment:
    """A server that this process has until it detaches, or ends."""

    port: int
    token: str = field(repr=False)
    folder: SessionFolder
    descriptor: int
    """Descriptor of the file that shows the attachment while it is open; -1 after it was closed."""

    def detach(self) -> None:
        """Detach from the server, which is then as unused as it was."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def discard(self) -> None:
        """End the server, which did not answer. Raises Unusable where other runs have it: it may be slow with them."""
        with self.folder.locked(time.monotonic() + _PATIENCE):
            self.detach()
            if runs := self.folder.runs():
                pids = ", ".join(str(run.pid) for run in runs)
                raise Unusable(f"its server does not answer, and other runs are attached to it (processes {pids})")
            self.folder.withdraw()
            self.folder.end(_ENDING)


def attach(wish: Wish) -> Attachment:
    """The server that fits, with this process attached to it. Raises Unusable where none can be had."""
    if not IS_SUPPORTED:
        raise Unusable("it needs Linux")
    try:
        return _attached(wish)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise Unusable(f"{name}{error.strerror or error}") from error


def _attached(wish: Wish) -> Attachment:
    until, has_started = time.monotonic() + _PATIENCE, False
    folder = session_folder(wish.key())
    # Each look is short and under the lock: whoever starts or ends does so between two looks of another.
    while time.monotonic() < until:
        with folder.locked(until):
            lock = folder.keeper_lock()
            if lock is not None:
                try:
                    if has_started:
                        raise Unusable(f"its server ended instead of listening; {folder.log} says why")
                    _start_keeper(folder, wish, lock)
                finally:
                    os.close(lock)
                has_started = True
            elif (state := folder.state()) and is_listening(state.server, state.port):
                return Attachment(state.port, folder.token(), folder, folder.attach())
        time.sleep(_EVERY)
    raise Unusable(f"its server does not listen after {_PATIENCE} s; {folder.log} says why")


def _start_keeper(folder: SessionFolder, wish: Wish, lock: int) -> None:
    """Start a keeper, which takes over the lock."""
    # What an earlier server left must not be taken for this one's.
    log.info("starting a Spark server that stays until it is unused for %g s (spark.keep)", wish.keep)
    folder.withdraw()
    (folder.path / "settings").unlink(missing_ok=True)
    extra = [word for word in shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) if word != "pyspark-shell"]
    # The task goes by standard input, the token by the environment: other users can see arguments.
    task = {
        "lock": lock,
        "settings": {**wish.settings, **wish.starting()},
        "keep": wish.keep,
        "code": code_version(),
        "spark": wish.spark,
        "submit": [str(wish.home / "bin" / "spark-submit"), *extra],
    }
    variables = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": secrets.token_hex(32), "SPARK_CONNECT_MODE": "0"}
    environment = wish.environment() | variables | {"PATH": os.environ.get("PATH", os.defpath)}
    module = "spark_jobs.runtime.standing.keeper"
    # Only the user can read the log, and a link in its place is not followed.
    errors = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            cwd=folder.path,
            env=environment,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C at a terminal, or its end, is not for others' runs
        )
    finally:
        os.close(errors)
    assert keeper.stdin
    # The keeper reads its task to the end of its input, and lives on by itself.
    keeper.stdin.write(json.dumps(task).encode())
    keeper.stdin.close()
    keeper.returncode = 0  # it outlives this process, which need not warn of that
