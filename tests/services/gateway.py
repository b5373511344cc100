"""A server of the S3 protocol, versitygw, over a folder; and a proxy before it that breaks answers.

Put here: starting and asking them. Not here: what the lake must do with their answers.
"""

import hashlib
import hmac
import os
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.runtime.provision import made_once
from tests.services import go_programs
from tests.services.proxy import Listener
from tests.services.server_process import ServerProcess, free_port
from tests.services.token_services import Asked, Tokens, aws_signature, signed_names

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
ROOT_KEY, ROOT_SECRET = "root-of-tests", "secret-of-tests"
ACCESS, SECRET, TOKEN = "TEST_STORE_KEY", "TEST_STORE_SECRET", "TEST_STORE_TOKEN"
"""Variables of the environment that hold keys in tests."""
_SESSION = "x-amz-security-token"


def built() -> Path:
    """The server's program, built by Go at first use: two to three minutes. Raises ConfigError."""

    def build(folder: Path) -> None:
        go_programs.output_of("versitygw", "install", MODULE, GOBIN=str(folder), GOFLAGS="-mod=mod")

    return made_once(f"versitygw-{VERSION}", build) / "versitygw"


class Gateway(ServerProcess):
    """A server of one folder. users: secrets of further access keys, which may do what bucket policies allow."""

    def __init__(
        self,
        folder: Path,
        *,
        users: Mapping[str, str] | None = None,
        tls: tuple[Path, Path] | None = None,
        keeps_metadata: bool = True,
    ) -> None:
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        super().__init__(free_port(), tls=tls is not None)
        options = [] if users is None else ["--iam-dir", str(folder / "iam")]
        if users is not None:
            (folder / "iam").mkdir()
        if tls:
            options += ["--cert", str(tls[0]), "--key", str(tls[1])]
        posix = ["posix", str(self.data)] if keeps_metadata else ["posix", "--nometa", str(self.data)]
        environment = os.environ | {"ROOT_ACCESS_KEY_ID": ROOT_KEY, "ROOT_SECRET_ACCESS_KEY": ROOT_SECRET}
        self._command = [str(built()), "--quiet", "--port", f"127.0.0.1:{self.port}", *options, *posix]
        self._environment = environment
        self.start()
        for key, secret in (users or {}).items():
            self._add_user(key, secret)

    def start(self) -> None:
        self.launch(self._command, self._environment)

    def make_bucket(self, name: str) -> str:
        """Returns the address of a lake in it."""
        request(self.url, "PUT", f"/{name}")
        return f"s3a://{name}/lake"

    def store(self, name: str, **changes: object) -> LakeStore:
        return LakeStore(name, self.settings(**changes))

    def content(self, bucket: str, key: str) -> bytes:
        """An object, in the folder that the server serves."""
        return (self.data / bucket / key).read_bytes()

    def names(self, bucket: str, prefix: str) -> set[str]:
        """Objects, as they are in the folder that the server serves."""
        return {str(file.relative_to(self.data / bucket)) for file in (self.data / bucket / prefix).rglob("*.*")}

    def settings(self, **changes: object) -> ObjectStore:
        return ObjectStore.model_validate(self.keys() | changes)

    def keys(self) -> dict[str, object]:
        """``store:`` of a pipeline.yaml."""
        names = {"access_key_env": ACCESS, "secret_key_env": SECRET, "session_token_env": TOKEN}
        return {"endpoint": self.url, **names}

    def allow(self, bucket: str, policy: str) -> None:
        """Sets a bucket's policy, in JSON."""
        request(self.url, "PUT", f"/{bucket}", query="policy=", body=policy.encode())

    def _add_user(self, key: str, secret: str) -> None:
        admin = [str(built()), "admin", "--access", ROOT_KEY, "--secret", ROOT_SECRET, "--endpoint-url", self.url]
        user = ["create-user", "--access", key, "--secret", secret, "--role", "user"]
        subprocess.run([*admin, *user], check=True, capture_output=True)


def request(url: str, method: str, path: str, *, query: str = "", body: bytes = b"") -> bytes:
    """A request signed by the root's keys (AWS Signature Version 4)."""
    now, digest = datetime.now(UTC), hashlib.sha256(body).hexdigest()
    stamp, day, host = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d"), urlsplit(url).netloc
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
    scope = f"{day}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{ROOT_SECRET}".encode()
    for part in (day, "us-east-1", "s3", "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={ROOT_KEY}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    )
    request = urllib.request.Request(f"{url}{path}?{query}", body or None, headers, method=method)  # noqa: S310 -- http of this machine
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- as above
        content: bytes = answer.read()
    return content


Fault = Callable[[str, str], "bytes | str | None"]
"""From method and path of a request to what becomes of it: None as it is, "lost" an answer that is not passed on, or
an answer in the place of the server's."""


class FaultyProxy(Listener):
    """Stands before a gateway, passes requests on by HTTP/1.1, and breaks those that ``fault`` names."""

    def __init__(self, upstream: int, fault: Fault, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._upstream, self._fault = upstream, fault
        self.broken = 0
        super().__init__(address)
        self.url = f"http://127.0.0.1:{self.port}"

    def _accept_client(self, client: socket.socket) -> None:
        threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        with client, suppress(OSError), client.makefile("rb") as reading:
            while head := _head(reading.readline):
                method, path = head.split(b" ", 2)[:2]
                if b"\r\nexpect: 100-continue\r\n" in head.lower():
                    client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = reading.read(_length(head))
                fault = self._fault(method.decode(), path.decode())
                self.broken += fault is not None
                if isinstance(fault, bytes):
                    client.sendall(fault)
                    continue
                answer = self._passed_on(re.sub(rb"\r\n[Ee]xpect: [^\r]*", b"", head), body, method)
                if fault == "lost":
                    return
                client.sendall(answer)

    def _passed_on(self, head: bytes, body: bytes, method: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._upstream)) as server, server.makefile("rb") as reading:
            server.sendall(head + body)
            answer = _head(reading.readline)
            if method == b"HEAD" or b" 204 " in answer[:20]:
                return answer
            if b"transfer-encoding: chunked" in answer.lower():
                return answer + _chunks(reading.readline, reading.read)
            return answer + reading.read(_length(answer))


class SessionGuard(FaultyProxy):
    """Stands before a server of S3 that knows no sessions: refuses tokens that have ended, and wrong signatures.

    What passes is signed again without the token, by the root's keys, which the sessions have.
    """

    def __init__(self, upstream: int, tokens: Tokens) -> None:
        self.tokens, self.refused = tokens, 0
        super().__init__(upstream, lambda _method, _path: None)

    def _passed_on(self, head: bytes, body: bytes, method: bytes) -> bytes:
        target = head.split(b" ", 2)[1].decode()
        lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:] if line]
        asked = Asked(method.decode(), target, {name.lower(): value for name, _, value in lines}, body)
        problem = self._problem(asked)
        if problem:
            self.refused += 1
            return refusal("400 Bad Request", problem)
        names = [name for name in signed_names(asked.headers) if name != _SESSION]
        signed = aws_signature(asked, ROOT_SECRET, names, asked.headers["x-amz-content-sha256"])
        by = re.sub("SignedHeaders=.*", "", asked.headers["authorization"])
        kept = {name: value for name, value in asked.headers.items() if name != _SESSION}
        kept["authorization"] = f"{by}SignedHeaders={';'.join(names)}, Signature={signed}"
        passed = "".join(f"{name}: {value}\r\n" for name, value in kept.items())
        return super()._passed_on(f"{asked.method} {target} HTTP/1.1\r\n{passed}\r\n".encode(), body, method)

    def _problem(self, asked: Asked) -> str | None:
        headers = asked.headers
        if not self.tokens.is_valid(headers.get(_SESSION, "")):
            return "ExpiredToken"
        names = signed_names(headers)
        signed = aws_signature(asked, ROOT_SECRET, names, headers["x-amz-content-sha256"])
        if _SESSION not in names or headers["authorization"].rpartition("Signature=")[2] != signed:
            return "SignatureDoesNotMatch"
        return None


def refusal(status: str, code: str) -> bytes:
    """An answer as S3 refuses a request."""
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>of a test</Message></Error>'
    return (f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()


def _head(line: Callable[[], bytes]) -> bytes:
    """The lines up to an empty one; nothing where the connection has ended."""
    lines = []
    while line_read := line():
        lines.append(line_read)
        if line_read == b"\r\n":
            return b"".join(lines)
    return b""


def _length(head: bytes) -> int:
    match = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(match[1]) if match else 0


def _chunks(line: Callable[[], bytes], read_bytes: Callable[[int], bytes]) -> bytes:
    content = b""
    while True:
        size = line()
        content += size + read_bytes(int(size, 16) + 2)
        if int(size, 16) == 0:
            return content
