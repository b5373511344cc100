import re

import pytest

from spark_jobs.demo.progress import step


def test_a_step_says_what_was_done_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with step("loading [rows]"):
        pass
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"loading \[rows\]: 0\.\d s\n", output.err)


def test_a_step_that_fails_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), step("loading"):
        raise ValueError("no")
    assert "loading:" not in capsys.readouterr().err
