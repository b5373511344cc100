from pathlib import Path

import pytest

from spark_jobs.demo.export_check import ExportedFiles, compared


@pytest.mark.parametrize(
    "exported, originals, unlike",
    [
        ({"a.1": b"1", "a.2": b"2"}, {"a.1": b"1", "a.2": b"2"}, ()),
        ({"a.1": b"1", "a.2": b"2"}, {"a.1": b"1", "a.2": b"3"}, ("a.2",)),
        ({"a.1": b"1", "a.2": b"2"}, {"a.1": b"1"}, ("a.2",)),
        ({"a.1": b"1"}, {"a.1": b"1", "a.1.from-4": b""}, ("a.1.from-4",)),
    ],
)
def test_bytes_and_names_count(
    tmp_path: Path, exported: dict[str, bytes], originals: dict[str, bytes], unlike: tuple[str, ...]
) -> None:
    for folder, files in (("ours", exported), ("theirs", originals)):
        (tmp_path / folder).mkdir()
        for name, content in files.items():
            (tmp_path / folder / name).write_bytes(content)
    assert compared(tmp_path / "ours", tmp_path / "theirs", 9) == ExportedFiles(2, 9, unlike)
