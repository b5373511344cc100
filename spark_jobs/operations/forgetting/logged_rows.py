"""The rows of some keys in bronze: their offsets, and slices without them.

Put here: finding changes of keys in the log, and one commit that erases them. Not here: events without rows
(binlog/rows/erasure.py), or who still reads them (forget.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import ErasedSlice, SliceBytes, SliceEraser, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.json_encoding import bytes_at
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import DataFile, Snapshot, removed_files
from spark_jobs.engine.jobs import rewrite
from spark_jobs.engine.jobs.rewrite import FileGroup
from spark_jobs.errors import LakeError
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.forgetting.derived_rows import DerivedRows, KeyChange
from spark_jobs.operations.forgetting.old_files import unnamed_files
from spark_jobs.row_history.trace import Selection, TableTrace, TracedChange

File = tuple[int, str]
"""Stretch and name of a binlog file."""
Order = tuple[int, int, int]
"""Stretch, file number and offset of a slice."""
_ORDER = ("stretch", "number", "start")
_COLUMNS = ("stretch", "number", "file", "start", "stop", "transaction_start")
_SLICE = (*_COLUMNS, "context", "payload")


@dataclass(slots=True)
class LoggedRows:
    """Changes of some keys in one version of bronze.

    derived: those that foreign keys made and the log does not have. rows: by file the offset of each change's event and
    its number there. other_keys: keys that their rows had before or after. living: keys whose rows are not deleted at
    the end. newest: where the last of the changes takes effect, as ``Position.order``. by_statement: positions of
    statements that change rows of the table and do not say which.
    """

    snapshot: BronzeSnapshot
    derived: DerivedRows
    rows: dict[File, set[tuple[int, int]]] = field(default_factory=dict)
    other_keys: set[str] = field(default_factory=set)
    living: set[str] = field(default_factory=set)
    newest: tuple[int, ...] | None = None
    by_statement: tuple[Position, ...] = ()
    names: frozenset[TableName] = frozenset()

    @classmethod
    def find(cls, pipeline: Pipeline, source: str, name: TableName, keys: Iterable[str]) -> Self:
        """All that bronze has of keys, as users write them. Raises as ``TableTrace``."""
        trace = TableTrace.of(pipeline, source, name, Selection(keys=tuple(keys), is_raw=True))
        changes: list[KeyChange] = []
        rows: dict[File, set[tuple[int, int]]] = {}
        for traced in trace.changes():
            change = traced.change
            if change.is_derived:
                continue  # it is in no event, and derived_rows.py has it
            rows.setdefault((traced.stretch, change.file), set()).add((change.offset, change.row))
            changes.append(KeyChange(_effect_order(traced), change.old_key, change.new_key))
        table = lake_of(pipeline).cascades(source)
        derived = DerivedRows.find(table, trace.life, trace.indexes.definitions, trace.choice)
        logged, seeds = cls(trace.snapshot, derived, rows), trace.choice.seeds
        # Rows begin and end by what the log has of them, and by what foreign keys did.
        born: dict[str, tuple[int, ...]] = {}
        for order, old, new in sorted([*changes, *derived.changes], key=lambda change: change.order):
            logged.other_keys |= {key for key in (old, new) if key} - seeds
            born.pop(old or "", None)
            if new:
                born[new] = order
            logged.newest = order[:3]
        # A statement that empties the table deletes rows, too.
        emptied = [position.order for position in trace.life.emptied]
        logged.living = {
            key for key, log_position in born.items() if not any(order > log_position[:3] for order in emptied)
        }
        logged.by_statement = tuple(logged.position for logged in trace.life.unlogged)
        logged.names = frozenset(trace.life.names)
        return logged

    @property
    def changes(self) -> int:
        """Number of changes."""
        return sum(map(len, self.rows.values()))


def _effect_order(traced: TracedChange) -> tuple[int, int, int, int]:
    """Position at which a change takes effect: its event, or of an XA transaction where it is committed."""
    stretch, number, start, offset, row = traced.position
    return stretch, number, offset if traced.facts.xa is None else start, row


@dataclass(frozen=True, slots=True)
class _Slices:
    """Slices of one version of bronze, with where each lies in the data files."""

    files: DataFiles

    def of(self, binlog_files: Iterable[File]) -> Iterator[dict[str, Any]]:
        """The positions of slices of binlog files, without their bytes."""
        file_names = {*binlog_files}
        for part in self.files.read(None, _COLUMNS):
            rows = part.columns.to_pylist()
            for row, group, number in zip(rows, part.groups.tolist(), part.rows.tolist(), strict=True):
                if (row["stretch"], row["file"]) in file_names:
                    yield {**row, "data_file": part.file, "row_group": group, "row": number}

    def eraser(self, log_slice: Mapping[str, Any]) -> SliceEraser:
        """A slice opened. Raises DecodeError, LakeError."""
        stored = self.files.group(log_slice["data_file"], log_slice["row_group"], _SLICE)
        cells = stored.slice(log_slice["row"], 1).combine_chunks().to_batches()[0]
        payload = bytes_at(cells.column("payload"), 0)
        context = cells.column("context")[0].as_py()
        return SliceEraser.of(
            log_slice["file"], SliceBytes(log_slice["start"], context, payload, log_slice["transaction_start"])
        )


@dataclass(frozen=True, slots=True)
class ErasedSlices:
    """New contents of slices, by position; as ``FileGroup.edit`` it puts them in."""

    by_position: Mapping[Order, ErasedSlice]
    data_files: frozenset[str] = frozenset()
    """Paths of the data files with some."""

    @classmethod
    def of(cls, logged: LoggedRows) -> Self:
        """The slices with changes, without them. Raises DecodeError, Unsupported, LakeError."""
        files = DataFiles(logged.snapshot.table, logged.snapshot.version)
        slices = _Slices(files)
        listed = [*slices.of(logged.rows)]
        # Which transactions have them: their statements' texts go, too, and may stand in earlier slices.
        starts: dict[File, set[int]] = {}
        for log_slice, offsets in ((log_slice, _within(logged, log_slice)) for log_slice in listed):
            if offsets:
                begins = slices.eraser(log_slice).transactions_of({offset for offset, _ in offsets})
                starts.setdefault((log_slice["stretch"], log_slice["file"]), set()).update(begins)
        erased: dict[Order, ErasedSlice] = {}
        paths = set()
        for log_slice in listed:
            begins, rows = starts.get((log_slice["stretch"], log_slice["file"]), set()), _within(logged, log_slice)
            is_of_one = log_slice["transaction_start"] in begins or any(
                log_slice["start"] <= begin < log_slice["stop"] for begin in begins
            )
            if not rows and not is_of_one:
                continue
            new = slices.eraser(log_slice).erased(rows, begins)
            if new.events:
                erased[log_slice["stretch"], log_slice["number"], log_slice["start"]] = new
                paths.add(files.paths[log_slice["data_file"]])
        return cls(erased, frozenset(paths))

    @property
    def events(self) -> int:
        return sum(log_slice.events for log_slice in self.by_position.values())

    @property
    def bytes(self) -> int:
        return sum(log_slice.size for log_slice in self.by_position.values())

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Slices of bronze with the new contents."""
        records = rows.to_pylist()
        if not any(self._erased_slice(record) for record in records):
            return rows
        for record in records:
            new = self._erased_slice(record)
            if new:
                record["payload"] = new.payload
                record["events"] += new.added
                record["ignored"] += new.added
                record["redacted"] = _noted(record["redacted"], new)
        return pa.Table.from_pylist(records, schema=rows.schema)

    def _erased_slice(self, record: Mapping[str, Any]) -> ErasedSlice | None:
        return self.by_position.get((record["stretch"], record["number"], record["start"]))


def _within(logged: LoggedRows, log_slice: Mapping[str, Any]) -> set[tuple[int, int]]:
    rows = logged.rows.get((log_slice["stretch"], log_slice["file"]), set())
    return {(offset, row) for offset, row in rows if log_slice["start"] <= offset < log_slice["stop"]}


def _noted(before: Mapping[str, Any] | None, new: ErasedSlice) -> dict[str, Any]:
    """Record in bronze of events that are not the server's own: counts, bytes and tables."""
    names = {(table["schema"], table["table"]) for table in (before or {}).get("tables") or ()} | new.tables
    return {
        "events": new.events + (before["events"] if before else 0),
        "bytes": new.size + (before["bytes"] if before else 0),
        "tables": [{"schema": schema, "table": table} for schema, table in sorted(names)],
    }


def erase(logged: LoggedRows, erased: ErasedSlices) -> None:
    """Replace slices by slices without the rows, in one commit. Raises LostRace, LakeError."""
    if not erased.by_position:
        return
    # Each data file with such slices is written again; the others stay.
    table, head = logged.snapshot.table, logged.snapshot.head
    upon, added = driver_commit.with_columns(driver_commit.snapshot_upon(table.path, head), bronze.REDACTED_COLUMN)
    old_files = [file for file in upon.files if file.path in erased.data_files]
    new_files: list[DataFile] = []
    for number, file in enumerate(old_files):
        group = FileGroup(number, upon.path, (file,), upon.schema, upon.configuration, (), edit=erased)
        (rewritten,) = rewrite.work([group])
        if rewritten.error or rewritten.file is None:
            raise LakeError(rewritten.error or f"{file.location(upon.path)}: has no slice")
        new_files.append(rewritten.file)
    assert len(old_files) == len(erased.data_files), "every data file with changes is in the version"
    assert head.checkpoint is not None
    commit = replace(BronzeCommit.of(head.checkpoint), batch=new_batch(), kind=CommitKind.MAINTENANCE)
    table.land(upon, head, commit, adds=new_files, removes=old_files, changes_rows=False, operation="FORGET", **added)


def files_that_hold(logged: LoggedRows, snapshot: Snapshot) -> list[Any]:
    """Files of bronze that the newest version does not name, and that have slices as they were before they were erased.

    Such are files with another content of a slice of which bronze says that it is redacted, and files with slices of
    the table's that bronze has no more. Raises LakeError.
    """
    current = _redacted_payloads(logged)
    gone_names = {file.location(snapshot.path).name for file in removed_files(snapshot.path, of_all_commits=True)}
    oldest = logged.snapshot.oldest.order
    holders = []
    for file in unnamed_files(snapshot):
        with data_files.parquet(file) as opened:
            if not {*_ORDER, "payload", "tables"} <= {*opened.schema_arrow.names}:
                continue
            is_removed = file.name in gone_names
            for number in range(opened.num_row_groups):
                rows = opened.read_row_group(number, columns=[*_ORDER, "tables", "payload"])
                if any(_holds(record, current, oldest, logged, is_removed=is_removed) for record in rows.to_pylist()):
                    holders.append(file)
                    break
    return holders


def _holds(
    record: Mapping[str, Any], current: Mapping[Order, bytes], oldest: Order, logged: LoggedRows, *, is_removed: bool
) -> bool:
    position = record["stretch"], record["number"], record["start"]
    if position in current:
        return bool(record["payload"] != current[position])
    names = {TableName(table["schema"], table["table"]) for table in record["tables"] or ()}
    return is_removed and position < oldest and bool(names & logged.names)


def _redacted_payloads(logged: LoggedRows) -> dict[Order, bytes]:
    """The slices that are redacted as they are now."""
    snapshot = logged.snapshot
    if "redacted" not in snapshot.table.columns():
        return {}
    payloads: dict[Order, bytes] = {}
    columns = [*_ORDER, "payload", "redacted"]
    for batch in snapshot.table.scan(snapshot.version, columns, pc.field("redacted").is_valid(), rows=16):
        for record in batch.to_pylist():
            if record["redacted"]:
                payloads[record["stretch"], record["number"], record["start"]] = record["payload"]
    return payloads
