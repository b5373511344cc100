"""Processes whose lake has a full disk, in a folder and behind a store: one message, whole tables, equal rows later."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.config.loader import load
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.rows import rows_of
from tests.command_result import without_codes
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_store import require_gateway
from tests.lakes.delivered import Copy
from tests.pipeline.test_standard_error import TRACE
from tests.services.dev_server import ROOT
from tests.services.gateway import Gateway
from tests.services.small_disk import SmallDisk, small_disk
from tests.stores.test_verbs import CONF

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

SIZE = 24 << 20
ROOM = (0, 16 << 10, 96 << 10)
"""Bytes that are free, one after the other."""
MESSAGES = {"folder": "no space left on device", "store": "the store has no space left"}
TABLES = ("old", "t", "bag")
PATIENCE = 400


@dataclass
class Processes:
    """``stratalog`` in processes of their own, over one configuration whose lake is on a small disk."""

    shop: Shop
    copy: Copy
    disk: SmallDisk
    keys: dict[str, Any]
    message: str
    stopped: dict[str, int] = field(default_factory=dict)
    """By verb how many processes ended by the full disk."""

    @property
    def path(self) -> Path:
        return self.shop.folder / "pipeline.yaml"

    def write(self, **keys: Any) -> None:
        server = self.shop.database.server
        login = {"host": server.host, "port": server.port, "user": server.user, "password": "${SHOP_PASSWORD}"}
        routes = [{"from": f"{self.shop.database.name}.*", "to": f"{self.copy.schema}.{{1}}"}]
        document = {
            "sources": {SOURCE: {"mysql": login, "start": str(self.shop.start)}},
            "tables": [f"{self.shop.database.name}.*"],
            "routes": routes,
            "spark": {"master": "local[2]", "conf": CONF},
        }
        self.path.write_text(yaml.safe_dump(document | self.keys | keys), encoding="utf-8")

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        verb, *rest = words
        command = [sys.executable, "-m", "spark_jobs.cli", verb, "-c", str(self.path), *rest]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment(), capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    def _environment(self) -> dict[str, str]:
        return os.environ | {"SHOP_PASSWORD": self.shop.database.server.password}

    def until_done(self, *words: str) -> None:
        """With ever more room, then with all: each is done, or stops by a message and leaves tables as they were."""
        for size in ROOM:
            before = self.rows()
            self.disk.leave(size)
            ran = self.call(*words)
            self.disk.leave(None)
            after = self.rows()
            truth = {table: self.truth(table) for table in TABLES}
            assert [table for table in TABLES if after[table] not in (before[table], truth[table])] == []
            if ran.returncode:
                self._require_message(ran)
                self.stopped[words[0]] = self.stopped.get(words[0], 0) + 1
        ran = self.call(*words)
        assert ran.returncode == 0, ran.stderr

    def _require_message(self, ran: subprocess.CompletedProcess[str]) -> None:
        output = without_codes(ran.stderr)
        assert ran.returncode == 1, output
        assert self.message in output.lower(), output
        assert not TRACE.search(ran.stdout + output), output
        assert "Generic S3 error" not in output, output

    def rows(self) -> dict[str, list[str] | None]:
        """Of each downstream table; None of one that is not there."""
        lake = lake_of(load(self.path, self._environment()))
        return {table: _rows_of_table(lake.downstream(self.copy.schema, table).path) for table in TABLES}

    def truth(self, table: str) -> list[str]:
        return sorted(map(repr, self.shop.truth(table)))


def _rows_of_table(path: str) -> list[str] | None:
    snapshot = snapshot_of(path)
    if snapshot is None:
        return None
    names = [name for name in snapshot.schema.names if not name.startswith("_")]
    batches = rows_of(path, snapshot.version, names, None, rows=1000)
    return sorted(repr(tuple(row.values())) for batch in batches for row in batch.to_pylist())


@contextmanager
def lake_on(kind: str, disk: SmallDisk) -> Iterator[dict[str, Any]]:
    """Keys of pipeline.yaml for a lake there."""
    if kind == "folder":
        yield {"lake": str(disk.path / "lake")}
        return
    require_gateway()
    with Gateway(disk.path / "gateway") as server:
        yield {"lake": server.make_bucket("full"), "store": server.keys()}


@pytest.mark.parametrize("kind", ["folder", pytest.param("store", marks=pytest.mark.stores)])
def test_processes_stop_by_a_message_and_go_on_when_there_is_room(
    kind: str, copy: Copy, store_keys: None, summary: list[str]
) -> None:
    database = copy.shop.database
    database.execute("CREATE TABLE old (id INT PRIMARY KEY, text VARCHAR(200))")
    database.execute(
        "INSERT INTO old VALUES " + ", ".join(f"({number}, SHA2('{number}', 512))" for number in range(900))
    )
    shop = Shop(copy.shop.spark, database, copy.shop.folder, copy.shop.end())
    changes = "INSERT INTO {} SELECT id {}, REVERSE(text) FROM old"
    with small_disk(shop.folder / "disk", SIZE) as disk, lake_on(kind, disk) as keys:
        processes = Processes(shop, copy, disk, keys, MESSAGES[kind])
        processes.write()
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, text VARCHAR(200))")
        database.execute("CREATE TABLE bag (id INT, text VARCHAR(200))")
        database.execute(changes.format("t", "+ 1"))
        database.execute(changes.format("bag", "% 7"))
        processes.until_done("run")
        processes.until_done("load", "--source", SOURCE)
        database.execute("UPDATE t SET text = REVERSE(text) WHERE id % 2")
        database.execute("DELETE FROM bag WHERE id = 3")
        processes.until_done("run")
        # A delivery reads the lake alone, and its progress is at the target.
        login = {"host": database.server.host, "port": database.server.port, "user": "writer", "password": "writes"}
        processes.write(deliveries={"copy": {"mysql": login}})
        processes.until_done("deliver")
        assert processes.stopped.keys() >= {"run", "load"}
        assert processes.rows() == {table: processes.truth(table) for table in TABLES}
        copy.require_same(*TABLES)
    counts = ", ".join(f"{verb} {count}" for verb, count in sorted(processes.stopped.items()))
    compared = sum(len(processes.truth(table)) for table in TABLES)
    summary.append(f"a full disk, {kind}: stopped {counts}; {compared:,} rows compared twice, 0 lost, 0 doubled")
