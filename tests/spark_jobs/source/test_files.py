import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.errors import ChecksumMismatch, DecodeError, SourceError, Truncated
from spark_jobs.log.position import Position
from spark_jobs.source import files, protocol
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import FilePart, Log, last_boundary
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

TABLE = Table("shop.t", key=["id"], id=INT.NOT_NULL)
CHANGES: Sequence[Change] = [Insert("shop.t", (1,)), Commit(), Insert("shop.t", (2,)), Commit()]
SPEC = SegmentSpec(tables=[TABLE], changes=CHANGES)
OPEN = replace(SPEC, in_use=True, rotate_to="")


def filled(folder: Path, *names: str, last: bytes | None = None) -> Files:
    """A directory of binlog files, the last one open unless its bytes are given."""
    for at, name in enumerate(names):
        (folder / name).write_bytes(
            SPEC.to_bytes() if at < len(names) - 1 else OPEN.to_bytes() if last is None else last
        )
    return Files("shop", folder)


def listed(log: Log) -> list[str]:
    return [file.name for file in log.files]


def refused(source: Files) -> str:
    with pytest.raises(SourceError) as error:
        source.log()
    return str(error.value)


def read(source: Files, part: FilePart) -> bytes:
    return b"".join(source.reading()(part)[1])


def commits(spec: SegmentSpec) -> list[int]:
    """Offsets after each transaction: its XID is an event of type 16."""
    ends = spec.offsets()[1:]
    return [end for event, end in zip(spec.events(), ends, strict=True) if event[4] == 16]


def test_the_log_is_its_files_in_order_up_to_the_last_transaction(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000009", "mysql-bin.000010", "mysql-bin.000011")
    log = source.log()
    assert listed(log) == ["mysql-bin.000009", "mysql-bin.000010", "mysql-bin.000011"]
    assert [file.size for file in log.files] == [len(SPEC.to_bytes())] * 2 + [len(OPEN.to_bytes())]
    assert (log.first, log.end) == (Position("mysql-bin.000009", 4), Position("mysql-bin.000011", len(OPEN.to_bytes())))
    assert (log.source, log.uuid) == ("shop", None)


def test_a_large_last_file_is_read_in_parts_that_end_where_transactions_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = Table("shop.w", key=["id"], id=INT.NOT_NULL, note=VARCHAR(4000))
    changes = [change for id_ in range(1500) for change in (Insert("shop.w", (id_, "x" * 2500)), Commit())]
    spec = SegmentSpec(tables=[wide], changes=changes, in_use=True, rotate_to="")
    monkeypatch.setattr(files, "CHUNK", 1 << 18)
    monkeypatch.setattr(protocol, "PART_BYTES", 1 << 19)
    source = filled(tmp_path, "mysql-bin.000001", "mysql-bin.000002", last=spec.to_bytes())
    log, ends = source.log(), {0, *commits(spec)}
    first, *parts = log.parts_from(log.first)
    assert first == FilePart("mysql-bin.000001", 0, len(SPEC.to_bytes()))
    assert len(parts) > 2
    assert all({part.start, part.stop} <= ends and part.stop - part.start >= 1 << 19 for part in parts)
    assert b"".join(read(source, part) for part in parts) == spec.to_bytes()
    for part in parts:
        assert last_boundary(source.reading(), part) == part.stop
    # From a boundary inside, and up to one: the parts are those of that range.
    middle = sorted(ends)[500]
    (start, *_, last) = log.parts_from(Position("mysql-bin.000002", middle))
    assert (start.start, last.stop) == (middle, len(spec.to_bytes()))
    shorter = log.up_to(Position("mysql-bin.000002", middle)).parts_from(log.first)
    assert shorter[-1].stop == middle
    assert shorter[-1].stop - shorter[-1].start >= 1 << 19
    before = log.up_to(Position("mysql-bin.000001", len(SPEC.to_bytes())))
    assert before.parts_from(log.first) == [first]


def test_a_closed_last_file_is_read_past_its_rotate(tmp_path: Path) -> None:
    assert filled(tmp_path, "a.000001", last=SPEC.to_bytes()).log().end == Position("a.000001", len(SPEC.to_bytes()))


def test_numbers_give_the_order_where_they_grow_a_digit(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.999999", "mysql-bin.1000000")
    assert listed(source.log()) == ["mysql-bin.999999", "mysql-bin.1000000"]


def test_other_files_are_not_the_logs(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000001")
    for name in ("mysql-bin.index", "notes.txt", "ibdata1", "mysql-bin.00001", "mysql-bin.000001.gz", "a.~rec~"):
        (tmp_path / name).write_text("x")
    (tmp_path / "mysql-bin.000002").mkdir()
    assert listed(source.log()) == ["mysql-bin.000001"]


def test_the_index_tells_which_base_name_is_the_logs(tmp_path: Path) -> None:
    source = filled(tmp_path, "relay-bin.000007", "mysql-bin.000001", "mysql-bin.000002")
    assert refused(source) == (f"shop: {tmp_path} holds several logs (mysql-bin, relay-bin); give each its own folder")
    (tmp_path / "mysql-bin.index").write_text("./mysql-bin.000001\n./mysql-bin.000002\n")
    assert listed(source.log()) == ["mysql-bin.000001", "mysql-bin.000002"]
    (tmp_path / "relay-bin.index").write_text("./relay-bin.000007\n")
    assert "holds several logs" in refused(source)


def test_a_missing_file_is_a_hole(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000001", "mysql-bin.000002", "mysql-bin.000004")
    assert refused(source) == (
        "shop: a file is missing between mysql-bin.000002 and mysql-bin.000004; restore it and run again"
    )


def test_an_empty_directory_holds_no_log(tmp_path: Path) -> None:
    assert refused(Files("shop", tmp_path)) == (f"shop: {tmp_path} holds no binlog files (named like mysql-bin.000001)")


@pytest.mark.parametrize(
    "make, reason", [(lambda path: None, "No such file or directory"), (lambda path: path.touch(), "Not a directory")]
)
def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path, make: object, reason: str) -> None:
    folder = tmp_path / "logs"
    assert callable(make)
    make(folder)
    assert refused(Files("shop", folder)) == f"shop: {folder} cannot be read: {reason}"


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000001")
    reading = source.reading()
    (tmp_path / "mysql-bin.000001").unlink()
    for part in (FilePart("mysql-bin.000001", 0, 100), FilePart("mysql-bin.000001", 50, 100)):
        with pytest.raises(SourceError) as error:
            b"".join(reading(part)[1])
        missing = tmp_path / "mysql-bin.000001"
        assert str(error.value) == f"mysql-bin.000001: {missing} cannot be read: No such file or directory"


def test_a_file_that_is_no_binlog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DecodeError) as error:
        filled(tmp_path, "mysql-bin.000001", last=b"PK\x03\x04 and more").log()
    assert str(error.value) == ("mysql-bin.000001: not a binlog: it begins with 50 4b 03 04, not fe 62 69 6e")


@pytest.mark.parametrize("cut", [1, 30, 90])
def test_an_open_file_counts_up_to_its_last_whole_transaction(tmp_path: Path, cut: int) -> None:
    source = filled(tmp_path, "mysql-bin.000001", last=OPEN.to_bytes()[:-cut])
    assert source.log().end == Position("mysql-bin.000001", commits(OPEN)[0])


def test_the_end_moves_with_the_file(tmp_path: Path) -> None:
    content, first = OPEN.to_bytes(), commits(OPEN)[0]
    assert filled(tmp_path, "a.000001", last=content[:first]).log().end.offset == first
    assert filled(tmp_path, "a.000001", last=content).log().end.offset == len(content)
    damaged = content[:-1] + bytes([content[-1] ^ 1])  # as large as before
    with pytest.raises(ChecksumMismatch):
        filled(tmp_path, "a.000001", last=damaged).log()


def test_a_log_that_is_held_to_its_end_is_not_read(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000009", "mysql-bin.000010")
    end = source.log().end
    # No reader would take these bytes; their number is what it was.
    (tmp_path / end.file).write_bytes(bytes(end.offset))
    assert source.log(end).end == end
    with pytest.raises(DecodeError, match="not a binlog"):
        source.log(Position("mysql-bin.000009", end.offset))
    with pytest.raises(DecodeError, match="not a binlog"):
        source.log(Position(end.file, end.offset - 1))


def test_a_closed_file_that_is_cut_is_an_error_with_its_place(tmp_path: Path) -> None:
    closed = replace(SPEC, rotate_to="").to_bytes()
    with pytest.raises(DecodeError) as error:
        filled(tmp_path, "mysql-bin.000001", last=closed[:-10]).log()
    end, event = commits(SPEC)[0], replace(SPEC, rotate_to="").offsets()[-2]
    assert str(error.value) == (
        f"shop: mysql-bin.000001:{event}: the file ends inside the event that begins there, "
        f"{len(closed) - 10 - event} bytes after its start, of the transaction that begins at {end}; "
        "copy the file again"
    )


@pytest.mark.parametrize("size", [0, 3, 4, 20, 60])
def test_a_last_file_without_its_head_yet_is_left_for_the_next_run(tmp_path: Path, size: int) -> None:
    """What a server has just begun, or a copy of it: the log ends with the file before."""
    source = filled(tmp_path, "mysql-bin.000001", "mysql-bin.000002", last=OPEN.to_bytes()[:size])
    log = source.log()
    assert log.end == Position("mysql-bin.000001", len(SPEC.to_bytes()))
    assert listed(log) == ["mysql-bin.000001"]


def test_one_file_without_its_head_is_cut(tmp_path: Path) -> None:
    with pytest.raises(Truncated) as error:
        filled(tmp_path, "mysql-bin.000001", last=OPEN.to_bytes()[:60]).log()
    assert str(error.value) == (
        "shop: mysql-bin.000001: the file ends inside its head, at byte 60; it is cut, or just being begun"
    )


def test_a_flipped_byte_is_a_checksum_error(tmp_path: Path) -> None:
    content = bytearray(SPEC.to_bytes())
    offset = SPEC.offsets()[4]
    content[offset + 25] ^= 1
    with pytest.raises(ChecksumMismatch, match=rf"^mysql-bin\.000001:{offset}: "):
        filled(tmp_path, "mysql-bin.000001", last=bytes(content)).log()


def test_a_part_is_the_files_bytes_and_its_format(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000001", last=SPEC.to_bytes())
    content, middle = SPEC.to_bytes(), commits(SPEC)[0]
    assert read(source, FilePart("mysql-bin.000001", 0, len(content))) == content
    assert read(source, FilePart("mysql-bin.000001", middle, len(content))) == content[middle:]
    assert read(source, FilePart("mysql-bin.000001", 0, middle)) == content[:middle]
    assert source.reading()(FilePart("mysql-bin.000001", 0, middle))[0] is None
    format_, _ = source.reading()(FilePart("mysql-bin.000001", middle, len(content)))
    assert format_ is not None
    assert (format_.server_version, format_.checksum) == ("8.0.36", True)


def test_a_part_beyond_the_files_end_is_not_cut_in_silence(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000001", last=SPEC.to_bytes())
    size = len(SPEC.to_bytes())
    with pytest.raises(SourceError) as error:
        read(source, FilePart("mysql-bin.000001", 0, size + 1))
    assert str(error.value) == f"mysql-bin.000001:{size}: the file became shorter while it was read"


def test_tasks_get_a_reading_that_pickles(tmp_path: Path) -> None:
    source = filled(tmp_path, "mysql-bin.000001", last=SPEC.to_bytes())
    reading = pickle.loads(pickle.dumps(source.reading()))  # noqa: S301 - our own bytes
    assert b"".join(reading(FilePart("mysql-bin.000001", 0, 4))[1]) == b"\xfebin"


@pytest.mark.parametrize("name", [b"b\xff.000001", b"b:1.000001", b"b\x1b[31m.000001"])
def test_a_log_whose_files_no_position_can_name_is_refused(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(b"\xfebin")
    with pytest.raises(SourceError) as refused:
        Files("shop", tmp_path).log()
    assert "is not UTF-8, or has a colon or control characters" in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_file_that_another_one_follows_is_listed_with_its_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server goes on to the next file while the folder is listed."""
    source = filled(tmp_path, "mysql-bin.000001", last=OPEN.to_bytes())

    @contextmanager
    def scandir(folder: Path) -> Iterator[Iterator[Entry]]:
        def entries() -> Iterator[Entry]:
            yield Entry(folder / "mysql-bin.000001")
            filled(tmp_path, "mysql-bin.000001", "mysql-bin.000002", last=OPEN.to_bytes())
            yield Entry(folder / "mysql-bin.000002")

        yield entries()

    monkeypatch.setattr(os, "scandir", scandir)
    assert [file.size for file in source.log().files] == [len(SPEC.to_bytes()), len(OPEN.to_bytes())]
    assert len(SPEC.to_bytes()) > len(OPEN.to_bytes())


class Entry:
    """An entry of a folder."""

    def __init__(self, path: Path) -> None:
        self.name, self.is_file, self.stat = path.name, path.is_file, path.stat
