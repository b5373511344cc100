from pathlib import Path

import pytest

from spark_jobs.config.run_files import RunFile
from spark_jobs.errors import LakeError, LostRace, SourceError
from spark_jobs.operations.observation.failures import noted, read
from spark_jobs.text.remedies import advised


def fail(config: Path, error: Exception, *, is_last: bool = False) -> None:
    with pytest.raises(type(error)), noted(config, "shop", is_last=is_last):
        raise error


def test_failures_are_kept_until_a_run_succeeds(tmp_path: Path) -> None:
    config = tmp_path / "pipeline.yaml"
    assert read(config) == {}
    fail(config, SourceError("shop: gone"))
    first = read(config)["shop"]
    assert (first.runs, first.message) == (1, advised(SourceError("shop: gone")))
    fail(config, LakeError("shop: full"), is_last=True)
    last = read(config)["shop"]
    assert (last.runs, last.message, last.since) == (2, advised(LakeError("shop: full")), first.since)
    with noted(config, "shop", is_last=False):
        pass
    assert read(config)["shop"] == last, "the run goes on"
    with noted(config, "other", is_last=True):
        pass
    assert read(config)["shop"] == last
    with noted(config, "shop", is_last=True):
        pass
    assert read(config) == {}


def test_a_lost_race_is_no_failure(tmp_path: Path) -> None:
    fail(tmp_path / "pipeline.yaml", LostRace("another writer"))
    assert not RunFile.FAILURES.path_for(tmp_path / "pipeline.yaml").exists()


def test_other_errors_are_not_ours_to_keep(tmp_path: Path) -> None:
    fail(tmp_path / "pipeline.yaml", ZeroDivisionError())
    assert read(tmp_path / "pipeline.yaml") == {}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"shop": 1}', '{"shop": {"x": 1}}'])
def test_a_file_that_is_none_hinders_nobody(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "pipeline.yaml"
    RunFile.FAILURES.path_for(config).write_text(text)
    assert read(config) == {}
    assert "not a list of failures" in caplog.text
    fail(config, SourceError("shop: gone"))
    assert read(config)["shop"].runs == 1


def test_a_folder_that_cannot_be_written_hides_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fail(tmp_path / "none" / "pipeline.yaml", SourceError("shop: gone"))
    assert "cannot be written" in caplog.text
