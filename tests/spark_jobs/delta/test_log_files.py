import errno
import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.delta.log_files import (
    UnsupportedTable,
    create_commit,
    directory,
    opened_by_deltalake,
    read_commit,
    read_log,
    why_not_store,
)
from spark_jobs.errors import LakeError
from spark_jobs.storage.files import StoredPath
from tests.spark_jobs.delta.tables import append, begin


def lay(folder: Path, names: list[str]) -> str:
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for name in names:
        (log / name).write_text(name)
    return str(folder)


def commits(*versions: int) -> list[str]:
    return [f"{version:020}.json" for version in versions]


C10 = "00000000000000000010.checkpoint.parquet"
PARTS = [f"00000000000000000010.checkpoint.{part:010}.0000000002.parquet" for part in (1, 2)]
LEFT = ".00000000000000000001.json.0a.tmp"
"""Of a writer that was killed."""
V2 = "00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"


@pytest.mark.parametrize(
    "names, version, checkpoint, after",
    [
        (commits(0, 1, 2), None, -1, [0, 1, 2]),
        (commits(0, 1, 2), 1, -1, [0, 1]),
        ([*commits(9, 10, 11), C10], None, 10, [11]),
        ([C10], None, 10, []),
        ([*commits(10), C10], 10, 10, []),
        ([*commits(*range(11)), C10], 9, -1, list(range(10))),
        ([*commits(11), *PARTS], None, 10, [11]),
        ([*commits(*range(12)), PARTS[0]], None, -1, list(range(12))),
        ([*commits(*range(12)), V2], None, -1, list(range(12))),
        (["00000000000000000000.crc", ".00000000000000000000.json.crc", *commits(0), LEFT], None, -1, [0]),
    ],
)
def test_files_of_a_version(
    tmp_path: Path, names: list[str], version: int | None, checkpoint: int, after: list[int]
) -> None:
    path = lay(tmp_path / "t", names)
    listing = read_log(path, version)
    assert listing is not None
    assert listing.checkpoint_version == checkpoint
    assert [number for number, _ in listing.commits] == after
    assert listing.version == (after[-1] if after else checkpoint)
    if checkpoint == 10:
        assert {file.name for file in listing.checkpoint} in ({C10}, set(PARTS))


@pytest.mark.parametrize(
    "names, version", [([], None), (["_last_checkpoint"], None), (commits(0), 1), (commits(0, 1), 7)]
)
def test_no_table_or_not_that_version(tmp_path: Path, names: list[str], version: int | None) -> None:
    assert read_log(str(tmp_path / "none")) is None
    assert read_log(lay(tmp_path / "t", names), version) is None


@pytest.mark.parametrize(
    "names, error, match",
    [
        (commits(0, 2), LakeError, "commits before version 2 are missing"),
        (commits(1, 2), LakeError, "restore the table's _delta_log"),
        ([*commits(12), C10], LakeError, "missing"),
        ([*commits(11), V2], UnsupportedTable, "v2Checkpoint"),
    ],
)
def test_a_log_with_a_gap(tmp_path: Path, names: list[str], error: type[LakeError], match: str) -> None:
    with pytest.raises(error, match=match):
        read_log(lay(tmp_path / "t", names))


def hint(path: str, **value: object) -> Path:
    file = Path(path, "_delta_log", "_last_checkpoint")
    file.write_text(json.dumps(value))
    return file


@pytest.mark.parametrize("version, after", [(None, [11, 12]), (12, [11, 12]), (11, [11]), (10, [])])
def test_the_hint_saves_the_listing(
    tmp_path: Path, version: int | None, after: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lay(tmp_path / "t", [*commits(0, 11, 12), C10])
    hint(path, version=10, size=1)

    def listed(log: StoredPath) -> list[str]:
        raise AssertionError(f"{log} is listed")

    monkeypatch.setattr("spark_jobs.delta.log_files.files.names", listed)
    listing = read_log(path, version)
    assert listing is not None
    assert (listing.checkpoint_version, [number for number, _ in listing.commits]) == (10, after)
    for elsewhere in (9, 13):
        with pytest.raises(AssertionError, match="_delta_log is listed"):
            read_log(path, elsewhere)


def test_the_hint_names_parts(tmp_path: Path) -> None:
    path = lay(tmp_path / "t", [*commits(11), *PARTS])
    hint(path, version=10, size=1, parts=2)
    listing = read_log(path)
    assert listing is not None
    assert [file.name for file in listing.checkpoint] == PARTS


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', '{"version": "x"}', "null"])
def test_a_hint_that_cannot_be_used_is_not_needed(tmp_path: Path, text: str) -> None:
    path = lay(tmp_path / "t", [*commits(11), C10])
    Path(path, "_delta_log", "_last_checkpoint").write_text(text)
    listing = read_log(path)
    assert listing is not None
    assert listing.version == 11


def test_a_checkpoint_that_cannot_be_looked_at_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / "_last_checkpoint").write_text('{"version": 4, "size": 1}')

    def broken(path: Path) -> bool:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Path, "exists", broken)
    with pytest.raises(LakeError, match=rf"^{tmp_path}: cannot be read: Input/output error"):
        read_log(str(tmp_path))


def test_an_old_hint_hides_no_later_commits(tmp_path: Path) -> None:
    path = lay(tmp_path / "t", [*commits(21), C10, C10.replace("10", "20")])
    old = time.time() - 100_000
    os.utime(hint(path, version=10, size=1), (old, old))
    listing = read_log(path)
    assert listing is not None
    assert listing.version == 21


@pytest.mark.parametrize(
    "path, folder",
    [("/a/b", "/a/b"), ("file:/a/b", "/a/b"), ("file:///a/b%20c", "/a/b c"), ("/a/b%20c", "/a/b%20c"), ("a/b", "a/b")],
)
def test_folders(path: str, folder: str) -> None:
    assert why_not_store(path) is None
    assert directory(path) == Path(folder)


@pytest.mark.parametrize("path", ["wasb://b/t", "hdfs://n/t"])
def test_other_stores_are_refused(path: str) -> None:
    assert why_not_store(path)
    with pytest.raises(UnsupportedTable, match="are not read or written"):
        directory(path)
    with pytest.raises(UnsupportedTable):
        read_log(path)


def test_a_version_is_created_once(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "t")
    assert create_commit(path, 0, b"first")
    assert not create_commit(path, 0, b"second")
    assert read_commit(path, 0) == b"first"
    assert read_commit(path, 1) is None
    assert [file.name for file in Path(path, "_delta_log").iterdir()] == commits(0)


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    path = str(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        for version in range(20):
            wins = list(pool.map(lambda at, v=version: create_commit(path, v, b"%d" % at), range(8)))
            assert wins.count(True) == 1
            assert read_commit(path, version) == b"%d" % wins.index(True)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a file")
    with pytest.raises(LakeError, match="cannot be written"):
        create_commit(str(tmp_path / "t"), 0, b"")


def test_a_commit_whose_request_was_sent_again_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS, where the answer to the first request was lost: the second says that the name exists."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert create_commit(str(tmp_path), 0, b"{}\n")
    assert not create_commit(str(tmp_path), 0, b"other\n")
    assert read_commit(str(tmp_path), 0) == b"{}\n"
    assert [path.name for path in (tmp_path / "_delta_log").iterdir()] == [f"{0:020}.json"]


def test_a_commit_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "_delta_log" / f"{0:020}.json").mkdir(parents=True)
    with pytest.raises(LakeError, match="cannot be read: Is a directory"):
        read_commit(str(tmp_path), 0)
    assert read_commit(str(tmp_path), 1) is None


def test_a_commit_whose_directory_is_not_synced_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the file system syncs none."""
    fsync = os.fsync

    def failing(code: int, handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", partial(failing, errno.EINVAL))
    assert create_commit(str(tmp_path), 0, b"{}\n")
    monkeypatch.setattr(os, "fsync", partial(failing, errno.EIO))
    with pytest.raises(LakeError, match="cannot be written: Input/output error"):
        create_commit(str(tmp_path), 1, b"{}\n")


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_commit_is_not_taken_for_one_without_changes(tmp_path: Path, content: bytes) -> None:
    assert create_commit(str(tmp_path), 0, b"{}\n")
    (tmp_path / "_delta_log" / f"{1:020}.json").write_bytes(content)
    message = "version 1 of its log is empty; restore the table's _delta_log"
    with pytest.raises(LakeError, match=message):
        read_log(str(tmp_path))
    with pytest.raises(LakeError, match=message):
        read_commit(str(tmp_path), 1)


def test_a_version_that_is_missing_before_later_ones_is_not_made_anew(tmp_path: Path) -> None:
    """A hint to a checkpoint lets a reader end at the gap."""
    for version in range(3):
        assert create_commit(str(tmp_path), version, b"{}\n")
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LakeError, match="version 1 is missing from its log, which has a later one; restore"):
        create_commit(str(tmp_path), 1, b"{}\n")


def test_deltalake_does_not_get_a_log_with_an_empty_commit(tmp_path: Path) -> None:
    """It would read the table without what that commit had."""
    for at in range(3):
        deltalake.write_deltalake(tmp_path, pa.table({"a": [at]}), mode="append")
    commit = tmp_path / "_delta_log" / f"{1:020}.json"
    content = commit.read_bytes()
    commit.write_bytes(b"")
    with pytest.raises(LakeError, match="version 1 of its log is empty; restore the table's _delta_log"):
        opened_by_deltalake(str(tmp_path))
    commit.write_bytes(content)
    opened_by_deltalake(str(tmp_path)).create_checkpoint()
    commit.write_bytes(b"")
    assert opened_by_deltalake(str(tmp_path)).to_pyarrow_table().num_rows == 3, "a checkpoint has what it had"


def test_commits_that_a_checkpoint_covers_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may have thousands, and deltalake is asked for a table in each round of a follower."""
    snapshot = begin(str(tmp_path / "t"))
    for key in range(13):
        snapshot = append(snapshot, [key])
    asked, stat_of = set[str](), Path.stat

    def noted(path: Path, **options: bool) -> os.stat_result:
        asked.add(path.name)
        return stat_of(path, **options)

    monkeypatch.setattr(Path, "stat", noted)
    assert opened_by_deltalake(snapshot.path).version() == 12
    assert {name for name in asked if name.endswith(".json")} == {f"{11:020}.json", f"{12:020}.json"}
