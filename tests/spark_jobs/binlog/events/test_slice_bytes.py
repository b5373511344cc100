import gc
from collections.abc import Sequence
from typing import Any

import pytest

from spark_jobs.binlog import Decoder, Scans, SliceBytes, definitions_of
from spark_jobs.binlog.events import slice_bytes
from spark_jobs.binlog.events.scanner import open_slice
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec
from tests.binlogs.slicing import FILE, LINES, ORDERS, sliced


def log_content() -> bytes:
    """A log of two tables."""
    changes: list[Change] = []
    for number in range(40):
        changes += [
            Insert(ORDERS.name, (number, f"order {number}")),
            Insert(LINES.name, (number, 2 * number)),
            Commit(),
        ]
    return SegmentSpec(tables=[ORDERS, LINES], changes=changes).to_bytes()


def log_slices(target: int) -> list[SliceBytes]:
    rows, _ = sliced(log_content(), target=target)
    return [
        SliceBytes(row["start"], row["context"], row["payload"], row["transaction_start"])
        for row in rows
        if row["kind"] == "rows"
    ]


def decoded(slices: Sequence[SliceBytes], scans: Scans | None) -> dict[str, list[tuple[int, int]]]:
    """Offset and key of each row, by table."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for definition in definitions_of(FILE, 0, None, log_content()):
        decoder = Decoder(definition, scans=scans)
        rows[str(definition.name)] = [
            row
            for changes in decoder.decode_slices(FILE, slices)
            for row in zip(changes.offset.to_pylist(), changes.after.column("id").to_pylist(), strict=True)
        ]
    return rows


@pytest.mark.parametrize("target", [1, 500, 1 << 20])
def test_decoders_that_share_scans_give_what_each_gives_alone(target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = log_slices(target)
    expected = decoded(slices, None)
    assert {name: len(rows) for name, rows in expected.items()} == {ORDERS.name: 40, LINES.name: 40}
    opened: list[int] = []

    def counted(file: str, start: int, *rest: Any, **options: Any) -> Any:
        opened.append(start)
        return open_slice(file, start, *rest, **options)

    monkeypatch.setattr(slice_bytes, "open_slice", counted)
    assert decoded(slices, Scans()) == expected
    assert opened == [log_slice.start for log_slice in slices], "each slice is scanned once, for both tables"


def test_a_scan_is_kept_as_long_as_its_slice() -> None:
    scans, slices = Scans(), log_slices(1)
    decoded(slices, scans)
    assert len(scans) == len(slices) > 1
    del slices[1:]
    gc.collect()
    assert len(scans) == 1
