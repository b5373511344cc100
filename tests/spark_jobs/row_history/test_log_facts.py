from pathlib import Path

import pytest

from tests.binlogs.segment_spec import Change, Commit, Insert, Statement
from tests.binlogs.xa import XA, prepared
from tests.lakes.consumers import Shop
from tests.lakes.row_logs import cut_at, rows_query_event, traced


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_each_row_has_the_facts_of_its_transaction(
    tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_at(monkeypatch, target)
    shop = Shop(tmp_path)
    # Two statements a transaction, the second one always about orders.
    changes: list[Change] = []
    for number in range(1, 7):
        table = "shop.orders" if number % 2 else "shop.other"
        row = (number, "n") if number % 2 else (number,)
        changes += [
            rows_query_event(f"statement {number}"),
            Insert(table, row),
            rows_query_event("more"),
            Insert("shop.orders", (-number, None)),
        ]
        changes += [Commit()]
    shop.log(changes)
    entries = traced(shop)
    by_transaction: dict[str, set[str]] = {}
    for entry in entries:
        by_transaction.setdefault(entry["transaction"], set()).add(entry["gtid"])
    assert len(by_transaction) == 6
    assert all(len(gtids) == 1 for gtids in by_transaction.values())
    statements = {entry["key"]["id"]: entry["statement"] for entry in entries}
    assert statements == {1: "statement 1", 3: "statement 3", 5: "statement 5"} | {-n: "more" for n in range(1, 7)}
    assert {(entry["connection"], entry["server_id"]) for entry in entries} == {(7, 1)}


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_an_xa_transaction_has_its_id_and_the_place_of_its_commit(
    tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_at(monkeypatch, target)
    shop = Shop(tmp_path)
    shop.log([*prepared(Insert("shop.orders", (1, None)), Insert("shop.orders", (2, None)))])
    shop.log([Insert("shop.orders", (3, None)), Commit(), Statement("", f"XA COMMIT {XA}")])
    entries = [(entry["key"]["id"], entry["file"], entry["transaction"][:8], entry["xa"]) for entry in traced(shop)]
    assert entries == [
        (3, "b.000002", "b.000002", None), (1, "b.000001", "b.000002", XA), (2, "b.000001", "b.000002", XA),
    ]  # fmt: skip
    shop.log(prepared(Insert("shop.orders", (4, None)), one_phase=True))
    (entry,) = traced(shop, keys=("4",))
    assert (entry["xa"], entry["transaction"][:8]) == (XA, "b.000003")
