"""A Kubernetes node of this machine: etcd, Kubernetes' own programs, CoreDNS, containerd, runc. Needs root on Debian.

``python -m tests.cluster.node FOLDER IMAGE.tar…`` starts it, imports the images, and runs until Ctrl-C;
FOLDER/kubeconfig is for kubectl. Its settings are in node_files.

Put here: the node. Not here: what runs on it.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Self

from spark_jobs.errors import ConfigError
from tests.services import go_programs
from tests.services.waiting import wait_for

VERSION = "1.34.4"
ADDRESS = "10.244.0.1"
"""Of the bridge that pods are on. What listens there is ``db.internal`` and ``s3.internal`` in pods."""
_BRIDGE, _PODS, _SERVICES = "stratalog0", "10.244.0.0/24", "10.96.0.0/24"
_PAUSE = "stratalog.invalid/pause:1"
_CHAIN = "KUBE-FIREWALL"
_PATIENCE = 120
_FILES = Path(__file__).with_name("node_files")
_PACKAGES = {
    "/usr/bin/containerd": "containerd",
    "/usr/sbin/runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/sbin/iptables": "iptables",
}
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
"""The bridge plugin turns it on."""
_STATES = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"


def built() -> Path:
    """Kubernetes, etcd and CoreDNS as one program, built by Go at first use. Raises ConfigError."""
    package = "k8s.io/component-base/version"
    values = {f"{package}.gitVersion": f"v{VERSION}", f"{package}.gitMajor": "1", f"{package}.gitMinor": "34"}
    source = Path(__file__).parents[1] / "kubernetes_node"
    return go_programs.built(source, values=values) / source.name


def require_machine() -> None:
    """Raises ConfigError where this machine cannot be a node."""
    if os.geteuid():
        raise ConfigError("a node of Kubernetes is started by root")
    if lacking := [package for program, package in _PACKAGES.items() if not Path(program).exists()]:
        raise ConfigError(f"a node of Kubernetes needs the packages {' '.join(lacking)}")


class Node:
    """It ends, with all pods, with the ``with`` block."""

    def __init__(self, folder: Path) -> None:
        require_machine()
        self._folder, self._program = folder.resolve(), str(built())
        self.kubeconfig = self._folder / "kubeconfig"
        self._socket = self._folder / "containerd.sock"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._forwarding = _FORWARDING.read_text()

    def __enter__(self) -> Self:
        values = {"address": ADDRESS, "folder": self._folder, "token": secrets.token_hex(16), "pause": _PAUSE}
        for file in (file for file in _FILES.rglob("*") if file.is_file()):
            target = self._folder / file.relative_to(_FILES)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch(0o600)
            target.write_text(Template(file.read_text()).substitute(values, bridge=_BRIDGE, pods=_PODS))
        _output("openssl", "genrsa", "-out", f"{self._folder}/accounts.key", "2048")
        _output("ip", "link", "add", _BRIDGE, "type", "bridge")
        try:
            _output("ip", "address", "add", f"{ADDRESS}/24", "dev", _BRIDGE)
            _output("ip", "link", "set", _BRIDGE, "up")
            self._start_control_plane()
            self._start_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.CalledProcessError, AssertionError):
            self.kubectl("delete", "namespace", "stratalog", "--ignore-not-found", f"--timeout={_PATIENCE}s")
            _until(lambda: not self._ctr("containers", "list", "--quiet"), "containers end")
        for process in reversed(self._processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
        for mount in sorted((line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()), reverse=True):
            if Path(mount).is_relative_to(self._folder):
                _output("umount", mount)
        for group in sorted(Path("/sys/fs/cgroup").glob("*/kubepods/**/"), reverse=True):
            group.rmdir()
        subprocess.run([self._program, "kube-proxy", "--cleanup"], check=False, capture_output=True)
        for table in ("iptables", "ip6tables"):  # an empty chain, which kube-proxy leaves
            for words in (("-D", "INPUT", "-j", _CHAIN), ("-D", "OUTPUT", "-j", _CHAIN), ("-X", _CHAIN)):
                subprocess.run([table, *words], check=False, capture_output=True)
        _output("ip", "link", "delete", _BRIDGE)
        _FORWARDING.write_text(self._forwarding)

    def kubectl(self, *arguments: str) -> str:
        return _output(self._program, "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments)

    def import_image(self, archive: Path) -> str:
        return self._ctr("images", "import", str(archive))

    def _start_control_plane(self) -> None:
        folder, key = self._folder, f"{self._folder}/accounts.key"
        self._start_program("etcd", data_dir=f"{folder}/etcd", log_level="warn")
        self._start_program(
            "kube-apiserver",
            etcd_servers="http://127.0.0.1:2379",
            bind_address=ADDRESS,
            advertise_address=ADDRESS,
            authorization_mode="RBAC",
            cert_dir=f"{folder}/api",
            kubelet_preferred_address_types="InternalIP",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=key,
            service_account_signing_key_file=key,
            service_cluster_ip_range=_SERVICES,
            token_auth_file=f"{folder}/tokens.csv",
        )
        _until(lambda: self.kubectl("get", "--raw", "/readyz") == "ok", "the API server is ready")
        alone = {"kubeconfig": self.kubeconfig, "bind_address": "127.0.0.1", "leader_elect": "false"}
        authority = f"{folder}/api/apiserver.crt"
        self._start_program(
            "kube-controller-manager", service_account_private_key_file=key, root_ca_file=authority, **alone
        )
        self._start_program("kube-scheduler", **alone)

    def _start_node(self) -> None:
        folder, names = self._folder, {"kubeconfig": self.kubeconfig, "hostname_override": "node"}
        self._launch("coredns", self._program, "coredns", "-conf", f"{folder}/Corefile")
        self._launch("containerd", "containerd", "--config", f"{folder}/containerd.toml")
        waiting = Path(__file__).parents[1] / "kubernetes_pause"
        _write_image(folder / "pause.tar", _PAUSE, go_programs.built(waiting) / waiting.name)
        _until(lambda: bool(self.import_image(folder / "pause.tar")), "containerd imports an image")
        folders = {"root_dir": f"{folder}/kubelet", "cert_dir": f"{folder}/kubelet-pki"}
        self._start_program("kubelet", config=f"{folder}/kubelet.yaml", node_ip=ADDRESS, **folders, **names)
        proxy = {"proxy_mode": "iptables", "masquerade_all": "true", "iptables_localhost_nodeports": "false"}
        self._start_program("kube-proxy", conntrack_max_per_core=0, **proxy, **names)
        _until(lambda: self.kubectl("get", "nodes", "-o", _STATES) == "True", "the node is ready")

    def _start_program(self, name: str, **options: object) -> None:
        """One of the programs of built()."""
        words = [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
        self._launch(name, self._program, name, *words)

    def _launch(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def _ctr(self, *arguments: str) -> str:
        return _output("ctr", "--address", str(self._socket), "--namespace", "k8s.io", *arguments)


def _write_image(archive: Path, name: str, program: Path) -> None:
    """An image of one program, as Docker saves it."""
    layer = BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        files.add(program, program.name)
    digest = sha256(layer.getvalue()).hexdigest()
    config = {"architecture": "amd64", "os": "linux", "config": {"Entrypoint": [f"/{program.name}"]}}
    config["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as files:
        members = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
        for member, content in (members | {"layer.tar": layer.getvalue()}).items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            files.addfile(entry, BytesIO(content))


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _until(is_so: Callable[[], bool], description: str) -> None:
    """Waits; a command that fails is tried again. Raises AssertionError."""
    wait_for(description, is_so, _PATIENCE, retried=(subprocess.CalledProcessError,))


def main() -> None:
    folder, *archives = map(Path, sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with Node(folder) as node:
        for archive in archives:
            node.import_image(archive)
        sys.stdout.write(f"export STRATALOG_KUBERNETES={node.kubeconfig}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
