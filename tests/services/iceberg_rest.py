"""A REST catalog of this process, as far as registration needs one: the paths of Iceberg's OpenAPI document.

Put here: the server. Not here: real servers (catalog_servers.py), which the same registration is tested with.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class RestCatalog:
    """State of the server. tables: locations of metadata by namespace and name."""

    uri: str = ""
    tables: dict[tuple[str, str], str] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    token: str | None = None
    """Token that each request needs."""
    knows_overwrite: bool = True
    is_down: bool = False


@contextmanager
def rest_catalog() -> Iterator[RestCatalog]:
    """A server on a port of this machine, until the block ends."""
    catalog = RestCatalog()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, document = answer(
                catalog, self.command, urlsplit(self.path).path, self.headers.get("Authorization"), body
            )
            content = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    # The port is the system's choice.
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    catalog.uri = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield catalog
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


Answer = tuple[int, dict[str, Any] | None]
"""Status and document."""


def answer(catalog: RestCatalog, method: str, path: str, authorization: str | None, body: bytes) -> Answer:
    catalog.requests.append(f"{method} {path}")
    if catalog.is_down:
        return _error(503, "ServiceUnavailableException", "the catalog is down")
    if catalog.token and authorization != f"Bearer {catalog.token}":
        return _error(401, "NotAuthorizedException", "no such token")
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts == ["v1", "config"]:
        return 200, {"defaults": {}, "overrides": {}}
    document = json.loads(body) if body else {}
    return (_of_namespaces if len(parts) <= 3 else _of_tables)(catalog, method, parts[2:], document)


def _of_namespaces(catalog: RestCatalog, method: str, parts: list[str], document: dict[str, Any]) -> Answer:
    if method == "POST":
        name = "\x1f".join(document["namespace"])
        if name in catalog.namespaces:
            return _error(409, "AlreadyExistsException", f"{name} is there")
        catalog.namespaces.add(name)
        return 200, document
    if parts[0] not in catalog.namespaces:
        return _error(404, "NoSuchNamespaceException", f"{parts[0]} is not there")
    return 200, {"namespace": parts[0].split("\x1f"), "properties": {}}


def _of_tables(catalog: RestCatalog, method: str, parts: list[str], document: dict[str, Any]) -> Answer:
    key = (parts[0], parts[-1])
    if method == "POST":
        key = (parts[0], document["name"])
        if key in catalog.tables and not (catalog.knows_overwrite and document.get("overwrite")):
            return _error(409, "AlreadyExistsException", f"{key[1]} is there")
        catalog.tables[key] = document["metadata-location"]
    elif method == "DELETE":
        catalog.tables.pop(key, None)
        return 204, None
    return _table(catalog, key)


def _table(catalog: RestCatalog, key: tuple[str, str]) -> Answer:
    location = catalog.tables.get(key)
    if location is None:
        return _error(404, "NoSuchTableException", f"{key[1]} is not there")
    metadata = json.loads(Path(location.removeprefix("file://")).read_bytes())
    return 200, {"metadata-location": location, "metadata": metadata, "config": {}}


def _error(status: int, kind: str, message: str) -> Answer:
    return status, {"error": {"message": message, "type": kind, "code": status}}
