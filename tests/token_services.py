"""Services on loopback that give identities of clouds: what a test answers, and what was asked.

Put here: serving. Not here: what each cloud's service says (tests/spark_jobs/source/login).
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes | dict[str, object]]


@dataclass(frozen=True)
class Asked:
    """A request as the service saw it; names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class TokenService:
    """A service, and the requests that it got."""

    url: str
    requests: list[Asked] = field(default_factory=list)


@contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[TokenService]:
    """A service on a free port, each request in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            service.requests.append(asked)
            status, content = answer(asked)
            content = json.dumps(content).encode() if isinstance(content, dict) else content
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", content.decode())
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(BrokenPipeError):  # who asked may have given up
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = _reply  # noqa: N815 -- names that the base class calls

        def log_message(self, *_: Any) -> None:
            """Nothing: tests read what the program logs."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = TokenService(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def moment(seconds: float) -> str:
    """A time so many seconds from now, as AWS writes it."""
    return f"{datetime.fromtimestamp(time.time() + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def instance(keys: Callable[[], dict[str, object]]) -> Callable[[Asked], Answer]:
    """The answers of EC2's metadata service, version 2 alone, for a machine with the role ``reader``."""

    def answer(asked: Asked) -> Answer:
        if (asked.method, asked.path) == ("PUT", "/latest/api/token"):
            return (
                (200, b"session-of-test") if asked.headers.get("x-aws-ec2-metadata-token-ttl-seconds") else (400, b"")
            )
        if asked.headers.get("x-aws-ec2-metadata-token") != "session-of-test":
            return 401, b""
        folder = "/latest/meta-data/iam/security-credentials/"
        return (
            (200, b"reader\n")
            if asked.path == folder
            else (200, keys())
            if asked.path == f"{folder}reader"
            else (404, b"")
        )

    return answer
