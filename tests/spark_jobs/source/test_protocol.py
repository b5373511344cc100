from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import FilePart, Log, LogFile, require_boundary, require_contiguous
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT

LOG = Log(
    "shop",
    (LogFile("bin.000009", 100), LogFile("bin.000010", 200), LogFile("bin.000011", 300)),
    Position("bin.000011", 250),
)
SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)],
    changes=[Insert("shop.t", (1,)), Commit(), Insert("shop.t", (2,)), Commit()],
)


@pytest.mark.parametrize(
    "start, parts",
    [
        ("bin.000009:4", [("bin.000009", 0, 100), ("bin.000010", 0, 200), ("bin.000011", 0, 250)]),
        ("bin.000009:60", [("bin.000009", 60, 100), ("bin.000010", 0, 200), ("bin.000011", 0, 250)]),
        ("bin.000009:100", [("bin.000010", 0, 200), ("bin.000011", 0, 250)]),
        ("bin.000010:4", [("bin.000010", 0, 200), ("bin.000011", 0, 250)]),
        ("bin.000011:4", [("bin.000011", 0, 250)]),
        ("bin.000011:240", [("bin.000011", 240, 250)]),
        ("bin.000011:250", []),
    ],
)
def test_what_lies_behind_a_position_is_listed_by_file(start: str, parts: list[tuple[str, int, int]]) -> None:
    position = Position.parse(start)
    assert LOG.parts_from(position) == [FilePart(*part) for part in parts]
    assert LOG.bytes_from(position) == sum(stop - begin for _, begin, stop in parts)


@pytest.mark.parametrize(
    "start, message",
    [
        (
            "bin.000008:4",
            (
                "shop: bin.000008 is gone from the source, whose oldest file is bin.000009; either have archived "
                "copies read into the same bronze (stratalog extract --source shop --archive DIR), or start under "
                "another source name with start: earliest"
            ),
        ),
        (
            "bin.000012:4",
            (
                "shop: has no file bin.000012; it holds bin.000009 to bin.000011. A log whose numbers began again "
                "needs "
                "another source name"
            ),
        ),
        (
            "other.000010:4",
            (
                "shop: has no file other.000010; it holds bin.000009 to bin.000011. A log whose numbers began again "
                "needs "
                "another source name"
            ),
        ),
        (
            "bin.000011:251",
            (
                "shop: bin.000011:251 is after the end of the log at bin.000011:250; a log that became shorter "
                "was reset "
                "or belongs to another server: give the source another name, or restore the log"
            ),
        ),
        (
            "bin.000009:101",
            (
                "shop: bin.000009:101 is after the end of the log at bin.000011:250; a log that became shorter "
                "was reset "
                "or belongs to another server: give the source another name, or restore the log"
            ),
        ),
    ],
)
def test_what_is_not_all_there_is_refused(start: str, message: str) -> None:
    with pytest.raises(SourceError) as refused:
        LOG.parts_from(Position.parse(start))
    assert str(refused.value) == message


def test_the_first_position_is_behind_the_magic_bytes() -> None:
    assert LOG.first == Position("bin.000009", 4)


@pytest.mark.parametrize("files", [[], ["bin.000009"], ["bin.000009", "bin.000010"], ["b.999999", "b.1000000"]])
def test_numbers_without_a_hole_pass(files: list[str]) -> None:
    require_contiguous("shop", files)
    if files:
        with pytest.raises(SourceError):
            require_contiguous("shop", [*files, "bin.9999999"])


@pytest.mark.parametrize(
    "files", [["bin.000009", "bin.000011"], ["bin.000009", "bin.000009"], ["b.000002", "b.000001"]]
)
def test_a_hole_is_named(files: list[str]) -> None:
    with pytest.raises(SourceError) as refused:
        require_contiguous("shop", files)
    assert str(refused.value) == (
        f"shop: a file is missing between {files[0]} and {files[1]}; restore it and run again"
    )


@pytest.fixture
def source(tmp_path: Path) -> Files:
    (tmp_path / "bin.000001").write_bytes(SPEC.to_bytes())
    return Files("shop", tmp_path)


def boundaries() -> list[int]:
    """Position where a transaction or a control event begins: everything but the insides of the two transactions."""
    codes = [event[4] for event in SPEC.events()]
    return [offset for offset, code in zip(SPEC.offsets(), [*codes, 33], strict=True) if code in (15, 33, 4)]


def test_transactions_begin_at_boundaries_only(source: Files) -> None:
    good = {0, 4, *boundaries(), SPEC.offsets()[1]}
    for offset in sorted({*SPEC.offsets(), *(offset + 1 for offset in SPEC.offsets()[:-1])}):
        if offset in good:
            require_boundary(source, Position("bin.000001", offset))
        else:
            before = max(byte_offset for byte_offset in good if byte_offset < offset)
            with pytest.raises(SourceError) as refused:
                require_boundary(source, Position("bin.000001", offset))
            assert str(refused.value) == (
                f"shop: no transaction begins at bin.000001:{offset}; the nearest boundary before it is "
                f"bin.000001:{max(before, 4)}"
            )


def test_an_open_transaction_is_no_boundary(tmp_path: Path) -> None:
    cut = replace(SPEC, rotate_to="").to_bytes()
    (tmp_path / "bin.000001").write_bytes(cut)
    require_boundary(Files("shop", tmp_path), Position("bin.000001", len(cut)))
    with pytest.raises(SourceError, match="no transaction begins at"):
        require_boundary(Files("shop", tmp_path), Position("bin.000001", len(cut) - 31))


def test_an_end_in_a_file_that_is_not_listed_is_refused() -> None:
    listed = (LogFile("b.000001", 500), LogFile("b.000002", 300))
    log = Log("shop", listed, Position("b.000003", 120))
    with pytest.raises(SourceError, match=r"^shop: the log ends at b\.000003:120, in a file that it does not list"):
        log.parts_from(Position("b.000001", 4))


@pytest.mark.parametrize("size", [-512, 0, 4])
@pytest.mark.parametrize("start", ["b.000001:4", "b.000001:500", "b.000002:4"])
def test_an_empty_file_that_others_follow_is_refused(start: str, size: int) -> None:
    """A copy that failed; a server whose file was removed beside it lists no bytes, encrypted ones less."""
    files = (LogFile("b.000001", 500), LogFile("b.000002", size), LogFile("b.000003", 700))
    with pytest.raises(SourceError, match=r"^shop: b\.000002 is empty, and others follow it: "):
        Log("shop", files, Position("b.000003", 700)).parts_from(Position.parse(start))
    behind = Log("shop", files, Position("b.000003", 700)).parts_from(Position("b.000003", 4))
    assert behind == [FilePart("b.000003", 0, 700)]


@pytest.mark.parametrize(
    "until, minimum, end", [(None, 70, 99), (50, None, 50), (50, 40, 50), (50, 70, 70), (200, 70, 99)]
)
def test_a_log_is_read_up_to_a_place_or_what_is_held_or_its_end(
    until: int | None, minimum: int | None, end: int
) -> None:
    at = [None if offset is None else Position("b.000001", offset) for offset in (until, minimum)]
    log = Log("shop", (LogFile("b.000001", 99),), Position("b.000001", 99))
    assert log.up_to(*at).end.offset == end
