import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import ConfigError, DecodeError, LakeError, LostRace, StratalogError
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.driver_commit import snapshot_upon
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.entries import LogEntry
from spark_jobs.subscriptions.records import Record, Records
from tests.binlogs.segment_spec import Commit, Delete, Insert, Query, Rows, Statement, Update
from tests.binlogs.xa import XA, prepared
from tests.lakes.consumers import SOURCE, SPEC, Shop, ids, order, orders


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Four transactions, the third of which has three rows, in two files."""
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2)])
    shop.log([*orders(3, 3), *order(6)])
    return shop


def test_batches_are_acknowledged_in_order_and_what_is_not_comes_again(shop: Shop) -> None:
    with shop.subscription() as subscription:
        first, second, third = (subscription.get_without_ack(2) for _ in range(3))
        assert [(batch.id, ids(batch)) for batch in (first, second, third)] == [(1, [1, 2]), (2, [3, 4]), (3, [5, 6])]
        assert subscription.get_without_ack(2).id == -1
        with pytest.raises(StratalogError, match="batch 2 is not the first that is outstanding: 1"):
            subscription.ack(2)
        subscription.ack(1)
        subscription.ack(-1)
        subscription.rollback(3)
        assert ids(subscription.get_without_ack(1)) == [5]
        subscription.rollback()
        repeated = subscription.get_without_ack(9)
        assert (repeated.id, ids(repeated)) == (2, [3, 4, 5, 6])
        assert [(entry.position, entry.row) for entry in repeated][:2] == [
            (entry.position, entry.row) for entry in second
        ]
        with pytest.raises(StratalogError, match="batch 7 is not outstanding: 2"):
            subscription.rollback(7)
    with shop.subscription() as subscription:
        assert ids(subscription.get_without_ack(9)) == [3, 4, 5, 6]


def as_extracted(shop: Shop) -> None:
    """Fills an empty bronze as extraction does, with a data file for each file of the log."""
    table = shop.lake.bronze(SOURCE)
    head, rows = table.head(), pa.Table.from_pylist(table.rows(), bronze.ARROW)
    assert head
    assert head.checkpoint
    shutil.rmtree(table.path)
    upon = new_table(table.path, bronze.COLUMNS, bronze.PROPERTIES)
    columns = upon.schema.arrow(physical=False)
    files = [
        data_files.write(upon.path, rows.filter(pc.equal(rows["number"], number)).cast(columns), upon.schema, {})
        for number in (1, 2)
    ]
    commits.commit(upon, adds=files, transaction=(APPLICATION, 1), user_metadata=head.checkpoint.to_json())


def planned_removal(shop: Shop) -> Callable[[], object]:
    """What commits the removal of the first file of the log, upon bronze as it is now."""
    planned, table = BronzeSnapshot.of(shop.lake, SOURCE), shop.lake.bronze(SOURCE)
    upon, oldest = snapshot_upon(table.path, planned.head), Position("b.000002", 4)
    removal = replace(planned.checkpoint, batch=new_batch(), kind=CommitKind.GC, oldest=oldest, removed_to=oldest)
    going = [file for file in upon.files if file.stats["maxValues"]["number"] == 1]
    return partial(table.land, upon, planned.head, removal, removes=going)


def test_a_removal_of_log_that_was_planned_before_a_group_loses(shop: Shop) -> None:
    as_extracted(shop)
    remove = planned_removal(shop)
    with shop.subscription() as subscription:
        with pytest.raises(LostRace):
            remove()
        assert ids(subscription.get(6)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_group_whose_registration_failed_is_free_and_gc_waits_for_its_next_consumer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool
) -> None:
    as_extracted(shop)

    def fence(_: Table) -> None:
        raise LakeError("the store is away")

    monkeypatch.setattr(Table, "fence", fence)
    if is_killed:
        monkeypatch.setattr(Records, "remove", lambda *_: None)
    with pytest.raises(LakeError, match="the store is away"):
        shop.subscription(lease=0.2).connect()
    monkeypatch.undo()
    remove = planned_removal(shop)
    with shop.subscription(wait=20 * is_killed) as subscription:
        with pytest.raises(LostRace):
            remove()
        assert ids(subscription.get(6)) == [1, 2, 3, 4, 5, 6]
    # It is known to gc from there on, and a consumer that comes later commits nothing.
    head = shop.lake.bronze(SOURCE).head()
    with shop.subscription():
        pass
    assert shop.lake.bronze(SOURCE).head() == head


@pytest.mark.parametrize("read", [0, 2])
def test_what_an_interrupt_cut_off_is_read_again(shop: Shop, read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.subscription() as subscription:
        entries = subscription._reader.entries

        def interrupted(cursor: Cursor, label: str) -> Iterator[LogEntry]:
            monkeypatch.undo()
            yield from islice(entries(cursor, label), read)
            raise KeyboardInterrupt

        monkeypatch.setattr(subscription._reader, "entries", interrupted)
        with pytest.raises(KeyboardInterrupt):
            subscription.get_without_ack(6)
        assert ids(subscription.get_without_ack(6)) == [1, 2, 3, 4, 5, 6]


def test_a_group_begins_behind_log_that_went_while_it_was_made(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    as_extracted(shop)
    write = Records.write

    def overtaken(self: Records, record: Record) -> Record:
        monkeypatch.undo()
        planned_removal(shop)()
        return write(self, record)

    monkeypatch.setattr(Records, "write", overtaken)
    with shop.subscription() as subscription:
        assert ids(subscription.get(9)) == [3, 4, 5, 6]


def test_a_group_whose_log_is_gone_is_told_so(shop: Shop) -> None:
    """As where gc was told not to wait for it: the group would get the entries after them, without a word."""
    as_extracted(shop)
    with shop.subscription():
        pass
    planned_removal(shop)()
    with (
        shop.subscription() as subscription,
        pytest.raises(LakeError, match=r"bronze no longer holds .*; or move the group g to a later position"),
    ):
        subscription.get(9)


def test_a_position_may_lie_inside_a_transaction(shop: Shop) -> None:
    for expected in ([1, 2, 3, 4], [5], [6], []):
        with shop.subscription() as subscription:
            assert ids(subscription.get(max(len(expected), 1))) == expected


def test_get_acknowledges_and_is_refused_while_batches_wait(shop: Shop) -> None:
    with shop.subscription() as subscription:
        assert ids(subscription.get(1)) == [1]
        subscription.get_without_ack(1)
        with pytest.raises(StratalogError, match="batch 2 is not acknowledged; acknowledge it, or roll back"):
            subscription.get(1)
    with shop.subscription() as subscription:
        assert ids(subscription.get(9)) == [2, 3, 4, 5, 6]


def test_a_group_has_one_consumer_and_the_next_one_takes_over_when_it_is_gone(shop: Shop) -> None:
    first = shop.subscription(lease=0.6)
    first.connect()
    assert ids(first.get_without_ack(2)) == [1, 2]
    with pytest.raises(StratalogError, match=r"shop: group g has a consumer, .*; end that one, or wait"):
        shop.subscription().connect()
    assert first._lease
    first._lease._ending.set()  # it is stopped, and renews no more
    with shop.subscription(wait=10) as second:
        assert ids(second.get_without_ack(2)) == [1, 2], "they were not acknowledged"
        with pytest.raises(StratalogError, match="group g was taken over or moved; what this consumer did not"):
            first.ack(1)
        with pytest.raises(StratalogError, match="was taken over"):
            first.get_without_ack(1)
        first.close()
        second.ack(1)


def test_a_lease_is_renewed_while_its_consumer_works(shop: Shop) -> None:
    with shop.subscription(lease=0.6) as first:
        time.sleep(1.5)
        with pytest.raises(StratalogError, match="has a consumer"):
            shop.subscription().connect()
        assert ids(first.get(1)) == [1]


def test_groups_are_apart_and_start_where_they_are_told(shop: Shop) -> None:
    starts = {"earliest": [1, 2, 3, 4, 5, 6], "latest": [], "b.000002:4": [3, 4, 5, 6], "2023-11-14T22:16:41Z": [6]}
    for at, (start, expected) in enumerate(starts.items()):
        with shop.subscription(f"group-{at}", start=start) as subscription:
            assert (start, ids(subscription.get(9))) == (start, expected)
    with pytest.raises(ConfigError, match="is after the end"), shop.subscription("later", start="b.000009:4"):
        pass


def test_new_log_is_waited_for(shop: Shop) -> None:
    with shop.subscription(start="latest") as subscription:
        before = time.monotonic()
        assert len(subscription.get(1, timeout=0.3)) == 0
        assert time.monotonic() - before >= 0.3
        shop.log(order(9))
        assert ids(subscription.get(1, timeout=20)) == [9]


def test_a_wait_ends_when_it_is_woken(shop: Shop) -> None:
    with shop.subscription(start="latest") as subscription:
        subscription.wake()
        before = time.monotonic()
        assert len(subscription.get(1, timeout=20)) == 0
        assert time.monotonic() - before < 10


def test_a_group_keeps_its_tables_and_moves_over_log_of_others(shop: Shop) -> None:
    with shop.subscription(tables=["shop.other"], start="latest") as subscription:
        shop.log([*orders(2, 20), Insert("shop.other", (7,)), Commit(), *orders(2, 30)])
        assert [entry.value["table"] for entry in subscription.get(9)] == ["other"]
        assert len(subscription.get(9)) == 0
    with shop.subscription() as subscription:
        assert subscription._read_to == Cursor(BronzeSnapshot.of(shop.lake, SOURCE).end)
        shop.log([*orders(1, 40), Insert("shop.other", (8,)), Commit()])
        assert [entry.value["table"] for entry in subscription.get(9)] == ["other"]


def test_formats_statements_and_transactions(shop: Shop) -> None:
    shop.log([Statement("shop", "ALTER TABLE orders ADD c INT"), *order(7)])
    with shop.subscription("a", start="b.000003:4", ddl=True, transactions=True) as subscription:
        kinds = [entry.kind for entry in subscription.get(9)]
        assert kinds == ["statement", "begin", "change", "end"]
    with shop.subscription("b", start="b.000003:4", format="canal-json") as subscription:
        lines = [subscription.get(1).entries[0].value for _ in range(2)]
        assert [(line["id"], line["type"]) for line in lines] == [(1, "ALTER"), (2, "INSERT")]
    with shop.subscription("c", start="b.000003:4", format="maxwell") as subscription:
        assert [entry.value["commit"] for entry in subscription.get(9)] == [True]


def test_a_row_that_is_two_lines_is_two_entries(shop: Shop) -> None:
    shop.log([Update("shop.orders", (1, None), (100, None)), Commit()])
    for expected in ("d", "c"):
        with shop.subscription(start="b.000003:4", format="debezium") as subscription:
            assert [entry.value["op"] for entry in subscription.get(1)] == [expected]


def test_rows_of_an_xa_transaction_come_once_and_where_it_is_committed(shop: Shop) -> None:
    changes: Any = prepared(Insert("shop.orders", (50, "x")), Insert("shop.orders", (51, "x")))
    shop.log([*changes, *order(7)])
    shop.log([*order(8), Statement("", f"XA COMMIT {XA}"), *order(9)])
    for expected in ([7, 8], [50], [51, 9]):
        with shop.subscription(start="b.000003:4") as subscription:
            assert ids(subscription.get(len(expected))) == expected


def test_an_xa_transaction_begins_and_ends_where_it_is_committed(shop: Shop) -> None:
    rolled_back: Any = prepared(Insert("shop.orders", (60, "x")), name=b"x2")
    committed: Any = prepared(Insert("shop.orders", (50, "x")), Insert("shop.orders", (51, "x")))
    shop.log([*committed, *order(7)])
    second_xid = XA.replace("7831", "7832")
    rolled_back[0], rolled_back[2] = Statement("", f"XA START {second_xid}"), Query("", f"XA END {second_xid}")
    shop.log([*rolled_back, Statement("", f"XA ROLLBACK {second_xid}"), Statement("", f"XA COMMIT {XA}"), *order(9)])
    with shop.subscription(start="b.000003:4", transactions=True) as subscription:
        batch = subscription.get_without_ack(99)
        entries = [(entry.kind, entry.value["after"]["id"] if entry.kind == "change" else None) for entry in batch]
        of_xa = [("begin", None), ("change", 50), ("change", 51), ("end", None)]
        assert entries == [*_alone(7), *of_xa, *_alone(9)]
        subscription.rollback()
        # Acknowledged in its middle, it continues there, for this consumer and the next.
        assert [entry.kind for entry in subscription.get(5)][3:] == ["begin", "change"]
    with shop.subscription() as subscription:
        assert ids(subscription.get(9)) == [51, 9]


def _alone(number: int) -> list[tuple[str, int | None]]:
    return [("begin", None), ("change", number), ("end", None)]


def test_updates_and_deletes(shop: Shop) -> None:
    rows = [((1, None), (1, "a")), ((2, None), (2, "b"))]
    shop.log([Rows("shop.orders", Update, rows), Delete("shop.orders", (1, "a")), Commit()])
    with shop.subscription(start="b.000003:4") as subscription:
        entries = [json.loads(entry.line) for entry in subscription.get(2)]
        assert [(entry["op"], entry["row"]) for entry in entries] == [("update", 0), ("update", 1)]
    with shop.subscription() as subscription:
        assert [entry.value["op"] for entry in subscription.get(9)] == ["delete"]


def test_what_cannot_be_read_is_an_error_after_what_stands_before(shop: Shop) -> None:
    with shop.subscription() as subscription:
        entries = subscription._reader.entries

        def damaged(cursor: Cursor, group: str) -> Iterator[LogEntry]:
            for entry in entries(cursor, group):
                if entry.value["after"]["id"] == 3:
                    raise DecodeError(f"{entry.position}: is damaged")
                yield entry

        subscription._reader.entries = damaged  # type: ignore[method-assign]
        assert ids(subscription.get(9)) == [1, 2]
        for _ in range(2):
            with pytest.raises(DecodeError, match=r"b\.000002:\d+: is damaged"):
                subscription.get(9)


def test_peek_takes_and_moves_nothing(shop: Shop) -> None:
    with shop.subscription() as subscription:
        subscription.get(1)
        assert ids(shop.subscription().peek(2)) == [2, 3]
        assert ids(subscription.get(2)) == [2, 3]
    assert ids(shop.subscription("new").peek()) == [1, 2, 3, 4, 5, 6]


def test_wrong_use(shop: Shop) -> None:
    for options in ({"group": "a/b"}, {"tables": ["orders"]}, {"format": "avro"}, {"format": "maxwell", "ddl": True}):
        with pytest.raises(ConfigError):
            shop.subscription(**options)
    with pytest.raises(StratalogError, match="group g is not connected"):
        shop.subscription().get(1)


def test_a_lake_without_bronze_is_named(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with pytest.raises(LakeError, match=f"{SOURCE}: bronze holds nothing yet"):
        shop.subscription().connect()
    assert SPEC.rotate_to == ""
