from pathlib import Path

import pytest

from spark_jobs.storage import files
from spark_jobs.storage.objects import ObjectPath, StoreError


@pytest.mark.parametrize(
    "path, stored",
    [
        ("/a/b", Path("/a/b")),
        ("a/b", Path("a/b")),
        ("file:///a/b%20c", Path("/a/b c")),
        ("s3a://bucket/a", ObjectPath("bucket", "a")),
        ("abfss://c@a.dfs.net/x/y", ObjectPath("c@a.dfs.net", "x/y", "abfss")),
    ],
)
def test_paths_of_this_process(path: str, stored: object) -> None:
    assert files.is_stored(path)
    assert files.stored_path(path) == stored


@pytest.mark.parametrize("path", ["hdfs://n/t", "oss://b/t"])
def test_paths_of_spark_alone(path: str) -> None:
    assert not files.is_stored(path)


def test_a_file_that_is_not_finished_is_removed(tmp_path: Path) -> None:
    with pytest.raises(TypeError), files.durable(tmp_path / "new/a") as sink:
        sink.writelines([b"half", "not bytes"])  # type: ignore[list-item]
    assert not (tmp_path / "new/a").exists()
    with files.durable(tmp_path / "new/a") as sink:
        sink.write(b"whole")
    assert files.content(tmp_path / "new/a", 1, 99) == b"hole"
    assert files.names(tmp_path / "new") == ["a"]
    assert files.names(tmp_path / "none") is None


@pytest.mark.parametrize(
    "error, text",
    [
        (OSError(28, "No space left on device", "/a/b"), "No space left on device: /a/b"),
        (
            StoreError("s3a://bucket/a", "<Code>RequestTimeTooSkewed</Code>"),
            "the clocks of this machine and of the store differ too much; set the clock (NTP), and run again",
        ),
    ],
)
def test_why_a_file_was_not_written(error: OSError, text: str) -> None:
    assert files.reason(error) == text
