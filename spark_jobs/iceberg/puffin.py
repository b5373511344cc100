"""Puffin files of deletion vectors: the bytes of each as Delta has them, and a footer that lists them.

Put here: the layout of such a file. Not here: manifests, which name each vector by its position (manifests.py).

A vector in a file of Delta's and a blob ``deletion-vector-v1`` are the same bytes: size, magic number, bitmap, CRC-32.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.telemetry.product import NAME, version

_MAGIC = b"PFA1"
_ROW_POSITION = 2147483645
"""The reserved field id of a row's position in its file."""


@dataclass(frozen=True, slots=True)
class PuffinBlob:
    """A deletion vector in a Puffin file."""

    offset: int
    length: int


def puffin(vectors: Sequence[tuple[str, bytes, int]]) -> tuple[bytes, list[PuffinBlob]]:
    """A file of deletion vectors, and where each is in it.

    vectors: of each the location of the data file whose rows it deletes, its bytes as Delta stores them, and how many
    rows these are.
    """
    # The blobs, then a footer that says where each is.
    content, blobs, footer = bytearray(_MAGIC), list[PuffinBlob](), list[Mapping[str, object]]()
    for data_file, vector, cardinality in vectors:
        blob = PuffinBlob(len(content), len(vector))
        blobs.append(blob)
        footer.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": blob.offset,
                "length": blob.length,
                "properties": {"referenced-data-file": data_file, "cardinality": str(cardinality)},
            }
        )
        content += vector
    properties = {"created-by": f"{NAME} version {version()}"}
    text = json.dumps({"blobs": footer, "properties": properties}, separators=(",", ":")).encode()
    content += _MAGIC + text + struct.pack("<ii", len(text), 0) + _MAGIC
    return bytes(content), blobs
