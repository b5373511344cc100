from pathlib import Path

import pytest

from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.errors import LakeError
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.entries import EntryReader
from tests.lakes.consumers import SOURCE, Shop, ids, order, orders


def test_reading_goes_on_after_any_entry(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), *orders(3, 2)])
    shop.log(orders(2, 5))
    reader = EntryReader(shop.lake, SOURCE, wanted_tables([]), Output())
    entries = list(reader.entries(Cursor(Position("b.000001", 4)), "g"))
    assert ids(entries) == [1, 2, 3, 4, 5, 6]
    for at, entry in enumerate(entries):
        assert ids(reader.entries(entry.after, "g")) == ids(entries)[at + 1 :]
    assert not reader.has_more()
    shop.log(order(7))
    assert reader.has_more()


def test_a_position_beyond_the_end_is_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log(order(1))
    reader = EntryReader(shop.lake, SOURCE, wanted_tables([]), Output())
    with pytest.raises(LakeError, match=r"group g stands at b.000009:4, beyond the end .*; move the group"):
        list(reader.entries(Cursor(Position("b.000009", 4)), "g"))
