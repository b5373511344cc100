from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR
from tests.lakes.consumers import Shop, order
from tests.lakes.row_logs import ORDERS, traced


def test_a_condition_of_what_the_log_lacks_chooses_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), Update("shop.orders", (1, ...), (1, ...)), Commit()])
    assert len(traced(shop, condition="note IS NULL")) == 0
    assert "--where was not asked of 1 changes: their row images leave out what it names" in caplog.text


def test_a_table_without_a_key_has_conditions_alone(tmp_path: Path) -> None:
    keyless = Table("shop.orders", id=INT, note=VARCHAR(20))
    shop = Shop(tmp_path)
    shop.log([Insert("shop.orders", (1, "a")), Insert("shop.orders", (2, "b")), Commit()], SegmentSpec([keyless]))
    with pytest.raises(ConfigError, match=r"^--key: (the key of shop\.orders is not known|shop\.orders has no key)"):
        traced(shop, keys=("1",))
    (entry,) = traced(shop, condition="id = 2")
    assert (entry["key"], entry["after"]) == ({}, {"id": 2, "note": "b"})


def test_a_key_of_several_columns(tmp_path: Path) -> None:
    pairs = Table("shop.orders", key=["note", "id"], id=INT.NOT_NULL, note=VARCHAR(20))
    shop = Shop(tmp_path)
    changes: list[Change] = [Insert("shop.orders", (1, "a")), Insert("shop.orders", (1, "b")), Commit()]
    changes += [Update("shop.orders", (1, "b"), (2, "b")), Commit()]
    shop.log(changes, SegmentSpec([pairs]))
    assert [entry["op"] for entry in traced(shop, ORDERS, keys=("b,1",))] == ["insert", "update"]
    assert [entry["key"] for entry in traced(shop, ORDERS, keys=("a,1", "b,2"))] == [
        {"note": "a", "id": 1}, {"note": "b", "id": 1}, {"note": "b", "id": 2},
    ]  # fmt: skip
