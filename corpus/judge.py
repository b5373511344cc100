"""Compares what a reader got from a log with what the case expects. It needs nothing but Python.

A reader prints JSON lines (README.md): rows, statements, and at last that it is done or why it stopped. Its values may
have the form that its documentation says; what is compared is the value.

Put here: which values are equal, and what a case comes to. Not here: starting readers (run.py).
"""

import json
import re
import struct
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

RIGHT, RAW, REFUSED, WRONG = "right", "raw", "refused", "wrong"
"""Verdicts. raw: every row as it was logged; which of them took effect is left to what reads the reader's events."""
SHOWN = 3
"""Wrong values that a verdict names."""
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_ABSENT = {"absent": True}
MARKED = {"marked": True}
"""A value that the reader marks as one that it has no form for."""


@dataclass(slots=True)
class Output:
    """What a reader printed of a case. error: why it stopped, where it did."""

    changes: list[dict[str, Any]] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass(slots=True)
class Verdict:
    """What a case comes to, and why it is not right."""

    verdict: str
    reasons: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict} | ({"reasons": self.reasons} if self.reasons else {})


def judge(case: dict[str, Any], output: Output) -> Verdict:
    """A reader that stops with a message refuses, provided that what it printed before is right."""
    differences, count = compare(case, case["changes"], output.changes)
    verdict, logged = RIGHT, case.get("logged")
    if logged is not None and (differences or (count < len(case["changes"]) and output.error is None)):
        of_logged, logged_count = compare(case, logged, output.changes)
        if not of_logged:
            verdict, differences, count = RAW, of_logged, logged_count
    expected = logged if verdict == RAW and logged is not None else case["changes"]
    if differences:
        return Verdict(WRONG, differences[:SHOWN])
    if case["outcome"].startswith("refused"):
        return judge_refusal(case, output, count)
    if output.error is not None and not case["outcome"].startswith("open"):
        return Verdict(REFUSED, [output.error])
    if count < len(expected):
        missing = expected[count]
        reason = (
            f"{len(expected) - count} of {len(expected)} changes are missing, the first is {described(case, missing)}"
        )
        return Verdict(WRONG, [reason])
    lacking = [text for text in case["statements"] if squeezed(text) not in set(map(squeezed, output.statements))]
    if lacking:
        return Verdict(WRONG, [f"the statement is missing: {text}" for text in lacking[:SHOWN]])
    if any("difference" in cell for change in output.changes for cell in cells_of(change)):
        verdict = RAW
    marked = sum(json.dumps(change).count('{"marked": true}') for change in output.changes)
    return Verdict(REFUSED, [f"{marked} values are marked as having no form"]) if marked else Verdict(verdict)


def cells_of(change: dict[str, Any]) -> list[dict[str, Any]]:
    """The values after a change that are objects."""
    after = change["after"] or []
    return [cell for cell in (after if isinstance(after, list) else after.values()) if isinstance(cell, dict)]


def judge_refusal(case: dict[str, Any], output: Output, count: int) -> Verdict:
    """A log that cannot be read to its end: right is a message, behind the rows that stand before the place."""
    if output.error is not None:
        return Verdict(RIGHT)
    texts = set(map(squeezed, output.statements))
    if case.get("logged_texts") and texts.issuperset(map(squeezed, case["logged_texts"])):
        return Verdict(RAW)
    return Verdict(WRONG, [f"no message, after {count} changes: {case['outcome']}"])


def compare(case: dict[str, Any], expected: list[dict[str, Any]], got: list[dict[str, Any]]) -> tuple[list[str], int]:
    """Differences of what was got from the beginning of what was expected, and how many changes were got."""
    differences: list[str] = []
    for number, change in enumerate(got):
        if number >= len(expected):
            differences.append(f"{len(got) - number} changes that are not expected, the first is {short(change)}")
            break
        differences += [f"change {number + 1}, {text}" for text in unlike(case, expected[number], change)]
        if len(differences) > SHOWN:
            break
    return differences, min(len(got), len(expected))


def unlike(case: dict[str, Any], expected: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """What of a change differs."""
    layout = case["layouts"][expected["layout"]]
    name = f"{layout['schema']}.{layout['table']}"
    if (got["table"], got["op"]) != (name, expected["op"]):
        return [f"{expected['op']} of {name} expected, got {got['op']} of {got['table']}"]
    texts = []
    for which_image in ("before", "after"):
        texts += [
            f"{which_image} {text}" for text in unlike_images(case, layout, expected[which_image], got[which_image])
        ]
    return texts


def unlike_images(case: dict[str, Any], layout: dict[str, Any], expected: list[Any] | None, got: Any) -> list[str]:
    if expected is None:
        return [] if got is None else [f"image expected to be none, got {short(got)}"]
    if got is None:
        return ["image is missing"]
    cells = by_position(layout, got)
    if isinstance(cells, str):
        return [cells]
    pairs = zip(layout["columns"], expected, cells, strict=True)
    return [
        f"{column['name']} {cut(column['type'])}: expected {short(value)}, got {short(cell)}"
        for column, value, cell in pairs
        if not is_same(column, value, cell, signs_logged=case["signs_logged"])
    ]


def by_position(layout: dict[str, Any], got: Any) -> list[Any] | str:
    """The values of an image, one a column of the layout; a text where they do not fit it."""
    names = [column["name"] for column in layout["columns"]]
    if isinstance(got, list):
        return got if len(got) == len(names) else f"image of {len(names)} columns expected, got {len(got)}"
    unknown = [name for name in got if name not in names and not re.fullmatch(r"@\d+", name)]
    if unknown:
        return f"image has columns that the table has not: {', '.join(unknown)}"
    return [got.get(name, got.get(f"@{number}", _ABSENT)) for number, name in enumerate(names, 1)]


def is_same(column: dict[str, Any], expected: Any, got: Any, *, signs_logged: bool = True) -> bool:
    """Check whether a value is the one expected, in whatever form."""
    if isinstance(got, dict) and "difference" in got:
        return bool(column["form"] == "json" and expected not in (None, _ABSENT))
    if got == MARKED:
        return expected is not None and expected != _ABSENT
    if expected is None or expected == _ABSENT or got is None or got == _ABSENT:
        return bool(expected == got)
    try:
        return _same_value(column, expected, got, signs_logged)
    except (ValueError, InvalidOperation, OverflowError, AttributeError, TypeError, KeyError, struct.error):
        return False


def _same_value(column: dict[str, Any], expected: Any, got: Any, signs_logged: bool) -> bool:  # noqa: PLR0911 - one a form
    match column["form"]:
        case "integer" | "year":
            difference = int(str(got)) - int(expected)
            bits = _BITS.get(re.split(r"\W", column["type"])[0], 64)
            return difference == 0 or (not signs_logged and difference % (1 << bits) == 0)
        case "bit":
            return as_number(got) == int(expected)
        case "decimal":
            return Decimal(str(got)) == Decimal(expected)
        case "float":
            return struct.pack("<f", float(got)) == struct.pack("<f", float(expected))
        case "double":
            return float(got) == float(expected)
        case "text" | "address":
            return same_text(column, expected, got)
        case "bytes":
            return same_bytes(column, bytes.fromhex(expected["hex"]), bytes_of(got))
        case "enum" | "set":
            return same_labels(column, expected, got)
        case "json":
            text = bytes_of(got).decode() if isinstance(got, dict) else got
            return same_json(read_json(expected), read_json(text))
    return plain_time(str(expected)) == plain_time(str(got))


def as_number(got: Any) -> int:
    return int.from_bytes(bytes_of(got), "big") if isinstance(got, dict) else int(got)


def bytes_of(got: Any) -> bytes:
    """Bytes of a value; a VECTOR may be its numbers, and bytes the text of which they are the UTF-8."""
    if isinstance(got, str):
        return got.encode()
    return struct.pack(f"<{len(got)}f", *got) if isinstance(got, list) else bytes.fromhex(got["hex"])


def same_text(column: dict[str, Any], expected: Any, got: Any) -> bool:
    """Text, or the bytes of it in the column's character set."""
    text, raw = (expected["text"], expected["hex"]) if isinstance(expected, dict) else (expected, None)
    if isinstance(got, str) and (got == text or column["form"] == "text"):
        return bool(got == text)
    content = bytes_of(got)
    if column["form"] == "address":
        packed = address_bytes(column["type"], text)
        return packed == content.ljust(len(packed), b"\0")
    return content == (text.encode() if raw is None else bytes.fromhex(raw))


def address_bytes(declared: str, text: str) -> bytes:
    """The bytes of an address or UUID as SQL's cast to BINARY gives them."""
    import ipaddress
    import uuid

    return uuid.UUID(text).bytes if declared.startswith("uuid") else ipaddress.ip_address(text).packed


def same_bytes(column: dict[str, Any], expected: bytes, got: bytes) -> bool:
    """BINARY(n) is logged without the zero bytes at its end; whoever knows n has the value."""
    if column["type"].startswith("binary("):
        return expected == got.ljust(len(expected), b"\0")
    return expected == got


def same_labels(column: dict[str, Any], expected: dict[str, str], got: Any) -> bool:
    """The label (of a SET: the labels), or the number; labels may be bytes of the column's character set."""
    if isinstance(got, dict):
        got = bytes_of(got).decode(_CODECS.get(column.get("charset", ""), "utf-8"))
    if isinstance(got, list):
        return sorted(got) == sorted(filter(None, expected["label"].split(",")))
    if isinstance(got, int):  # the bits of 64 members fill a signed number of 64 bits
        return got % (1 << 64) == int(expected["number"])
    return bool(got == expected["label"] or got == expected["number"])


_CODECS = {"latin1": "cp1252"}


@dataclass(frozen=True, slots=True)
class Double:
    """A number of a document that is no integer, or none that fits 64 bits."""

    text: str


def read_json(text: str) -> Any:
    return json.loads(text, parse_float=Double)


def same_json(expected: Any, got: Any) -> bool:
    """Documents are equal by their values; how a number that is no integer is written does not count."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(same_json(value, got[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(same_json, expected, got))
    if isinstance(expected, Double) and type(got) in (int, Double):
        return float(expected.text) == float(got.text if isinstance(got, Double) else got)
    if type(expected) is int and isinstance(got, Double):
        return Decimal(expected) == Decimal(got.text)
    return type(expected) is type(got) and bool(expected == got)


def plain_time(text: str) -> str:
    """Text of a date or time without ``T``, zone of UTC, and zeros at the end of a fraction."""
    text = re.sub(r"(Z|\+00:00|\.0+Z?)$", "", text.replace("T", " "))
    return re.sub(r"(\.\d*?)0+$", r"\1", text).removesuffix(".")


def squeezed(statement: str) -> str:
    """A statement without its blanks, and the server's remark about who made it."""
    return re.sub(r"\s+", "", statement).rstrip(";")


def described(case: dict[str, Any], change: dict[str, Any]) -> str:
    layout = case["layouts"][change["layout"]]
    return f"{change['op']} of {layout['table']} {short(change['after'] or change['before'])}"


def short(value: Any) -> str:
    return cut(json.dumps(value, ensure_ascii=False), 120)


def cut(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
