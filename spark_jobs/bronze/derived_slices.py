"""Changes that a server made by foreign keys and did not log, as slices beside those of the log.

They are the rows of the lake's table ``cascades/<source>``, each the changes of a child table after the events of one
transaction, at the positions of their parents' events. ``SliceIndex.slices_of_table`` returns them with the slices of
bronze, so that decoding the log twice gives the same rows.

``payload`` is an Arrow stream of one batch: ``op``, ``offset``, ``row``, ``committed_at``, ``raw``, ``before_raw`` as
``Changes`` has them, ``after`` and ``before`` as structures. ``row`` counts from ``FIRST_DERIVED_ROW``, by which a row
of silver or downstream tells that it was derived.

Put here: the table's format, and reading it. Not here: what the changes are (spark_jobs/cascades/).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import pyarrow as pa

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.bronze.index import DERIVED, SliceIndex
from spark_jobs.ddl.definitions import from_json, to_json
from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Checkpoint, member
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range

FIRST_DERIVED_ROW = 1 << 30
"""First ``row`` of derived changes in positions: they are after the rows of their parent's event, which has fewer."""
COLUMNS = {
    "schema": "STRING",
    "table": "STRING",
    "stretch": "INT",
    "number": "BIGINT",
    "file": "STRING",
    "start": "BIGINT",
    "transaction_start": "BIGINT",
    "committed_at": "TIMESTAMP",
    "changes": "BIGINT",
    "bytes": "BIGINT",
    "definition": "STRING",
    "gtid": "STRING",
    "context": "BINARY",
    "payload": "BINARY",
}
"""Columns of the table, by name and Spark type. start: the first event that changes were derived from, of an XA
transaction its XA COMMIT; transaction_start: where its transaction begins. bytes: of ``payload``. definition: the
child's. context: empty."""
_TIME = pa.timestamp("us", "UTC")
_ARROW = pa.schema(
    [
        *((name, pa.string()) for name in ("schema", "table")),
        ("stretch", pa.int32()),
        ("number", pa.int64()),
        ("file", pa.string()),
        ("start", pa.int64()),
        ("transaction_start", pa.int64()),
        ("committed_at", _TIME),
        *((name, pa.int64()) for name in ("changes", "bytes")),
        *((name, pa.string()) for name in ("definition", "gtid")),
        *((name, pa.binary()) for name in ("context", "payload")),
    ]
)
_LOCATED = (
    *("schema", "table", "stretch", "number", "file", "start", "transaction_start", "committed_at", "bytes"),
    "definition",
)
_RAW = pa.map_(pa.string(), pa.string())
_NAME = ("schema", "table")
_FIRST = Position("log.0", 0)
_OUTSIDE = "../../cascades/"
"""Prefix of the paths of its data files, from bronze's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadesCommit(Checkpoint):
    """A commit of derived changes, complete up to its position for the tables that it names.

    positions: by child table up to where all changes of its rows are derived. changes: how many this commit has.
    removed: by child table up to where changes of it were removed, with the log that they stood in.
    underived: by child table where its rows have changes by foreign keys that were not derived, with the ``reason``:
    ``from`` the first and ``to`` the end of the last run that met one. Only of those without a choice of
    ``on_cascade``; others stop.
    """

    positions: Mapping[str, str] = field(default_factory=dict, metadata=member("positions"))
    changes: int = field(default=0, metadata=member("changes"))
    removed: Mapping[str, str] = field(default_factory=dict, metadata=member("removed"))
    underived: Mapping[str, Mapping[str, str]] = field(default_factory=dict, metadata=member("underived"))


@dataclass(frozen=True, slots=True)
class DerivedSlice:
    """Changes of a child table, derived from the events of one transaction.

    Attributes:
        at: the first event's position; of an XA transaction that of its XA COMMIT.
        transaction: where the transaction begins.
        gtid: its GTID; None without one.
    """

    name: TableName
    at: Position
    transaction: Position
    definition: TableDefinition
    changes: Changes
    gtid: str | None = None

    def to_row(self) -> dict[str, object]:
        """A row of the table."""
        payload = _payload_of(self.changes)
        return {
            "schema": self.name.schema,
            "table": self.name.table,
            "stretch": self.at.stretch,
            "number": self.at.number,
            "file": self.at.file,
            "start": self.at.offset,
            "transaction_start": self.transaction.offset,
            "committed_at": self.changes.committed_at[0].as_py(),
            "changes": len(self.changes),
            "definition": to_json(self.definition),
            "gtid": self.gtid,
            "context": b"",
            "bytes": len(payload),
            "payload": payload,
        }


def rows_of(slices: Sequence[DerivedSlice]) -> pa.Table:
    """Slices as rows of the table."""
    return pa.Table.from_pylist([part.to_row() for part in slices], schema=_ARROW)


def is_derived(data_file: str) -> bool:
    """True if a row of OF_TABLE is such a slice, by the path of its data file."""
    return data_file.startswith(_OUTSIDE)


def location(bronze: str, data_file: str) -> str:
    """The path of a data file that a row of OF_TABLE names. bronze: the bronze table's path."""
    if not is_derived(data_file):
        return f"{bronze}/{data_file}"
    return f"{_lake_of(bronze)}/cascades/{data_file.removeprefix(_OUTSIDE)}"


def _lake_of(bronze: str) -> str:
    return bronze.rsplit("/", 2)[0]


def _removed_to(bronze: str) -> dict[str, Position]:
    """Positions up to which derived changes were removed, by text of the child table's name. Raises LakeError."""
    commit = CascadesCommit.of_head(_table(bronze).head())
    return {name: Position.parse(position) for name, position in (commit.removed if commit else {}).items()}


def tables_before(bronze: str, oldest: Position) -> set[TableName]:
    """The child tables with derived changes in files of the log before a position's. Raises LakeError."""
    slices = read(bronze, Range(_FIRST, replace(oldest, offset=0)))
    return {TableName(*pair) for pair in zip(*(slices.column(name).to_pylist() for name in _NAME), strict=True)}


def _table(bronze: str) -> Table:
    lake, source = _lake_of(bronze), bronze.rsplit("/", 1)[1]
    return Table(f"{lake}/cascades/{source}", plain=False)


def _derived_snapshot(bronze: str) -> Snapshot | None:
    """The newest version of the derived changes of bronze's source; None where there are none."""
    return snapshot_of(_table(bronze).path)


def _data_file(snapshot: Snapshot, file: DataFile) -> str:
    """The path of a data file, from bronze's folder."""
    return f"{_OUTSIDE}{snapshot.path.rsplit('/', 1)[1]}/{unquote(file.path)}"


def with_derived(index: SliceIndex, bronze: str, within: Range) -> SliceIndex:
    """The slices of a part of the log with the derived ones. bronze: the bronze table's path. Raises LakeError."""
    snapshot = _derived_snapshot(bronze)
    if snapshot is None:
        return index
    return replace(index, derived=_slices_within(snapshot, within), derived_removed_to=_removed_to(bronze))


def read(bronze: str, within: Range) -> pa.Table:
    """The derived slices of a part of the log, rows of DERIVED in order; none where no change was derived.

    bronze: the bronze table's path, whose source it is. Raises LakeError.
    """
    snapshot = _derived_snapshot(bronze)
    return _slices_within(snapshot, within) if snapshot else DERIVED.empty_table()


def _slices_within(snapshot: Snapshot, within: Range) -> pa.Table:
    parts = [part for file in snapshot.files if _may_hold(snapshot, file, within) for part in _located(snapshot, file)]
    slices = pa.concat_tables([DERIVED.empty_table(), *parts])
    orders = zip(*(slices.column(name).to_pylist() for name in ("stretch", "number", "start")), strict=True)
    first, last = within.start.order, within.stop.order
    slices = slices.filter(pa.array([first <= order < last for order in orders], pa.bool_()))
    return slices.sort_by([(name, "ascending") for name in ("stretch", "number", "start")]).combine_chunks()


def _may_hold(snapshot: Snapshot, file: DataFile, within: Range) -> bool:
    """False if all slices of a file are before or after a part of the log, by their files' numbers."""
    stretch, number = (file.bounds(snapshot.schema, name) for name in ("stretch", "number"))
    if None in (stretch.minimum, stretch.maximum, number.minimum, number.maximum):
        return True
    is_before = stretch.maximum < within.start.stretch
    is_after = stretch.minimum > within.stop.stretch
    if stretch.minimum == stretch.maximum == within.start.stretch == within.stop.stretch:
        is_before, is_after = number.maximum < within.start.number, number.minimum > within.stop.number
    return not (is_before or is_after)


def _located(snapshot: Snapshot, file: DataFile) -> Iterator[pa.Table]:
    """The slices of a data file, by row group."""
    with data_files.reading(snapshot.path, file):
        opened = data_files.open_file(snapshot.path, file)
        for group in range(opened.num_row_groups):
            stored = data_files.read_row_group(opened, group, _LOCATED, snapshot.schema)
            count = len(stored)
            cells = {name: stored.column(name) for name in _LOCATED} | {
                "data_file": pa.repeat(pa.scalar(_data_file(snapshot, file)), count),
                "row_group": pa.repeat(pa.scalar(group, pa.int32()), count),
                "row": pa.array(range(count), pa.int32()),
                "offset": pa.repeat(pa.scalar(0, pa.int64()), count),
            }
            nulls = pa.nulls(count)
            yield pa.table([cells.get(name, nulls) for name in DERIVED.names], names=DERIVED.names).cast(DERIVED)


def definitions_in(slices: pa.Table) -> dict[TableName, list[tuple[Position, TableDefinition]]]:
    """Positions where derived slices begin, with the definition there, by child table. slices: rows of DERIVED."""
    by_table: dict[TableName, list[tuple[Position, TableDefinition]]] = {}
    for row in slices.to_pylist():
        at = Position(row["file"], row["start"], row["stretch"])
        name = TableName(row["schema"], row["table"])
        by_table.setdefault(name, []).append((at, from_json(row["definition"])))
    return by_table


@dataclass(frozen=True, slots=True)
class DerivedChanges:
    """A stored slice. definition: of the child table, as its log has it. gtid: of the parents' transaction.

    transaction: where that begins; of an XA transaction its XA COMMIT, as ``at``.
    """

    definition: TableDefinition
    at: Position
    transaction: Position
    payload: bytes
    gtid: str | None = None

    def batch(self) -> pa.Table:
        """The changes as they are stored."""
        return _batch_of(self.payload)

    def changes(self, definition: TableDefinition) -> Changes:
        """The changes by a definition. Raises LakeError where it has other columns."""
        return changes_of(self.payload, definition, self.gtid)


def stored_changes(bronze: str, slices: pa.Table) -> Iterator[DerivedChanges]:
    """Derived changes, slice by slice. slices: rows of DERIVED. Raises LakeError."""
    if not len(slices):
        return
    snapshot = _derived_snapshot(bronze)
    assert snapshot is not None, "its slices were read"
    files = {_data_file(snapshot, file): file for file in snapshot.files}
    group: tuple[str, int] | None = None
    payloads, gtids = pa.chunked_array([], pa.binary()), pa.chunked_array([], pa.string())
    for row in slices.to_pylist():
        # Slices that follow each other lie in one row group as a rule.
        if (row["data_file"], row["row_group"]) != group:
            group = row["data_file"], row["row_group"]
            file = files[group[0]]
            with data_files.reading(snapshot.path, file):
                opened = data_files.open_file(snapshot.path, file)
                stored = data_files.read_row_group(opened, group[1], ["payload", "gtid"], snapshot.schema)
                payloads, gtids = stored.column("payload"), stored.column("gtid")
        at = Position(row["file"], row["start"], row["stretch"])
        payload, gtid = (cells[row["row"]].as_py() for cells in (payloads, gtids))
        transaction = replace(at, offset=row["transaction_start"])
        yield DerivedChanges(from_json(row["definition"]), at, transaction, payload, gtid)


def _payload_of(changes: Changes) -> bytes:
    raw, before_raw = (
        pa.nulls(len(changes), _RAW) if texts is None else texts for texts in (changes.raw, changes.before_raw)
    )
    after, before = (
        pa.StructArray.from_arrays(image.columns, fields=list(image.schema))
        for image in (changes.after, changes.before)
    )
    columns = [changes.op, changes.offset, changes.row, changes.committed_at, after, before, raw, before_raw]
    names = ["op", "offset", "row", "committed_at", "after", "before", "raw", "before_raw"]
    return _written(pa.RecordBatch.from_arrays(columns, names=names))


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def payload_of_some(payload: bytes, is_kept: pa.Array) -> bytes:
    """A slice's payload with some of its changes, at least one. is_kept: mask of them."""
    (batch,) = _batch_of(payload).filter(is_kept).combine_chunks().to_batches()
    return _written(batch)


def _batch_of(payload: bytes | memoryview | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(payload)).read_all().combine_chunks()


def changes_of(
    payload: bytes | memoryview | pa.Buffer, definition: TableDefinition, gtid: str | None = None
) -> Changes:
    """The changes of a slice, with the columns of a definition, and the GTID of their transaction.

    Raises LakeError where they have other columns.
    """
    batch = _batch_of(payload)
    raw, before_raw = (batch.column(name).combine_chunks() for name in ("raw", "before_raw"))
    op, offset, row, committed_at = (
        batch.column(name).combine_chunks() for name in ("op", "offset", "row", "committed_at")
    )
    # Texts that no row has stay None, as the decoder leaves them.
    return Changes(
        op=op,
        offset=offset,
        row=row,
        committed_at=committed_at,
        gtid=None if gtid is None else _repeated(gtid, len(batch)),
        after=_image_of(batch.column("after"), definition),
        before=_image_of(batch.column("before"), definition),
        raw=None if raw.null_count == len(raw) else raw,
        before_raw=None if before_raw.null_count == len(before_raw) else before_raw,
    )


def _repeated(gtid: str, count: int) -> pa.DictionaryArray:
    """A GTID for each of some changes, as the decoder has them."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([gtid], pa.string()))


def _image_of(cells: pa.ChunkedArray, definition: TableDefinition) -> pa.RecordBatch:
    image = cells.combine_chunks()
    names = definition.column_names()
    stored = [child.name for child in image.type]
    if sorted(stored) != sorted(names):
        raise LakeError(
            f"{definition.name}: changes that were derived from foreign keys have the columns {', '.join(stored)}, and "
            f"the table has {', '.join(names)}; set on_cascade: warn for it and rebuild it (stratalog reset)"
        )
    schema = pa.schema([(name, column.arrow) for name, column in zip(names, definition.columns, strict=True)])
    flat = dict(zip(stored, image.flatten(), strict=True))
    return pa.RecordBatch.from_arrays([flat[field.name].cast(field.type) for field in schema], schema=schema)


def counts(slices: Sequence[DerivedSlice]) -> Counter[TableName]:
    """Number of changes in slices by child table."""
    changes = Counter[TableName]()
    for part in slices:
        changes[part.name] += len(part.changes)
    return changes
