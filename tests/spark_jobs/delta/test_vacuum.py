"""Which files of a table's folder no version within reach names."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from spark_jobs.delta import change_data, commits, data_files, deletion_vectors, vacuum
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.storage.files import StoredPath
from tests.spark_jobs.delta.tables import MAPPED, all_rows, append, begin, newest, rows

WEEK = 7 * 24


def aged(path: str, hours: int) -> None:
    """Every file of the table's folder was written so long ago."""
    written_at = time.time() - hours * 3600
    for file in Path(path).rglob("*"):
        os.utime(file, (written_at, written_at))


def replaced(snapshot: Snapshot, removes: Sequence[DataFile]) -> Snapshot:
    file = data_files.write(snapshot.path, rows(snapshot.schema, range(3)), snapshot.schema, snapshot.configuration)
    return newest(snapshot.path, commits.commit(snapshot, adds=[file], removes=removes))


def names(snapshot: Snapshot, hours: int, versions: Sequence[Snapshot] = ()) -> set[str]:
    return {
        Path(str(file)).name for file in vacuum.unnamed_files(snapshot, vacuum.list_files(snapshot), hours, versions)
    }


def unneeded_log(snapshot: Snapshot, pinned: Sequence[int] = ()) -> list[StoredPath]:
    return vacuum.unneeded_log(snapshot, vacuum.list_files(snapshot), pinned)


def name_of(snapshot: Snapshot, file: DataFile) -> str:
    return file.location(snapshot.path).name


@pytest.fixture
def first(tmp_path: Path) -> Snapshot:
    return append(begin(str(tmp_path / "t")), range(10))


def test_what_was_removed_lately_stays_and_goes_when_its_time_is_over(first: Snapshot) -> None:
    second = replaced(first, first.files)
    aged(first.path, 2 * WEEK)
    assert names(second, WEEK) == set(), "it was removed just now"
    assert names(second, 0) == {name_of(first, first.files[0])}
    assert names(second, 0, [first]) == set(), "somebody reads the version before"
    vacuum.remove(second.path, vacuum.unnamed_files(second, vacuum.list_files(second), 0))
    assert names(second, 0) == set()
    assert [row["key"] for row in all_rows(second)] == [0, 1, 2]


def test_files_that_a_commit_may_be_about_to_name_stay(first: Snapshot) -> None:
    file = data_files.write(first.path, rows(first.schema, [7]), first.schema, first.configuration)
    assert names(first, 1) == set()
    aged(first.path, 2)
    assert names(first, 1) == {name_of(first, file)}


def test_files_of_changes_go_when_their_time_is_over(first: Snapshot) -> None:
    changes = rows(first.schema, [7]).append_column("_change_type", pa.array(["insert"]))
    file = change_data.write(first.path, changes, first.schema, first.configuration)
    second = newest(first.path, commits.commit(first, changes=[file]))
    assert names(second, 1) == set()
    aged(first.path, 2)
    assert names(second, 3) == set()
    assert names(second, 1) == {Path(file.path).name}


def test_vectors_stay_with_their_files(first: Snapshot) -> None:
    (vector,) = deletion_vectors.write(first.path, [BitMap64([1, 2])], first.configuration)
    (wider,) = deletion_vectors.write(first.path, [BitMap64([1, 2, 3])], first.configuration)
    marked = newest(first.path, commits.commit(first, dv_updates=[(first.files[0], vector)]))
    remarked = newest(first.path, commits.commit(marked, dv_updates=[(marked.files[0], wider)]))
    aged(first.path, 2 * WEEK)
    assert names(remarked, WEEK) == set()
    assert names(remarked, 0, [marked]) == set()
    assert names(remarked, 0) == {vector.location(first.path).name}


@pytest.mark.parametrize("retention, is_forgotten", [("interval 1 week", False), ("interval 0 seconds", True)])
def test_a_checkpoint_says_what_was_removed_as_long_as_its_table_asks(
    tmp_path: Path, retention: str, is_forgotten: bool
) -> None:
    properties = MAPPED | {"delta.deletedFileRetentionDuration": retention}
    snapshot = append(begin(str(tmp_path / "t"), properties), range(10))
    for _ in range(10):
        snapshot = replaced(snapshot, snapshot.files)
    checkpoint = next(Path(snapshot.path, "_delta_log").glob("*.checkpoint.parquet"))
    assert checkpoint.name.startswith(f"{snapshot.version:020}")
    aged(snapshot.path, 2 * WEEK)
    (Path(snapshot.path) / "_delta_log" / "00000000000000000003.json").unlink()  # Delta forgets commits by and by
    forgotten = names(snapshot, WEEK)
    assert (len(forgotten) > 0) == is_forgotten
    if is_forgotten:
        assert len(forgotten) <= 4, "commits 4 to 10 say themselves what they removed"


def test_hidden_folders_are_left_alone(first: Snapshot) -> None:
    for folder in ("_stratalog_index", ".hidden"):
        (Path(first.path) / folder).mkdir()
        (Path(first.path) / folder / "file").write_bytes(b"x")
    aged(first.path, WEEK)
    assert names(first, 0) == set()


@pytest.mark.parametrize(
    "days, pinned, first",
    [
        (29, [], 0),
        (31, [], 20),
        (31, [21], 20),
        (31, [20], 20),
        (31, [19], 10),
        (31, [10, 25], 10),
        (31, [9], 0),
    ],
)
def test_the_log_before_an_old_checkpoint_goes(tmp_path: Path, days: int, pinned: list[int], first: int) -> None:
    snapshot = begin(str(tmp_path / "t"), types={"key": "BIGINT"})
    for key in range(26):
        snapshot = append(snapshot, [key])
    aged(snapshot.path, 24 * days)
    vacuum.remove(snapshot.path, unneeded_log(snapshot, pinned))
    log = [file.name for file in Path(snapshot.path, "_delta_log").iterdir() if file.name[0].isdigit()]
    assert min(log).startswith(f"{first:020}")
    for version in {first, *(version for version in pinned), 25}:
        older = snapshot_of(snapshot.path, version)
        assert older is not None
        assert [row["key"] for row in all_rows(older)] == list(range(version + 1))
    assert snapshot_of(snapshot.path, first - 1) is None
    table = deltalake.DeltaTable(snapshot.path)
    assert (table.version(), len(table.file_uris())) == (25, 26)


def test_a_log_that_is_kept_for_ever_stays(tmp_path: Path) -> None:
    properties = MAPPED | {"delta.logRetentionDuration": "interval 10 years"}
    snapshot = begin(str(tmp_path / "t"), properties, {"key": "BIGINT"})
    for key in range(12):
        snapshot = append(snapshot, [key])
    aged(snapshot.path, 24 * 40)
    assert unneeded_log(snapshot) == []


def test_checkpoints_that_newer_ones_of_their_hour_stand_in_for_go(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "t"), MAPPED | {"delta.checkpointInterval": "2"}, {"key": "BIGINT"})
    for key in range(25):
        snapshot = append(snapshot, [key])
    log = Path(snapshot.path, "_delta_log")
    hour = time.time() // 3_600 * 3_600
    # Twelve checkpoints: three in each of three hours long ago, and three just now.
    for at, version in enumerate(range(2, 20, 2)):
        written_at = hour - (10 - at // 3) * 3_600 + at
        os.utime(log / f"{version:020}.checkpoint.parquet", (written_at, written_at))
    vacuum.remove(snapshot.path, unneeded_log(snapshot))
    left = sorted(int(file.name[:20]) for file in log.glob("*.checkpoint.parquet"))
    assert left == [2, 6, 12, 18, 20, 22, 24], "the oldest, one of each hour, and those of the last"
    assert unneeded_log(snapshot) == []
    for version in range(25):
        older = snapshot_of(snapshot.path, version)
        assert older is not None
        assert [row["key"] for row in all_rows(older)] == list(range(version + 1))
        assert len(deltalake.DeltaTable(snapshot.path, version=version).file_uris()) == version + 1
    # Where the log before an old checkpoint is gone, that checkpoint is the oldest, and stays.
    for file in log.iterdir():
        if file.name[0].isdigit() and int(file.name[:20]) < 6:
            file.unlink()
    aged(snapshot.path, 5)
    vacuum.remove(snapshot.path, unneeded_log(snapshot))
    assert sorted(int(file.name[:20]) for file in log.glob("*.checkpoint.parquet")) == [6, 22, 24]
    assert [row["key"] for row in all_rows(snapshot_of(snapshot.path, 7) or snapshot)] == list(range(8))
