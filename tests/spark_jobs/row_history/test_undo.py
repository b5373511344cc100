from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.errors import ConfigError, Unsupported
from spark_jobs.row_history.trace import Selection
from spark_jobs.row_history.undo import Undo
from tests.binlogs.segment_spec import Commit, Delete, Insert, Statement, Update
from tests.lakes.consumers import SOURCE, Shop, order
from tests.lakes.row_logs import ORDERS, rows_query_event

OTHER = TableName("shop", "other")


def undo(shop: Shop, *names: TableName, **choice: Any) -> Undo:
    return Undo.of(shop.pipeline, SOURCE, names or (ORDERS,), Selection(**choice), ())


def lines(shop: Shop, *names: TableName, **choice: Any) -> list[str]:
    """The script without what every script begins with, and without conflicts."""
    text = "".join(undo(shop, *names, **choice).script()).splitlines()[4:]
    return [line for line in text if line and not line.startswith("SELECT")]


def test_transactions_are_taken_back_from_the_last_to_the_first(tmp_path: Path) -> None:
    # Two transactions, the second one of two tables and with a text of two lines.
    shop = Shop(tmp_path)
    shop.log([
        *order(1),
        rows_query_event("DELETE\nFROM orders"), Delete("shop.orders", (1, "n1")), Insert("shop.other", (5,)), Commit(),
    ])  # fmt: skip
    of_both = lines(shop, ORDERS, OTHER, stop="b.000002:4")
    condition = "CAST(CONVERT(`note` USING utf8mb4) AS BINARY) <=> CAST('n1' AS BINARY)"
    absence = "NOT EXISTS (SELECT 1 FROM `shop`.`orders` WHERE `id` = 1)"
    assert [line for line in of_both if not line.startswith("--")] == [
        "START TRANSACTION;",
        "DELETE FROM `shop`.`other` WHERE `id` = 5 AND `id` <=> 5;",
        f"INSERT INTO `shop`.`orders` (`id`, `note`) SELECT 1, 'n1' FROM DUAL WHERE {absence};",
        "COMMIT;",
        "START TRANSACTION;",
        f"DELETE FROM `shop`.`orders` WHERE `id` = 1 AND `id` <=> 1 AND {condition};",
        "COMMIT;",
    ]
    comments = [line for line in of_both if line.startswith("--")]
    assert comments[1:3] == ["-- DELETE", "-- FROM orders"]
    assert comments[0].endswith("  connection 7")


def test_what_minimal_images_lack_is_refused_by_name(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), Update("shop.orders", (1, ...), (..., "x")), Commit()])
    with pytest.raises(Unsupported, match=r"^b\.000001:\d+: row 0 of shop\.orders: column note is not in the"):
        undo(shop, keys=("1",))
    shop.log([Delete("shop.orders", (1, ...)), Commit()])
    with pytest.raises(Unsupported, match=r"^b\.000002:\d+: row 0 of shop\.orders: column note is not"):
        undo(shop, start="b.000002:4")
    # What is unchanged may be left out of the row after.
    shop.log([Update("shop.orders", (1, "a"), (1, ...)), Update("shop.orders", (1, "a"), (..., "b")), Commit()])
    assert len(undo(shop, start="b.000003:4").steps) == 1


def test_columns_that_changed_since_are_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log(
        [
            *order(1),
            Statement("shop", "ALTER TABLE orders ADD x INT"),
            Statement("shop", "ALTER TABLE orders COMMENT 'x'"),
        ]
    )
    with pytest.raises(Unsupported, match=r"shop\.orders has other columns now .*: ALTER TABLE orders ADD x INT; "):
        undo(shop, keys=("1",))
    shop.log(order(2))
    assert len(undo(shop, start="b.000002:4").steps) == 1


def test_a_truncation_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), Statement("shop", "TRUNCATE orders")])
    undo(shop, keys=("1",))
    assert "emptied the table, which is not taken back" in caplog.text


def test_values_that_rules_hide_need_raw(tmp_path: Path) -> None:
    shop = Shop(tmp_path, keys="columns:\n  few: {tables: [shop.orders], exclude: [note]}\n")
    shop.log(order(1))
    with pytest.raises(ConfigError, match=r"shop\.orders: rules about its columns or rows hide values"):
        undo(shop, keys=("1",))
    assert "'n1'" in "".join(lines(shop, keys=("1",), is_raw=True))
