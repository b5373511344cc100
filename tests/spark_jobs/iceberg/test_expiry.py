import os
import time
from pathlib import Path

import pytest
from pyroaring import BitMap64

from spark_jobs.delta import deletion_vectors, vacuum
from spark_jobs.delta.commits import commit
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.errors import LostRace
from spark_jobs.iceberg import expiry, metadata_files
from spark_jobs.iceberg.table_view import FIRST_ID, show
from tests.lakes.iceberg_readers import by_delta, by_duckdb, by_pyiceberg
from tests.spark_jobs.delta.tables import MAPPED, append, begin, newest

DAY = 86_400
TYPES = {"key": "BIGINT", "text": "STRING", "_raw": "MAP<STRING, STRING>"}


def aged(folder: Path, seconds: int) -> None:
    """Makes the files of a table so much older, and what its log and metadata say of times."""
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, (time.time() - seconds, time.time() - seconds))


def commits(path: str, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """A table of six versions, one a day, the newest of now; its first file went in version 3."""
    now = time.time()
    snapshot = begin(path, MAPPED, TYPES)
    for version in range(6):
        monkeypatch.setattr(time, "time", lambda at=version: now - (5 - at) * DAY)
        if version == 2:
            [vector] = deletion_vectors.write(path, [BitMap64([1])])
            snapshot = newest(path, commit(snapshot, dv_updates=[(snapshot.files[0], vector)]))
        elif version == 3:
            marked = [file for file in snapshot.files if file.deletion_vector]
            snapshot = newest(path, commit(snapshot, removes=marked))
        else:
            snapshot = append(snapshot, range(version * 10, version * 10 + 3))
        show(path)
    monkeypatch.undo()
    aged(Path(path), 6 * DAY)
    return snapshot


def versions(path: str) -> list[int]:
    present = metadata_files.newest(path)
    assert present is not None
    return [snapshot["snapshot-id"] - FIRST_ID for snapshot in present.document["snapshots"]]


def expire(path: str, hours: int, pinned: tuple[int, ...] = ()) -> None:
    """Removes snapshots, and what they alone needed, as maintenance does."""
    expiry.expire_snapshots(path, hours, pinned)
    expiry.remove_unneeded(path, hours)


@pytest.mark.parametrize(
    "hours, pinned, remaining",
    [(24 * 9, (), [0, 1, 2, 3, 4, 5]), (60, (), [2, 3, 4, 5]), (1, (), [4, 5]), (1, (1,), [1, 4, 5])],
)
def test_snapshots_go_with_the_files_of_their_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int, pinned: tuple[int, ...], remaining: list[int]
) -> None:
    path = str(tmp_path / "t")
    snapshot = commits(path, monkeypatch)
    expected = {version: by_delta(path, version) for version in remaining}
    expire(path, hours, pinned)
    assert versions(path) == remaining
    pinned_snapshots = [older for version in pinned if (older := snapshot_of(path, version))]
    vacuum.remove(path, vacuum.unnamed_files(snapshot, vacuum.list_files(snapshot), hours, pinned_snapshots))
    for version in remaining:
        assert by_pyiceberg(path, version) == expected[version]
        assert by_duckdb(path, version) == expected[version]
    assert by_duckdb(path) == expected[5]


def test_metadata_that_no_snapshot_needs_goes_once_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    commits(path, monkeypatch)
    folder = tmp_path / "t/metadata"
    (folder / "data-0-of-1-of-a-writer-that-was-killed.avro").write_bytes(b"")
    expire(path, 1)
    aged(folder, DAY)
    expire(path, 1)
    assert versions(path) == [4, 5]
    lists = sorted(file.name.rpartition("-")[0].split("-")[1] for file in folder.glob("snap-*"))
    assert {version[:1] for version in lists} == {"4", "5"}
    assert not list(folder.glob("*killed*"))
    assert [file.name for file in folder.glob("v*.json")] == ["v7.metadata.json"]
    assert not list(folder.glob("*.puffin"))
    assert by_duckdb(path) == by_pyiceberg(path) == by_delta(path)


def test_young_files_stay_since_a_writer_may_be_about_to_name_them(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(begin(path, MAPPED, TYPES), range(3))
    show(path)
    unnamed = tmp_path / "t/metadata/snap-9-x.avro"
    unnamed.write_bytes(b"")
    expire(path, 1)
    assert unnamed.exists()


def test_a_writer_that_was_first_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    commits(path, monkeypatch)
    monkeypatch.setattr(metadata_files, "create", lambda *_: False)
    with pytest.raises(LostRace, match="came first"):
        expire(path, 1)


def test_vacuum_leaves_metadata_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    snapshot = commits(path, monkeypatch)
    unnamed = vacuum.unnamed_files(snapshot, vacuum.list_files(snapshot), 1)
    folders = {str(file).removeprefix(f"{path}/").rpartition("/")[0] for file in unnamed}
    assert folders == {""}


def test_all_metadata_goes_of_a_table_that_is_not_shown_any_more(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(begin(path, MAPPED, TYPES), range(3))
    expiry.remove(path)
    show(path)
    expiry.remove(path)
    assert list((tmp_path / "t/metadata").iterdir()) == []
    expire(path, 1)
    assert [row["key"] for row in by_delta(path)] == [0, 1, 2]


def test_metadata_goes_whose_hint_went_in_a_removal_that_was_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(begin(path, MAPPED, TYPES), range(3))
    show(path)
    (tmp_path / "t/metadata/version-hint.text").unlink()
    expiry.remove(path)
    assert list((tmp_path / "t/metadata").iterdir()) == []
