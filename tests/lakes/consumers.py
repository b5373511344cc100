"""A lake with the log of one source, and its consumers. Put here: landing logs for them. Not here: what they get."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.source.files import Files
from spark_jobs.subscriptions.subscription import Subscription
from tests.binlogs.gtid_logs import land
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

SOURCE = "shop"
SPEC = SegmentSpec(
    tables=[
        Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20)),
        Table("shop.other", key=["id"], id=INT.NOT_NULL),
    ],
    rotate_to="",
)


def order(number: int) -> list[Change]:
    """A transaction with one row."""
    return [Insert("shop.orders", (number, f"n{number}")), Commit()]


def orders(count: int, first: int = 1) -> list[Change]:
    """A transaction with so many rows, an event each."""
    return [*(Insert("shop.orders", (first + at, None)) for at in range(count)), Commit()]


@dataclass
class Shop:
    """A pipeline in a folder, whose bronze gets binlog files without Spark."""

    folder: Path
    number: int = 0
    transactions: int = 1
    keys: str = ""
    lake_path: str = "./lake"
    _next: str = field(default="", repr=False)

    @property
    def path(self) -> Path:
        return self.folder / "pipeline.yaml"

    @property
    def pipeline(self) -> Pipeline:
        (self.folder / "binlogs").mkdir(exist_ok=True)
        self.path.write_text(f"lake: {self.lake_path}\nsources:\n  {SOURCE}: {{files: ./binlogs}}\n{self.keys}")
        return load(self.path)

    @property
    def lake(self) -> Lake:
        return lake_of(self.pipeline)

    def log(self, changes: Sequence[Change], spec: SegmentSpec = SPEC) -> str:
        """Another file of the log, landed in bronze. Returns its name."""
        pipeline = self.pipeline
        self.number += 1
        name = f"b.{self.number:06d}"
        rotate_to = f"b.{self.number + 1:06d}"
        second = 1_700_000_000 + 100 * self.number
        spec = replace(spec, changes=list(changes), rotate_to=rotate_to, first_number=self.transactions, second=second)
        self.transactions += sum(isinstance(change, Commit) for change in changes) + len(changes)
        (self.folder / "binlogs" / name).write_bytes(spec.to_bytes())
        land(lake_of(pipeline).bronze(SOURCE), Files(SOURCE, self.folder / "binlogs"))
        return name

    def subscription(self, group: str = "g", **options: Any) -> Subscription:
        return Subscription(self.pipeline, SOURCE, group, **options)


def ids(entries: Any) -> list[int]:
    """The ids of the orders that entries are about, in order."""
    images = [entry.value["after"] or entry.value["before"] for entry in entries if entry.kind == "change"]
    return [image["id"] for image in images]
