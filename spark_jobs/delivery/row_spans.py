"""Spans of a window's rows: which of them are at the target, and which remain.

Put here: the rows of each kind of change by their ordinals. Not here: the row of progress that keeps the names of spans
(progress.py), or what a window's rows are (changes.py).

A window's rows of one kind have the order of its files, whatever the settings. So the rest of a window is what no span
covers, also where its parts are cut in another way than those before them.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class ChangeKind(StrEnum):
    """Kinds of change of a row, as names of spans have them."""

    DELETE = "d"
    CLEAR = "c"
    """Delete before a row is inserted that may be there already."""
    UPDATE = "u"
    INSERT = "i"

    @property
    def is_delete(self) -> bool:
        """True if it goes before all writes."""
        return self in (ChangeKind.DELETE, ChangeKind.CLEAR)


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Rows of one kind by their ordinals. end: after the last."""

    kind: ChangeKind
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.kind}{self.begin}-{self.end}"


class RemainingRows:
    """The rows of a window that no span covers. names: of the spans that are complete."""

    def __init__(self, names: Iterable[str]) -> None:
        self._ranges: dict[str, list[list[int]]] = {kind: [] for kind in ChangeKind}
        """Begin and end of complete ranges by kind, in order, with rows between them."""
        spans = [(match[1], int(match[2]), int(match[3])) for name in names if (match := _NAME.fullmatch(name))]
        for kind, begin, end in sorted(spans):
            ranges = self._ranges[kind]
            if ranges and begin <= ranges[-1][1]:
                ranges[-1][1] = max(end, ranges[-1][1])
            else:
                ranges.append([begin, end])

    def of(self, span: RowSpan) -> Iterator[RowSpan]:
        """Remainder of a span."""
        ranges, begin = self._ranges[span.kind], span.begin
        at = max(0, bisect_right(ranges, [begin, begin]) - 1)
        for first, last in ranges[at:]:
            if first >= span.end:
                break
            if first > begin:
                yield RowSpan(span.kind, begin, first)
            begin = max(begin, last)
        if begin < span.end:
            yield RowSpan(span.kind, begin, span.end)


_NAME = re.compile(r"([cdiu])(\d+)-(\d+)")
