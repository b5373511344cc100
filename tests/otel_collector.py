"""OpenTelemetry's collector, built by Go from tests/collector: OTLP by HTTP in, and what arrived as text.

Put here: building, starting and reading it. Not here: what it must have received.
"""

import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once
from tests.dev_server import wait_for

SOURCE = Path(__file__).parent / "collector"


def built() -> Path:
    """The collector's program, built by Go at first use: minutes. Raises ConfigError."""
    go = shutil.which("go")
    key = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCE.iterdir()))).hexdigest()[:16]

    def build(folder: Path) -> None:
        if go is None:
            raise ConfigError("the collector is built by Go, and no go is on the PATH")
        command = [go, "build", "-trimpath", "-o", str(folder / "collector"), "."]
        result = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"the collector was not built: {result.stderr.strip()[-300:]}")

    return made_once(f"collector-{key}", build) / "collector"


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
