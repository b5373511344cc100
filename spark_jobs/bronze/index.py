"""Index of bronze's slices by their metadata columns, with the location of each, for planning; without a JVM.

``SliceIndex`` has a row a slice, in the log's order. Payloads stay in the data files, and are read for the slices that
need them: ``cells``. A slice that is cut is several rows that share its bytes; slices of XA transactions stand where
these are committed (xa.py).

Put here: reading the index, and what is looked up in it by position and table. Not here: which files and row groups are
read (data_files.py), or what slices say of tables and statements (scan.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import MAGIC, TableName
from spark_jobs.bronze.boundaries import CELLS, parts_of
from spark_jobs.bronze.data_files import ChosenRows, DataFiles
from spark_jobs.bronze.table import ARROW, COLUMNS
from spark_jobs.errors import TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range

_TABLES = pa.list_(pa.struct([("schema", pa.string()), ("table", pa.string())]))
_TIME = pa.timestamp("us", "UTC")
_STORED = pa.schema(
    [
        ("stretch", pa.int32()),
        *((name, pa.int64()) for name in ("number", "start", "stop")),
        ("file", pa.string()),
        ("transaction_start", pa.int64()),
        ("committed_at", _TIME),
        ("kind", pa.string()),
        ("tables", _TABLES),
        ("transactions", pa.int32()),
    ]
)
"""Columns of bronze that the index has as they are."""
_TEXTS = ("statement", "maps")
"""Columns that are read once for ``is_xa`` and ``has_maps``, and again for the slices that need them."""
_LOCATION = [(name, pa.int32()) for name in ("data_file", "row_group", "row")]
_EFFECT = [
    ("effect_stretch", pa.int32()),
    *((f"effect_{name}", pa.int64()) for name in ("number", "start")),
    ("effect_file", pa.string()),
]
SCHEMA = pa.schema(
    [
        *_STORED,
        ("is_xa", pa.bool_()),
        ("has_maps", pa.bool_()),
        *_LOCATION,
        ("offset", pa.int64()),
        *_EFFECT,
    ]
)
"""A row a slice. data_file: its number in the index's ``files``. offset: where its bytes begin in the stored payload,
which has more where the slice is cut. effect: where the slices of an XA transaction take effect, null in all others;
``committed_at`` is that of the commit then, and ``kind`` is ``rows``."""
OF_TABLE = pa.schema(
    [
        ("data_file", pa.string()),
        *((name, pa.int32()) for name in ("row_group", "row", "window")),
        *((name, pa.int64()) for name in ("offset", "bytes")),
        ("stretch", pa.int32()),
        *((name, pa.int64()) for name in ("number", "start")),
        ("file", pa.string()),
        ("transaction_start", pa.int64()),
        ("committed_at", _TIME),
        *_EFFECT,
    ]
)
"""A row a slice that a table's rows are decoded from, in the order in which they take effect.

data_file: relative to bronze's folder. row: in the row group. The slice is ``bytes`` bytes of the stored ``payload``
from ``offset`` on; its ``context`` is the stored one; all other cells are these and not the stored ones, since a slice
may be a part of what is stored. window: the ordinal of its range."""
DERIVED = pa.schema(
    [
        ("schema", pa.string()),
        ("table", pa.string()),
        ("definition", pa.string()),
        *(OF_TABLE.field(name) for name in OF_TABLE.names if name != "window"),
    ]
)
"""Slices of changes that were derived from foreign keys (derived_slices.py), as OF_TABLE has them, with their table."""
Rows = NDArray[np.int64]
_BEGIN = 4096
"""Bytes of a statement's slice in which its status variables lie."""
_IN_PAYLOAD = 512
"""Bytes of a file's first slice in which the event lies that its TABLE_MAPs are read under."""


@dataclass(frozen=True)
class SliceIndex:
    """Slices of one version of bronze, a row of SCHEMA each, by where they take effect."""

    files: DataFiles
    slices: pa.Table
    parts: Mapping[tuple[int, int, int, int], Mapping[str, Any]] = field(default_factory=dict)
    """Bronze's columns of slices that are parts of stored ones, by data file, row group, row and offset."""
    derived: pa.Table = field(default_factory=DERIVED.empty_table)
    """Slices of derived changes in the same part of the log, which are no slices of it: rows of DERIVED."""
    derived_removed_to: Mapping[str, Position] = field(default_factory=dict)
    """Positions up to which derived changes of a table were removed, by text of its name, so that its rows cannot be
    made from there."""

    def __len__(self) -> int:
        return len(self.slices)

    def take(self, rows: Rows) -> "SliceIndex":
        """The index of some rows, which are in order."""
        return replace(self, slices=self.slices.take(pa.array(rows)))

    def where(self, mask: NDArray[np.bool_]) -> "SliceIndex":
        """The index of the rows that a mask names."""
        return self.take(np.flatnonzero(mask))

    def within(self, part: Range) -> "SliceIndex":
        """The slices that take effect in a part of the log."""
        first, last = self._rank(part.start), self._rank(part.stop)
        return replace(self, slices=self.slices.slice(first, last - first))

    def with_slices(self, slices: pa.Table) -> "SliceIndex":
        """Index with more slices, rows of SCHEMA."""
        return replace(self, slices=ordered(pa.concat_tables([self.slices, slices])))

    def flags(self, name: str) -> NDArray[np.bool_]:
        """A column of booleans."""
        flag_column: NDArray[np.bool_] = self.slices.column(name).to_numpy()
        return flag_column

    def is_kind(self, kind: str) -> NDArray[np.bool_]:
        """Mask of the slices of a kind."""
        matches: NDArray[np.bool_] = pc.equal(self.slices.column("kind"), kind).to_numpy()
        return matches

    def in_ranges(self, rows: Rows, ranges: Sequence[Range]) -> tuple[Rows, NDArray[np.int32]]:
        """The given ordered row numbers that are in a range, with the ordinals of the disjoint ranges."""
        row_sets, ordinals = [rows[:0]], [np.zeros(0, np.int32)]
        order = sorted((at for at, part in enumerate(ranges) if part), key=lambda at: ranges[at].start.order)
        for nth in order:
            first, last = np.searchsorted(rows, [self._rank(ranges[nth].start), self._rank(ranges[nth].stop)])
            row_sets.append(rows[first:last])
            ordinals.append(np.full(last - first, nth, np.int32))
        return np.concatenate(row_sets), np.concatenate(ordinals)

    def rows_of(self, name: TableName) -> Rows:
        """The slices of rows that may hold some of a table: tables unknown (null) means any."""
        rows, unnamed = self._rows_by_name.get(name, _NONE), self.unnamed
        return np.union1d(rows, unnamed) if len(unnamed) else rows

    def slices_of_table(
        self, name: TableName, ranges: Sequence[Range], quarantined: Collection[Position] = frozenset()
    ) -> pa.Table:
        """Slices that a table's rows in some ranges, which do not overlap, are decoded from: OF_TABLE.

        Where a range begins or ends inside a slice, the index has to be cut there. quarantined: positions of events; XA
        transactions that begin or are committed at one are left out as a whole. Raises TableStopped for log whose
        derived changes were removed.
        """
        # Log that lacks a part of the changes is refused before anything is read.
        removed_to = self.derived_removed_to.get(str(name))
        if removed_to and any(part and part.start < removed_to for part in ranges):
            raise TableStopped(
                f"{name}: changes that foreign keys made to its rows before {removed_to} were removed with that log "
                f"(stratalog gc), and what is read again from before has not all of its changes; begin at {removed_to}"
            )
        rows, windows = self.in_ranges(self.rows_of(name), ranges)
        slices = self.slices.take(pa.array(rows))
        if quarantined:
            is_kept = ~self._is_quarantined(slices, quarantined)
            slices, windows = slices.filter(pa.array(is_kept)), windows[is_kept]
        paths = pa.array(self.files.paths, pa.string())
        cells = {
            "data_file": paths.take(slices.column("data_file").combine_chunks()),
            "window": pa.array(windows),
            "bytes": pc.subtract(slices.column("stop"), slices.column("start")),
        }
        logged = pa.table([cells[name] if name in cells else slices[name] for name in OF_TABLE.names], schema=OF_TABLE)
        # Slices of derived changes are not in the log's order yet.
        derived = [*self._derived_of(name, ranges)]
        return in_order_of_effect(pa.concat_tables([logged, *derived])) if derived else logged

    def _derived_of(self, name: TableName, ranges: Sequence[Range]) -> Iterator[pa.Table]:
        """The slices of derived changes of a table in each of some ranges, as OF_TABLE."""
        is_own = pc.and_(*(pc.equal(self.derived.column(part), getattr(name, part)) for part in ("schema", "table")))
        slices = self.derived.filter(is_own)
        for nth, part in enumerate(ranges if len(slices) else ()):
            orders = zip(*(slices.column(column).to_pylist() for column in ("stretch", "number", "start")), strict=True)
            inside = slices.filter(pa.array([part.start.order <= order < part.stop.order for order in orders]))
            windows = pa.repeat(pa.scalar(nth, pa.int32()), len(inside))
            columns = [windows if column == "window" else inside.column(column) for column in OF_TABLE.names]
            yield pa.table(columns, schema=OF_TABLE)

    def _is_quarantined(self, slices: pa.Table, quarantined: Collection[Position]) -> NDArray[np.bool_]:
        """Mask of the slices of an XA transaction that is quarantined, by its first event or its commit."""
        positions = {position.order for position in quarantined}
        names = ("stretch", "number", "transaction_start"), ("effect_stretch", "effect_number", "effect_start")
        cells = [list(zip(*(slices.column(name).to_pylist() for name in group), strict=True)) for group in names]
        is_moved = slices.column("effect_start").is_valid().to_pylist()
        is_named = [not positions.isdisjoint(pair) for pair in zip(*cells, strict=True)]
        flags: NDArray[np.bool_] = np.array(is_moved, bool) & np.array(is_named, bool)
        return flags

    def first(self, name: TableName, ranges: Sequence[Range]) -> dict[int, int]:
        """The first slice that may hold rows of a table, by the ordinal of its range; ranges without are omitted."""
        rows = self.rows_of(name)
        firsts = {}
        for nth, part in enumerate(ranges):
            at = int(np.searchsorted(rows, self._rank(part.start)))
            if at < len(rows) and rows[at] < self._rank(part.stop):
                firsts[nth] = int(rows[at])
        return firsts

    def position(self, row: int) -> Position:
        """Position where a slice takes effect."""
        return self._effect(row) or self.begin(row)

    def begin(self, row: int) -> Position:
        """Position where a slice's bytes begin."""
        file, start, stretch = (self.slices.column(name)[row].as_py() for name in ("file", "start", "stretch"))
        return Position(file, start, stretch)

    def is_moved(self, row: int) -> bool:
        """True if a slice takes effect elsewhere."""
        return self._effect(row) is not None

    def _effect(self, row: int) -> Position | None:
        names = ("effect_file", "effect_start", "effect_stretch")
        file, start, stretch = (self.slices.column(name)[row].as_py() for name in names)
        return None if file is None else Position(file, start, stretch)

    def extent_by_table(self) -> dict[TableName, tuple[Position, Position, int]]:
        """Begin of the first and the last slice of each table, but for XA transactions, and the bytes of all."""
        rows, names = self._pairs
        is_row_data = ~self.flags("is_xa")[rows]
        sizes = pc.subtract(self.slices["stop"], self.slices["start"]).to_numpy()
        grouped = _grouped(rows[is_row_data], names.filter(pa.array(is_row_data)))
        return {
            name: (self.position(int(file_rows[0])), self.position(int(file_rows[-1])), int(sizes[file_rows].sum()))
            for name, file_rows in grouped.items()
        }

    def statements_and_table_maps(self, *, with_xa: bool = False) -> Iterator[dict[str, Any]]:
        """Statements, and slices in which the log describes a table, in order.

        with_xa: those of XA transactions too, where they were logged. Of the cells, ``context`` begins with the event
        that TABLE_MAPs are read under, and ``begin`` has a statement's first bytes.
        """
        is_notable = self.is_kind("statement") | self.flags("has_maps")
        rows = np.flatnonzero(is_notable if with_xa else is_notable & ~self.flags("is_xa"))
        for first in range(0, len(rows), _AT_ONCE):
            batch = rows[first : first + _AT_ONCE]
            all_rows = self.slices.take(pa.array(batch)).to_pylist()
            is_read = [log_slice["kind"] == "statement" or not log_slice["start"] for log_slice in all_rows]
            cells = self.cells([row for row, is_needed in zip(batch.tolist(), is_read, strict=True) if is_needed])
            for log_slice, is_needed in zip(all_rows, is_read, strict=True):
                yield self._notable(log_slice, bytes(next(cells)["payload"][:_BEGIN]) if is_needed else b"")

    def _notable(self, log_slice: dict[str, Any], first: bytes) -> dict[str, Any]:
        """first: the first bytes of a statement, or of a file: its first slice has no context."""
        at = (log_slice["data_file"], log_slice["row_group"], log_slice["row"])
        stored = self.parts.get((*at, log_slice["offset"]))
        if stored is None:
            stored = self.files.group(*at[:2], _NOTED).slice(at[2], 1).to_pylist()[0]
        log_slice |= {name: stored[name] for name in _NOTED}
        log_slice["begin"] = first if log_slice["kind"] == "statement" else None
        if log_slice["context"] is None:
            log_slice["context"] = first[len(MAGIC) : len(MAGIC) + _IN_PAYLOAD]
        return log_slice

    def record(self, row: int) -> pa.RecordBatch:
        """A slice, or the part of one, as a row of bronze with the columns that tell its transactions."""
        (cells,) = self.cells([row])
        fields = cells | {"payload": bytes(cells["payload"])}
        fields |= {name: self.slices.column(name)[row].as_py() for name in ("transactions", "kind")}
        return pa.RecordBatch.from_pylist([fields], pa.schema([ARROW.field(name) for name in CELLS]))

    def cells(self, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
        """The position, ``context``, ``payload`` (its bytes) and ``gtid`` of each of some rows.

        A row group at a time.
        """
        records = self.slices.take(pa.array(rows, pa.int64())).select(_OF_CELLS).to_pylist()
        for cells in records:
            stored = self.files.group(cells["data_file"], cells["row_group"], ("context", "payload", "gtid"))
            context, payload, gtid = (stored.column(name)[cells["row"]] for name in ("context", "payload", "gtid"))
            content = memoryview(payload.as_buffer())
            begin = cells["offset"]
            size = cells["stop"] - cells["start"]
            payload_bytes = content[begin : begin + size]
            yield cells | {"context": context.as_py(), "payload": payload_bytes, "gtid": gtid.as_py()}

    def cut(self, positions: Collection[Position]) -> "SliceIndex":
        """A slice that holds one of the positions inside comes as its parts before and after it.

        The positions inside slices have to be boundaries of transactions.
        """
        offsets: dict[int, list[int]] = {}
        for position in sorted(positions, key=lambda position: position.order):
            row = self._around(position)
            if row is not None:
                offsets.setdefault(row, []).append(position.offset)
        if not offsets:
            return self
        parts = dict(self.parts)
        cut = [piece for row, log_positions in offsets.items() for piece in self._cut_slice(row, log_positions, parts)]
        is_uncut = np.ones(len(self), bool)
        is_uncut[list(offsets)] = False
        rest = self.slices.filter(pa.array(is_uncut))
        return replace(self, slices=ordered(pa.concat_tables([rest, pa.Table.from_pylist(cut, SCHEMA)])), parts=parts)

    def is_inside(self, position: Position) -> bool:
        """True if a position lies inside a slice, between two of its transactions, and the slice is not cut there."""
        return self._around(position) is not None

    def _around(self, position: Position) -> int | None:
        """The slice that a position lies inside; none where that is a file's head, which has no transactions."""
        row = self._rank(position) - 1
        if row < 0:
            return None
        stretch, number, start, stop = (self.slices.column(name)[row].as_py() for name in SCHEMA.names[:4])
        is_around = (stretch, number) == position.order[:2] and start < position.offset < stop
        return row if is_around and self.slices.column("kind")[row].as_py() != "control" else None

    def _cut_slice(
        self, row: int, positions: Sequence[int], parts: dict[tuple[int, int, int, int], Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Parts of a slice as rows of SCHEMA; ``parts`` gets what bronze would have of them.

        The slice may be a part of a stored one itself: the stored one is cut at its bounds too.
        """
        (cells,) = self.slices.slice(row, 1).to_pylist()
        at = (cells["data_file"], cells["row_group"])
        stored = self.files.group(*at, list(COLUMNS)).slice(cells["row"], 1).cast(ARROW)
        # Of the parts of the stored slice those that are in this one; each is again a slice by itself.
        begin, end = cells["start"], cells["stop"]
        for part in parts_of(stored.combine_chunks().to_batches()[0], sorted({begin, *positions, end})):
            if not begin <= part["start"] < end:
                continue
            offset = cells["offset"] + part["start"] - begin
            del part["payload"]
            parts[(*at, cells["row"], offset)] = part
            yield (
                cells
                | {name: part[name] for name in _STORED.names}
                | {
                    "offset": offset,
                    "has_maps": bool(part["maps"]),
                }
            )

    @cached_property
    def _sort_columns(self) -> list[NDArray[Any]]:
        """Stretch, number and offset by which the slices are in order."""
        names = ("stretch", "number", "start")
        return [pc.coalesce(self.slices[f"effect_{name}"], self.slices[name]).to_numpy() for name in names]

    def _rank(self, position: Position) -> int:
        """Number of slices that take effect before a position."""
        *outer, offsets = zip(self._sort_columns, position.order, strict=True)
        first, last = 0, len(self)
        for column, value in outer:
            near = column[first:last]
            first, last = first + int(np.searchsorted(near, value)), first + int(np.searchsorted(near, value, "right"))
        return first + int(np.searchsorted(offsets[0][first:last], offsets[1]))

    @cached_property
    def _pairs(self) -> tuple[Rows, pa.DictionaryArray]:
        """Each table of each slice: the slice, and the table's name as one text."""
        tables = self.slices.column("tables").combine_chunks()
        rows = pc.list_parent_indices(tables).to_numpy()
        names = pc.list_flatten(tables)
        joined = pc.binary_join_element_wise(names.field("schema"), names.field("table"), _BETWEEN)
        return rows, joined.dictionary_encode()

    @cached_property
    def _rows_by_name(self) -> dict[TableName, Rows]:
        rows, names = self._pairs
        is_rows = self.is_kind("rows")[rows]
        return _grouped(rows[is_rows], names.filter(pa.array(is_rows)))

    @cached_property
    def unnamed(self) -> Rows:
        """The slices of rows that do not say which tables these are of."""
        return np.flatnonzero(self.is_kind("rows") & self.slices.column("tables").is_null().to_numpy())


_AT_ONCE = 1024
"""Slices whose cells are Python values at once."""
_NOTED = ("gtid", "database", "statement", "maps", "context")
"""Columns that say what statements and definitions a slice has."""
_BETWEEN = "\0"
"""Separator of the two parts of a table's name in one text: no server takes it in a name."""
_OF_CELLS = [*SCHEMA.names[:6], "data_file", "row_group", "row", "offset"]
_NONE: Rows = np.zeros(0, np.int64)


def _grouped(rows: Rows, names: pa.DictionaryArray) -> dict[TableName, Rows]:
    """Rows by name, in order."""
    codes = names.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    groups = np.split(order, ends) if len(order) else []
    name_list = names.dictionary.to_pylist()
    return {TableName(*name_list[codes[group[0]]].split(_BETWEEN)): rows[group] for group in groups}


def read_index(bronze: Table, version: int, within: Range | None = None, kind: str | None = None) -> SliceIndex:
    """The slices of a part of the log, or of all, of one kind or of all. Raises LakeError.

    Those are among them that begin before it and end in it: ``within`` leaves them out, once they are cut.
    """
    return read_slices(DataFiles(bronze, version), within, kind)


def read_slices(
    files: DataFiles, within: Range | None = None, kind: str | None = None, selected: ChosenRows | None = None
) -> SliceIndex:
    """The same of data files that are open. selected: of which only some rows are read. Raises LakeError."""
    tables = [SCHEMA.empty_table()]
    for file_rows in files.read(within, [*_STORED.names, *_TEXTS], kind, selected):
        columns = {name: file_rows.columns.column(name).cast(_STORED.field(name).type) for name in _STORED.names}
        statement = pc.equal(columns["kind"], "statement")
        is_xa = pc.and_kleene(statement, pc.match_like(file_rows.columns.column("statement"), "XA %", ignore_case=True))
        has_maps = pc.greater(pc.list_value_length(file_rows.columns.column("maps")), 0)
        columns |= {"is_xa": pc.fill_null(is_xa, False), "has_maps": pc.fill_null(has_maps, False)}
        columns |= {"data_file": pa.repeat(pa.scalar(file_rows.file, pa.int32()), len(file_rows.rows))}
        columns |= {"row_group": pa.array(file_rows.groups), "row": pa.array(file_rows.rows)}
        columns |= {"offset": pa.repeat(pa.scalar(0, pa.int64()), len(file_rows.rows))}
        columns |= {name: pa.nulls(len(file_rows.rows), commit_kind) for name, commit_kind in _EFFECT}
        slices = pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)
        tables.append(slices.filter(_lies_in(within, kind)))
    return SliceIndex(files, ordered(pa.concat_tables(tables)))


def in_order_of_effect(slices: pa.Table) -> pa.Table:
    """Rows of OF_TABLE in the order in which they take effect; of one position as they are."""
    effect = [pc.coalesce(slices[f"effect_{name}"], slices[name]).to_numpy() for name in ("stretch", "number", "start")]
    return slices.take(pa.array(np.lexsort([*reversed(effect)])))


def ordered(slices: pa.Table) -> pa.Table:
    """Rows of SCHEMA in the order in which they take effect; those of one XA transaction as they were logged."""
    positions = [slices[name].to_numpy() for name in ("stretch", "number", "start")]
    effect = [pc.coalesce(slices[f"effect_{name}"], slices[name]).to_numpy() for name in ("stretch", "number", "start")]
    return slices.take(pa.array(np.lexsort([*reversed(positions), *reversed(effect)]))).combine_chunks()


def _lies_in(within: Range | None, kind: str | None) -> pc.Expression:
    stretch, number, start, stop = (pc.field(name) for name in ("stretch", "number", "start", "stop"))
    lies = pc.scalar(True) if kind is None else pc.field("kind") == kind
    if within is None:
        return lies
    begin, end = within.start, within.stop
    here = (number > begin.number) | ((number == begin.number) & (stop > begin.offset))
    before = (number < end.number) | ((number == end.number) & (start < end.offset))
    begins = (stretch > begin.stretch) | ((stretch == begin.stretch) & here)
    return lies & begins & ((stretch < end.stretch) | ((stretch == end.stretch) & before))
