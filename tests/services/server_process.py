"""A server that a test starts as a process of its own: its port, waiting until it listens, its end.

Put here: the process. Not here: what is started (gateway.py, azurite.py, tidb.py).
"""

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


class ServerProcess:
    """A process that listens on a port of this machine."""

    def __init__(self, port: int, *, tls: bool) -> None:
        self.port = port
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    def launch(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the process, and returns when it listens. Raises RuntimeError where it ends, TimeoutError."""
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if (status := self._process.poll()) is not None:
                raise RuntimeError(f"{command[0]} ended with status {status}")
            time.sleep(0.05)
        raise TimeoutError(f"{command[0]} does not listen")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
