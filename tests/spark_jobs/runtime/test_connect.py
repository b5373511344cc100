import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.runtime import connect
from tests.command_result import CommandResult, without_codes

WITHOUT = "import sys; sys.modules[{module!r}] = None; from spark_jobs.cli import main; main()"
WITH = "from spark_jobs.cli import main; main()"


def ran(pipeline: Path, remote: str, program: str = WITH) -> CommandResult:
    with pipeline.open("a") as file:
        file.write(f"spark: {{remote: '{remote}'}}\n")
    command = [sys.executable, "-c", program, "run", "-c", str(pipeline)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    return CommandResult(ended.returncode, ended.stdout, without_codes(ended.stderr))


def message(ended: CommandResult) -> str:
    """What it said at last, where that is all but the lines of what it does."""
    *steps, last = ended.err.splitlines()
    assert [line.split()[0].count(":") for line in steps] == [2] * len(steps), ended.err
    return last.removeprefix("shop: ")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as client_socket:
        client_socket.bind(("127.0.0.1", 0))
        return int(client_socket.getsockname()[1])


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("module", ["grpc", "grpc_status", "google.rpc"])
def test_a_missing_package_names_the_extra(pipeline_file: Path, module: str) -> None:
    ended = ran(pipeline_file, "sc://127.0.0.1:1", WITHOUT.format(module=module))
    assert ended.status == 2
    assert message(ended).startswith("spark.remote: sc://127.0.0.1:1: Spark Connect needs packages")
    assert message(ended).endswith("install stratalog[connect] (stratalog docs clusters/connect)")


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
def test_a_server_that_is_not_there_is_one_message_without_its_token(pipeline_file: Path, closed_port: int) -> None:
    ended = ran(pipeline_file, f"sc://localhost:{closed_port}/;token=s3cret;use_ssl=true")
    assert ended.status == 1
    assert message(ended).startswith(f"spark.remote: sc://localhost:{closed_port}: cannot be reached: ")
    assert "Connection refused" in message(ended)
    assert "s3cret" not in ended.err


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "remote", ["spark://127.0.0.1:7077", "sc://127.0.0.1:1/path", "sc://127.0.0.1:1/;s3cret", "sc://h:1;token=s3cret"]
)
def test_an_address_that_is_none_is_wrong_configuration(pipeline_file: Path, remote: str) -> None:
    ended = ran(pipeline_file, remote)
    assert ended.status == 2
    assert message(ended).startswith("pipeline.yaml: spark.remote: must be like sc://host:15002, ")
    assert "s3cret" not in ended.err


@pytest.mark.parametrize(
    "remote, address",
    [
        ("sc://host:15002", "sc://host:15002"),
        ("sc://host:15002/", "sc://host:15002"),
        ("sc://host:443/;use_ssl=true;token=s3cret", "sc://host:443"),
        ("sc://host/;token=s3cret", "sc://host"),
        ("sc://host:15002;token=s3cret", "sc://host:15002"),
        ("sc://host:15002/?token=s3cret", "sc://host:15002"),
        ("sc://[::1]:15002/#s3cret", "sc://[::1]:15002"),
        ("sc://user:s3cret@host:15002", "an address that cannot be shown"),
        ("s3cret", "an address that cannot be shown"),
    ],
)
def test_messages_have_no_token(remote: str, address: str) -> None:
    assert connect._address(remote) == address


def test_an_address_that_is_none_is_refused_without_its_token() -> None:
    with pytest.raises(ConfigError, match=r"spark\.remote: sc://127\.0\.0\.1:1: must be like") as refused:
        connect.connected("sc://127.0.0.1:1;token=s3cret", {}, {})
    error: BaseException | None = refused.value
    while error:
        assert "s3cret" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("server", ["4.2.0", "4.2.1", "4.2.0-amzn-1"])
def test_a_server_of_the_same_minor_version_is_taken(server: str) -> None:
    connect._require_spark(server)


@pytest.mark.parametrize("server", ["4.1.1", "3.5.6", "5.0.0"])
def test_a_server_of_another_minor_version_is_refused(server: str) -> None:
    with pytest.raises(ConfigError, match=f"the server is Spark {server}, and stratalog runs with pyspark 4.2"):
        connect._require_spark(server)
