from pathlib import Path
from typing import Any

import pytest

from spark_jobs.row_history.trace import Selection
from spark_jobs.row_history.undo import Undo
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR
from tests.lakes.consumers import SOURCE, Shop, order
from tests.lakes.row_logs import ORDERS


def sql(shop: Shop, **choice: Any) -> list[str]:
    return [step.sql() for step in Undo.of(shop.pipeline, SOURCE, [ORDERS], Selection(**choice), ()).steps]


def test_a_key_that_moves_back_needs_its_place_free(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), Update("shop.orders", (1, "n1"), (7, "n1")), Commit()])
    assert sql(shop, keys=("7",))[0] == (
        "UPDATE `shop`.`orders` SET `id` = 1 WHERE `id` = 7 AND `id` <=> 7 AND NOT EXISTS (SELECT 1 FROM "
        "(SELECT 1 FROM `shop`.`orders` WHERE `id` = 1 LIMIT 1) row_)"
    )


@pytest.mark.parametrize(
    "text, literal",
    [("it's", "'it''s'"), ("a\\b", "_utf8mb4 x'615c62'"), ("a\nb", "_utf8mb4 x'610a62'"), ("'\0", "_utf8mb4 x'2700'")],
)
def test_clients_read_text_as_it_is(tmp_path: Path, text: str, literal: str) -> None:
    shop = Shop(tmp_path)
    shop.log([Update("shop.orders", (1, text), (1, None)), Commit()])
    guard = "CAST(CONVERT(`note` USING utf8mb4) AS BINARY) <=> CAST(NULL AS BINARY)"
    assert sql(shop) == [f"UPDATE `shop`.`orders` SET `note` = {literal} WHERE `id` = 1 AND {guard}"]


def test_a_table_without_a_key_is_changed_by_all_columns(tmp_path: Path) -> None:
    keyless = Table("shop.orders", metadata=True, id=INT, note=VARCHAR(20))
    shop = Shop(tmp_path)
    changes: list[Change] = [Insert("shop.orders", (1, None)), Update("shop.orders", (1, None), (2, None)), Commit()]
    shop.log(changes, SegmentSpec([keyless]))
    condition = "CAST(CONVERT(`note` USING utf8mb4) AS BINARY) <=> CAST(NULL AS BINARY)"
    assert sql(shop) == [
        f"UPDATE `shop`.`orders` SET `id` = 1 WHERE `id` <=> 2 AND {condition} LIMIT 1",
        f"DELETE FROM `shop`.`orders` WHERE `id` <=> 1 AND {condition} LIMIT 1",
    ]


def test_an_update_that_changed_nothing_has_no_statement(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([Update("shop.orders", (1, "a"), (1, "a")), Commit()])
    assert sql(shop) == []
