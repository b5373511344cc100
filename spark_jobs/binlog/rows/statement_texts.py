"""Statements that made row events, where the server logs their texts beside the rows.

Source: MySQL libs/mysql/binlog/event/rows_event.h (Rows_query_event: a byte, which is no length of a text that is
longer than it can say, then the text); MariaDB sql/log_event.h (Annotate_rows_log_event: the text alone).

Put here: which text belongs to which row. Not here: statements that are logged as such (binlog/events/query_event.py).
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from spark_jobs.binlog.events.format_description import FormatDescription
from spark_jobs.binlog.events.scanner import HEADER, Scan, TableMaps
from spark_jobs.binlog.events.slice_bytes import SliceBytes
from spark_jobs.binlog.events.table_map import TableDefinition, parse_table_map
from spark_jobs.binlog.events.transaction_payload import PayloadContents, Payloads
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.binlog.rows.located_events import inner_events
from spark_jobs.binlog.rows.row_events import rows_in
from spark_jobs.binlog.types.base import Numbers

_ROWS_QUERY, _ANNOTATE_ROWS = 29, 160
_RowOffset = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SliceTexts:
    """The texts of one slice.

    offsets: (offset of the event, its first row) of each row event, in order. texts: of each.
    """

    offsets: tuple[_RowOffset, ...]
    texts: tuple[str | None, ...]

    def text(self, offset: int, row: int) -> str | None:
        """The statement that made a row; None where the log does not have it."""
        at = bisect_right(self.offsets, (offset, row)) - 1
        return self.texts[at] if at >= 0 else None


@dataclass(slots=True)
class StatementTexts:
    """Reads the slices of one file in order: a statement's text may stand in an earlier one than its rows."""

    _maps: TableMaps = field(default_factory=TableMaps)
    _definitions: dict[int, TableDefinition] = field(default_factory=dict)
    """Definitions by ordinal of a table map, of those in payloads."""
    _text: str | None = None
    """Text of the statement that is open after the last slice."""

    def of_slice(self, file: str, log_slice: SliceBytes) -> SliceTexts:
        """The texts of a slice. Raises DecodeError."""
        scanner, scan = log_slice.opened(file, self._maps)
        texts: dict[_RowOffset, str | None] = {}
        before: str | None = None  # of a payload that comes in parts, the statement that is open between two of them
        rows = 0
        for opened in Payloads(file, scanner.format, self._maps).open(scan):
            if opened.begins:
                before, rows = None, 0
            byte_offsets = self._inner_offsets(file, scan, opened, scanner.format, rows)
            before = _noted(opened.inner, 0, before, byte_offsets, texts)
            rows = byte_offsets.rows
        offsets = _EventOffsets(np.flatnonzero(scan.mark & event_cells.MARK_ROWS), scan.base + scan.offset, None)
        self._text = _noted(scan, scanner.format.footer, self._text, offsets, texts)
        ordered = sorted(texts)
        return SliceTexts(tuple(ordered), tuple(texts[offset] for offset in ordered))

    def _inner_offsets(
        self, file: str, scan: Scan, opened: PayloadContents, head: FormatDescription, rows: int
    ) -> "_EventOffsets":
        """Offsets of rows inside payloads: at the payload's offset, counted over all of its tables.

        rows: those of earlier parts of the same payload.
        """
        events = np.flatnonzero(opened.inner.mark & event_cells.MARK_ROWS)
        counts, tables = np.zeros(len(events), np.int64), opened.inner.table[events]
        for ordinal in np.unique(tables).tolist():
            is_own = tables == ordinal
            own_events = inner_events(file, scan, opened, events[is_own])
            if ordinal not in self._definitions:
                event = self._maps.events[ordinal]
                self._definitions[ordinal] = parse_table_map(event, head, own_events.location(0))
            counts[is_own] = rows_in(own_events, self._definitions[ordinal])
        offsets = scan.base + scan.offset[opened.outer]
        return _EventOffsets(events, offsets, counts, rows)


@dataclass(slots=True)
class _EventOffsets:
    """Offsets of row events of a scan. offsets: by event of the scan. counts: rows of each row event inside payloads.

    rows: those of the last payload up to the last event that was asked for.
    """

    events: Numbers
    offsets: Numbers
    counts: Numbers | None
    rows: int = 0

    def all_offsets(self) -> Iterator[tuple[int, _RowOffset]]:
        """Each row event's number in the scan, and its offset."""
        last = None
        for at, event in enumerate(self.events.tolist()):
            offset = int(self.offsets[event])
            if self.counts is None:
                yield event, (offset, 0)
                continue
            if last is not None and offset != last:
                self.rows = 0
            yield event, (offset, self.rows)
            last = offset
            self.rows += int(self.counts[at])


def _noted(
    scan: Scan, footer: int, text: str | None, offsets: _EventOffsets, texts: dict[_RowOffset, str | None]
) -> str | None:
    """Add the texts of a scan's row events; the text that is open behind them. text: the one that is before."""
    rows = dict(offsets.all_offsets())
    is_text = (scan.code == _ROWS_QUERY) | (scan.code == _ANNOTATE_ROWS)
    marks = event_cells.MARK_BEGINS | event_cells.MARK_ROWS
    for event in np.flatnonzero(is_text | (scan.mark & marks != 0)).tolist():
        mark = int(scan.mark[event])
        if mark & event_cells.MARK_BEGINS:
            text = None
        if is_text[event]:
            text = _text_of(scan.bytes_of(event), footer)
        elif mark & event_cells.MARK_ROWS:
            texts[rows[event]] = text
            text = None if mark & event_cells.MARK_STATEMENT_ENDS else text
    return text


def _text_of(event: bytes, footer: int) -> str:
    begin = HEADER + (1 if event[4] == _ROWS_QUERY else 0)
    return event[begin : len(event) - footer].decode("utf-8", "backslashreplace")
