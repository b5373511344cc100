from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.iceberg import metadata_files as files


def test_the_newest_file_is_found_without_a_hint_and_beyond_it(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert files.newest(path) is None
    for number in (1, 2, 3):
        assert files.create(path, number, {"number": number})
    assert files.newest(path) == files.MetadataFile(3, {"number": 3})
    files.point_to(path, 2)
    assert (tmp_path / "metadata/version-hint.text").read_text() == "2"
    assert files.newest(path) == files.MetadataFile(3, {"number": 3})
    (tmp_path / "metadata/v1.metadata.json").unlink()
    (tmp_path / "metadata/version-hint.text").write_text("1")
    assert files.newest(path) == files.MetadataFile(3, {"number": 3})


def test_a_file_is_created_once(tmp_path: Path) -> None:
    assert files.create(str(tmp_path), 1, {"a": 1})
    assert not files.create(str(tmp_path), 1, {"a": 2})
    assert files.newest(str(tmp_path)) == files.MetadataFile(1, {"a": 1})


def test_a_hint_never_goes_back(tmp_path: Path) -> None:
    files.point_to(str(tmp_path), 5)
    files.point_to(str(tmp_path), 4)
    assert files.hint(str(tmp_path)) == 5


def test_a_local_table_s_location_has_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert files.location("lake/t") == f"file://{tmp_path}/lake/t"
    assert files.location("s3a://bucket/lake/t") == "s3://bucket/lake/t"


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    files.create(str(tmp_path), 1, {})
    (tmp_path / "metadata/v1.metadata.json").write_text("[")
    with pytest.raises(LakeError, match=r"v1\.metadata\.json is damaged"):
        files.newest(str(tmp_path))


def test_a_name_tells_a_file_s_number() -> None:
    assert files.number_of(files.file_name(12)) == 12
    assert files.number_of("v12.metadata.json.tmp") is None
