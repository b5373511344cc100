"""What is brought from before bronze, and from where. That it is the log again is tested on a server, in pipeline/."""

import struct
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.bronze.commit import BronzeCommit, stretches
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.errors import LakeError, SourceError
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.log.location import parse_location
from spark_jobs.log.position import Position
from spark_jobs.pipeline.restore import LogOrigin, MissingLog, parts_before
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import FilePart, Log, LogFile
from tests.binlogs.segment_spec import UUID, Commit, Insert, SegmentSpec, Table, reframed
from tests.binlogs.segment_types import INT

SECOND = 1_700_000_000
IN_A_FILE = 4
SPEC = SegmentSpec(tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)])


def listed(*names: str) -> Log:
    return Log("shop", tuple(LogFile(name, 500) for name in names), Position(names[-1], 500))


@pytest.mark.parametrize(
    "lowest, oldest, names, parts",
    [
        ("b.000001:4", "b.000001:4", ["b.000001"], []),
        ("b.000001:4", "b.000004:4", ["b.000002", "b.000003"], [("b.000002", 0, 500), ("b.000003", 0, 500)]),
        ("b.000003:4", "b.000004:4", ["b.000002", "b.000003"], [("b.000003", 0, 500)]),
        ("b.000001:4", "b.000004:4", ["b.000001", "b.000003"], [("b.000003", 0, 500)]),
        ("b.000001:4", "b.000004:4", ["b.000002"], []),
        ("b.000001:4", "b.000004:4", ["other.000003"], []),
        ("b.000003:77", "b.000004:4", ["b.000002", "b.000003"], [("b.000003", 77, 500)]),
        # bronze begins inside a file, of which the rest comes first
        ("b.000003:4", "b.000004:99", ["b.000003", "b.000004"], [("b.000003", 0, 500), ("b.000004", 0, 99)]),
        ("b.000003:4", "b.000004:99", ["b.000002", "b.000003"], []),
        ("b.000004:4", "b.000004:999", ["b.000004"], []),
        ("b.999999:4", "b.1000001:4", ["b.999999", "b.1000000"], [("b.999999", 0, 500), ("b.1000000", 0, 500)]),
    ],
)
def test_files_are_brought_that_follow_each_other_up_to_the_oldest(
    lowest: str, oldest: str, names: list[str], parts: list[tuple[str, int, int]]
) -> None:
    begin = stretches(Checkpoint(Position("b.000001", 4), "x"))[0]
    sequences = parts_before(listed(*names), Position.parse(lowest), Position.parse(oldest), begin)
    assert sequences == [FilePart(*part) for part in parts]


def test_what_a_stretch_never_had_is_not_brought() -> None:
    index = [
        {"stretch": 1, "begin": "a.000001:4"},
        {"stretch": 2, "begin": "2/b.000002:77", "passed_over": [["b.000002", 90, 99], ["b.000003", 400, 500]]},
    ]
    second = stretches(Checkpoint(Position("b.000009", 400), "x", unnamed_members={"stretches": index}))[1]
    expected = [FilePart("b.000002", 77, 90), FilePart("b.000002", 99, 500), FilePart("b.000003", 0, 400)]
    log = listed("b.000001", "b.000002", "b.000003")
    assert parts_before(log, second.begin, Position("b.000004", 4, 2), second) == expected


def test_an_empty_file_is_none_of_them() -> None:
    files = (LogFile("b.000001", 500), LogFile("b.000002", 0), LogFile("b.000003", 500))
    begin = stretches(Checkpoint(Position("b.000001", 4), "x"))[0]
    parts = parts_before(Log("shop", files, Position("b.000003", 500)), begin.begin, Position("b.000004", 4), begin)
    assert parts == [FilePart("b.000003", 0, 500)]


def content(number: int, server_id: int = 1, *, has_gtids: bool = True, late: int = 0, **keys: Any) -> bytes:
    """A file of four transactions, a second apart; its head names those of the files before it."""
    first = 1 + IN_A_FILE * (number - 1)
    changes = [change for n in range(first, first + IN_A_FILE) for change in (Insert("shop.t", (n,)), Commit())]
    spec = replace(SPEC, changes=changes, first_number=first, second=SECOND + first + late, server_id=server_id, **keys)
    spec = replace(spec, rotate_to=f"b.{number + 1:06d}")
    head, previous, *events = spec.events()
    sets = struct.pack("<Q16sQQQ", 1, uuid.UUID(UUID).bytes, 1, 1, first) if first > 1 and has_gtids else bytes(8)
    return b"\xfebin" + head + reframed(previous, body=sets) + b"".join(events)


def folder(path: Path, *numbers: int, **keys: Any) -> LogOrigin:
    path.mkdir()
    for number in numbers:
        (path / f"b.{number:06d}").write_bytes(content(number, **keys))
    return LogOrigin(Files("shop", path), path.name)


@dataclass
class Bronze:
    """A bronze table of which only the first slice is looked at."""

    payload: bytes

    def scan(self, *_: Any, **__: Any) -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_pydict({"payload": [self.payload]})] if self.payload else []


def bronze_from(oldest: str, *origins: LogOrigin, payload: bytes | None = None, **notes: Any) -> MissingLog:
    """Bronze holds b.000004 to b.000006, or begins later in b.000004."""
    position = Position.parse(oldest)
    start = position.offset if position.offset > 4 else 0
    first_bytes = content(position.number)[start : start + 600] if payload is None else payload
    members = {"begin": "b.000001:4", "oldest": oldest} | notes
    end = f"b.000006:{len(content(6))}"
    commit = BronzeCommit.from_members({"position": end, "batch": "x", **members})
    table: Any = Bronze(first_bytes)  # what is not asked is not there
    return MissingLog(BronzeSnapshot("shop", table, Head(3, 3, commit), commit), origins)


def fetched(missing_log: MissingLog, to: str) -> list[tuple[str, str, str]]:
    """The origin of each piece, and its first and last file."""
    sequences = missing_log.back_to(Position.parse(to))
    return [(sequence.origin.label, sequence.parts[0].file[-1], sequence.parts[-1].file[-1]) for sequence in sequences]


def test_an_archive_comes_first_and_other_origins_have_what_it_lacks(tmp_path: Path) -> None:
    archive, source = folder(tmp_path / "archive", 1, 2), folder(tmp_path / "source", 2, 3, 4, 5, 6)
    assert fetched(bronze_from("b.000004:4", archive, source), "b.000001:50") == [
        ("source", "2", "3"),
        ("archive", "1", "1"),
    ]
    origin = folder(tmp_path / "both", 1, 2, 3)
    assert fetched(bronze_from("b.000004:4", origin, source), "b.000002:4") == [("both", "2", "3")]
    assert fetched(bronze_from("b.000004:4", archive, source), "b.000003:99") == [("source", "3", "3")]
    assert fetched(bronze_from("b.000004:4", archive, source), "b.000004:4") == []


def test_the_beginning_of_a_file_and_what_came_before_the_first_extraction(tmp_path: Path) -> None:
    source = folder(tmp_path / "source", 2, 3, 4, 5, 6)
    inside = len(content(4)) // 2
    missing_log = bronze_from(f"b.000004:{inside}", source, begin=f"b.000004:{inside}")
    (sequence,) = missing_log.back_to(Position("b.000003", 4))
    assert sequence.parts == (FilePart("b.000003", 0, len(content(3))), FilePart("b.000004", 0, inside))
    assert (str(sequence.first), str(sequence.before)) == ("b.000003:4", f"{UUID}:1-8")


def lacking(missing_log: MissingLog, to: str = "b.000001:4") -> str:
    with pytest.raises(LakeError) as failure:
        missing_log.back_to(Position.parse(to))
    return str(failure.value)


def test_what_nobody_has_is_named_with_what_each_origin_has(tmp_path: Path) -> None:
    archive, source = folder(tmp_path / "archive", 1), folder(tmp_path / "source", 3, 4, 5)
    message = lacking(bronze_from("b.000004:4", archive, source))
    assert (
        "bronze begins at b.000004:4, and the replay at b.000001:4: it needs b.000001 to b.000002, which no origin has"
        in message
    )
    assert "archive holds b.000001 to b.000001\n" in message
    assert "source holds b.000003 to b.000005\n" in message
    assert message.endswith("name it: --archive DIR, or archive: under the source")
    (tmp_path / "source" / "b.000003").write_bytes(b"")
    assert "source holds b.000003 to b.000005; b.000003 is empty\n" in lacking(bronze_from("b.000004:4", source))
    empty = LogOrigin(Files("shop", tmp_path / "nowhere"), "the archive nowhere")
    message = lacking(bronze_from("b.000004:4", empty), "b.000003:4")
    assert "it needs b.000003, which no" in message
    assert "the archive nowhere cannot be used: " in message
    index = [{"stretch": 1, "begin": "a.000001:4"}, {"stretch": 2, "begin": "2/b.000002:4"}]
    message = lacking(bronze_from("2/b.000004:4", source, stretches=index), "a.000001:4")
    assert "lies in a stretch of the log of which bronze holds nothing any more" in message


@pytest.mark.parametrize(
    "numbers, keys, reason",
    [
        ((3, 4), {"late": -9}, "its b.000004 is not the file that bronze begins in: the bytes from 0 to 600 differ"),
        ((3,), {"late": 99}, "its b.000003 was begun after b.000004"),
        ((3,), {"has_gtids": False}, "its b.000003 is not the file before b.000004: with it the transactions are "),
        ((3,), {"in_use": True}, "was copied while its server was still writing it"),
    ],
)
def test_files_of_another_log_are_refused(
    tmp_path: Path, numbers: tuple[int, ...], keys: dict[str, Any], reason: str
) -> None:
    message = lacking(bronze_from("b.000004:4", folder(tmp_path / "archive", *numbers, **keys)), "b.000003:4")
    assert f"archive cannot be used: {reason}" in message or reason in message
    origin = folder(tmp_path / "right", 3)
    assert fetched(bronze_from("b.000004:4", folder(tmp_path / "w", *numbers, **keys), origin), "b.000003:4") == [
        ("right", "3", "3")
    ], "another origin may have them"


@pytest.mark.parametrize("name", ["b.000001", "b.000003"])
def test_an_archive_with_a_file_that_lacks_its_end_is_refused(tmp_path: Path, name: str) -> None:
    archive = folder(tmp_path / "archive", 1, 2, 3, 4)
    spec = replace(SPEC, changes=[Insert("shop.t", (1,)), Commit()], rotate_to="b.000002")
    end = sum(map(len, spec.events()[2:]))
    path = tmp_path / "archive" / name
    path.write_bytes(path.read_bytes()[:-end])
    assert f"{name} lacks its end, and b.00000{int(name[-1]) + 1} follows it" in lacking(
        bronze_from("b.000004:4", archive)
    )


@pytest.mark.parametrize("keys", [{"late": 99}, {"number": 9}])
def test_an_archive_of_two_logs_is_refused(tmp_path: Path, keys: dict[str, Any]) -> None:
    archive = folder(tmp_path / "archive", 1, 2, 3)
    (tmp_path / "archive" / "b.000002").write_bytes(content(**{"number": 2, **keys, "late": keys.get("late", -28)}))
    message = lacking(bronze_from("b.000004:4", archive))
    assert "archive cannot be used: its b.000003 does not go on where the file before it ends" in message


def test_without_gtids_the_servers_id_tells(tmp_path: Path) -> None:
    plain = content(4, has_gtids=False)
    origin = folder(tmp_path / "other", 3, server_id=2, has_gtids=False)
    message = lacking(bronze_from("b.000004:4", origin, payload=plain[:600]), "b.000003:4")
    assert "its b.000003 is of another server id than b.000004" in message
    own_copies = folder(tmp_path / "own", 3, has_gtids=False)
    assert fetched(bronze_from("b.000004:4", own_copies, payload=plain[:600]), "b.000003:4") == [("own", "3", "3")]


def test_a_flag_for_being_in_use_is_no_difference(tmp_path: Path) -> None:
    source = folder(tmp_path / "source", 3, 4)
    payload = content(4, in_use=True)[:600]
    assert payload != content(4)[:600]
    assert fetched(bronze_from("b.000004:4", source, payload=payload), "b.000003:4") == [("source", "3", "3")]


def test_a_bronze_that_holds_nothing_yet_is_told_by_when_its_file_was_begun(tmp_path: Path) -> None:
    source = folder(tmp_path / "source", 3, 4)
    began = SECOND + 1 + 3 * IN_A_FILE
    index = [{"stretch": 1, "begin": "b.000004:4", "began": began}]
    assert fetched(bronze_from("b.000004:4", source, payload=b"", stretches=index), "b.000003:4")
    index[0]["began"] = began + 1
    message = lacking(bronze_from("b.000004:4", source, payload=b"", stretches=index), "b.000003:4")
    assert "its b.000004 was not begun when the file was in which bronze begins" in message


def test_places_before_bronze_lie_where_all_of_the_log_has_them(tmp_path: Path) -> None:
    archive, source = folder(tmp_path / "archive", 1, 2), folder(tmp_path / "source", 3, 4, 5, 6)
    alone = folder(tmp_path / "alone", 1, 2, 3)
    log = folder(tmp_path / "log", 1, 2, 3, 4, 5, 6)

    def find(text: str, *origins: LogOrigin) -> Position:
        return bronze_from("b.000004:4", *origins).position(parse_location(text), "shop: bronze does not hold it")

    times = [datetime.fromtimestamp(SECOND + n, UTC).isoformat() for n in (2, 5, 6, 9, 10, 12, 13)]
    for text in [*times, *(f"{UUID}:1-{n}" for n in range(1, 13))]:
        positions = {find(text, *origins) for origins in ((log,), (alone,), (archive, source), (source, alone))}
        assert len(positions) == 1, text
    assert find(f"{UUID}:1-12", alone) == Position("b.000004", 4), "where bronze begins"
    early = datetime.fromtimestamp(SECOND - 5, UTC).isoformat()
    with pytest.raises(SourceError) as error:
        find(early, source)
    assert "shop: bronze does not hold it\n  source: " in str(error.value)
    with pytest.raises(SourceError, match=r"archive holds b\.000001 to b\.000002"):
        find(early, archive)
