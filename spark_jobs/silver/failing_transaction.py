"""First transaction of some slices whose rows cannot be decoded or applied.

Put here: slices divided into their transactions, each tried by itself. Not here: what a table does at such a
transaction (engine/silver/silver_job.py), or cutting bronze there (bronze/boundaries.py).

Rows are decoded in runs of many transactions, and an error says only that one of them failed. So the slices are tried
again one transaction after the other; that costs the time of decoding them once more, and only where a table stops.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow.compute as pc

from spark_jobs.binlog import FormatDescription, SliceBytes, Slicer
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver.slice_runs import SliceRun

_FORMAT_SIZE = slice(9, 13)
"""Bytes of an event's header that hold the event's size; a slice's context begins with the format event."""


def first_failing(
    runs: Iterable[SliceRun], attempt: Callable[[SliceRun], object]
) -> tuple[Position, TableStopped | DecodeError] | None:
    """Position and error of the first transaction that an attempt fails on; None where each succeeds by itself.

    Args:
        runs: single slices, in the order in which they take effect.
        attempt: decodes the rows of a run, and raises TableStopped or DecodeError where they cannot be taken.

    Returns:
        Where the transaction begins, or where an XA transaction is committed, with the error.
    """
    for run in runs:
        if _error_of(run, attempt) is None:
            continue
        for transaction in _transactions(run):
            error = _error_of(transaction, attempt)
            if error is not None:
                return _effective_position(transaction), error
    return None


def _error_of(run: SliceRun, attempt: Callable[[SliceRun], object]) -> TableStopped | DecodeError | None:
    try:
        attempt(run)
    except (TableStopped, DecodeError) as error:
        return error
    return None


def _effective_position(run: SliceRun) -> Position:
    """Position where a transaction takes effect: its first event, or the commit of an XA transaction."""
    if run.effect is not None:
        return run.effect
    (part,) = run.slices
    start = part.start if part.transaction_start is None else part.transaction_start
    return Position(run.origin.file, start, run.origin.stretch)


def _transactions(run: SliceRun) -> Iterator[SliceRun]:
    """The transactions of a slice; the slice itself where it is a part of one, or of an XA transaction."""
    (stored,) = run.slices
    if run.effect is not None or stored.context is None or stored.transaction_start != stored.start:
        yield run
        return
    # Slices as small as they can be hold one transaction each.
    head = stored.context[: int.from_bytes(stored.context[_FORMAT_SIZE], "little")]
    format_ = FormatDescription.parse(head, f"{run.origin.file}:{stored.start}")
    slicer = Slicer(run.origin.file, stored.start, format_, target=1)
    for batch in [*slicer.feed(bytes(stored.payload)), *slicer.finish()]:
        for cells in batch.filter(pc.equal(batch.column("kind"), "rows")).to_pylist():
            committed_us = int(cells["committed_at"].timestamp() * 1e6)
            part = SliceBytes(
                cells["start"],
                cells["context"],
                cells["payload"],
                cells["transaction_start"],
                committed_us,
                cells["gtid"],
            )
            yield replace(run, slices=(part,))
    # What ends in a later slice is a transaction of its own.
    if slicer.pending:
        rest = slicer.complete
        tail = replace(
            stored, start=rest, transaction_start=rest, context=head, payload=stored.payload[rest - stored.start :]
        )
        yield replace(run, slices=(tail,))
