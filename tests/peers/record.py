"""Records what canal and Debezium write for one log of a server: python -m tests.peers.record FOLDER.

FOLDER gets the peers' jars by Maven (canal.xml, debezium.xml), unless they are there.

Writes ``recorded/mysql-bin.00000N``, the log, and beside it the lines of each peer, ``debezium.jsonl`` and so on.

Put here: recording. Not here: what recordings are compared with (test_peers.py).
"""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from spark_jobs.demo.server import MYSQL_8_0, MySQLServer

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
WORKLOADS = (HERE.parent / "recorded" / "mysql-8.0-types.sql", HERE / "workload.sql")
USER, PASSWORD = "peer", "peer"
SCHEMA = "kinds"
INVALID = "'2023-02-31'"
"""A date that Debezium stops at."""
START_SECONDS, SECONDS = 180, 60


class Peer:
    """A program that reads the server's log and prints lines until it has seen the last table's row."""

    def __init__(self, name: str, command: Sequence[str], ready: str) -> None:
        """ready: what it says on standard error once it reads."""
        self.name = name
        self._ready, self._is_ready = ready, threading.Event()
        self._reads = threading.Event()
        """Check whether it has read the log: some say that they are ready a moment before they know where to begin."""
        self._messages: list[str] = []
        self._lines: list[bytes] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._threads = [
            threading.Thread(target=reading, daemon=True) for reading in (self._read_errors, self._read_lines)
        ]
        for thread in self._threads:
            thread.start()

    def _read_errors(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._messages.append(line.decode(errors="replace"))
            if self._ready in self._messages[-1]:
                self._is_ready.set()

    def _read_lines(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if b"probe" in line:
                self._reads.set()
            elif line.startswith(b"{"):
                self._lines.append(line)

    def wait_until_ready(self) -> None:
        if not self._is_ready.wait(START_SECONDS):
            raise SystemExit(f"{self.name} does not start: {''.join(self._messages[-30:])}")

    def reads(self) -> bool:
        return self._reads.wait(0.5)

    def forget(self) -> None:
        """Forgets what it printed of the probe."""
        self._lines.clear()

    def lines(self) -> bytes:
        """All that it printed."""
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{self.name} does not end: {''.join(self._messages[-30:])}", file=sys.stderr)  # noqa: T201 - run by hand
            self._process.kill()
        for thread in self._threads:
            thread.join(10)
        return b"".join(self._lines)


def jars(folder: Path, peer: str) -> str:
    """The class path of a peer, whose jars are fetched where they are not there."""
    if not (folder / peer).is_dir():
        command = ["mvn", "-q", "-B", "-f", str(HERE / f"{peer}.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={folder / peer}"], check=True)
    return f"{folder / peer}/*"


def java(folder: Path, peer: str, program: str, *arguments: str) -> list[str]:
    """The command that runs a program of this folder with a peer's jars."""
    return ["java", "-Duser.timezone=UTC", "-cp", jars(folder, peer), str(HERE / f"{program}.java"), *arguments]


def record(folder: Path) -> None:
    options = {"server_id": 7, "binlog_row_metadata": "FULL"}
    with (
        tempfile.TemporaryDirectory() as directory,
        MySQLServer(Path(directory), options, MYSQL_8_0) as server,
        server.connect() as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE USER {USER} IDENTIFIED WITH mysql_native_password BY '{PASSWORD}'")
        cursor.execute(f"GRANT ALL ON *.* TO {USER}")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        file, offset = (cursor.fetchone() or ())[:2]
        port = str(server.port)
        position = f'{{"journalName":"{file}","position":{offset}}}'
        login = (port, USER, PASSWORD)
        peers = [
            Peer("debezium", java(folder, "debezium", "DebeziumPeer", *login, SCHEMA), "Connected to"),
            Peer("canal-json", java(folder, "canal", "CanalPeer", *login, rf"{SCHEMA}\..*", position), "READY"),
        ]
        for peer in peers:
            peer.wait_until_ready()
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
        cursor.execute(f"CREATE TABLE {SCHEMA}.probe (id int AUTO_INCREMENT PRIMARY KEY)")
        for _ in range(120):
            cursor.execute(f"INSERT INTO {SCHEMA}.probe VALUES ()")
            if all(peer.reads() for peer in peers):
                break
        for peer in peers:
            peer.forget()
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        file = (cursor.fetchone() or ())[0]
        for workload in WORKLOADS:
            for statement in workload.read_text().split(";\n"):
                if statement.strip() and INVALID not in statement:
                    cursor.execute(statement)
        RECORDED.mkdir(exist_ok=True)
        for old in RECORDED.iterdir():
            old.unlink()
        for peer in peers:
            (RECORDED / f"{peer.name}.jsonl").write_bytes(peer.lines())
        (RECORDED / file).write_bytes((server.data / file).read_bytes())


if __name__ == "__main__":
    record(Path(sys.argv[1]).resolve())
