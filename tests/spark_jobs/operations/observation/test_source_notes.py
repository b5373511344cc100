"""A file of notes by source: whole, or as it was."""

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.operations.observation.source_notes import read_notes, replace_notes


@dataclass
class Remark:
    text: str


def test_notes_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.remarks.json"
    assert read_notes(path, Remark, "remarks") == {}
    replace_notes(path, {"shop": Remark("ä"), "crm": Remark("b")})
    assert read_notes(path, Remark, "remarks") == {"shop": Remark("ä"), "crm": Remark("b")}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", ["[", "[1]", '{"shop": 1}', '{"shop": {"other": 1}}'])
def test_a_file_that_is_something_else_is_left_alone(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pipeline.remarks.json"
    path.write_text(content)
    assert read_notes(path, Remark, "remarks") == {}
    assert f"{path}: not a list of remarks, and left alone" in caplog.text
    assert path.read_text() == content


def test_a_file_that_cannot_be_written_is_a_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "none" / "pipeline.remarks.json"
    replace_notes(path, {"shop": Remark("a")})
    replace_notes(path, {}, logging.DEBUG)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", f"{path}: cannot be written: No such file or directory")
    ]
