from pathlib import Path

import pytest

from spark_jobs.config.run_files import RunFile
from spark_jobs.operations.observation.runs import note, read


def test_a_run_gathers_the_durations_of_its_steps(tmp_path: Path) -> None:
    config = tmp_path / "pipeline.yaml"
    assert read(config) == {}
    note(config, "shop", "a", "running", {"bronze": 1.0})
    started = read(config)["shop"].started
    note(config, "other", "b", "succeeded", {})
    note(config, "shop", "a", "stopped", {"silver": 2.0})
    last = read(config)["shop"]
    assert (last.status, last.started, last.seconds) == ("stopped", started, {"bronze": 1.0, "silver": 2.0})
    assert last.ended is not None
    note(config, "shop", "c", "running", {})
    assert (read(config)["shop"].seconds, read(config)["shop"].ended) == ({}, None)
    assert read(config)["other"].status == "succeeded"


@pytest.mark.parametrize("text", ["{", "[]", '{"shop": {"no": 1}}'])
def test_a_file_that_is_none_is_a_warning(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "pipeline.yaml"
    RunFile.RUNS.path_for(config).write_text(text)
    assert read(config) == {}
    assert "not a list of runs, and left alone" in caplog.text


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note(tmp_path / "gone" / "pipeline.yaml", "shop", "a", "running", {})
    assert caplog.text == ""
    note(tmp_path / "gone" / "pipeline.yaml", "shop", "a", "succeeded", {})
    assert "cannot be written: No such file or directory" in caplog.text
