"""A group that changes its format at any entry. Put here: what the next consumer gets. Not here: lines themselves."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.changes.formats import FORMATS
from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.entries import EntryReader, LogEntry
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Rows, Statement, Update
from tests.binlogs.xa import XA, prepared
from tests.lakes.consumers import SOURCE, SPEC, Shop, ids, order

START = Cursor(Position("b.000001", 4))
MOVES = [((2, "b"), (12, "b")), ((3, "c"), (3, "changed")), ((4, "d"), (14, "d"))]
"""Rows of one UPDATE, of which the first and the last get another key."""
EVENTS: list[Change] = [
    Rows("shop.orders", Insert, [(1, "a"), (2, "b"), (3, "c"), (4, "d")]),
    Rows("shop.orders", Update, MOVES),
    Insert("shop.other", (1,)),
    Rows("shop.orders", Delete, [(1, "a"), (12, "b")]),
    Commit(),
]
Effect = tuple[str, str, str]
"""An image that was added or removed, or a statement, by its table; each is in a log once."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Events of several rows, changed keys, a DDL statement, a compressed transaction and an XA transaction."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.log([*EVENTS, Statement("shop", "ALTER TABLE orders COMMENT 'x'"), *order(20)])
    in_payload: list[Change] = [
        Rows("shop.orders", Insert, [(30, "a"), (31, "b")]),
        Rows("shop.other", Insert, [(30,), (31,)]),
        Rows("shop.orders", Update, [((30, "a"), (40, "a")), ((31, "b"), (41, "b"))]),
        Commit(),
    ]
    shop.log([*in_payload, *order(50)], replace(SPEC, payload=lambda _: "zstd"))
    in_xa: Any = prepared(
        Rows("shop.orders", Insert, [(60, "a"), (61, "b")]),
        Rows("shop.orders", Update, [((60, "a"), (70, "a")), ((61, "b"), (61, "changed"))]),
    )
    shop.log([*in_xa, *order(80), Statement("", f"XA COMMIT {XA}"), *order(90)])
    return shop.lake


def entries_of(lake: Lake, form: str, cursor: Cursor = START) -> list[LogEntry]:
    """What a consumer with all that its format allows gets from a cursor on."""
    allowed = {name: getattr(FORMATS[form], f"allows_{name}") for name in ("statements", "transactions")}
    reader = EntryReader(lake, SOURCE, wanted_tables([]), Output.of(form, **allowed))
    return list(reader.entries(Cursor.from_json(json.loads(json.dumps(cursor.to_json()))), "g"))


def effects(form: str, entry: LogEntry) -> list[Effect]:
    """What an entry says, in the same words for every format."""
    line = entry.value
    if entry.kind == "statement":
        return [("ddl", "", str(line.get("statement") or line.get("sql")))]
    if entry.kind != "change":
        return []
    match form:
        case "stratalog":
            images = [(line["table"], line["before"], line["after"])]
        case "debezium":
            images = [(line["source"]["table"], line["before"], line["after"])]
        case "canal-json":
            olds = line["old"] or [{}] * len(line["data"])
            pairs = [_images(line["type"].lower(), *pair) for pair in zip(olds, line["data"], strict=True)]
            images = [(line["table"], *pair) for pair in pairs]
        case _:
            images = [(line["table"], *_images(line["type"], line.get("old", {}), line["data"]))]
    return [
        (sign, table, json.dumps([str(value) for value in image.values()]))
        for table, *pair in images
        for sign, image in zip("-+", pair, strict=True)
        if image
    ]


def _images(
    kind: str, old: dict[str, Any], data: dict[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Before and after, of formats that have the changed columns of the row before."""
    before = data | old if kind == "update" else data
    return (None if kind == "insert" else before), (None if kind == "delete" else data)


def all_effects(form: str, entries: list[LogEntry]) -> list[Effect]:
    return [effect for entry in entries for effect in effects(form, entry)]


@pytest.mark.parametrize(
    "first, second",
    [
        # Canal's entries are the fewest.
        pytest.param(first, second, marks=[] if first == "canal-json" else pytest.mark.thorough)
        for first, second in itertools.product(FORMATS, FORMATS)
    ],
)
def test_nothing_is_lost_when_a_group_changes_its_format(lake: Lake, first: str, second: str) -> None:
    delivered = entries_of(lake, first)
    expected = all_effects(second, entries_of(lake, second))
    assert len(set(expected)) == len(expected)
    # The first consumer has passed statements that its format has no place for.
    has_statements = FORMATS[first].allows_statements
    passed_over = {effect for effect in expected if effect[0] == "ddl" and not has_statements}
    # Acknowledged up to any entry, and gone on in the other format.
    for count in range(1, len(delivered) + 1):
        before = all_effects(first, delivered[:count])
        following = entries_of(lake, second, delivered[count - 1].after)
        after = all_effects(second, following)
        assert after == expected[len(expected) - len(after) :], "entries come in their order, without gaps"
        missing = {*expected} - {*before} - {*after}
        assert missing <= passed_over, f"lost after {count} of {len(delivered)}"
        # What is repeated is one entry: the event, or the row, that the cut lies inside.
        repeated = {*before} & {*after}
        assert repeated <= {effect for entry in following[:1] for effect in effects(second, entry)}
        assert not repeated or first == "debezium" or second == "canal-json"
        if first == second:
            assert not repeated
            assert [(entry.position, entry.row) for entry in following] == [
                (entry.position, entry.row) for entry in delivered[count:]
            ]


def test_rest_of_an_event_comes_in_another_format(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([Rows("shop.orders", Insert, [(number, None) for number in range(1, 11)]), Commit(), *order(100)])
    with shop.subscription() as subscription:
        assert ids(subscription.get(3)) == [1, 2, 3]
    with shop.subscription(format="canal-json") as subscription:
        entry, last = subscription.get(9).entries
        assert [row["id"] for row in entry.value["data"]] == [str(number) for number in range(1, 11)]
        assert (entry.row, entry.rows, last.row, last.rows) == (0, 10, 0, 1)
