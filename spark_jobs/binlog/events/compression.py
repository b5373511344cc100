"""Decompression within a bound: zstd frames of MySQL's payloads, zlib records of MariaDB's events.

Source: MySQL libs/mysql/binlog/event/compression/zstd_comp.cpp; MariaDB sql/log_event.cc (``binlog_buf_compress``,
``binlog_get_uncompress_len``, ``binlog_buf_uncompress``).

Nothing is allocated on the word of a header alone: a frame that claims more than AT_ONCE bytes is inflated piece by
piece, and zlib's output grows only as it comes, up to what was claimed.

Put here: what turns compressed bytes into plain ones. Not here: what either of them means (transaction_payload.py,
query_event.py).
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from spark_jobs.errors import DecodeError

AT_ONCE = 16 << 20
"""Bytes that are inflated at once. A group of frames claims at most as much; a frame that claims more comes in pieces
of this size. With 64 MiB a transaction of 38 MB took half as long again: all of its memory was new to the process."""
PADDING = 64
"""Bytes behind inflated content that the row kernel may read."""

_LONGEST_RECORD = 1 << 30
"""Bytes that a MariaDB record may claim: an event is no longer (max_allowed_packet)."""


def inflated_record(raw: bytes | memoryview) -> bytes:
    """The content of a MariaDB record: a byte 1aaa0nnn (a = 0: zlib), n bytes of length, big-endian, a zlib stream.

    Raises DecodeError, which says what and not where: another algorithm, a damaged stream, a length that is not the
    announced one, or one announced beyond 1 GiB.
    """
    head = raw[0] if len(raw) else 0
    size = head & 7
    if head & 0xF8 != 0x80 or not 1 <= size <= 4:
        raise DecodeError(f"compression head {bytes(raw[:1]).hex() or 'missing'} is not known")
    claimed = int.from_bytes(raw[1 : 1 + size], "big")
    if claimed > _LONGEST_RECORD:
        raise DecodeError(f"{claimed} bytes of content announced, more than an event holds")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(raw[1 + size :], claimed + 1)
    except zlib.error as error:
        raise DecodeError(str(error)) from None
    if len(content) != claimed or not stream.eof or stream.unused_data:
        raise DecodeError(f"{claimed} bytes of content announced, another number found")
    return content


def inflated_frames(buffer: NDArray[np.uint8], frames: NDArray[np.int64], claimed: NDArray[np.int64]) -> list[Any]:
    """The content of each zstd frame, bytes-like; one context serves all of them.

    frames: int64[n, 2], offset and length in ``buffer``; claimed: int64[n], bytes of content. Their sum is to be at
    most AT_ONCE, and none is to be 0. Raises zstandard.ZstdError where a frame is damaged or has another size than
    claimed; which one, a call for a single frame tells.
    """
    segments = zstandard.BufferWithSegments(buffer.data, frames.astype(np.uint64).tobytes())
    sizes = claimed.astype(np.uint64).tobytes()
    contents: Any = zstandard.ZstdDecompressor().multi_decompress_to_buffer(segments, decompressed_sizes=sizes)
    return list(contents)


def inflated_pieces(frame: NDArray[np.uint8]) -> Iterator[bytes]:
    """The content of a zstd frame in pieces of at most AT_ONCE bytes. Raises zstandard.ZstdError where it is damaged.

    A frame that ends too early is not told from a whole one: the caller counts.
    """
    with zstandard.ZstdDecompressor().stream_reader(frame.data, read_across_frames=True) as stream:
        while piece := stream.read(AT_ONCE):
            yield piece
