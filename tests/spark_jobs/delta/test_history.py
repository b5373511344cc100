from pathlib import Path

import pytest

from spark_jobs.delta.commits import commit
from spark_jobs.delta.history import added_since, newest_first
from spark_jobs.delta.log_files import read_log
from tests.spark_jobs.delta.tables import append, begin, newest


def test_files_that_commits_added(tmp_path: Path) -> None:
    snapshot = begin(str(tmp_path / "t"))
    for key in range(3):
        snapshot = append(snapshot, [key])
    paths = [file.path for file in snapshot.files]
    commit(snapshot, removes=[snapshot.files[1]])
    newest(snapshot.path, 3)
    for after in range(-1, 3):
        assert added_since(snapshot.path, after, 3) == set(paths[after + 1 :])


@pytest.mark.parametrize("after, until", [(-1, 1), (0, 1), (1, 5)])
def test_commits_that_are_not_there_any_more(tmp_path: Path, after: int, until: int) -> None:
    snapshot = begin(str(tmp_path / "t"))
    for key in range(3):
        snapshot = append(snapshot, [key])
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    assert added_since(snapshot.path, after, until) is None


def test_commits_say_what_they_are_from_the_newest_on(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = begin(path)
    snapshot = newest(path, commit(snapshot, operation="WRITE", transaction=("app", 7), user_metadata="{}"))
    commit(snapshot, operation="OPTIMIZE")
    listing = read_log(path)
    assert listing
    infos = [(info.version, info.operation, info.user_metadata, info.counters) for info in newest_first(path, listing)]
    assert infos == [(1, "OPTIMIZE", None, {}), (0, "WRITE", "{}", {"app": 7})]


def test_commits_end_where_the_log_was_cut(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    snapshot = begin(path)
    for key in range(13):  # versions 0 to 12, a checkpoint at 10
        snapshot = append(snapshot, [key])
    for version in range(8):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    listing = read_log(path)
    assert listing
    assert [info.version for info in newest_first(path, listing)] == [12, 11, 10, 9, 8]
