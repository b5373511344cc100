import os
import sys
from pathlib import Path

import pytest

from spark_jobs.runtime.standing.folder import SessionFolder


@pytest.mark.parametrize(
    "words, command",
    [
        (["/venv/bin/stratalog", "run", "-c", "pipeline.yaml"], "stratalog run"),
        (["/site-packages/stratalog/__main__.py", "--password=s3cret"], "stratalog"),
        (["/venv/bin/dagster", "api", "execute_step"], "dagster api"),
        ([""], ""),
    ],
)
def test_a_run_is_known_by_its_program_and_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], command: str
) -> None:
    monkeypatch.setattr(sys, "argv", words)
    folder = SessionFolder(tmp_path)
    descriptor = folder.attach()
    (run,) = folder.runs()
    os.close(descriptor)
    assert (run.pid, run.command) == (os.getpid(), command)
    assert folder.runs() == []
