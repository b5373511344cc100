"""Services on loopback that give identities of clouds: what a test answers, and what was asked.

Put here: serving. Not here: what each cloud's service says (tests/spark_jobs/source/login).
"""

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

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
            if status == 200 and content.startswith(b"{"):
                self.send_header("Content-Type", "application/json")
            if "metadata-flavor" in headers:  # by which clients of Google know its metadata server
                self.send_header("Metadata-Flavor", headers["metadata-flavor"])
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


@dataclass(frozen=True)
class Role:
    """A role, and the keys that may assume it: access key, secret key, token of a session or an empty text."""

    arn: str
    by: tuple[str, str, str]
    external: str | None = None
    seconds: float = 3600


def assume_role(*roles: Role) -> Callable[[Asked], Answer]:
    """The answers of STS to AssumeRole: keys named after the role, to whoever signed by the keys that may have them."""

    def answer(asked: Asked) -> Answer:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        role = next((role for role in roles if role.arn == form["RoleArn"]), None)
        access = re.search(r"Credential=([^/]+)/", asked.headers.get("authorization", ""))
        if role is None or access is None or access[1] != role.by[0] or form.get("ExternalId") != role.external:
            return 403, b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"
        if asked.headers["authorization"].rpartition("Signature=")[2] != _signature(asked, role.by[1]):
            return 403, b"<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code></Error></ErrorResponse>"
        if asked.headers.get("x-amz-security-token", "") != role.by[2]:
            return 403, b"<ErrorResponse><Error><Code>InvalidClientTokenId</Code></Error></ErrorResponse>"
        return 200, sts_keys("AssumeRole", f"ASIA-{role.arn}", f"S-{role.arn}", f"T-{role.arn}", role.seconds)

    return answer


def sts_keys(action: str, access: str, secret: str, session: str, seconds: float) -> bytes:
    """An answer of STS."""
    return (
        f"<{action}Response><{action}Result><Credentials><SessionToken>{session}</SessionToken><SecretAccessKey>{secret}"
        f"</SecretAccessKey><Expiration>{moment(seconds)}</Expiration><AccessKeyId>{access}</AccessKeyId></Credentials>"
        f"</{action}Result></{action}Response>"
    ).encode()


def _signature(asked: Asked, secret: str) -> str:
    names = signed_names(asked.headers)
    assert {"host", "x-amz-date"} <= set(names)
    return aws_signature(asked, secret, names, hashlib.sha256(asked.body).hexdigest())


def signed_names(headers: Mapping[str, str]) -> list[str]:
    """The headers that a request's signature is about."""
    found = re.search(r"SignedHeaders=([^,]+),", headers["authorization"])
    assert found
    return found[1].split(";")


def aws_signature(asked: Asked, secret: str, names: list[str], digest: str) -> str:
    """The signature that AWS computes of a request (Signature Version 4).

    names: of the headers that it is about, in order. digest: the SHA-256 sum of the body, in hex.
    """
    found = re.search(r"Credential=[^/]+/([^,]+),", asked.headers["authorization"])
    assert found
    scope, (path, _, query) = found[1], asked.path.partition("?")
    lines = "".join(f"{name}:{asked.headers[name].strip()}\n" for name in names)
    parameters = sorted(part if "=" in part else f"{part}=" for part in query.split("&") if part)
    request = f"{asked.method}\n{path}\n{'&'.join(parameters)}\n{lines}\n{';'.join(names)}\n{digest}"
    text = f"AWS4-HMAC-SHA256\n{asked.headers['x-amz-date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return hmac.new(key, text.encode(), "sha256").hexdigest()


@dataclass
class Tokens:
    """Tokens that a service gives, each for so many seconds, and which of them are still valid."""

    seconds: float
    ends: dict[str, float] = field(default_factory=dict)

    def give(self) -> str:
        name = f"token-{len(self.ends)}-of-test"
        self.ends[name] = time.time() + self.seconds
        return name

    def is_valid(self, name: str) -> bool:
        return time.time() < self.ends.get(name, 0)


def google_metadata(tokens: Tokens) -> Callable[[Asked], Answer]:
    """The answers of Google's metadata server, for a machine with a service account."""

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("metadata-flavor") != "Google":
            return 403, b""
        if asked.path == "/":
            return 200, b"computeMetadata/"
        if asked.path == "/computeMetadata/v1/instance/service-accounts/?recursive=true":
            scopes = ["https://www.googleapis.com/auth/cloud-platform"]
            return 200, {"default": {"aliases": ["default"], "email": "lake@shop.test", "scopes": scopes}}
        if urlsplit(asked.path).path != "/computeMetadata/v1/instance/service-accounts/default/token":
            return 404, b""
        return 200, {"access_token": tokens.give(), "expires_in": round(tokens.seconds), "token_type": "Bearer"}

    return answer
