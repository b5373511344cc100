"""Dagster's own processes over a pipeline: their environment, and `dagster dev` to ask and to look at.

Put here: starting and stopping them. Not here: what a test expects of them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.waiting import wait_for

ROOT = Path(__file__).parents[2]


def environment(pipeline: Path, home: Path, **extra: str) -> dict[str, str]:
    """Of Dagster's commands: this pipeline, this instance, and the programs of the tests' own Python."""
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STRATALOG_CONFIG": str(pipeline),
        "DAGSTER_HOME": str(home),
    }
    return os.environ | variables | extra


@dataclass(frozen=True, slots=True)
class Served:
    """A webserver that answers."""

    url: str

    def ask(self, query: str, **variables: Any) -> Any:
        """The data of a GraphQL answer."""
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self.url}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)["data"]


WORKSPACE = ("dagster", "dev", "-w", "workspace.yaml")


@contextmanager
def development_server(
    variables: dict[str, str], log: Path, command: Sequence[str] = WORKSPACE, folder: Path = ROOT
) -> Iterator[Served]:
    """`dagster dev -w workspace.yaml`, or another command that serves the UI, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [*command, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output, _hearing_interrupts():
        server = subprocess.Popen(
            words, cwd=folder, env=variables, stdout=output, stderr=output, start_new_session=True
        )
    served = Served(f"http://127.0.0.1:{port}")
    try:
        _await(served, server, log)
        yield served
    finally:
        _stop(server)


@contextmanager
def _hearing_interrupts() -> Iterator[None]:
    """Processes that are started here end by Ctrl-C, also where a shell started the tests in the background."""
    is_deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_deaf:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    if is_deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(server: "subprocess.Popen[bytes]") -> None:
    """By Ctrl-C, as a user stops it; by force where that takes a minute."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _await(served: Served, server: "subprocess.Popen[bytes]", log: Path) -> None:
    def answers() -> bool:
        try:
            served.ask("{version}")
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, log.read_text()
            return False
        return True

    try:
        wait_for("dagster dev answers", answers)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()}") from None
