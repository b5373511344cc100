"""``stratalog run --follow`` as a process of its own: rows come as they are committed, through whatever befalls it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from tests.command_result import without_codes
from tests.fix_pipeline import rows
from tests.pipeline.test_server_faults import execute
from tests.pipeline.test_standard_error import TRACE
from tests.services.dev_server import ROOT
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

SOURCE = "shop"
PATIENCE = 180.0
TABLES = ("orders", "lines")


@dataclass
class Followed:
    """A server, a configuration over it, and the process that follows it."""

    server: MySQLServer
    folder: Path
    process: "subprocess.Popen[str] | None" = None

    @property
    def path(self) -> Path:
        return self.folder / "pipeline.yaml"

    def pipeline(self) -> Pipeline:
        return load(self.path, self.environment())

    def configure(self) -> None:
        login = {"host": self.server.host, "port": self.server.port, "user": self.server.user}
        document = {
            "lake": "./lake",
            "sources": {SOURCE: {"mysql": login | {"password": "${SHOP_PASSWORD}"}}},
            "tables": ["shop.*"],
        }
        self.path.write_text(yaml.safe_dump(document), encoding="utf-8")

    def start(self, *words: str) -> None:
        command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(self.path), "--follow", *words]
        with self.output.open("a") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment(), stdout=out, stderr=subprocess.STDOUT, text=True
            )

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    def text(self) -> str:
        return without_codes(self.output.read_text())

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self.process = None
        return status

    def environment(self) -> dict[str, str]:
        return os.environ | {"SHOP_PASSWORD": self.server.password}

    def is_equal(self) -> bool:
        """True if downstream has the server's rows of every table."""
        assert self.process is None or self.process.poll() is None, self.text()
        lake = lake_of(self.pipeline())
        tables = {table: lake.downstream("shop", table) for table in TABLES}
        return all(
            target.head() is not None and rows(target) == sorted(execute(self.server, f"SELECT * FROM shop.{table}"))
            for table, target in tables.items()
        )

    def await_equal(self) -> float:
        """Waits until it is so; seconds."""
        began = time.monotonic()
        wait_for("rows downstream", self.is_equal, PATIENCE, pause=0.05)
        return time.monotonic() - began


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    with MySQLServer(tmp_path / "server") as server:
        execute(
            server,
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40))",
            "CREATE TABLE shop.`lines` (id INT PRIMARY KEY AUTO_INCREMENT, quantity INT)",
            "INSERT INTO shop.orders VALUES (1, 'first')",
            "INSERT INTO shop.`lines` (quantity) VALUES (1), (2)",
        )
        process = Followed(server, tmp_path)
        process.configure()
        yield process
        if process.process is not None:
            process.process.kill()
            process.process.wait()


@pytest.mark.thorough
@pytest.mark.processes
def test_rows_come_as_they_are_committed_also_after_the_server_was_away(followed: Followed, summary: list[str]) -> None:
    followed.start("--interval", "0.2")
    followed.await_equal()
    # Rows, a statement, rows in the table that it changed.
    seconds = []
    for number in range(2, 8):
        execute(
            followed.server,
            *(["ALTER TABLE shop.orders ADD COLUMN price DECIMAL(8,2) DEFAULT 1.50 AFTER id"] if number == 4 else []),
            f"INSERT INTO shop.orders (id, note) VALUES ({number}, 'n{number}')",
            f"UPDATE shop.`lines` SET quantity = quantity + {number}",
        )
        seconds.append(followed.await_equal())
    # The server goes away and comes back.
    followed.server.stop()
    wait_for("a run that failed", lambda: "tried again in" in followed.text(), PATIENCE)
    followed.server.start()
    execute(followed.server, "INSERT INTO shop.orders (id, note) VALUES (20, 'after the start')")
    followed.await_equal()
    assert followed.end() == 0
    assert "ended by a signal, after a commit" in followed.text()
    assert not TRACE.search(followed.text())
    summary.append(
        f"run --follow: six changes downstream after {', '.join(f'{order_time:.1f}' for order_time in seconds)} s"
    )


@pytest.mark.long
def test_a_table_that_another_process_resets_is_rebuilt_without_a_new_event(followed: Followed) -> None:
    followed.start("--interval", "0.2")
    followed.await_equal()
    command = [sys.executable, "-m", "spark_jobs.cli", "reset", "-c", str(followed.path), "--yes"]
    subprocess.run(
        [*command, "--source", SOURCE, "--table", "shop.orders"], cwd=ROOT, check=True, env=followed.environment()
    )

    def is_rebuilt() -> bool:
        (entry,) = (
            entry for entry in publication.read(lake_of(followed.pipeline()), SOURCE) if entry.table == "orders"
        )
        return entry.state == "current"

    assert not is_rebuilt()
    wait_for("the rebuilt table", is_rebuilt, PATIENCE)
    assert followed.is_equal()
    assert followed.end(signal.SIGINT) == 0


@pytest.mark.long
def test_a_process_that_is_killed_is_followed_by_the_next(followed: Followed) -> None:
    for first in (10, 20, 30):
        followed.start("--interval", "0")
        for number in range(first, first + 8):
            execute(followed.server, f"INSERT INTO shop.orders VALUES ({number}, 'k')")
            time.sleep(0.3)
        if first == 10:
            followed.await_equal()
        followed.end(signal.SIGKILL)
    followed.start()
    followed.await_equal()
    assert followed.end() == 0
