"""What changes have of their row events."""

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Decoder
from tests.binlogs.one_value import FILE, definition_of
from tests.binlogs.segment_spec import Delete, Insert, Rows, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR

PLAIN = Table("shop.t", key=["id"], id=INT, note=VARCHAR(40))


@pytest.mark.parametrize("wrapped", [{}, {"compressed_rows": 0, "rows_version": 1, "version": "10.11.6-MariaDB"}])
def test_each_row_has_the_flags_of_its_event(wrapped: dict[str, Any]) -> None:
    events = [
        Rows("shop.t", Insert, [(1, "a"), (2, "b")], last=False),
        Rows("shop.t", Update, [((1, "a"), (3, "c"))], flags=0x12),
        Rows("shop.t", Delete, [(3, "c"), (2, "b")], flags=0x0200),
    ]
    content = SegmentSpec((PLAIN,), events, **wrapped).to_bytes()
    definition = definition_of(content)
    blocks = list(Decoder(definition, flags=True, rows=2).decode(FILE, 0, None, content))
    parts = [*blocks, blocks[1].take(pa.array([1])), blocks[1].slice(1, 1)]
    flags = [[] if part.flags is None else part.flags.to_pylist() for part in parts]
    assert flags == [[0, 0], [0x13, 0x201], [0x201], [0x201], [0x201]]
    assert [block.flags for block in Decoder(definition).decode(FILE, 0, None, content)] == [None]
