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
