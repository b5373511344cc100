import os
from pathlib import Path

import pytest

from spark_jobs.delta import index_files
from spark_jobs.delta.index_files import FOLDER, index_path


def table(folder: Path, *names: str) -> str:
    (folder / "x=1").mkdir()
    for name in names:
        (folder / "x=1" / name).write_bytes(b"")
    return str(folder)


def test_indexes_go_with_their_data_files(tmp_path: Path) -> None:
    path = table(tmp_path, "a.zstd.parquet", "b.parquet")
    current = [index_path(tmp_path, "a.zstd.parquet"), index_path(tmp_path, "b.parquet", "0f")]
    stale = [index_path(tmp_path, "c.parquet"), index_path(tmp_path, "c.parquet", "0f")]
    for index in (*current, *stale):
        index_files.write(index, b"x")
    assert index_files.remove_stale(path) == 2
    assert sorted(index_files.index_files(path)) == sorted(current)
    assert index_files.remove_all(path) == 2
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_table_without_indexes_has_none(tmp_path: Path) -> None:
    assert index_files.remove_stale(str(tmp_path)) == index_files.remove_all(str(tmp_path)) == 0
    assert index_files.remove_stale("s3a://bucket/t") == index_files.remove_all("s3a://bucket/t") == 0


def test_an_index_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = index_path(tmp_path, "a.parquet")
    index_files.write(path, b"1")
    index_files.write(path, b"22")
    assert [file.read_bytes() for file in path.parent.iterdir()] == [b"22"]
    # A folder stands in the file's position.
    (tmp_path / FOLDER / "b.parquet.keys").mkdir()
    index_files.write(index_path(tmp_path, "b.parquet"), b"1")
    assert sorted(file.name for file in path.parent.iterdir()) == ["a.parquet.keys", "b.parquet.keys"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_has_no_index(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    index_files.write(index_path(tmp_path, "a.parquet"), b"1")
    assert list(index_files.index_files(str(tmp_path))) == []
