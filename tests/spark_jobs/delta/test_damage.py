import json

import pyarrow as pa
import pytest

from spark_jobs.delta.damage import decoding, decoding_commit
from spark_jobs.errors import LakeError


@pytest.mark.parametrize(
    "error, reason",
    [
        (json.JSONDecodeError("Expecting value", "{", 1), "Expecting value: line 1 column 2 (char 1)"),
        (KeyError("path"), "'path' is missing"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "'utf-8' codec can't decode byte 0xff"),
        (pa.ArrowInvalid("no Parquet\nat all"), "no Parquet;"),
        (OSError("gone"), "gone;"),
    ],
    ids=str,
)
def test_what_is_raised_becomes_one_line_with_what_to_do(error: Exception, reason: str) -> None:
    with pytest.raises(LakeError) as raised, decoding_commit("lake/t", 3):
        raise error
    text = str(raised.value)
    assert text.startswith("lake/t: version 3 of its log cannot be read: " + reason)
    assert text.endswith("; restore the table's _delta_log")


def test_errors_of_ours_stay_as_they_are() -> None:
    with pytest.raises(LakeError, match="as it is"), decoding("lake/t"):
        raise LakeError("as it is")


def test_a_file_that_may_not_be_read_is_not_damaged() -> None:
    message = "t: its checkpoint cannot be read: Permission denied: /lake/t/x"
    with pytest.raises(LakeError, match=message), decoding("t: its checkpoint"):
        raise PermissionError(13, "Permission denied", "/lake/t/x")
