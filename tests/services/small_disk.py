"""A file system of its own, on which a file leaves as much room as a test wants.

Put here: mounting and filling it. Not here: what is on it.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """path: where it is mounted."""

    path: Path

    def leave(self, size: int | None) -> None:
        """Leaves so many bytes; all that there are without a number."""
        filler = self.path / "filler"
        filler.unlink(missing_ok=True)
        if size is not None:
            free = os.statvfs(self.path)
            subprocess.run(["fallocate", "-l", str(free.f_bavail * free.f_bsize - size), str(filler)], check=True)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """One of so many bytes, mounted at a new folder; skips the test where this user may not mount any."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small file system is mounted by root alone: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
