"""Executors of another process: whether the code of a task is the same there.

Put here: comparing the two before a task's code is unpacked, and what it means where an executor cannot run it.
Not here: how executors get the environment (environment.py), or the session (spark_session.py).

A task travels as a pickle that refers to this project's modules by name. An executor of another version would unpack
it into something else, so the pickle is wrapped in a function that needs nothing but Python: it compares, then unpacks.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.errors import ConfigError
from spark_jobs.runtime import yarn
from spark_jobs.telemetry.product import version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = Callable[[Iterator[Any]], Iterator[Any]]
"""A mapInArrow function."""

_ROOT = Path(__file__).parents[1]
_REMEDY = (
    "give executors this environment: stratalog package makes an archive of it (stratalog docs clusters#executors)"
)
_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\w+)\)")
_OTHER_CODE = re.compile(r"RuntimeError: stratalog on executor (\S+) is (.+?), and not (.+?);")
_OTHER_PYTHON = re.compile(r"Python in worker has different version: (\S+) than that in driver: (\S+?),? ")
_NO_MODULE = re.compile(r"pyspark[^\n]*worker(?:.|\n)*?ModuleNotFoundError: No module named '([\w.]+)'")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)".*?: (?:error=\d+, )?(?:Exec failed, )?(.+)')

_elsewhere = False


def use_others() -> None:
    """Note that tasks of this process run from now on where its code may not be."""
    global _elsewhere  # noqa: PLW0603 - a process has one session, wherever that is
    _elsewhere = True


def checked(task: Task) -> Task:
    """The task, or where it runs elsewhere one that first sees whether this project's code is the same there."""
    if not _elsewhere:
        return task
    from pyspark import cloudpickle

    return _comparing(cloudpickle.dumps(task), code_version())  # type: ignore[no-untyped-call]


def require_same_code(spark: "SparkSession", tasks: int) -> None:
    """Run a task on so many cores at once. Raises what Spark raises where an executor cannot run it: ``explained``."""
    spark.range(0, tasks, 1, tasks).mapInArrow(checked(_identity), "id BIGINT").toArrow()


@cache
def code_version() -> str:
    """The version of this project, and a sum over its code: versions that are being worked on have one number."""
    digest = sha256()
    for path in sorted(_ROOT.rglob("*.py")):
        digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version()} (code {digest.hexdigest()[:12]})"


def explained(text: str) -> ConfigError | None:
    """Message of a failed task about its executor, if it could not run the task for want of the right code."""
    host = _HOST.search(text)
    executor = f"executor {host[1]}" if host else "an executor"
    if match := _OTHER_CODE.search(text):
        return ConfigError(f"executor {match[1]} has stratalog {match[2]}, and this is {match[3]}; {_REMEDY}")
    if match := _OTHER_PYTHON.search(text):
        return ConfigError(f"{executor} runs tasks by Python {match[1]}, and this is Python {match[2]}; {_REMEDY}")
    if match := _NO_MODULE.search(text):
        return ConfigError(f"{executor} lacks the Python package {match[1].split('.')[0]}; {_REMEDY}")
    if match := _NO_PYTHON.search(text):
        return ConfigError(f"{executor} cannot start Python by {match[1]} ({match[2].strip()}); {_REMEDY}")
    if size := yarn.memory_limit_message(text):
        return ConfigError(f"{executor}: {size}")
    return None


def _identity(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _comparing(payload: bytes, expected: str) -> Task:
    def run(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - types would have to be there to unpack it
        import pickle
        import socket

        try:
            from spark_jobs.runtime.executors import code_version

            actual = code_version()
        except ImportError as error:
            actual = f"not there or another one ({error})"
        if actual != expected:
            raise RuntimeError(f"stratalog on executor {socket.gethostname()} is {actual}, and not {expected};")
        yield from pickle.loads(payload)(batches)  # noqa: S301 - of the driver, as all that executors run

    return run
