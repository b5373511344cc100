from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.errors import ConfigError
from tests.binlogs.segment_spec import UUID, Commit, Delete, Insert, Rows, SegmentSpec, Statement, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR
from tests.lakes.consumers import Shop, order, orders
from tests.lakes.row_logs import ORDERS, cut_at, rows_query_event, summary, traced


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2), *orders(3, 10)])
    shop.log([
        rows_query_event("UPDATE orders SET note = 'two'"),
        Rows("shop.orders", Update, [((1, "n1"), (1, "two")), ((2, "n2"), (2, "two"))]),
        Commit(),
        Insert("shop.other", (1,)),
        Commit(),
    ])  # fmt: skip
    shop.log([Update("shop.orders", (1, "two"), (7, "two")), Commit(), Delete("shop.orders", (7, "two")), Commit()])
    return shop


LIFE = [
    ("insert", None, {"id": 1, "note": "n1"}),
    ("update", {"note": "n1"}, {"note": "two"}),
    ("update", {"id": 1}, {"id": 7}),
    ("delete", {"id": 7, "note": "two"}, None),
]


@pytest.mark.parametrize("key", ["1", "7"])
def test_a_row_is_traced_through_its_keys(shop: Shop, key: str) -> None:
    assert summary(traced(shop, keys=(key,))) == LIFE


def test_an_entry_says_who_made_the_change(shop: Shop) -> None:
    entry = traced(shop, keys=("2",), is_whole=True)[1]
    begin = entry.pop("transaction")
    position = {"source": "shop", "file": "b.000002", "offset": entry["offset"], "row": 1, "gtid": f"{UUID}:12"}
    names = {"committed_at": "2023-11-14T22:16:40.250000Z", "schema": "shop", "table": "orders", "op": "update"}
    rows = {"key": {"id": 2}, "before": {"id": 2, "note": "n2"}, "after": {"id": 2, "note": "two"}, "stretch": 1}
    makers = {"server_id": 1, "connection": 7, "statement": "UPDATE orders SET note = 'two'", "xa": None}
    assert entry == position | names | rows | makers
    assert begin.startswith("b.000002:")
    assert int(begin.partition(":")[2]) < entry["offset"]


def test_a_condition_is_asked_of_the_row_before_and_after(shop: Shop) -> None:
    assert summary(traced(shop, condition="id >= 7 AND id < 10")) == LIFE[2:]
    by_name = "note COLLATE utf8mb4_0900_bin = 'n2'"
    assert [entry[0] for entry in summary(traced(shop, condition=by_name))] == ["insert", "update"]
    with pytest.raises(ConfigError, match=r"^--where: .* is no expression of MySQL"):
        traced(shop, condition="nothing = 1 AND")


def test_changes_are_chosen_by_who_made_them(shop: Shop) -> None:
    entries = traced(shop)
    assert len(entries) == 9
    assert len(traced(shop, pattern="^update ORDERS")) == 2
    assert len(traced(shop, connections=(7,))) == 9
    assert traced(shop, connections=(8,)) == []
    gtids = {entry["gtid"] for entry in entries if entry["op"] == "delete"}
    assert [entry["op"] for entry in traced(shop, gtids=(*gtids,))] == ["delete"]
    with pytest.raises(ConfigError, match="--gtid"):
        traced(shop, gtids=("x:1",))
    with pytest.raises(ConfigError, match=r"--statement: .* is no regular expression"):
        traced(shop, pattern="(")


def test_a_range_is_a_part_of_the_life(shop: Shop) -> None:
    assert summary(traced(shop, keys=("1",), start="b.000002:4", stop="b.000003:4")) == LIFE[1:2]


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_a_statement_of_an_earlier_slice_is_found(tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of several slices: its connection is told in the first, its statement in another one."""
    cut_at(monkeypatch, target)
    shop = Shop(tmp_path)
    shop.log([rows_query_event("INSERT INTO orders …"), *(Insert("shop.other", (at,)) for at in range(3)),
    rows_query_event("the second"),
              Insert("shop.orders", (5, "x")), Commit()])  # fmt: skip
    (entry,) = traced(shop, keys=("5",))
    assert (entry["statement"], entry["connection"]) == ("the second", 7)


def test_what_emptied_the_table_stands_between(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), Statement("shop", "TRUNCATE orders"), *order(1), Statement("shop", "DROP TABLE other")])
    assert summary(traced(shop, keys=("1",))) == [
        ("insert", None, {"id": 1, "note": "n1"}),
        ("ddl", "TRUNCATE orders"),
        ("insert", None, {"id": 1, "note": "n1"}),
    ]


def test_columns_are_those_of_their_time(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log(order(1))
    wider = Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20), more=INT)
    change = Update("shop.orders", (1, "n1", None), (1, "n1", 5))
    shop.log([Statement("shop", "ALTER TABLE orders ADD more INT"), change, Commit()], SegmentSpec([wider]))
    assert summary(traced(shop, keys=("1",))) == [
        ("insert", None, {"id": 1, "note": "n1"}),
        ("ddl", "ALTER TABLE orders ADD more INT"),
        ("update", {"more": None}, {"more": 5}),
    ]
    # A condition about the new column chooses no row from before it.
    assert summary(traced(shop, condition="more = 5"))[1:] == [("update", {"more": None}, {"more": 5})]


def test_a_renamed_table_is_followed_to_its_earlier_name(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log(
        [*order(1), Statement("shop", "RENAME TABLE orders TO past"), Statement("shop", "CREATE TABLE orders (id INT)")]
    )
    past = Table("shop.past", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))
    shop.log([Update("shop.past", (1, "n1"), (1, "x")), Commit()], SegmentSpec([past]))
    shop.log(order(1))
    entries = traced(shop, TableName("shop", "past"), keys=("1",))
    assert summary(entries) == [
        ("insert", None, {"id": 1, "note": "n1"}),
        ("ddl", "RENAME TABLE orders TO past"),
        ("update", {"note": "n1"}, {"note": "x"}),
    ]
    assert [entry.get("table") for entry in entries] == ["orders", None, "past"]


def test_masks_are_those_of_downstream(tmp_path: Path) -> None:
    rule = "columns:\n  hidden: {tables: [shop.orders], mask: {note: {constant: '***'}}}\n"
    shop = Shop(tmp_path, keys=rule)
    shop.log([*order(1), Update("shop.orders", (1, "n1"), (1, "secret")), Commit()])
    lines = summary(traced(shop, keys=("1",)))
    assert lines == [("insert", None, {"id": 1, "note": "***"}), ("update", {}, {})]
    raw = summary(traced(shop, keys=("1",), is_raw=True))
    assert raw[1] == ("update", {"note": "n1"}, {"note": "secret"})
    with pytest.raises(ConfigError, match=r"--where: columns\.hidden keeps values of column note out"):
        traced(shop, condition="note COLLATE utf8mb4_0900_bin = 'secret'")


def test_rules_about_rows_filter_and_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rule = "row_filters:\n  few: {tables: [shop.orders], insert-value-expr: id > 5}\n"
    shop = Shop(tmp_path, keys=rule)
    shop.log([*order(1), *order(9)])
    assert [entry["key"] for entry in traced(shop)] == [{"id": 1}]
    assert "row_filters.few filters 1 changes; --raw shows them" in caplog.text
    assert len(traced(shop, is_raw=True)) == 2


def test_only_slices_that_name_the_table_are_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.bronze.effective_slices import EffectiveSlices

    assigned, real = list[str](), EffectiveSlices._located_slices

    def noting(self: EffectiveSlices, index: object, row: int) -> object:
        log_slice = real(self, index, row)  # type: ignore[arg-type]
        assigned.append(log_slice.position.file)
        return log_slice

    monkeypatch.setattr(EffectiveSlices, "_located_slices", noting)
    assert traced(shop, TableName("shop", "other"))
    assert set(assigned) == {"b.000002"}
    assigned.clear()
    traced(shop, ORDERS, keys=("2",))
    # Each once: those with changes of the row are kept.
    assert assigned == ["b.000001", "b.000002", "b.000003"]
