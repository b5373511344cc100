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


def test_names_of_directories_that_another_writer_has_just_made_are_durable_before_a_first_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Path, bool]] = []
    target = tmp_path / "a" / "b" / "0.json"
    target.parent.mkdir(parents=True)
    monkeypatch.setattr(local, "sync_directory", lambda folder: synced.append((folder, target.exists())))
    assert local.create(target, b"first", is_first=True)
    assert synced[:2] == [(tmp_path / "a", False), (tmp_path, False)]
    assert synced[-1] == (target.parent, True)
    # This process knows them now, and makes those again that were removed meanwhile.
    target.unlink()
    synced.clear()
    assert local.create(target, b"first", is_first=True)
    assert synced == [(target.parent, True)]
    target.unlink()
    target.parent.rmdir()
    (tmp_path / "kept").mkdir()  # takes the inode
    target.parent.mkdir()
    synced.clear()
    assert local.create(target, b"first", is_first=True)
    assert synced == [(tmp_path / "a", False), (target.parent, True)]


@pytest.fixture
def durable_steps(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is synced, as the bytes of a file or the names of a folder at that moment, and ``link``, in order."""
    steps: list[object] = []
    link = os.link

    def fsync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        steps.append(sorted(file.name for file in path.iterdir()) if path.is_dir() else path.read_bytes())

    def linking(source: Path, target: Path) -> None:
        link(source, target)
        steps.append("link")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", linking)
    return steps


def test_a_created_file_is_durable_before_its_name(tmp_path: Path, durable_steps: list[object]) -> None:
    assert local.create(tmp_path / "file", b"content")
    assert durable_steps == [b"content", "link", ["file"]]


def test_a_created_file_whose_answer_was_lost_is_durable(
    tmp_path: Path, durable_steps: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees it goes on from it: without its name a power cut would take it from under what came after."""
    link = os.link

    def linking(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(errno.EIO, "the answer was lost")

    monkeypatch.setattr(os, "link", linking)
    assert local.create(tmp_path / "file", b"content")
    assert durable_steps == [b"content", "link", ["file"]]


def test_a_file_that_is_not_created_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Path) -> None:
        raise OSError(errno.EIO, "nothing was done")

    monkeypatch.setattr(os, "link", failing)
    with pytest.raises(OSError, match="nothing was done"):
        local.create(tmp_path / "file", b"content")
    assert not [*tmp_path.iterdir()]


def test_a_file_that_was_written_is_durable_with_its_name(tmp_path: Path, durable_steps: list[object]) -> None:
    with local.durable(tmp_path / "file") as sink:
        sink.write(b"content")
    assert durable_steps == [b"content", ["file"]]


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


def test_a_second_name_is_durable_and_as_new(tmp_path: Path, durable_steps: list[object]) -> None:
    source, target = tmp_path / "file", tmp_path / "folder/ä/file"
    source.write_bytes(b"content")
    os.utime(source, (0, 0))
    local.link(source, target)
    assert durable_steps[-2:] == ["link", ["file"]]
    assert target.samefile(source)
    assert local.age(target) < 60
    local.link(source, target)
    assert durable_steps[-1] == ["file"], "whoever gave it the name may not have come to this"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM])
def test_a_file_that_cannot_have_a_second_name_is_copied(
    tmp_path: Path, durable_steps: list[object], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refused)
    source, target = tmp_path / "file", tmp_path / "folder/file"
    source.write_bytes(b"content")
    for _ in range(2):
        local.link(source, target)
        assert (target.read_bytes(), target.samefile(source)) == (b"content", False)
    assert b"content" in durable_steps
    assert durable_steps[-1] == ["file"]


def test_a_second_name_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        local.link(tmp_path / "gone", tmp_path / "file")
