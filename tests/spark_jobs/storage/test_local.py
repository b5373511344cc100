import errno
import os
from pathlib import Path

import pytest

from spark_jobs.storage import local


def test_directories_are_durable_with_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(local, "sync_directory", synced.append)
    local.make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    local.make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "folder/file"
    local.replace(target, b"first")
    local.replace(target, b"second")
    assert target.read_bytes() == b"second"
    assert [file.name for file in target.parent.iterdir()] == ["file"]


def test_a_file_that_cannot_be_replaced_stays_and_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    local.replace(target, b"first")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        local.replace(target, b"second")
    assert (target.read_bytes(), [file.name for file in tmp_path.iterdir()]) == (b"first", ["file"])


def test_files_that_are_written_together_are_new_ones(tmp_path: Path) -> None:
    local.write_all(tmp_path / "folder", {"a": b"1", "b": b"2"})
    assert {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()} == {"a": b"1", "b": b"2"}
    with pytest.raises(FileExistsError):
        local.write_all(tmp_path / "folder", {"b": b"3"})
