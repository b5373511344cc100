"""What YARN says, as recorded from its ResourceManager. Put here: reading it. Not here: YARN (tests/cluster)."""

from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.runtime import yarn
from spark_jobs.runtime.executors import explained

NO_JAVA = """\
Application application_1_0004 failed 2 times due to AM Container for \
appattempt_1_0004_000002 exited with  exitCode: 127
Failing this attempt.Diagnostics: [2026-11-27 03:40:18.126]Exception from container-launch.
Container id: container_1_0004_02_000001
Exit code: 127

[2026-11-27 03:40:18.143]Container exited with a non-zero exit code 127. Error file: prelaunch.err.
Last 4096 bytes of prelaunch.err :
Last 4096 bytes of stderr :
/bin/bash: line 1: /opt/nothing/bin/java: No such file or directory


For more detailed output, check the application tracking page: http://localhost:1/ Then click on links to logs.
. Failing the application."""
TOO_LARGE = """\
Application application_1_0001 failed 2 times due to AM Container for \
appattempt_1_0001_000002 exited with  exitCode: -103
Failing this attempt.Diagnostics: [2026-11-27 03:45:18.736]Container [pid=3493,containerID=container_1_0001_02_000001] \
is running 941414912B beyond the 'VIRTUAL' memory limit. Current usage: 93.5 MB of 1 GB physical memory used; 3.0 GB \
of 2.1 GB virtual memory used. Killing container.
Dump of the process-tree for container_1_0001_02_000001 :"""
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage "
    "1.0 (TID 9) (node-3 executor 4): ExecutorLostFailure (executor 4 exited caused by one of the running tasks) "
    "Reason: Container killed by YARN for exceeding physical memory limits. 774.3 MB of 768 MB physical memory used. "
    "Consider boosting spark.executor.memoryOverhead.\nDriver stacktrace:"
)


REFUSED = (
    "java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1 failed on connection exception: "
    "java.net.ConnectException: Connection refused; For more details see:  http://wiki.apache.org/hadoop/"
)
UNKNOWN = (
    'java.net.UnknownHostException: Invalid host name: local host is: "vm/127.0.0.1"; destination host is: '
    '"rm.invalid":8032; java.net.UnknownHostException; For more details see:  http://wiki.apache.org/hadoop/'
)


@pytest.mark.parametrize(
    "text, expected",
    [
        (REFUSED, "localhost:1 (Connection refused)"),
        (UNKNOWN, "rm.invalid:8032 (unknown host)"),
        ("org.apache.hadoop.security.AccessControlException: SIMPLE authentication is not enabled", None),
    ],
)
def test_an_address_that_does_not_answer(text: str, expected: str | None) -> None:
    assert yarn.no_answer(text) == expected


def test_what_a_container_printed_is_the_cause() -> None:
    assert yarn.cause(NO_JAVA) == "/bin/bash: line 1: /opt/nothing/bin/java: No such file or directory"


def test_without_it_what_the_node_says_is_the_cause() -> None:
    message = yarn.cause(TOO_LARGE)
    assert message
    assert message.startswith("Container container_1_0001_02_000001 is running 941414912B beyond the")
    assert message.endswith("3.0 GB of 2.1 GB virtual memory used. Killing container.")


def test_other_words_have_no_cause() -> None:
    assert yarn.cause("Max number of executor failures (4) reached") is None


def test_an_executor_that_is_too_large_is_one_message() -> None:
    error = explained(LOST)
    assert isinstance(error, ConfigError)
    assert str(error) == (
        "executor node-3: YARN ended its container, with 774.3 MB of 768 MB physical memory used; raise "
        "spark.executor.memoryOverhead in spark.conf, or lower spark.task_bytes"
    )


def test_the_folder_of_settings_is_that_of_either_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="the environment has no HADOOP_CONF_DIR; set it to"):
        yarn.require_settings()
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    yarn.require_settings()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"HADOOP_CONF_DIR is .*gone, and there is no such folder"):
        yarn.require_settings()


def test_nothing_is_asked_where_no_application_is_followed() -> None:
    assert yarn.ended_by(RuntimeError("Job 0 cancelled because SparkContext was shut down")) is None
