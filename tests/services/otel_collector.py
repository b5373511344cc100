"""OpenTelemetry's collector, built by Go from tests/collector: OTLP by HTTP in, and what arrived as text.

Put here: building, starting and reading it. Not here: what it must have received.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.services import go_programs
from tests.services.waiting import wait_for

SOURCE = Path(__file__).parents[1] / "collector"


def built() -> Path:
    """The collector's program, built by Go at first use: minutes. Raises ConfigError."""
    return go_programs.built(SOURCE) / SOURCE.name


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector that listens at ``url``, and writes all that it receives to its log."""

    url: str
    log: Path

    def text(self) -> str:
        return self.log.read_text()


def is_ready(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    text = log.read_text()
    assert process.poll() is None, text
    return "Everything is ready" in text


@contextmanager
def collector(folder: Path) -> Iterator[Collector]:
    """A collector on a port of its own, with the detailed exporter."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    pipeline = {"receivers": ["otlp"], "exporters": ["debug"]}
    configuration = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {"pipelines": {"traces": pipeline, "metrics": {**pipeline}}},
    }
    file = folder / "collector.yaml"
    file.write_text(yaml.safe_dump(configuration))
    log = folder / "collector.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [built(), "--config", str(file)], stdout=output, stderr=output, env=dict(os.environ)
        ) as process,
    ):
        try:
            wait_for("the collector is ready", lambda: is_ready(process, log), 60)
            yield Collector(f"http://{address}", log)
        finally:
            process.terminate()
            process.wait(30)
