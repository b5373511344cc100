"""A double of Kubernetes' API: what Spark's scheduler asks of it, with processes of this machine as pods.

Put here: pods, and the Secret that they name. Not here: Kubernetes itself (scheduling, volumes, networks, roles).
"""

import json
import subprocess
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.fix_cluster import environment

Pod = dict[str, Any]
ENTRYPOINT = Path(__file__).parents[2] / "container" / "entrypoint"
_ADDRESS = "127.0.0.1"


class Kubernetes:
    """One namespace. It ends, with all pods, with the ``with`` block.

    secrets: contents by name and key. image_variables: of the environment that an image has.
    """

    def __init__(
        self, folder: Path, secrets: Mapping[str, Mapping[str, str]], image_variables: Mapping[str, str] | None = None
    ) -> None:
        self.created: list[Pod] = []
        self._folder, self._secrets, self._image_variables = folder, secrets, dict(image_variables or {})
        self._pods: dict[str, Pod] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        double = self

        class Handler(_Handler):
            kubernetes = double

        self._server = ThreadingHTTPServer((_ADDRESS, 0), Handler)
        self.url = f"http://{_ADDRESS}:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.delete()

    def add_driver(self, name: str) -> None:
        """The pod that a run is in, which is no process of this double."""
        self._pods[name] = _with_metadata({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}, "Running")

    def create(self, pod: Pod) -> Pod:
        """Starts its container."""
        self.created.append(json.loads(json.dumps(pod)))
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        variables = {entry["name"]: self._variable_value(entry, name) for entry in container["env"]}
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(ENTRYPOINT), *container["args"]],
                env=environment(**self._image_variables, **variables),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        with self._lock:
            self._processes[name], self._pods[name] = process, _with_metadata(pod, "Running")
        return self._pods[name]

    def get(self, name: str) -> Pod | None:
        self._update()
        return self._pods.get(name)

    def pods(self) -> list[Pod]:
        """Those of executors."""
        self._update()
        return [self._pods[name] for name in self._processes if name in self._pods]

    def running(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is None]

    def kill(self, name: str) -> None:
        self._processes[name].kill()

    def delete(self, name: str | None = None) -> None:
        """Ends a pod's container, or those of all."""
        for pod_name in [name] if name else list(self._processes):
            with self._lock:
                self._pods.pop(pod_name, None)
                process = self._processes.get(pod_name)
            if process is not None and process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
                process.wait()

    def _variable_value(self, entry: dict[str, Any], name: str) -> str:
        if "valueFrom" not in entry:
            return str(entry.get("value") or "")
        if reference := entry["valueFrom"].get("secretKeyRef"):
            return self._secrets[reference["name"]][reference["key"]]
        return {"status.podIP": _ADDRESS, "metadata.name": name}[entry["valueFrom"]["fieldRef"]["fieldPath"]]

    def _update(self) -> None:
        with self._lock:
            for name, process in self._processes.items():
                if name in self._pods and process.poll() is not None:
                    self._pods[name] = _with_metadata(self._pods[name], "Failed" if process.returncode else "Succeeded")


class _Handler(BaseHTTPRequestHandler):
    kubernetes: Kubernetes
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind, name, query = self._resource()
        if "watch" in query:
            self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
        elif kind == "pods" and name:
            pod = self.kubernetes.get(name)
            self._answer(200 if pod else 404, pod or {"kind": "Status", "code": 404, "reason": "NotFound"})
        else:
            items = self.kubernetes.pods() if kind == "pods" else []
            self._answer(
                200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
            )

    def do_POST(self) -> None:
        kind, _, _ = self._resource()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201, self.kubernetes.create(body) if kind == "pods" else body)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind, name, _ = self._resource()
        if kind == "pods":
            self.kubernetes.delete(name)
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _resource(self) -> tuple[str, str | None, dict[str, list[str]]]:
        """Kind, name and query of /api/v1/namespaces/NAMESPACE/KIND/NAME."""
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")[4:]
        return words[0] if words else "", words[1] if len(words) > 1 else None, parse_qs(parts.query)

    def _answer(self, status: int, document: Mapping[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _with_metadata(pod: Pod, phase: str) -> Pod:
    """A pod as the API shows it."""
    metadata = {"uid": uuid.uuid4().hex, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    ended = {"exitCode": int(phase == "Failed"), "reason": phase}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if phase == "Running" else {"terminated": ended}
    container = {"name": "executor", "ready": phase == "Running", "restartCount": 0, "image": "", "imageID": ""}
    status = {"phase": phase, "podIP": _ADDRESS, "containerStatuses": [{**container, "state": state}]}
    return pod | {"metadata": metadata | pod["metadata"], "status": status}
