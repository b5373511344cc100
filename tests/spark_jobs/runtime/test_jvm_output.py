import os
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.runtime.jvm_output import INCUBATOR, WithoutWarning, errors_copied


@given(st.binary(max_size=40), st.binary(max_size=40), st.lists(st.integers(0, 140), max_size=6), st.booleans())
def test_the_warning_is_taken_out_however_the_stream_is_cut(
    before: bytes, after: bytes, cuts: list[int], is_there: bool
) -> None:
    content = before + (INCUBATOR if is_there else b"") + after
    indexes = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    stream = WithoutWarning()
    pieces = [stream.feed(content[start:stop]) for start, stop in pairwise(indexes)]
    assert b"".join(pieces) + stream.rest() == before + after


def test_processes_started_inside_write_to_the_own_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    inner = f"import sys, os; os.write(2, {INCUBATOR!r}); os.write(2, b'one\\n'); sys.stdin.read(); os.write(2, b'two')"
    with errors_copied():
        process = subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE)
    os.write(2, b"own\n")
    process.communicate()
    output = ""
    while not output.endswith("two"):
        output += capfd.readouterr().err
    assert sorted(output.split()) == ["one", "own", "two"]
