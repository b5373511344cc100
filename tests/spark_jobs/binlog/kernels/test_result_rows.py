"""The loop that makes row images of a query's packets, beside its plain twin; and what is no row."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.binlog.kernels import result_rows
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.pipeline.initial_load.row_images import fields_of
from tests.binlogs import result_packets
from tests.binlogs.result_packets import END, WireColumn, lenenc
from tests.fix_hypothesis import examples
from tests.twins.slow_loader import Images

INTEGER = WireColumn(Column("c", 3), 3)
WHY = "more full long end refused sequence strange".split()  # noqa: SIM905 - shorter


def definition_of(columns: Sequence[WireColumn]) -> TableDefinition:
    return TableDefinition(TableName("shop", "t"), tuple(column.column for column in columns), ())


def images(
    wire: bytes, columns: Sequence[WireColumn], cuts: Sequence[int] = (), room: int = 1 << 20
) -> tuple[bytes, str, int]:
    """All images, why the loop stopped, and the number of rows; in pieces that end anywhere, into a small target."""
    cells = fields_of(definition_of(columns), [column.wire for column in columns])
    state = np.zeros(result_rows.Q_CELLS, np.int64)
    rest, content, outcome = b"", b"", "more"
    offsets = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    for begin, end in pairwise(offsets):
        rest += wire[begin:end]
        outcome = "full"
        while outcome == "full":
            source = np.frombuffer(rest + bytes(result_rows.RESULT_PADDING), np.uint8)
            target = np.zeros(room + result_rows.RESULT_PADDING, np.uint8)
            addresses = address_of(source), len(rest), address_of(target), room
            code, source_bytes, size = result_rows.put_rows(*addresses, state, cells, len(cells), 1 << 20)
            outcome, rest = WHY[code], rest[source_bytes:]
            content += target[:size].tobytes()
    return content, outcome, int(state[result_rows.Q_ROWS])


@examples(200)
@given(st.integers(0, 1 << 32), st.lists(st.integers(0, 1 << 20), max_size=3))
def test_rows_of_every_type_become_the_images_of_the_plain_twin(seed: int, cuts: list[int]) -> None:
    random = Random(seed)
    columns = result_packets.columns(random)
    rows = [[column.cell(random) for column in columns] for _ in range(random.randint(0, 5))]
    wire = result_packets.packets([*map(result_packets.row, rows), END])
    twin = Images(definition_of(columns))
    expected = b"".join(twin([cell and cell[0] for cell in cells]) for cells in rows)
    assert images(wire, columns, cuts) == (expected, "end", len(rows))


def test_a_target_that_is_full_is_emptied_between_rows() -> None:
    wire = result_packets.packets([*(b"\0\0" + n.to_bytes(4, "little") for n in range(100)), END])
    expected = b"".join(b"\0" + n.to_bytes(4, "little") for n in range(100))
    assert images(wire, [INTEGER], room=64) == (expected, "end", 100)


@pytest.mark.parametrize(
    "payload, outcome",
    [
        (b"\0\0\1\0\0\0", "more"),
        (b"\0\0\1\0\0", "strange"),
        (b"\0\0\1\0\0\0\0", "strange"),
        (b"\0", "strange"),
        (b"\1\0\1\0\0\0", "strange"),
        (b"", "strange"),
        (b"\xff\x28\x04#HY000no", "refused"),
        (END, "end"),
        (bytes(1 << 20), "long"),
    ],
)
def test_what_is_no_row_ends_the_loop(payload: bytes, outcome: str) -> None:
    assert images(result_packets.packets([payload]), [INTEGER])[1] == outcome


def test_a_packet_out_of_sequence_ends_the_loop() -> None:
    assert images(result_packets.packets([b"\0\0\1\0\0\0"], first=7), [INTEGER])[1] == "sequence"


@pytest.mark.parametrize(
    "column, value",
    [
        (WireColumn(Column("c", 246, 5 << 8 | 2), 246), lenenc(b"1234.00")),
        (WireColumn(Column("c", 246, 5 << 8 | 2), 246), lenenc(b"1.234")),
        (WireColumn(Column("c", 246, 5 << 8 | 2), 246), lenenc(b"1x.00")),
        (WireColumn(Column("c", 18), 12), lenenc(bytes(5))),
        (WireColumn(Column("c", 19), 11), lenenc(bytes(4))),
        (WireColumn(Column("c", 16, 8), 16), lenenc(b"\1\0")),
        (WireColumn(Column("c", 252, 2, charset=63), 252), b"\5abc"),
        (WireColumn(Column("c", 252, 2, charset=63), 252), b"\xfb"),
    ],
)
def test_what_is_no_value_of_its_type_ends_the_loop(column: WireColumn, value: bytes) -> None:
    assert images(result_packets.packets([b"\0\0" + value]), [column])[1] == "strange"
