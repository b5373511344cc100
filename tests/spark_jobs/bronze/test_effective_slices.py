from itertools import pairwise
from pathlib import Path

import pytest

from spark_jobs.bronze import effective_slices
from spark_jobs.bronze.effective_slices import EffectiveSlices
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.log.position import Position, Range
from tests.lakes.consumers import SOURCE, Shop, order, orders


@pytest.fixture
def snapshot(tmp_path: Path) -> BronzeSnapshot:
    shop = Shop(tmp_path)
    for number in range(6):
        shop.log([*order(10 * number), *orders(4, 10 * number + 1)])
    return BronzeSnapshot.of(shop.lake, SOURCE)


def spans(snapshot: BronzeSnapshot, within: Range) -> list[tuple[Position, int]]:
    slices = EffectiveSlices(snapshot).of_range(within)
    return [(log_slice.position, log_slice.cells.column("stop")[0].as_py()) for log_slice in slices]


def test_parts_are_the_range(snapshot: BronzeSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_it = Range(snapshot.oldest, snapshot.end)
    expected = spans(snapshot, all_of_it)
    monkeypatch.setattr(effective_slices, "_SLICES", 1)
    assert len(list(EffectiveSlices(snapshot)._parts(all_of_it))) == 6
    assert spans(snapshot, all_of_it) == expected
    assert all(first[0] < second[0] for first, second in pairwise(expected))


def test_a_range_inside_a_slice_has_the_slice(snapshot: BronzeSnapshot) -> None:
    all_of_it = spans(snapshot, Range(snapshot.oldest, snapshot.end))
    position, stop = all_of_it[2]
    inside = Range(Position(position.file, position.offset + 30), Position(position.file, stop - 30))
    assert spans(snapshot, inside) == [(position, stop)]
