"""Lakes whose bronze is a log, and what the second reader says of them.

Put here: what several of its test files use. Not here: what is expected.
"""

from pathlib import Path

from spark_jobs.checks.second_reader.compare import SecondReading, read_twice
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.source.files import Files
from tests.binlogs.gtid_logs import land

RECORDED = Path(__file__).parents[3] / "recorded"
SOURCE = "shop"


def landed(folder: Path, content: bytes, rules: str = "") -> Pipeline:
    """A pipeline whose bronze is one file of a log."""
    binlogs = folder / "binlogs"
    binlogs.mkdir()
    (binlogs / "mysql-bin.000001").write_bytes(content)
    path = folder / "pipeline.yaml"
    path.write_text(f"lake: ./lake\nsources:\n  {SOURCE}: {{files: ./binlogs}}\n{rules}", encoding="utf-8")
    pipeline = load(path)
    land(lake_of(pipeline).bronze(SOURCE), Files(SOURCE, binlogs))
    return pipeline


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.000001").read_bytes()


def reading_of(folder: Path, content: bytes, changes: int = 100_000) -> SecondReading:
    return read_twice(landed(folder, content), SOURCE, changes)
