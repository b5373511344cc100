import pickle
import socket
import subprocess
import sys

import pytest
from pyspark import cloudpickle

from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.runtime import executors
from spark_jobs.runtime.engine_errors import explained
from spark_jobs.runtime.executors import Task, checked, code_version

LOST = "Job aborted: Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 2): "
CASES = {
    "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: "
    "3.11, PySpark cannot run with different minor versions.": "runs tasks by Python 3.12, and this is Python 3.11;",
    'Traceback (most recent call last):\n  File "/opt/pyspark.zip/pyspark/worker.py", line 1982, in main\n    import'
    " pyarrow\nModuleNotFoundError: No module named 'pyarrow.lib'\n": "lacks the Python package pyarrow; give",
    'java.io.IOException: Cannot run program "./stratalog/bin/python": error=2, No such file or directory': (
        "cannot start Python by ./stratalog/bin/python (No such file or directory); give"
    ),
}
"""What a failed task's text says, and the message."""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_elsewhere", True)


def pickled(task: Task) -> bytes:
    return bytes(cloudpickle.dumps(task))  # type: ignore[no-untyped-call]


def unpickled(task: Task) -> Task:
    """The task as an executor has it."""
    copy: Task = pickle.loads(pickled(task))  # noqa: S301 - ours
    return copy


def test_a_task_of_this_machine_is_taken_as_it_is() -> None:
    assert checked(iter) is iter


def test_a_task_runs_elsewhere_where_the_code_is_the_same(elsewhere: None) -> None:
    task = unpickled(checked(lambda rows: (row * 2 for row in rows)))
    assert list(task(iter([1, 2]))) == [2, 4]


def test_a_task_is_not_unpacked_where_the_code_is_another(elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    task = unpickled(checked(iter))
    monkeypatch.setattr(executors, "code_version", lambda: "0.0.9 (code 0123456789ab)")
    with pytest.raises(RuntimeError) as raised:
        list(task(iter([1])))
    error = explained("", f"{LOST}RuntimeError: {raised.value}")
    assert isinstance(error, ConfigError)
    assert str(error).startswith(
        f"executor {socket.gethostname()} has stratalog 0.0.9 (code 0123456789ab), and this is {code_version()}; give"
    )


def test_a_task_is_not_unpacked_where_the_code_is_missing(elsewhere: None) -> None:
    """In a Python that has pyspark's needs, and no module of this project."""
    program = (
        "import pickle, sys; sys.modules['spark_jobs'] = None\n"
        "task = pickle.loads(sys.stdin.buffer.read())\n"
        "list(task(iter([1])))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], input=pickled(checked(iter)), capture_output=True, check=False
    )
    error = explained("", ended.stderr.decode())
    assert isinstance(error, ConfigError)
    assert (
        f"executor {socket.gethostname()} has stratalog not there or another one (No module named 'spark_jobs"
        in str(error)
    )


@pytest.mark.parametrize("text, message", CASES.items())
def test_what_an_executor_lacks_is_one_message_with_its_host(text: str, message: str) -> None:
    error = explained("lake/bronze/shop", LOST + text)
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"executor 10.0.0.7 {message}")


def test_other_errors_of_tasks_are_not_the_executor_s() -> None:
    assert isinstance(explained("", LOST + "java.lang.OutOfMemoryError: Java heap space"), LakeError)
