"""Each format against what its own tool wrote for the same log (record.py).

Put here: the comparison, and the differences that docs/formats.md has. Not here: recording.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import Output, wanted_tables

RECORDED = Path(__file__).parent / "recorded"
(LOG,) = RECORDED.glob("mysql-bin.*")
LABELS = {"e": ("a,b", "c'd", "", "ü"), "s": ("x", "y", "ü", "z")}
"""What this server's log does not tell as text, and a CREATE TABLE told the tools."""


def complete(definition: TableDefinition, *_: object) -> TableDefinition:
    columns = tuple(
        replace(column, labels=LABELS[str(column.name)]) if column.type.has_labels else column
        for column in definition.columns
    )
    return replace(definition, columns=columns)


def own_lines(form: str) -> list[str]:
    log = (LOG.name, iter([LOG.read_bytes()]))
    text = "".join(changes_of_files([log], wanted_tables(["kinds.*"]), complete, Output.of(form)))
    return text.rstrip("\n").split("\n")


def peer_lines(form: str) -> list[str]:
    return (RECORDED / f"{form}.jsonl").read_text().rstrip("\n").split("\n")


def masked(line: str, masks: dict[str, str]) -> str:
    for pattern, text in masks.items():
        line = re.sub(pattern, text, line)
    return line


DEBEZIUM = {
    r'"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+\}$': "when it was written",
    r'"name":"(peer)?"': "the name of the connector",
}
CANAL = {
    r'"id":\d+,"isDdl"': '"batch","isDdl"',
    r'"ts":\d+,"type"': '"when it was written","type"',
    r'":"((?:tiny|small|medium|big)?int|year)\(\d+\)': r'":"\1',  # the display width, which no log has
    r'":"(?:point|linestring|geomcollection|geometry)"': '":"any geometry"',
}
DEBEZIUM_DIFFERS: dict[tuple[str, str], tuple[Any, Any]] = {
    ("times", "dn"): (11323, -719162),  # the year 1 becomes 2001
    ("strings", "e"): ("a\\,b", "a,b"),  # a comma in a label
}
JSON_TIMES = (
    '"d":"2024-02-29 01:02:03.5","n":1.50,"t":"11:0-12:0-12"',
    '"d":"2024-02-29 01:02:03.500000","n":1.50,"t":"-10:11:12.000000"',
)


def without_debeziums_own(line: str) -> str:
    """A line of Debezium's with the documented differences made ours."""
    fields = json.loads(line)
    for image in (fields["before"], fields["after"]):
        for (table, column), (peer_value, own_value) in DEBEZIUM_DIFFERS.items():
            if image and fields["source"]["table"] == table and image[column] == peer_value:
                image[column] = own_value
        if image and fields["source"]["table"] == "documents" and image["j"]:
            image["j"] = image["j"].replace(*JSON_TIMES)
        if image and fields["source"]["table"] == "shapes" and image["p"]:
            for key in ("x", "y"):
                del image["p"][key]
    return json.dumps(fields)


def without_canals_own(line: str) -> str:
    """A line of canal's with the documented difference made ours."""
    fields = json.loads(line)
    for row in fields["data"]:
        if row.get("e") == "0":  # an invalid value, which is text like the label that is empty
            row["e"] = "3"
    return json.dumps(fields)


def as_object(line: str) -> str:
    return json.dumps(json.loads(line))


def compare(form: str, masks: dict[str, str], adapt: Callable[[str], str] | None = None) -> tuple[int, int]:
    """Lines that are equal byte for byte but for the masks, and all lines; the others are equal by ``adapt``."""
    equal = 0
    peer, lines = peer_lines(form), own_lines(form)
    assert len(peer) == len(lines)
    for peer_line, own_line in zip(peer, lines, strict=True):
        if masked(peer_line, masks) == masked(own_line, masks):
            equal += 1
            continue
        assert adapt, (peer_line, own_line)
        assert masked(adapt(peer_line), OBJECTS | masks) == masked(as_object(own_line), OBJECTS | masks)
    return equal, len(peer)


OBJECTS = {
    r'"ts_ms": \d+, "ts_us": \d+, "ts_ns": \d+\}$': "when it was written",
    r'"name": "(peer)?"': "the name of the connector",
    r'"id": \d+, "isDdl"': '"batch", "isDdl"',
    r'"ts": \d+, "type"': '"when it was written", "type"',
    r'": "((?:tiny|small|medium|big)?int|year)\(\d+\)': r'": "\1',
}
"""The same in objects that were parsed and written again."""


def test_debezium() -> None:
    equal, count = compare("debezium", DEBEZIUM, without_debeziums_own)
    assert count > 50
    assert count - equal == 4, "a date of the year 1, a label with a comma, times in a document, a point"


def test_canal() -> None:
    equal, count = compare("canal-json", CANAL, without_canals_own)
    assert count > 40
    assert count - equal == 1, "an invalid value of an ENUM that has an empty label"


@pytest.mark.parametrize("form", ["debezium", "canal-json"])
def test_a_consumer_of_the_tool_gets_the_same_rows_of_ours(form: str) -> None:
    """One consumer, which knows nothing but the tool's own format, applies both files."""
    apply = {"debezium": rows_by_debezium, "canal-json": rows_by_canal}[form]
    peer_rows, own_rows = apply(peer_lines(form)), apply(own_lines(form))
    assert {key for key, row in peer_rows.items() if row != own_rows[key]} == DIFFERENT[form]
    assert peer_rows.keys() == own_rows.keys()
    assert ("orders", 4) in own_rows or ("orders", "4") in own_rows


DIFFERENT: dict[str, set[tuple[str, Any]]] = {
    "debezium": {("times", 4), ("strings", 1), ("documents", 4), ("shapes", 1)},
    "canal-json": {("strings", "5")},
}


def rows_by_debezium(lines: list[str]) -> dict[tuple[str, Any], Any]:
    rows: dict[tuple[str, Any], Any] = {}
    for change in map(json.loads, lines):
        table = change["source"]["table"]
        if change["op"] in ("u", "d") and "id" in change["before"]:
            del rows[table, change["before"]["id"]]
        if change["after"] and "id" in change["after"]:
            rows[table, change["after"]["id"]] = change["after"]
    return rows


def rows_by_canal(lines: list[str]) -> dict[tuple[str, Any], Any]:
    rows: dict[tuple[str, Any], Any] = {}
    for message in map(json.loads, lines):
        for at, row in enumerate(message["data"] or ()):
            if "id" not in row:
                continue
            if message["type"] in ("UPDATE", "DELETE"):
                before = message["old"][at] if message["old"] else {}
                del rows[message["table"], before.get("id", row["id"])]
            if message["type"] != "DELETE":
                rows[message["table"], row["id"]] = row
    return rows
