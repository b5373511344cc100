"""A lake whose disk is full, in a folder and behind a store: one message, tables as before, and equal rows later."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_jobs.config.loader import load
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.demo.recorded import recorded_files
from spark_jobs.lake.layout import lake_of
from tests.fix_cli import Ran, Stratalog
from tests.fix_store import require_gateway
from tests.gateway import Gateway
from tests.stores.test_faults import require_recorded_rows, session_ended, write_config

__all__ = ["session_ended"]

pytestmark = [pytest.mark.stores, pytest.mark.spark, pytest.mark.long]

SIZE = 48 << 20
ROOM = (0, 12 << 10, 48 << 10, 160 << 10, 400 << 10)
"""Bytes that are free, one after the other."""
SAID = {"folder": "no space left on device", "store": "the store has no space left"}


@dataclass
class SmallDisk:
    """A file system of its own, on which a file leaves as much room as a test wants."""

    path: Path
    full: int = field(default=0)

    def leave(self, size: int | None) -> None:
        """Leaves so many bytes; all that there are without a number."""
        filler = self.path / "filler"
        filler.unlink(missing_ok=True)
        if size is not None:
            free = os.statvfs(self.path)
            subprocess.run(["fallocate", "-l", str(free.f_bavail * free.f_bsize - size), str(filler)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("file systems are mounted by root")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def config(kind: str, disk: SmallDisk, folder: Path) -> Iterator[Path]:
    if kind == "folder":
        yield write_config(folder, str(disk.path / "lake"), {})
        return
    require_gateway()
    with Gateway(disk.path / "gateway") as server:
        lake = server.make_bucket("full")
        yield write_config(folder, lake, server.keys())


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_a_full_disk(
    kind: str, disk: SmallDisk, stratalog: Stratalog, store_keys: None, tmp_path: Path, summary: list[str]
) -> None:
    with config(kind, disk, tmp_path) as path:
        verbs = [("run",), ("extract", "compact", "merge"), ("extract", "compact", "run", "maintain")]
        for file, ways in zip(recorded_files(), verbs, strict=False):
            shutil.copy(file, tmp_path / "binlogs")
            for verb in ways:
                for size in ROOM:
                    disk.leave(size)
                    before = versions(path)
                    ran = stratalog(verb, "-c", path)
                    if ran.status:
                        require_message(ran, SAID[kind])
                        disk.full += 1
                    assert all(version >= before.get(table, -1) for table, version in versions(path).items())
                disk.leave(None)
                ran = stratalog(verb, "-c", path)
                assert ran.status == 0, ran.err
        assert disk.full > len(ROOM), "the disk was full"
        rows = require_recorded_rows(path)
    summary.append(f"a full disk, {kind}: {disk.full} verbs stopped; {rows:,} rows compared, 0 lost, 0 doubled")


def require_message(ran: Ran, text: str) -> None:
    assert ran.status == 1, ran.err
    assert text in ran.err.lower(), ran.err
    assert "Traceback" not in ran.out + ran.err, ran.err
    assert "Generic S3 error" not in ran.err, ran.err


def versions(path: Path) -> dict[str, int]:
    """By table of the lake, which can all be read."""
    lake = lake_of(load(path))
    names = ("carts", "orders", "products")
    tables = [lake.bronze("shop"), *(lake.silver("shop", "shop", name) for name in names)]
    tables += [lake.downstream("shop", name) for name in names]
    found = {table.path: snapshot_of(table.path) for table in tables}
    return {path_: snapshot.version for path_, snapshot in found.items() if snapshot}
