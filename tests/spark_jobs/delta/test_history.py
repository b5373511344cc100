from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.commits import commit
from spark_jobs.delta.history import added_since, newest_first
from spark_jobs.delta.log_files import read_log
from spark_jobs.errors import LakeError
from tests.spark_jobs.delta.tables import MAPPED, append, begin, newest, rows


@pytest.mark.parametrize("seed", range(4))
def test_files_that_commits_added_are_those_that_a_version_has_and_an_older_one_lacks(
    tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    snapshot = append(begin(str(tmp_path / "t"), MAPPED), [0, 1, 2])
    files = {0: {file.key for file in snapshot.files}}
    for at in range(8):
        targets = rng.sample(snapshot.files, min(len(snapshot.files), rng.randint(0, 2)))
        if rng.random() < 0.3 and targets:
            version = commit(snapshot, removes=targets)
        elif rng.random() < 0.5 and targets:
            vectors = deletion_vectors.write(snapshot.path, [BitMap64([at % 3]) for _ in targets])
            version = commit(snapshot, dv_updates=list(zip(targets, vectors, strict=True)))
        else:
            version = append(snapshot, [3 * at, 3 * at + 1, 3 * at + 2]).version
        snapshot = newest(snapshot.path, version)
        files[version] = {file.key for file in snapshot.files}
    for after, until in combinations(files, 2):
        added = added_since(snapshot.path, after, until)
        assert added is not None
        assert {file.key for file in added} == files[until] - files[after], (after, until)
    assert added_since(snapshot.path, snapshot.version, snapshot.version) == ()


def test_files_that_only_got_rows_of_others_have_nothing_new(tmp_path: Path) -> None:
    """Maintenance writes files together: rows that were merged before it are not merged again."""
    path = str(tmp_path / "t")
    snapshot = begin(path, MAPPED)
    for key in range(3):
        snapshot = append(snapshot, [key])
    merged = snapshot.version
    together = data_files.write(path, rows(snapshot.schema, [0, 1, 2]), snapshot.schema, snapshot.configuration)
    snapshot = newest(path, commit(snapshot, adds=[together], removes=snapshot.files, changes_rows=False))
    assert added_since(path, merged, snapshot.version) == ()
    # Rows that came since, and were written together with those of before.
    snapshot = append(snapshot, [3])
    (new,) = {file.key for file in snapshot.files} - {together.key}
    assert [file.key for file in added_since(path, merged, snapshot.version) or ()] == [new]
    of_both = data_files.write(path, rows(snapshot.schema, [0, 1, 2, 3]), snapshot.schema, snapshot.configuration)
    snapshot = newest(path, commit(snapshot, adds=[of_both], removes=snapshot.files, changes_rows=False))
    assert [file.key for file in added_since(path, merged, snapshot.version) or ()] == [of_both.key]
    assert added_since(path, snapshot.version - 1, snapshot.version) == ()


@pytest.mark.parametrize("after, until", [(-1, 1), (0, 1), (1, 5)])
def test_commits_that_are_not_there_any_more(tmp_path: Path, after: int, until: int) -> None:
    snapshot = begin(str(tmp_path / "t"))
    for key in range(3):
        snapshot = append(snapshot, [key])
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    assert added_since(snapshot.path, after, until) is None


def test_a_commit_that_is_cut(tmp_path: Path) -> None:
    snapshot = append(begin(str(tmp_path / "t")), [1])
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").write_text('{"add":{"pa')
    with pytest.raises(LakeError, match=r"t: version 0 of its log cannot be read: .*; restore"):
        added_since(snapshot.path, -1, 0)


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
