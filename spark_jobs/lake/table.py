"""One Delta table: its head, reads, and commits that land once or not at all.

Put here: what a head says, and how a commit is made. Not here: where tables lie (layout.py), or what the rows mean
(bronze/extract.py, engine/silver/silver_job.py, engine/merge/downstream_job.py).

A commit is planned upon a head, and creates the version after it exclusively (delta/commits.py): a plan made on an old
head can not land, however late it comes, and its writer reports ``LostRace``. Every commit has one transaction id
(``APPLICATION``) with a **commit counter** as its version, which tells commits of ours from those of other tools.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from spark_jobs.delta import commits, kept
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.lake import driver_commit, own_commits
from spark_jobs.lake.commit import APPLICATION, Checkpoint, CommitKind, Design, Head, new_batch
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.rows import rows_of, rows_with
from spark_jobs.runtime.engine_errors import translated
from spark_jobs.storage.files import is_stored, reason, stored_path
from spark_jobs.text.sql import delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableComments:
    """A table's comment, and those of its columns that have one."""

    table: str
    columns: Mapping[str, str] = field(default_factory=dict)


class Table:
    """One Delta table by path."""

    def __init__(self, path: str, plain: bool) -> None:
        self.path = path
        self.plain = plain

    @property
    def provenance(self) -> dict[str, str]:
        """Columns, and their values, that tell the rows meant from others of the table; none where all are meant."""
        return {}

    @property
    def sql(self) -> str:
        """The table's name in SQL."""
        return delta(self.path)

    def head(self) -> Head | None:
        """The newest version, without a JVM; None where there is no table. Raises LakeError."""
        return own_commits.head_of(self.path)

    def is_newest(self, version: int) -> bool:
        """True if no commit came after a version. Most tables are not opened for it. Raises LakeError."""
        if not is_stored(self.path):
            opened = own_commits.deltalake_table(self.path)
            return opened is not None and opened.version() == version
        # Commits are removed from the oldest on: where the version's own is there, so would be the next one.
        log = stored_path(self.path) / "_delta_log"
        try:
            return (log / f"{version:020}.json").exists() and not (log / f"{version + 1:020}.json").exists()
        except OSError as error:
            raise LakeError(f"{self.path}: cannot be read: {reason(error)}") from error

    def since(self, version: int) -> list[tuple[int, Checkpoint]]:
        """Our commits after a Delta version, newest first."""
        return own_commits.since(self.path, version)

    def columns(self) -> dict[str, str]:
        """Name and Spark type (as in DDL, upper case) of every column; empty where there is no table."""
        return self.columns_at(None)

    def columns_at(self, version: int | None) -> dict[str, str]:
        """The same of a Delta version; None is the newest."""
        snapshot = snapshot_of(self.path, version)
        return {} if snapshot is None else snapshot.schema.spark_types

    def comments(self) -> TableComments:
        """Descriptions of the table and its columns; of a table that is not there, none."""
        snapshot = snapshot_of(self.path)
        if snapshot is None:
            return TableComments("")
        described = {column.name: str(column.metadata.get("comment") or "") for column in snapshot.schema.columns}
        columns = {name: text for name, text in described.items() if text}
        return TableComments(str(snapshot.metadata.rest.get("description") or ""), columns)

    def empty(self) -> bool:
        """True if no version of it that is there now holds a file."""
        snapshot = snapshot_of(self.path)
        return snapshot is None or not snapshot.files

    def read(self, spark: "SparkSession", version: int | None = None) -> "DataFrame":
        reader = spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(self.path)

    def collect_arrow(self, rows: "DataFrame") -> pa.Table:
        """The rows of a query. Raises what a task raised, LostRace, LakeError."""
        with translated(self.path):
            return rows.toArrow()

    def unwritten_head(self, columns: dict[str, str], properties: dict[str, str], upon: Head | None = None) -> Head:
        """The head to plan upon where there is no table yet, or one is rebuilt upon its head. Nothing is written."""
        version, counter = (upon.version, upon.counter) if upon else (-1, 0)
        return Head(version, counter, None, Design(columns, properties))

    def scan(
        self, version: int, columns: Sequence[str], condition: pc.Expression, *, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one version that satisfy a condition, so many at once, in no order, without a JVM.

        Raises LakeError.
        """
        if not is_local(self.path):
            yield from rows_of(self.path, version, columns, condition, rows=rows)
            return
        with own_commits.readable_table(self.path):
            dataset = kept.opened(self.path, version).to_pyarrow_dataset(filesystem=_local_files(self.path))
            scanner = dataset.scanner(
                columns=list(columns), filter=condition, batch_size=rows, batch_readahead=1, fragment_readahead=1
            )
            yield from scanner.to_batches()

    def rows(
        self,
        conditions: list[tuple[str, str, Any]] | None = None,
        columns: list[str] | None = None,
        version: int | None = None,
    ) -> list[dict[str, Any]]:
        """The newest version of a small table, or a version of it, without a JVM.

        Args:
            conditions: (column, "=", value), all of which hold.
            columns: those that are read; all by default.
            version: that of a head that a commit is planned upon.
        """
        snapshot = snapshot_of(self.path, version)
        if snapshot is None:
            return []
        return list(rows_with(snapshot, columns or snapshot.schema.names, conditions or []))

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Newest commits by Delta's history, newest first, without a JVM. Raises LakeError."""
        opened = own_commits.deltalake_table(self.path)
        with own_commits.readable_table(self.path):
            return [] if opened is None else opened.history(limit)

    def append_rows(self, rows: pa.Table, head: Head, checkpoint: Checkpoint) -> Head:
        """Append a small table. Raises LostRace, LakeError."""
        upon = driver_commit.snapshot_upon(self.path, head, appends=True)
        return self.land(upon, head, checkpoint, **driver_commit.commit_of_rows(upon, rows, head))

    def append_files(
        self, upon: Snapshot, files: Sequence[DataFile], head: Head, checkpoint: Checkpoint, **changes: Any
    ) -> Head:
        """Append files that tasks wrote.

        upon: of ``driver_commit.snapshot_upon``. changes: what the commit has besides, as in ``land``. Raises LostRace.
        """
        return self.land(upon, head, checkpoint, **changes, **driver_commit.commit_of_files(files))

    def land(self, upon: Snapshot, head: Head, checkpoint: Checkpoint, **changes: Any) -> Head:
        """Commit what tasks wrote: ``changes`` are those of ``delta.commits.commit``. Raises LostRace.

        upon: the table at ``head``.
        """
        driver_commit.require_shared(upon, changes)
        checkpoint = self._claimed(head, checkpoint)
        transaction, text = (APPLICATION, head.counter + 1), checkpoint.to_json()
        version = commits.commit(upon, transaction=transaction, user_metadata=text, **changes)
        return Head(version, head.counter + 1, checkpoint)

    def replace_rows(
        self,
        rows: pa.Table,
        cells: driver_commit.Cells,
        head: Head,
        checkpoint: Checkpoint,
        *,
        columns: Mapping[str, str] | None = None,
    ) -> Head:
        """Replace the rows that have all the cells by a small table. Raises LostRace, LakeError.

        columns: by name and Spark type, those that the table gets where it lacks them.
        """
        upon, added = driver_commit.with_columns(driver_commit.snapshot_upon(self.path, head), columns or {})
        return self.land(upon, head, checkpoint, **added, **driver_commit.commit_of_rows(upon, rows, head, cells))

    def fence(self) -> None:
        """Take the next counter and change nothing: what others have planned by now loses, and is planned again.

        Raises LakeError, LostRace where other writers keep winning.
        """

        def claim() -> None:
            head = self.head()
            if head and head.checkpoint:
                upon = driver_commit.snapshot_upon(self.path, head, appends=True)
                self.land(upon, head, replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE))

        retry_on_conflict(claim)

    def file_sizes(self) -> list[int]:
        """Bytes of each data file of the newest version; none where there is no table."""
        snapshot = snapshot_of(self.path)
        return [] if snapshot is None else [file.size for file in snapshot.files]

    def rows_written(self) -> int:
        """Rows in the newest version's files, those that are marked as deleted among them."""
        snapshot = snapshot_of(self.path)
        return 0 if snapshot is None else sum(file.num_records or 0 for file in snapshot.files)

    def _claimed(self, head: Head, checkpoint: Checkpoint) -> Checkpoint:
        """Checkpoint of a commit upon ``head``."""
        return checkpoint.upon(head)


def is_local(path: str) -> bool:
    """True if a table is on a file system."""
    return "://" not in path.removeprefix("file://")


def _local_files(path: str) -> SubTreeFileSystem:
    """A local table's files as Arrow reads them itself.

    deltalake's default is Python, called by Arrow's threads. A process that ends while one of them closes a file is
    aborted (exit status 134): one in seven that read a small table and nothing else.
    """
    return SubTreeFileSystem(path.removeprefix("file://"), LocalFileSystem())
