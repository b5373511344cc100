"""Tables of a delivery compared with the lake's, at the version that was delivered.

Put here: which tables are compared, and what is said of each. Not here: comparing (compare.py), or how it is printed
(spark_jobs/cli/check.py).

Here the lake is the source of truth, and the target is what is compared with it. The rounds of compare.py end after the
first one: nobody but a delivery writes the target, and a delivery that runs meanwhile is told from the progress row.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.compare import KeyDifference, buckets_for, compare
from spark_jobs.checks.verify.lake_rows import LakeRows
from spark_jobs.checks.verify.row_digest import DigestLayout, layout
from spark_jobs.checks.verify.server_rows import ServerRows, ServerSession
from spark_jobs.checks.verify.verdict import TableVerdict
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delivery import lake_table, progress, target_table
from spark_jobs.delivery.deliver import chosen_tables
from spark_jobs.delivery.lake_table import LakeTable
from spark_jobs.delivery.target import Connection
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import TableStopped, message_under
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.verified import DIFFERS, EQUAL, NOT_COMPARED
from spark_jobs.source.server import Server

_ANYWHERE = Position("delivered.000001", 4)
"""Stand-in for a position where none is asked for."""


@dataclass(frozen=True, slots=True)
class DeliveryVerdict(TableVerdict):
    """Result for one table of a delivery, in rows; the lake is right, and the target is compared with it.

    state: ``equal``, ``differs``, or ``not compared``, and ``reason`` says why. missing: keys that the target lacks.
    extra: keys that only the target has. differences: with the target as the source.
    """

    delivery: str
    table: str
    state: str
    lake_rows: int = 0
    target_rows: int = 0

    @property
    def label(self) -> str:
        """Name of the table."""
        return self.table

    @property
    def directed_differences(self) -> Sequence[KeyDifference]:
        """The differences, with the lake in the place of the source."""
        return [difference.inverted for difference in self.differences]

    def to_json(self) -> dict[str, Any]:
        """The verdict as a JSON object; in a difference, ``source`` is the target."""
        return {
            "delivery": self.delivery,
            "table": self.table,
            "state": self.state,
            "lake_rows": self.lake_rows,
            "target_rows": self.target_rows,
            **self.counts(),
            "differences": self.keys_as_json(),
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }


def verify_delivery(
    spark: SparkSession, pipeline: Pipeline, name: str, only: Scope | None = None
) -> Iterator[DeliveryVerdict]:
    """Compare the tables of a delivery with the lake's rows, and yield a verdict for each.

    Raises ConfigError; DeliveryError, SourceError, LakeError.
    """
    settings, lake = pipeline.deliveries[name].mysql, lake_of(pipeline)
    tables = chosen_tables(pipeline, lake, name, only)
    with Connection(name, settings) as connection:
        # A target that is away is a delivery's error; a session of the comparison would call it a source's.
        connection.open()
        server = Server(f"delivery {name}", settings)
        with ServerSession(server, has_read_only=not connection.facts.is_tidb) as session:
            for table in tables:
                began = time.monotonic()
                try:
                    outcome = _ComparedDelivery(spark, lake, table, connection, session).outcome(name)
                except TableStopped as error:
                    outcome = {"state": NOT_COMPARED, "reason": message_under(str(error), f"delivery {name}", table)}
                yield DeliveryVerdict(name, str(table), seconds=time.monotonic() - began, **outcome)


@dataclass(frozen=True, slots=True)
class _ComparedDelivery:
    """One table, as the lake and the target have it; for compare.py a log in which nothing happens."""

    spark: SparkSession
    lake: Lake
    table: LakeTable
    connection: Connection
    session: ServerSession

    def outcome(self, name: str) -> dict[str, Any]:
        """The fields of the verdict. Raises TableStopped where the table cannot be compared."""
        self._require_delivered(name)
        digest_layout = self._layout()
        lake_rows = LakeRows(self.spark, self.table.table, digest_layout, version=self.table.version)
        outcome = self._compared_by_key(lake_rows) if digest_layout.key else self._counted(lake_rows)
        self._require_delivered(name)
        return outcome

    def _compared_by_key(self, lake_rows: LakeRows) -> dict[str, Any]:
        """Result for a table with a key."""
        # compare.py takes the server for the source of truth, and here it is the lake: missing there is extra here.
        target = ServerRows(self.spark, self.session, lake_rows.layout)
        rows = self.session.estimate(self.table.schema, self.table.name)
        comparison = compare(lake_rows.layout, target, _NoLag(lake_rows), _ANYWHERE, buckets_for(rows))
        return {
            "state": DIFFERS if comparison.differing else EQUAL,
            "lake_rows": comparison.lake,
            "target_rows": comparison.source,
            "missing": comparison.extra,
            "extra": comparison.missing,
            "different": comparison.different,
            "unread": comparison.unread,
            "differences": comparison.differences,
        }

    def _require_delivered(self, name: str) -> None:
        rows = progress.progress_by_table(self.connection, name) if progress.exists(self.connection) else {}
        row, _ = rows.get((self.table.schema, self.table.name), (None, None))
        if row is None or row.version != self.table.version or row.exit_version is not None:
            raise TableStopped("the target does not have the published version: stratalog deliver writes it")

    def _layout(self) -> DigestLayout:
        """Layout of the columns that the lake and the target both have."""
        snapshot = snapshot_of(self.table.table.path, self.table.version)
        target = target_table.target_table(self.connection, self.table.schema, self.table.name)
        if snapshot is None or target is None:
            raise TableStopped("the target has no such table")
        columns = target.output_columns(lake_table.shape_of(self.lake, self.table, snapshot))
        # Names as the lake has them: servers compare them in letters of any case.
        names = {column.name.casefold(): column.name for column in columns}
        listed = [
            row | {"name": names[row["name"].casefold()]}
            for row in self.session.columns(self.table.schema, self.table.name)
            if row["name"].casefold() in names
        ]
        order = [row["name"] for row in listed]
        kinds = self.table.table.columns_at(self.table.version)
        return layout(
            TableName(self.table.schema, self.table.name),
            listed,
            {column: kinds[column] for column in order},
            target.key(columns),
        )

    def _counted(self, lake_rows: LakeRows) -> dict[str, Any]:
        """Result for a table without a key: its rows are counted."""
        lake = lake_rows.count()
        target = self.session.count(self.table.schema, self.table.name)
        return {
            "state": EQUAL if lake == target else DIFFERS,
            "lake_rows": lake,
            "target_rows": target,
            "reason": "it has no key at the target: its rows were only counted",
        }


@dataclass(frozen=True, slots=True)
class _NoLag:
    """Log interface of compare.py, where both sides stand still."""

    lake: LakeRows

    def end(self) -> Position:
        return _ANYWHERE

    def caught_up(self, _: Position) -> LakeRows:
        return self.lake

    def changed_since(self, _: Collection[bytes], __: Position) -> set[bytes]:
        return set()

    def older(self, _: Collection[bytes]) -> set[bytes]:
        return set()
