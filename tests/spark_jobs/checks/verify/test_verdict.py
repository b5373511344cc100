"""What a comparison says of one table. Whole comparisons: test_tables.py."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.compare import KeyDifference
from spark_jobs.checks.verify.deliveries import DeliveryVerdict
from spark_jobs.checks.verify.protocol import KeySet
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.checks.verify.verdict import FoundKeys, Verdict, verified_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.verified import (
    CHANGING,
    DIFFERS,
    DROPPED,
    EQUAL,
    MENDED,
    NOT_COMPARED,
    Verified,
)

ORDERS = TableName("shop", "orders")
AT = Position("b.000001", 400)


def test_of_several_downstream_tables_the_worst_is_kept() -> None:
    verdicts = [
        Verdict("shop", ORDERS, EQUAL, AT, 9, 9, into="shop.orders"),
        Verdict("shop", ORDERS, DIFFERS, AT, 9, 8, missing=1, into="audit.orders"),
        Verdict("shop", ORDERS, DIFFERS, AT, 9, 9, missing=1, extra=2, different=3, unread=4, into="copy.orders"),
        Verdict("shop", ORDERS, NOT_COMPARED, reason="it has stopped", into="x.orders"),
    ]
    (last,) = verified_of(verdicts)
    assert (last.name, last.state, last.position) == ("shop.orders", DIFFERS, "b.000001:400")
    assert (last.missing, last.extra, last.different, last.unread, last.differing) == (1, 2, 3, 4, 10)
    assert datetime.now(UTC) - datetime.fromisoformat(last.verified_at) < timedelta(minutes=1)
    # A reason is kept with the table that could not be compared.
    states = (DROPPED, EQUAL, NOT_COMPARED, CHANGING, DIFFERS)
    for better, worse in pairwise(states):
        of_both = [Verdict("shop", ORDERS, worse, reason="it has stopped"), Verdict("shop", ORDERS, better)]
        (last,) = verified_of(of_both)
        assert (last.state, last.reason, last.position) == (worse, "it has stopped", None)
    assert verified_of([]) == []


def verified(state: str, position: int, changes_to: int | None = None) -> Verified:
    texts = [f"b.000001:{offset}" if offset else None for offset in (position, changes_to)]
    return Verified("shop", "orders", state, texts[0], "2024-01-01T00:00:00+00:00", changes_to=texts[1])


@pytest.mark.parametrize(
    "last, since, changes_to",
    [
        (verified(EQUAL, 100), 100, "b.000001:400"),
        (verified(EQUAL, 100, 300), 200, "b.000001:400"),
        (verified(MENDED, 100), 90, "b.000001:400"),
        (verified(EQUAL, 100), 101, None),  # what changed between the two is not known
        (verified(DIFFERS, 100), 50, None),
        (None, 4, None),
    ],
)
def test_changes_that_are_equal_say_something_of_a_table_that_was_equal_before_them(
    last: Verified | None, since: int, changes_to: str | None
) -> None:
    verdict = Verdict("shop", ORDERS, EQUAL, AT, 2, 2, changes_since=Position("b.000001", since))
    expected = [replace(last, changes_to=changes_to)] if last and changes_to else []
    assert verified_of([verdict], last) == expected
    (found,) = verified_of([replace(verdict, state=DIFFERS, missing=1)], last)
    assert (found.state, found.missing, found.equal_to) == (DIFFERS, 1, None)


def test_one_of_several_downstream_tables_says_nothing_of_the_others() -> None:
    verdict = Verdict("shop", ORDERS, EQUAL, AT, 9, 9, into="shop.orders")
    assert verified_of([verdict], verified(DIFFERS, 100), is_of_all_targets=False) == []
    (found,) = verified_of([replace(verdict, state=DIFFERS, missing=1)], is_of_all_targets=False)
    assert found.state == DIFFERS


def test_a_known_cause_is_a_possible_one_and_others_are_named() -> None:
    unlike = FoundKeys(DigestLayout("shop", "orders", (), ()), Table("none", plain=False), KeySet.of([b"7"]))
    differing = Verdict("shop", ORDERS, DIFFERS, AT, 9, 9, different=1, unlike_keys=unlike)
    unexplained = (
        "not explained by the log: a session with sql_log_bin=0, a restored file, or a write to the lake's table by "
        "another program; mend the table: stratalog mend --source shop --table shop.orders (stratalog docs "
        "verify#when-a-row-differs)"
    )
    assert [*differing.remarks()] == [f"shop.orders: {unexplained}"]
    with_cause = replace(differing, causes=("is changed by key f",))
    assert [*with_cause.remarks()] == [
        "shop.orders: its differences may be explained by this: the table is changed by key f",
        f"shop.orders: otherwise {unexplained}",
    ]
    assert with_cause.to_json()["causes"] == ("is changed by key f",)
    assert [*replace(differing, state=EQUAL).remarks()] == []


def test_a_cause_names_the_mend() -> None:
    verdict = Verdict(
        "shop", ORDERS, DIFFERS, AT, 20, 19, missing=2, changing=3, older=4, unread=5, causes=("is changed by key f",)
    )
    assert [*verdict.remarks()] == [
        "shop.orders: 5 more rows differ by their hashes; they were not read again one by one",
        "shop.orders: 4 rows are older than the log, which lacks the table's CREATE too",
        "shop.orders: its differences may be explained by this: the table is changed by key f",
        "shop.orders: mend the table: stratalog mend --source shop --table shop.orders",
        "shop.orders: 3 rows changed whenever they were read; verify again when it is quieter",
    ]
    assert (verdict.is_right, verdict.equal) == (False, 6)


def test_keys_that_differ_are_lines_and_json() -> None:
    differences = (
        KeyDifference("different", {"id": "7"}, {"v": ("1", None), "w": ("2", "3")}),
        KeyDifference("extra", {"id": "8"}),
    )
    unlike = FoundKeys(DigestLayout("shop", "orders", (), ()), Table("none", plain=False), KeySet.of([b"7", b"8"]))
    verdict = Verdict(
        "shop",
        ORDERS,
        DIFFERS,
        AT,
        9,
        9,
        extra=1,
        different=1,
        differences=differences,
        unlike_keys=unlike,
    )
    assert [*verdict.lines(values=False)] == ["shop.orders different id=7: v, w", "shop.orders extra id=8"]
    assert next(verdict.lines(values=True)) == (
        "shop.orders different id=7: v is NULL and should be 1, w is 3 and should be 2"
    )
    document = json.loads(json.dumps(verdict.to_json()))
    assert [*document][:3] == ["source", "table", "state"]
    assert (document["table"], document["position"], document["equal"]) == ("shop.orders", "b.000001:400", 8)
    assert (document["missing"], document["extra"], document["different"], document["unread"]) == (0, 1, 1, 0)
    assert document["differences"][0]["columns"]["v"] == {"source": "1", "lake": None}
    assert "unlike_keys" not in document, "as many as rows"


def test_keys_of_a_delivery_are_lines_with_the_lake_as_the_right_side() -> None:
    differences = (
        KeyDifference("different", {"id": "7"}, {"v": ("1", None)}),
        KeyDifference("extra", {"id": "8"}),
        KeyDifference("missing", {"id": "9"}),
    )
    verdict = DeliveryVerdict("copy", "shop.orders", DIFFERS, 3, 3, missing=1, extra=1, differences=differences)
    assert [*verdict.lines(values=True)] == [
        "shop.orders different id=7: v is 1 and should be NULL",
        "shop.orders missing id=8",
        "shop.orders extra id=9",
    ]
    document = verdict.to_json()
    assert [*document] == [
        *("delivery", "table", "state", "lake_rows", "target_rows", "missing", "extra", "different", "unread"),
        *("differences", "reason", "seconds"),
    ]
    assert document["differences"][0]["columns"]["v"] == {"source": "1", "lake": None}
