"""A lake of a described log, written without Spark: bronze, silver's commits, downstream versions, what is published.

Put here: the lake, stage by stage, and the rows that its tables have. Not here: what a test expects of a delivery.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, Transaction

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table as LakeTable
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import SilverCommit
from tests.binlogs.segment_spec import Change, Delete, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import FILE, bronze_rows

SOURCE = "shop"
NAMES = ("keyed", "bag", "aaa")
KEYED = ("keyed", "aaa")
Row = tuple[int, int]


class WrittenLake:
    """Tables ``keyed``, ``bag`` (without a key) and, from the second stage on, ``aaa``: (id, n) each."""

    def __init__(self, folder: Path, schema: str, login: Mapping[str, Any], changes: Sequence[Change]) -> None:
        self.folder, self.schema, self._login = folder, schema, login
        self._changes, self._published = changes, Counter[str]()
        self._tables = [Table(f"shop.{name}", key=["id"] if name in KEYED else [], id=INT, n=INT) for name in NAMES]
        self.rows: dict[str, Counter[Row]] = {name: Counter() for name in NAMES}
        (folder / "binlogs").mkdir()
        content = self._content(changes)
        commit = BronzeCommit(Position(FILE, len(content)), "b", begin=Position(FILE, 4))
        bronze = lake_of(self.pipeline()).bronze(SOURCE)
        _write_version(bronze, bronze_rows(FILE, content, target=400), commit, 1, "append")

    def pipeline(self, **keys: Any) -> Pipeline:
        """The configuration, with these keys of the delivery."""
        path = self.folder / "pipeline.yaml"
        text = {
            "lake": "./lake",
            "sources": {SOURCE: {"files": "./binlogs"}},
            "tables": ["shop.*"],
            "routes": [{"from": "shop.*", "to": f"{self.schema}.{{1}}"}],
            "deliveries": {"copy": {"mysql": dict(self._login)} | keys},
        }
        path.write_text(json.dumps(text), encoding="utf-8")
        return load(path, {})

    def publish(self, count: int, names: Sequence[str]) -> None:
        """The next stage: tables as of so many changes of the log."""
        position = Position(FILE, len(self._content(self._changes[:count])))
        self.rows = _rows_after(self._changes[:count])
        entries = []
        for name in names:
            version = self._published[name]
            self._published[name] += 1
            key, table = ("id",) if name in KEYED else (), TableName("shop", name)
            columns = (Column("id", 3, nullable=name not in KEYED), Column("n", 3))
            definition = TableDefinition(table, columns, (0,) if key else ())
            lake, number = lake_of(self.pipeline()), version + 1
            silver = SilverCommit(position, f"s{number}", "live", definition=definition, key=key)
            rows = _downstream_rows(self.rows[name])
            _write_version(lake.silver(SOURCE, "shop", name), rows, silver, number, "append")
            merged = DownstreamCommit(position, f"d{number}", source=SOURCE, table=str(table), silver_version=version)
            downstream = lake.downstream(self.schema, name)
            _write_version(downstream, rows, merged, number, "overwrite")
            reached = {"position": str(position), "merged": str(position)}
            state = {"downstream": downstream.path, "downstream_version": version}
            entries.append(Entry(SOURCE, "shop", name, "current", **reached, **state))  # type: ignore[arg-type]
        published = pa.Table.from_pylist(
            [publication._entry_row(entry) for entry in entries], schema=publication._SCHEMA
        )
        deltalake.write_deltalake(lake_of(self.pipeline()).published().path, published, mode="overwrite")

    def _content(self, changes: Sequence[Change]) -> bytes:
        return SegmentSpec(tables=self._tables, changes=changes).to_bytes()


def _rows_after(changes: Sequence[Change]) -> dict[str, Counter[Row]]:
    rows: dict[str, Counter[Row]] = {name: Counter() for name in NAMES}
    for change in changes:
        if isinstance(change, Insert):
            rows[change.table.removeprefix("shop.")][tuple(change.row)] += 1
        elif isinstance(change, Delete):
            rows[change.table.removeprefix("shop.")][tuple(change.row)] -= 1
        elif isinstance(change, Update):
            rows[change.table.removeprefix("shop.")].update({tuple(change.after): 1})
            rows[change.table.removeprefix("shop.")].subtract({tuple(change.before): 1})
    return {name: +counter for name, counter in rows.items()}


def _downstream_rows(counted: Counter[Row]) -> pa.Table:
    rows = sorted(counted.elements())
    columns = [pa.array([row[at] for row in rows], pa.int32()) for at in (0, 1)]
    raw = pa.nulls(len(rows), pa.map_(pa.string(), pa.string()))
    return pa.table([*columns, raw], ["id", "n", "_raw"])


def _write_version(table: LakeTable, rows: pa.Table, commit: Checkpoint, version: int, mode: Any) -> None:
    properties = CommitProperties(
        custom_metadata={"userMetadata": commit.to_json()}, app_transactions=[Transaction("stratalog", version)]
    )
    deltalake.write_deltalake(table.path, rows, mode=mode, commit_properties=properties)
