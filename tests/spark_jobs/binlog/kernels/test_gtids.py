"""Variable-length integers of tagged GTIDs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import gtids
from tests.binlogs.kernel_bytes import address
from tests.binlogs.segment_spec import varlen


@given(number=st.integers(0, 2**64 - 1))
def test_varlen(number: int) -> None:
    content = varlen(number)
    offset, _owner = address(content)
    assert gtids._varlen(offset, offset + len(content)) == (number, offset + len(content))
    for length in range(len(content)):
        assert gtids._varlen(offset, offset + length)[1] == -1


@pytest.mark.parametrize("content, number", [("fbff07", 65535), ("00", 0), ("fe", 127), ("0102", 128)])
def test_varlen_examples(content: str, number: int) -> None:
    offset, _owner = address(bytes.fromhex(content))
    assert gtids._varlen(offset, offset + 9)[0] == number
