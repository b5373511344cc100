from pathlib import Path

import pytest

from spark_jobs.delta.commits import commit
from spark_jobs.delta.history import added_since
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
