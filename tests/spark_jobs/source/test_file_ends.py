"""Folders in which a file lacks its end, and the next one is there."""

import struct
from pathlib import Path

import pytest

from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.source.file_ends import require_ends
from spark_jobs.source.files import Files
from tests.binlogs import mariadb_logs
from tests.binlogs.gtid_logs import file_of, land

FLAGS = 21


def in_use(content: bytes) -> bytes:
    return content[:FLAGS] + bytes([content[FLAGS] | 1]) + content[FLAGS + 1 :]


def stopped(content: bytes, footer: int = 4) -> bytes:
    """A file that a server closed at its shutdown."""
    return content + struct.pack("<IBIIIH", 1_700_000_000, 3, 1, 19 + footer, 0, 0) + bytes(footer)


def folder(tmp_path: Path, *contents: bytes) -> Files:
    (tmp_path / "log").mkdir(exist_ok=True)
    for number, content in enumerate(contents, 1):
        (tmp_path / "log" / f"b.{number:06d}").write_bytes(content)
    return Files("shop", tmp_path / "log")


def require(source: Files, start: str = "b.000001:4") -> None:
    require_ends(source, source.log(), Position.parse(start))


ENDED = file_of("", ["a:1"], "b.000002")
CRASHED = file_of("", ["a:1"])


@pytest.mark.parametrize(
    "contents",
    [
        (ENDED, file_of("a:1", ["a:2"])),
        (stopped(CRASHED), file_of("a:1", ["a:2"])),
        (stopped(CRASHED, footer=0), file_of("a:1-2", ["a:3"])),
        # A server that crashed closes no file; the next one says which transactions came before it.
        (CRASHED, file_of("a:1", ["a:2"])),
        (file_of("a:1-7 b:3", ["a:8", "b:4"]), file_of("a:1-8 b:3-4", [])),
        (file_of("", ["-", "-"]), file_of("", ["-"])),
        (mariadb_logs.file_of("0-1-1", "0-1-2 1-1-7"), mariadb_logs.file_of("0-1-2 1-1-7", "0-1-3")),
        (in_use(mariadb_logs.file_of("", "0-1-1")), mariadb_logs.file_of("0-1-1", "0-1-2")),
        # The last file may end anywhere.
        (ENDED, in_use(file_of("a:1", ["a:2"]))),
    ],
)
def test_files_that_go_on_in_the_next_one(tmp_path: Path, contents: tuple[bytes, ...]) -> None:
    require(folder(tmp_path, *contents))


@pytest.mark.parametrize("is_in_use", [False, True])
@pytest.mark.parametrize(
    "first, second, reason",
    [
        (CRASHED, file_of("a:1-2", ["a:3"]), r"names .*:1-2 before it, and with b\.000001 they are .*:1\."),
        (
            file_of("a:1-3", ["a:4", "a:5"]),
            file_of("a:1-6", []),
            r":1-6 before it, and with b\.000001 they are .*:1-5\.",
        ),
        (CRASHED, file_of("", ["-"]), r"names none before it, and with b\.000001 they are .*:1\."),
        (file_of("", ["-"]), file_of("a:1", []), r"names .*:1 before it, and with b\.000001 they are none\."),
        (mariadb_logs.file_of("", "0-1-1"), mariadb_logs.file_of("0-1-2", "0-1-3"), "names 0-1-2 before it, .* 0-1-1"),
        (mariadb_logs.file_of("0-1-4", "0-1-5"), mariadb_logs.file_of("0-2-5", ""), "names 0-2-5 before it, .* 0-1-5"),
    ],
)
def test_a_file_that_lacks_transactions_before_the_next_one(
    tmp_path: Path, first: bytes, second: bytes, reason: str, is_in_use: bool
) -> None:
    source = folder(tmp_path, in_use(first) if is_in_use else first, second)
    with pytest.raises(SourceError, match=rf"^shop: .*b\.000001 lacks its end, and b\.000002 follows it: .*{reason}"):
        require(source)


def test_without_gtids_the_flag_for_being_in_use_tells(tmp_path: Path) -> None:
    source = folder(tmp_path, in_use(file_of("", ["-"])), file_of("", ["-"]))
    with pytest.raises(
        SourceError, match=r"b\.000001 lacks its end, .* and it is marked as being in use\. .*copy it again"
    ):
        require(source)


def test_only_files_from_the_position_on_are_looked_at(tmp_path: Path) -> None:
    source = folder(tmp_path, CRASHED, file_of("a:1-2", ["a:3"], "b.000003"), file_of("a:1-3", []))
    require(source, "b.000002:4")
    with pytest.raises(SourceError, match=r"b\.000001 lacks its end"):
        require(source, f"b.000001:{len(CRASHED)}")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_copy_that_stays_as_it_was_at_first_loses_nothing(tmp_path: Path, is_first: bool) -> None:
    """cp --no-clobber, rsync --ignore-existing. The whole copy is read where the part of it was."""
    bronze = Lake(str(tmp_path / "lake")).bronze("shop")
    source = folder(tmp_path, in_use(CRASHED))
    if not is_first:
        land(bronze, source)
    folder(tmp_path, in_use(CRASHED), file_of("a:1-2", ["a:3"]))
    with pytest.raises(SourceError, match=r"b\.000001 lacks its end"):
        land(bronze, source)
    folder(tmp_path, file_of("", ["a:1", "a:2"], "b.000002"))
    assert land(bronze, source).range.stop == source.log().end
