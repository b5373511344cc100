"""Row events for the second reader: the newest, and of every table one of every kind.

Put here: choosing slices and events. Not here: reading them (peer.py, compare.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from spark_jobs.binlog import FormatDescription, TableName
from spark_jobs.binlog.events.scanner import map_name
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import SliceIndex, read_slices
from spark_jobs.bronze.table import ARROW, COLUMNS, BronzeSnapshot
from spark_jobs.checks.second_reader.peer import HEADER, KINDS, PASSED, TABLE_MAP, RawEvent, events_in
from spark_jobs.log.position import Position

_MOST_BYTES = 1 << 20
"""Larger events are not sampled: the package reads a value at a time, and a sample is to be bounded."""
_MORE_SLICES = 64
"""Slices that are read beyond the newest changes, for kinds of events that a table has not shown yet."""


@dataclass(frozen=True, slots=True)
class SampledSlice:
    """A slice of bronze: its cells, the format of its file, and the events that were chosen of it."""

    cells: pa.RecordBatch
    head: FormatDescription
    events: list[RawEvent]

    @property
    def position(self) -> Position:
        """Position where it begins."""
        return Position(*(self.cells.column(name)[0].as_py() for name in ("file", "start", "stretch")))

    @property
    def cells_of_log(self) -> tuple[str, int, bytes | None, bytes]:
        """Slice as a decoder wants it."""
        file, start, context, payload = (self.cells.column(name)[0].as_py() for name in _READ)
        return file, start, context, payload


@dataclass(slots=True)
class Sample:
    """Chooses events. budget: changes that are still wanted. passed: events that no sample has, by reason."""

    is_wanted: Callable[[TableName], bool]
    budget: int
    kinds: set[tuple[TableName, str]] = field(default_factory=set)
    """(Table, kind of event) of the slices chosen so far."""
    passed: dict[str, int] = field(default_factory=dict)

    def lacks(self, table: TableName) -> bool:
        """True if a table has shown no event yet."""
        return not any((table, kind) in self.kinds for kind in KINDS.values())

    def lacks_kinds(self, table: TableName) -> bool:
        """True if a table has not shown every kind of event."""
        return any((table, kind) not in self.kinds for kind in KINDS.values())

    def sampled_slice(self, cells: pa.RecordBatch) -> SampledSlice:
        """The events of a slice, the last ones first. ``took`` says how many changes each had. Raises DecodeError."""
        file, start, context, payload = (cells.column(name)[0].as_py() for name in _READ)
        content = context if context is not None else payload
        head = FormatDescription.parse(next(events_in(content, start))[2], f"{file}:{start}")
        return SampledSlice(cells, head, self._row_events(head, start, context, payload))

    def wants(self, event: RawEvent) -> bool:
        """True if an event is to be compared, as of what was compared already."""
        return self.budget > 0 or (event.table, event.kind) not in self.kinds

    def took(self, event: RawEvent, changes: int) -> None:
        """Count an event that was compared."""
        self.budget -= changes
        self.kinds.add((event.table, event.kind))

    def _row_events(self, head: FormatDescription, start: int, context: bytes | None, payload: bytes) -> list[RawEvent]:
        maps: dict[bytes, tuple[bytes, TableName]] = {}
        events: list[RawEvent] = []
        for offset, code, wire in (*events_in(context or b"", start), *events_in(payload, start)):
            if code in PASSED:
                self._pass(PASSED[code])
            elif code == TABLE_MAP:
                name = TableName(*map_name(wire[HEADER : len(wire) - head.footer]))
                maps[wire[HEADER : HEADER + 6]] = (wire, name)
            elif code in KINDS and (entry := maps.get(wire[HEADER : HEADER + 6])) and self.is_wanted(entry[1]):
                if len(wire) > _MOST_BYTES:
                    self._pass("events of more than 1 MiB")
                else:
                    events.append(RawEvent(offset, code, wire, *entry))
        return events[::-1]

    def _pass(self, reason: str) -> None:
        self.passed[reason] = self.passed.get(reason, 0) + 1


_READ = ("file", "start", "context", "payload")


def newest_slices(snapshot: BronzeSnapshot, sample: Sample) -> Iterator[SampledSlice]:
    """Slices with rows from the end of bronze backwards, as long as the sample lacks something that they have.

    Raises LakeError, DecodeError.
    """
    index = read_slices(DataFiles(snapshot.table, snapshot.version), kind="rows")
    tables = index.slices.column("tables").to_pylist()
    extra = _MORE_SLICES
    for row in range(len(index) - 1, -1, -1):
        names = [TableName(pair["schema"], pair["table"]) for pair in tables[row] or ()]
        names = [name for name in names if sample.is_wanted(name)]
        is_needed = sample.budget > 0 or any(map(sample.lacks, names))
        if names and (is_needed or (extra > 0 and any(map(sample.lacks_kinds, names)))):
            extra -= not is_needed
            yield sample.sampled_slice(_slice_batch(index, row))


def _slice_batch(index: SliceIndex, row: int) -> pa.RecordBatch:
    log_slice = index.slices.slice(row, 1).to_pylist()[0]
    stored = index.files.group(log_slice["data_file"], log_slice["row_group"], tuple(COLUMNS))
    return stored.slice(log_slice["row"], 1).select(ARROW.names).cast(ARROW).combine_chunks().to_batches()[0]
