"""Parts of a range between statements, split into pieces whose rows have one definition each in the log.

Put here: where the log has which definition. Not here: what is known of it otherwise (definitions.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import eq

from spark_jobs.binlog import TableDefinition
from spark_jobs.bronze.scan import differs
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Range
from spark_jobs.silver.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class DefinedRange:
    """A part of the log, and the definition that the log has for its rows; None where the table has no row there.

    reason: how it differs from the piece before it, with no statement between them. failed: its rows cannot be looked
    at.
    """

    range: Range
    definition: TableDefinition | None = None
    reason: str | None = None
    failed: TableStopped | DecodeError | None = None


def pieces_of(timeline: Timeline, parts: Sequence[Range]) -> list[list[DefinedRange]]:
    """Each part in pieces; one without a definition where there is no row.

    The scan has a definition where its extraction met it first; rows under one that was met before are looked at.
    """
    rows = timeline.rows
    if rows is None:
        return [[DefinedRange(part)] for part in parts]
    pieces = [_pieces(timeline, part) for part in parts]
    unmet = [
        at
        for at, part in enumerate(parts)
        if pieces[at][0].definition is None and part and rows.first < part.stop and part.start <= rows.last
    ]
    for at, piece in _met_before(timeline, [parts[at] for at in unmet]).items():
        pieces[unmet[at]] = [piece]
    return pieces


def _pieces(timeline: Timeline, part: Range) -> list[DefinedRange]:
    """A part by the definitions that the scan has in it."""
    definitions = timeline.rows.definitions if timeline.rows else ()
    inside = [(at, definition) for at, definition in definitions if part.start <= at < part.stop]
    pieces = [DefinedRange(part, inside[0][1] if inside else None)]
    for at, definition in inside[1:]:
        last = pieces[-1]
        assert last.definition is not None
        if not differs(last.definition, definition, last.range.start, at):
            continue
        position = timeline.inputs.first_row_position(timeline.name, Range(at, part.stop), partial(eq, definition))
        reason = differs(last.definition, definition, last.range.start, position)
        pieces[-1:] = [replace(last, range=Range(last.range.start, position))]
        pieces.append(DefinedRange(Range(position, part.stop), definition, f"{timeline.name}: {reason}"))
    return pieces


def _met_before(timeline: Timeline, parts: Sequence[Range]) -> dict[int, DefinedRange]:
    """The parts, by their ordinals, whose rows have a definition that was met before them."""
    try:
        first_definitions = timeline.inputs.first(timeline.name, parts) if parts else {}
    except (TableStopped, DecodeError) as error:
        if len(parts) == 1:
            return {0: DefinedRange(parts[0], failed=error)}
        # Those before the one that cannot be read are taken.
        piece_maps = (_met_before(timeline, [part]) for part in parts)
        return {at: piece[0] for at, piece in enumerate(piece_maps) if piece}
    return {at: DefinedRange(parts[at], definition) for at, definition in first_definitions.items()}
