"""Runs of slices as tasks decode them: those of one file together, so that their rows come in few blocks.

Put here: runs of slices. Not here: what is decoded (decode_task.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from spark_jobs.binlog import Changes, Decoder, SliceBytes
from spark_jobs.bronze.derived_slices import changes_of
from spark_jobs.log.position import Position
from spark_jobs.silver.net_changes import SliceOrigin
from spark_jobs.silver.timeline.inputs import payload_without

_RUN_BYTES = 32 << 20
"""Bytes of slices that are decoded together, which are in memory until then."""


@dataclass(frozen=True, slots=True)
class SliceRun:
    """Slices of one file and window, in their order."""

    origin: SliceOrigin
    slices: tuple[SliceBytes, ...]
    effect: Position | None = None
    """Position where a slice of an XA transaction, which is a run by itself, takes effect; None for other runs."""
    is_derived: bool = False
    """True if the slices have changes that were derived from foreign keys (bronze/derived_slices.py)."""

    def changes(self, decoder: Decoder) -> Iterator[Changes]:
        """Changes of the slices, as ``Decoder.decode_slices`` or as they were derived from foreign keys."""
        if self.is_derived:
            return (changes_of(part.payload, decoder.definition, part.gtid) for part in self.slices)
        return decoder.decode_slices(self.origin.file, self.slices)

    def without(self, skips: frozenset[Position]) -> "SliceRun":
        """The run without the events that are quarantined. Raises DecodeError."""
        if self.is_derived:
            return self
        file, stretch = self.origin.file, self.origin.stretch
        parts = (
            replace(part, payload=payload_without(skips, Position(file, part.start, stretch), part.payload))
            for part in self.slices
        )
        return replace(self, slices=tuple(parts))


Batches = Iterator[pa.RecordBatch]
Runs = Iterator[SliceRun]


def gathered(runs: Iterable[SliceRun], skips: frozenset[Position] = frozenset()) -> Runs:
    """Join runs that follow each other, up to some bytes: of a small table each slice has few rows."""
    waiting: list[SliceRun] = []
    size = 0
    for next_run in runs:
        run = next_run.without(skips) if skips else next_run
        is_alike = waiting and waiting[0].is_derived == run.is_derived and waiting[0].origin == run.origin
        is_next = is_alike and run.effect is None and waiting[0].effect is None
        if waiting and not (is_next and size < _RUN_BYTES):
            yield _joined_runs(waiting)
            waiting, size = [], 0
        waiting.append(run)
        size += sum(len(part.payload) for part in run.slices)
    if waiting:
        yield _joined_runs(waiting)


def _joined_runs(runs: list[SliceRun]) -> SliceRun:
    return replace(runs[0], slices=tuple(part for run in runs for part in run.slices))
