"""Comparison of bronze, written back as binlog files, with the files that it was read from.

Put here: whether they are the same bytes. Not here: writing them (bronze/export.py).
"""

import filecmp
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.bronze.export import export
from spark_jobs.lake.layout import Lake


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """``size`` in bytes, of all files together; ``unlike`` names those that differ or are on one side only."""

    files: int
    size: int
    unlike: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Summary of the comparison."""
        return f"{self.files} binlog files, {self.size:,} bytes, exported from bronze"

    @property
    def differences(self) -> tuple[str, ...]:
        """The files that differ."""
        return self.unlike


def export_and_compare(spark: SparkSession, lake: Lake, source: str, originals: Path, into: Path) -> ExportedFiles:
    """Export a source's log into an empty folder and compare it with the originals, byte for byte, both ways."""
    exported = list(export(spark, lake, source, into))
    return compared(originals, into, sum(file.size for file in exported))


def compared(originals: Path, exported: Path, size: int) -> ExportedFiles:
    names = {path.name for folder in (originals, exported) for path in folder.iterdir()}
    unlike = [name for name in sorted(names) if not _is_same(originals / name, exported / name)]
    return ExportedFiles(len(names), size, tuple(unlike))


def _is_same(first: Path, second: Path) -> bool:
    return first.is_file() and second.is_file() and filecmp.cmp(first, second, shallow=False)
