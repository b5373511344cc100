"""Frames and records inflated, and what is said of damaged ones."""

import os
import zlib
from collections.abc import Callable

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events import compression
from spark_jobs.binlog.events.compression import inflated_frames, inflated_pieces, inflated_record
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import compressed_record


@given(st.binary(max_size=70_000))
def test_a_record_is_what_was_compressed(content: bytes) -> None:
    assert inflated_record(compressed_record(content)) == content


RECORD = compressed_record(b"a" * 300)


@pytest.mark.parametrize(
    "record, message",
    [
        (b"", "compression head missing"),
        (b"\x12" + RECORD[1:], "compression head 12"),
        (b"\x92" + RECORD[1:], "compression head 92"),
        (b"\x80" + RECORD[1:], "compression head 80"),
        (b"\x85" + RECORD[1:], "compression head 85"),
        (RECORD[:1] + b"\1\0" + RECORD[3:], "256 bytes of content announced, another number found"),
        (RECORD[:1] + b"\2\0" + RECORD[3:], "512 bytes of content announced"),
        (RECORD[:-1], "another number found"),
        (RECORD + b"x", "another number found"),
        (RECORD[:3] + b"no zlib", "Error -3"),
        (b"\x84\xff\xff\xff\xff" + RECORD[3:], "more than an event holds"),
    ],
)
def test_records_that_are_refused(record: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        inflated_record(record)


def test_a_record_cannot_grow_beyond_what_it_claims() -> None:
    bomb = b"\x82\x01\x00" + zlib.compress(bytes(100 << 20))
    with pytest.raises(DecodeError, match="256 bytes of content announced"):
        inflated_record(bomb)


def framed(contents: list[bytes], compress: Callable[[bytes], bytes]) -> tuple[np.ndarray, np.ndarray]:
    frames = [compress(content) for content in contents]
    lengths = np.array([len(frame) for frame in frames], np.int64)
    return np.frombuffer(b"".join(frames), np.uint8), np.column_stack([np.cumsum(lengths) - lengths, lengths])


@pytest.mark.parametrize("has_size", [True, False])
@given(st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=30))
def test_frames_side_by_side(has_size: bool, contents: list[bytes]) -> None:
    """Some servers write the size of a frame's content into it, some do not."""
    contents = [content * 40 for content in contents]
    buffer, frames = framed(contents, zstandard.ZstdCompressor(write_content_size=has_size).compress)
    sizes = np.array([len(content) for content in contents], np.int64)
    assert [bytes(frame) for frame in inflated_frames(buffer, frames, sizes)] == contents


@pytest.mark.parametrize("claimed", [99, 101])
def test_a_frame_of_another_size(claimed: int) -> None:
    buffer, frames = framed([b"x" * 100], zstandard.ZstdCompressor(write_content_size=False).compress)
    with pytest.raises(zstandard.ZstdError):
        inflated_frames(buffer, frames, np.array([claimed]))


def test_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "AT_ONCE", 1000)
    content = os.urandom(5500)
    frame = np.frombuffer(zstandard.compress(content), np.uint8)
    pieces = list(inflated_pieces(frame))
    assert max(map(len, pieces)) <= 1000
    assert b"".join(pieces) == content
