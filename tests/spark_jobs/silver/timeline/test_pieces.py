from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.scan import RangeScan, TableExtent
from spark_jobs.errors import DecodeError
from spark_jobs.log.position import Range
from spark_jobs.silver.timeline.pieces import DefinedRange, pieces_of
from spark_jobs.silver.timeline.timeline import Timeline
from tests.binlogs.timelines import ID, NAME, NOTE, OLD, RULES, at, definition

OTHER = definition(ID, NOTE)


def first(_: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
    """Rows of the old definition in every part, but one that cannot be read."""
    if any(part.start == at(600) for part in parts):
        raise DecodeError("damaged")
    return dict.fromkeys(range(len(parts)), OLD)


def shown_piece(piece: DefinedRange) -> str:
    names = ",".join(piece.definition.column_names()) if piece.definition else "-"
    return f"{piece.range.stop.offset} {piece.failed or names}" + " differs" * bool(piece.reason)


def listing(*maps: tuple[int, TableDefinition], last: int = 900) -> list[list[str]]:
    """The pieces of three parts: to which offset they go, and with how many columns."""
    occurrences = (
        {NAME: TableExtent(at(maps[0][0]), at(last), tuple((at(offset), definition) for offset, definition in maps))}
        if maps
        else {}
    )
    rules = replace(RULES, first=first)
    timeline = Timeline.begin(RangeScan(occurrences, ()), NAME, Range(at(10), at(1000)), rules, None)
    parts = [Range(at(10), at(300)), Range(at(310), at(600)), Range(at(600), at(1000))]
    return [[shown_piece(piece) for piece in pieces] for pieces in pieces_of(timeline, parts)]


def test_a_table_without_rows_has_pieces_without_a_definition() -> None:
    assert listing() == [["300 -"], ["600 -"], ["1000 -"]]


def test_rows_under_a_definition_that_was_met_before_are_looked_at() -> None:
    assert listing((100, OLD), last=500) == [["300 id,v"], ["600 id,v"], ["1000 -"]]
    assert listing((100, OLD)) == [["300 id,v"], ["600 id,v"], ["1000 damaged"]]


def test_a_part_is_cut_where_the_definition_differs() -> None:
    assert listing((100, OLD), (200, OLD), (400, OLD), (500, OTHER), (700, OTHER)) == [
        ["300 id,v"],
        ["500 id,v", "600 id,note differs"],
        ["1000 id,note"],
    ]
