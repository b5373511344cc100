"""A server of Azure's blob protocol, Azurite, over a folder.

Put here: starting and asking it. Not here: what the lake must do with its answers.
"""

import hashlib
import hmac
import os
import re
import shutil
import ssl
import subprocess
import time
import urllib.request
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from email.utils import formatdate
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode

from spark_jobs.config.store import AZURE, LakeStore, ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import made_once
from tests.services.server_process import ServerProcess, free_port

VERSION = "3.35.0"
ACCOUNT, ACCOUNT_KEY = "teststore", b64encode(b"key-of-the-account-of-tests").decode()
KEY = "TEST_STORE_ACCOUNT_KEY"
"""The variable of the environment that holds the key in tests."""
HOST = f"{ACCOUNT}.dfs.core.windows.net"
_API = "2023-11-03"


def installed() -> Path:
    """The server's program, fetched by npm at first use. Raises ConfigError."""
    npm = shutil.which("npm")

    def install(folder: Path) -> None:
        if npm is None:
            raise ConfigError("Azurite is fetched by npm, and no npm is on the PATH")
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"azurite@{VERSION}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"Azurite was not fetched: {result.stderr.strip()[-300:]}")

    return made_once(f"azurite-{VERSION}", install) / "node_modules" / ".bin" / "azurite-blob"


class Azurite(ServerProcess):
    """A server of one folder and one account."""

    def __init__(self, folder: Path, *, tls: tuple[Path, Path] | None = None, takes_tokens: bool = False) -> None:
        super().__init__(free_port(), tls=tls is not None)
        self._folder = folder / "blobs"
        options = ["--cert", str(tls[0]), "--key", str(tls[1])] if tls else []
        options += ["--oauth", "basic"] if takes_tokens else []
        address = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self._folder)]
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        environment = os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
        self.launch([str(installed()), *address, *quiet, *options], environment)

    def make_bucket(self, name: str, ca: Path | None = None) -> str:
        """Returns the address of a lake in a new container. ca: certificates that the server's is signed by."""
        request(self.url, "PUT", f"/{name}", {"restype": "container"}, ca)
        return f"{self.store(name).root}/lake"

    def store(self, name: str, **changes: object) -> LakeStore:
        return LakeStore(f"{name}@{HOST}", self.settings(**changes), AZURE)

    def settings(self, **changes: object) -> ObjectStore:
        return ObjectStore.model_validate(self.keys() | changes)

    @staticmethod
    def settings_at(url: str) -> ObjectStore:
        return ObjectStore(endpoint=url, account_key_env=KEY)

    def keys(self) -> dict[str, object]:
        """``store:`` of a pipeline.yaml."""
        return {"endpoint": self.url, "account_key_env": KEY}

    def content(self, bucket: str, key: str) -> bytes:
        """A blob, as it is read by its address."""
        return request(self.url, "GET", f"/{bucket.partition('@')[0]}/{quote(key)}", {})

    def names(self, bucket: str, prefix: str) -> set[str]:
        """Blobs, as the server lists them: up to 5,000."""
        query = {"restype": "container", "comp": "list", "prefix": f"{prefix}/"}
        listed = request(self.url, "GET", f"/{bucket.partition('@')[0]}", query).decode()
        return {unescape(name) for name in re.findall("<Name>([^<]+)</Name>", listed)}


def signature_for(container: str, seconds: float, permissions: str = "racwdl") -> str:
    """A shared access signature for a container, until so many seconds from now."""
    end = f"{datetime.fromtimestamp(time.time() + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    resource = f"/blob/{ACCOUNT}/{container}"
    # Permissions, begin, end, resource, identifier, addresses, protocol, version, kind, and seven that are empty.
    text = "\n".join([permissions, "", end, resource, "", "", "", _API, "c", *7 * [""]])
    signature = b64encode(hmac.new(b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()).decode()
    return urlencode({"sp": permissions, "se": end, "sv": _API, "sr": "c", "sig": signature})


def request(url: str, method: str, path: str, query: dict[str, str], ca: Path | None = None) -> bytes:
    """A request without a body, signed by the account's key (Shared Key)."""
    location, date = f"/{ACCOUNT}{path}", formatdate(usegmt=True)
    signed_headers = f"x-ms-date:{date}\nx-ms-version:{_API}\n"
    parameters = "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
    text = f"{method}{12 * chr(10)}{signed_headers}/{ACCOUNT}{location}{parameters}"
    signature = b64encode(hmac.new(b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": _API, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
    address = f"{url}{location}?{urlencode(query, quote_via=quote)}"
    to_send = urllib.request.Request(address, None, headers, method=method)  # noqa: S310 -- http of this machine
    context = ssl.create_default_context(cafile=str(ca)) if ca else None
    with urllib.request.urlopen(to_send, context=context) as answer:  # noqa: S310 -- as above
        content: bytes = answer.read()
    return content
