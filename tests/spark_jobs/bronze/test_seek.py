import json
import struct
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.seek import BronzeLog, LogSeeker, range_in
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.errors import ConfigError, LakeError, SourceError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Source
from spark_jobs.source.seek import resolve_location
from tests.binlogs.gtid_logs import A, B, ServerFolder, file_of, land
from tests.binlogs.segment_spec import UUID, Commit, Insert, SegmentSpec, Table, reframed
from tests.binlogs.segment_types import INT

SPEC = SegmentSpec(tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)])
A_FILE = 4
SECOND = 1_700_000_000


def file(number: int) -> bytes:
    """A file of four transactions, a second apart; its head names those of the files before it."""
    first = 1 + A_FILE * (number - 1)
    changes = [change for n in range(first, first + A_FILE) for change in (Insert("shop.t", (n,)), Commit())]
    spec = replace(SPEC, changes=changes, first_number=first, second=SECOND + first, rotate_to=f"b.{number + 1:06d}")
    head, _, *events = spec.events()
    sets = struct.pack("<Q16sQQQ", 1, uuid.UUID(UUID).bytes, 1, 1, first) if first > 1 else bytes(8)
    return b"\xfebin" + head + reframed(spec.events()[1], body=sets) + b"".join(events)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("binlogs")
    for number in (1, 2, 3):
        (folder / f"b.{number:06d}").write_bytes(file(number))
    return Files("shop", folder)


@pytest.fixture(scope="module")
def filled(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    land(lake.bronze("shop"), files)
    return lake


def seeker() -> list[str]:
    sets = [f"{UUID}:1-{n}" for n in range(1, 13)]
    times = [datetime.fromtimestamp(SECOND + n, UTC).isoformat() for n in (2, 5, 6, 9, 10, 12)]
    return [*sets, *times, "b.000002:4", "b.000001:4"]


def test_places_are_those_in_the_files(files: Files, filled: Lake) -> None:
    landed: Source = BronzeLog(BronzeSnapshot.of(filled, "shop"))
    assert landed.log() == files.log()
    from spark_jobs.log.location import parse_location

    positions = {resolve_location(landed, files.log(), parse_location(location)) for location in seeker()}
    assert positions == {resolve_location(files, files.log(), parse_location(location)) for location in seeker()}
    assert len(positions) > 12


def test_a_beginning_beyond_bronze_is_refused_as_such(filled: Lake) -> None:
    with pytest.raises(ConfigError) as refused:
        range_in(BronzeSnapshot.of(filled, "shop"), "b.000009:4", None)
    end = BronzeSnapshot.of(filled, "shop").checkpoint.position
    assert str(refused.value) == (
        f"shop: b.000009:4 is after the end of the log in bronze, {end}; write an earlier position, "
        "or execute stratalog run first"
    )


@pytest.mark.parametrize(
    "start, stop", [(None, "2/b.000001:4"), ("1/b.000001:4", "5/b.000001:4"), ("7/b.000001:4", None)]
)
def test_a_stretch_that_there_is_not_is_refused(filled: Lake, start: str | None, stop: str | None) -> None:
    with pytest.raises(
        ConfigError, match=r"^shop: ./b\.000001:4 is in stretch . of the log, and the newest one .* is 1;"
    ):
        range_in(BronzeSnapshot.of(filled, "shop"), start, stop)


def test_a_range_between_places(filled: Lake) -> None:
    log_range = range_in(
        BronzeSnapshot.of(filled, "shop"), f"{UUID}:1-4", datetime.fromtimestamp(SECOND + 9, UTC).isoformat()
    )
    assert log_range == Range(Position("b.000002", 4), Position("b.000003", 4))
    assert range_in(BronzeSnapshot.of(filled, "shop"), "earliest", "latest") == range_in(
        BronzeSnapshot.of(filled, "shop"), None, None
    )
    lines = changes_of_bronze(filled, "shop", f"{UUID}:1-3", f"{UUID}:1-6", is_wanted=wanted_tables([]))
    assert [json.loads(line)["after"]["id"] for line in "".join(lines).splitlines()] == [4, 5, 6]


@pytest.mark.parametrize(
    "location, reason",
    [
        (f"{UUID}:1-13", "does not hold .*:13 of the set"),
        ("2100-01-01T00:00:00Z", "is after the end of the log"),
        ("0-1-5", "is of a MySQL server"),
    ],
)
def test_what_bronze_does_not_hold_is_refused(filled: Lake, location: str, reason: str) -> None:
    with pytest.raises(SourceError, match=f"^shop: .*{reason}"):
        range_in(BronzeSnapshot.of(filled, "shop"), location, None)


def test_what_lies_before_bronze_names_what_can_be_done(files: Files, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    land(lake.bronze("shop"), files, f"{UUID}:1-6")
    log_range = range_in(BronzeSnapshot.of(lake, "shop"), None, None)
    assert log_range.start.file == "b.000002"
    with pytest.raises(SourceError, match=r"oldest file there is, b\.000003; name a position, which may be in a file"):
        range_in(BronzeSnapshot.of(lake, "shop"), f"{UUID}:1-7", None)
    assert range_in(BronzeSnapshot.of(lake, "shop"), f"{UUID}:1-9", None).start.file == "b.000003"
    with pytest.raises(LakeError, match="bronze holds nothing yet"):
        BronzeSnapshot.of(lake, "other")


def time_text(seconds: float) -> str:
    return datetime.fromtimestamp(SECOND + seconds, UTC).isoformat()


@pytest.fixture(params=["still open", "rotated since"])
def moved(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A primary's a:1 to a:4, a second apart, and a:5 to a:9 of a replica that has all of them in one file."""
    lake = Lake(str(tmp_path / "lake"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "b.000001").write_bytes(file_of("", ["a:1", "a:2", "a:3", "a:4"], "", SECOND))
    land(lake.bronze("shop"), ServerFolder(tmp_path / "one", A, "one"))
    following = "other.000002" if request.param == "rotated since" else ""
    names = [f"a:{number}" for number in range(1, 10)]
    (tmp_path / "two" / "other.000001").write_bytes(file_of("", names, following, SECOND))
    if following:
        (tmp_path / "two" / following).write_bytes(file_of("a:1-9", ["a:10", "a:11"], "", SECOND + 20))
    land(lake.bronze("shop"), ServerFolder(tmp_path / "two", B, "two"))
    return lake


@pytest.mark.parametrize(
    "seconds, number, before", [(0.5, 1, 1), (3, 1, 3), (4, 1, 4), (5, 2, 5), (6.5, 2, 7), (8, 2, 8)]
)
def test_a_time_in_a_file_that_is_held_in_part(moved: Lake, seconds: float, number: int, before: int) -> None:
    snapshot = BronzeSnapshot.of(moved, "shop")
    position = LogSeeker(snapshot).position(time_text(seconds))
    lines = changes_of_bronze(moved, "shop", None, position, is_wanted=wanted_tables([]))
    assert [json.loads(line)["after"]["id"] for line in "".join(lines).splitlines()] == [*range(1, before + 1)]
    second = stretches(snapshot.checkpoint)[-1]
    assert second.begin.offset > 4
    assert (position.stretch, position > second.begin) == (number, number == 2)


def test_a_time_to_come_is_refused_in_a_file_that_is_held_in_part(moved: Lake) -> None:
    with pytest.raises(
        SourceError,
        match=r"^shop: 2100-.* is after the end of the log at other\.00000.:\d+, whose last .* committed at 2023",
    ):
        LogSeeker(BronzeSnapshot.of(moved, "shop")).position("2100-01-01T00:00:00Z")


@pytest.mark.parametrize("seconds, rest", [(10.5, [2, 3, 4]), (21.5, [3, 4]), (22.5, [4])])
def test_a_file_with_a_gap_between_complete_ones(tmp_path: Path, seconds: float, rest: list[int]) -> None:
    """A replica with appliers side by side committed b:1 before a:4, and its log was rotated between them."""
    lake = Lake(str(tmp_path / "lake"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "b.000001").write_bytes(file_of("", ["a:1", "a:2", "a:3", "a:4"], "", SECOND))
    land(lake.bronze("shop"), ServerFolder(tmp_path / "one", A, "one"))
    files = [
        ("", ["a:1", "a:2", "a:3"], 0),
        ("a:1-3", ["b:1"], 10),
        ("a:1-3 b:1", ["a:4", "b:2", "b:3"], 20),
        ("a:1-4 b:1-3", ["b:4"], 30),
    ]
    for number, (previous, transactions, second) in enumerate(files, 1):
        following = f"other.{number + 1:06d}" if number < len(files) else ""
        content = file_of(previous, transactions, following, SECOND + second)
        (tmp_path / "two" / f"other.{number:06d}").write_bytes(content)
    land(lake.bronze("shop"), ServerFolder(tmp_path / "two", B, "two"))
    seeker = LogSeeker(BronzeSnapshot.of(lake, "shop"))
    lines = changes_of_bronze(lake, "shop", seeker.position(time_text(seconds)), None, is_wanted=wanted_tables([]))
    assert [json.loads(line)["after"]["id"] for line in "".join(lines).splitlines()] == rest
    with pytest.raises(SourceError, match="name a position, which may be in a file that bronze has in part"):
        seeker.position(f"{A}:1-3,{B}:1")
