"""Values of a sample of the log by two decoders, compared one by one.

Put here: the check and its result. Not here: which events are compared (sample.py), or when two values are equal
(values.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, Decoder, TableDefinition, TableName, parse_table_map
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.formats.base import DELETE, UPDATE
from spark_jobs.changes.table_definitions import HistoryDefinitions, open_signs, read_as_signed
from spark_jobs.checks.second_reader.peer import PACKAGE, PeerDecoder, PeerRow, RawEvent
from spark_jobs.checks.second_reader.sample import Sample, SampledSlice, newest_slices
from spark_jobs.checks.second_reader.values import TYPES, UNREAD, fault, is_equal, is_readable
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import DecodeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.schema.history import by_table
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.text.counts import counted

CHANGES = 1000
"""Changes that are compared where nobody says how many."""
SHOWN = 20
"""Differences that are kept; the rest is counted."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value that the two decoders read as two. values: both, unless a rule is about the table's values."""

    position: Position
    row: int
    image: str
    table: TableName
    column: str
    values: tuple[str, str] | None

    def __str__(self) -> str:
        about = f"{self.position}: row {self.row} of {self.table}: {self.column} ({self.image})"
        if self.values is None:
            return f"{about}: Stratalog and {PACKAGE} read different values"
        return f"{about}: Stratalog reads {self.values[0]}, {PACKAGE} {self.values[1]}"


@dataclass(slots=True)
class SecondReading:
    """Result of comparing a source by a second decoder."""

    source: str
    changes: int = 0
    values: int = 0
    tables: set[TableName] = field(default_factory=set)
    excluded: Counter[str] = field(default_factory=Counter)
    """Values and events that were not compared, by reason."""
    different: int = 0
    differences: list[ValueDifference] = field(default_factory=list)
    """The first of them."""

    @property
    def is_equal(self) -> bool:
        """True if no value differs."""
        return not self.different

    def __str__(self) -> str:
        return (
            f"{self.source}: {counted(self.changes, 'change')} of {counted(len(self.tables), 'table')}, "
            f"{counted(self.values, 'value')}: "
            f"{self.different or 'none'} differ{'s' if self.different == 1 else ''}"
        )

    def lines(self) -> list[str]:
        """Differences, and what was not compared, a line each."""
        rest = self.different - len(self.differences)
        differences = [*map(str, self.differences), *([f"… and {rest} more"] if rest else [])]
        return differences + [f"not compared: {count} {reason}" for reason, count in sorted(self.excluded.items())]

    def to_json(self) -> dict[str, Any]:
        """The same as an object."""
        return {
            "source": self.source,
            "changes": self.changes,
            "tables": len(self.tables),
            "values": self.values,
            "different": self.different,
            "differences": list(map(str, self.differences)),
            "excluded": dict(sorted(self.excluded.items())),
        }


def read_twice(
    pipeline: Pipeline, source: str, changes: int = CHANGES, is_wanted: Callable[[TableName], bool] = lambda _: True
) -> SecondReading:
    """Compare the newest changes of a source's bronze, and one event of every kind of every table. Without a JVM.

    Args:
        pipeline: The configuration.
        source: The name of the source.
        changes: About how many changes.
        is_wanted: Which tables.

    Raises:
        ConfigError: The package is missing.
        LakeError: Bronze holds nothing, or cannot be read.
    """
    lake = lake_of(pipeline)
    snapshot = BronzeSnapshot.of(lake, source)
    sample = Sample(is_wanted, changes)
    comparison = _Comparison(pipeline, SecondReading(source), HistoryDefinitions(partial(by_table, lake, source)))
    for log_slice in newest_slices(snapshot, sample):
        comparison.take(log_slice, sample)
    comparison.reading.excluded.update(sample.passed)
    return comparison.reading


@dataclass(slots=True)
class _Comparison:
    pipeline: Pipeline
    reading: SecondReading
    definitions: HistoryDefinitions

    def take(self, log_slice: SampledSlice, sample: Sample) -> None:
        """Compare the events of a slice that the sample wants. Raises DecodeError."""
        peer = PeerDecoder(log_slice.head)
        tables: dict[bytes, _TableComparison] = {}
        # What the package cannot read is counted, and does not end the comparison.
        for event in log_slice.events:
            if not sample.wants(event):
                continue
            if event.map_wire not in tables:
                tables[event.map_wire] = self._comparison_of(log_slice, event)
            table = tables[event.map_wire]
            if not all(map(is_readable, table.definition.columns)):
                self.reading.excluded[TYPES] += 1
                sample.took(event, 0)
                continue
            try:
                rows = peer.rows(event, table.definition)
            except Exception as error:  # noqa: BLE001 - whatever it fails by
                self.reading.excluded[f"{UNREAD} ({type(error).__name__})"] += 1
                rows = []
            else:
                table.rows[event.offset] = rows
            sample.took(event, len(rows))
        for table in tables.values():
            table.compare()

    def _comparison_of(self, log_slice: SampledSlice, event: RawEvent) -> "_TableComparison":
        """The comparison of rows that are logged with the event's TABLE_MAP."""
        position = replace(log_slice.position, offset=event.offset)
        logged = parse_table_map(event.map_wire, log_slice.head, f"{position.file}:{position.offset}")
        definition = self.definitions.complete(logged, position)
        rules = filters_of(self.pipeline.filters, self.reading.source, logged.name).names()
        definition = read_as_signed(definition, open_signs(definition))
        return _TableComparison(self.reading, log_slice, logged, definition, is_hidden=bool(rules))


@dataclass(frozen=True, slots=True)
class _ImagePair:
    """One image of a row by both. exact: the text of values that typed columns cannot hold, by column name.

    absent: by position, whether the log leaves the column out; None where it has all.
    """

    position: tuple[int, int, str]
    """Offset of the event, row, and which image."""
    values: list[Any]
    exact: dict[str, str]
    absent: NDArray[np.bool_] | None
    peer: list[Any]
    peer_absent: frozenset[int]


@dataclass(slots=True)
class _TableComparison:
    """The rows of a slice that are logged with one TABLE_MAP. is_hidden: whether no value is to be shown."""

    reading: SecondReading
    slice: SampledSlice
    logged: TableDefinition
    definition: TableDefinition
    is_hidden: bool
    rows: dict[int, list[PeerRow]] = field(default_factory=dict)
    """Rows that the package read, by offset of the event."""

    def compare(self) -> None:
        """Decode the same events, and compare."""
        if not self.rows:
            return
        decoder = Decoder(self.definition, logged=self.logged, before="all", partial=True, prepared=True, redacted=True)
        missing = {offset: len(rows) for offset, rows in self.rows.items()}
        try:
            for changes in decoder.decode(*self.slice.cells_of_log):
                for offset in self._compare_block(changes):
                    missing[offset] -= 1
        except DecodeError as error:
            self.reading.excluded[f"events that Stratalog refuses ({type(error).__name__})"] += 1
            return
        # An event has as many rows for both.
        for offset, count in missing.items():
            if count:
                total = len(self.rows[offset])
                self._differ((offset, 0, "event"), "rows", (str(total - count), str(total)))
        self.reading.tables.add(self.definition.name)

    def _compare_block(self, changes: Changes) -> Iterator[int]:
        """Compare the rows of a block; the offset of each one's event."""
        offsets, rows, operations = (values.to_pylist() for values in (changes.offset, changes.row, changes.op))
        for at, (offset, row, op) in enumerate(zip(offsets, rows, operations, strict=True)):
            if offset not in self.rows:
                continue
            yield offset
            if row < len(self.rows[offset]):
                self.reading.changes += 1
                for image in _images(changes, at, (offset, row, op), self.rows[offset][row]):
                    self._compare_image(image)

    def _compare_image(self, image: _ImagePair) -> None:
        for at, (name, column) in enumerate(zip(self.definition.column_names(), self.definition.columns, strict=True)):
            absent = (image.absent is not None and bool(image.absent[at]), at in image.peer_absent)
            if any(absent):
                if not all(absent):
                    self._differ(image.position, name, ("absent", "present") if absent[0] else ("present", "absent"))
                continue
            value, peer, exact = image.values[at], image.peer[at], image.exact.get(name)
            reason = fault(column, value, exact, peer)
            if reason:
                self.reading.excluded[reason] += 1
                continue
            self.reading.values += 1
            if not is_equal(column, value, peer):
                self._differ(image.position, name, (repr(value), repr(peer)))

    def _differ(self, log_position: tuple[int, int, str], column: str, values: tuple[str, str]) -> None:
        self.reading.different += 1
        if len(self.reading.differences) < SHOWN:
            offset, row, image = log_position
            position = replace(self.slice.position, offset=offset)
            visible = None if self.is_hidden else values
            difference = ValueDifference(position, row, image, self.definition.name, column, visible)
            self.reading.differences.append(difference)


def _images(changes: Changes, at: int, position: tuple[int, int, int], peer: PeerRow) -> Iterator[_ImagePair]:
    """The images of a row by both readers. position: offset of its event, row, operation."""
    offset, row, op = position
    images = [("before" if op == DELETE else "after", changes.after, changes.raw, changes.present)]
    if op == UPDATE:
        images.append(("before", changes.before, changes.before_raw, changes.before_present))
    for name, batch, raw, presence in images:
        values, absent = (peer.before, peer.before_absent) if name == "before" else (peer.after, peer.after_absent)
        yield _ImagePair(
            (offset, row, name),
            [column[at].as_py() for column in batch.columns],
            dict(raw[at].as_py() or ()) if raw is not None else {},
            None if presence is None else ~presence.sets[presence.index[at]],
            values or [],
            absent,
        )
