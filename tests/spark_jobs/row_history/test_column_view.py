from pathlib import Path

import pytest

from tests.binlogs.segment_spec import Commit, Insert, Update
from tests.lakes.consumers import Shop, order
from tests.lakes.row_logs import summary, traced


def test_columns_that_an_image_leaves_out_have_no_value(tmp_path: Path) -> None:
    """MINIMAL: the key before, and what changed after; nothing is made of what is not there."""
    shop = Shop(tmp_path)
    shop.log([
        *order(1), Update("shop.orders", (1, ...), (..., "x")), Commit(), Insert("shop.orders", (2, ...)), Commit(),
    ])  # fmt: skip
    entries = traced(shop, keys=("1",))
    assert summary(entries)[1] == ("update", {}, {"note": "x"})
    assert entries[1]["key"] == {"id": 1}
    assert summary(traced(shop, keys=("1",), is_whole=True))[1] == ("update", {"id": 1}, {"note": "x"})
    assert summary(traced(shop, keys=("2",))) == [("insert", None, {"id": 2})]


def test_left_out_and_hashed_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = "columns:\n  few: {tables: [shop.orders], exclude: [note]}\n"
    shop = Shop(tmp_path, keys=keys)
    shop.log([*order(1), Update("shop.orders", (1, "n1"), (1, "x")), Commit()])
    assert summary(traced(shop, keys=("1",))) == [("insert", None, {"id": 1}), ("update", {}, {})]
    monkeypatch.setenv("SALT", "pepper")
    shop = Shop(tmp_path, keys='columns:\n  h: {tables: [shop.orders], mask: {note: {hash: "${SALT}"}}}\n')
    hashed = summary(traced(shop, keys=("1",)))[0][2]["note"]
    assert len(hashed) == 64


def test_rules_judge_partial_images_by_what_they_hold(tmp_path: Path) -> None:
    rule = "row_filters:\n  few: {tables: [shop.orders], update-old-value-expr: id = 1}\n"
    shop = Shop(tmp_path, keys=rule)
    shop.log([*order(1), Update("shop.orders", (1, ...), (..., "x")), Commit()])
    assert [entry["op"] for entry in traced(shop)] == ["insert"]
