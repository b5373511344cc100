"""Damages copies of recorded logs, and says what a reader has to make of them.

The places come from the events that the server showed, and what must happen from what was done to the bytes: the rows
before the place are those that the server told, and behind it nothing can be known.

Put here: which bytes change. Not here: the logs that are damaged (record.py).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Events: TypeAlias = list[list[Any]]
"""Offset, type and end of each event."""
Change: TypeAlias = Callable[[bytes, Events], bytes]
_BASES = ("mysql-5.7-transactions", "mysql-8.0-transactions", "mariadb-11.4-transactions")
_PACKED = "mysql-9.7-payload"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to a copy. lost: how many changes of the end cannot be read; None: all of them."""

    name: str
    change: Change
    outcome: str
    lost: int | None = 1


def offset_of(events: Events, *kinds: str) -> int:
    """The offset of the last event whose type begins so."""
    return int(next(offset for offset, kind, _ in reversed(events) if kind.startswith(kinds)))


def cut(behind: int, *kinds: str) -> Change:
    """Without what comes so many bytes behind the beginning of the last such event."""
    return lambda log, events: log[: offset_of(events, *kinds) + behind]


def flipped(behind: int, *kinds: str) -> Change:
    """With one bit changed so many bytes behind the beginning of the last such event."""

    def change(log: bytes, events: Events) -> bytes:
        offset = offset_of(events, *kinds) + behind
        return log[:offset] + bytes([log[offset] ^ 1]) + log[offset + 1 :]

    return change


def sized(size: int, *kinds: str) -> Change:
    """With another size in the head of the last such event."""

    def change(log: bytes, events: Events) -> bytes:
        offset = offset_of(events, *kinds) + 9
        return log[:offset] + size.to_bytes(4, "little") + log[offset + 4 :]

    return change


_ROWS = ("Write_rows", "Update_rows", "Delete_rows")
_CUT = "refused: the file ends inside an event"
_OPEN = "open: the last transaction has no end yet"
_CHECKSUM = "refused: the checksum of an event differs"
DAMAGES = (
    Damage("cut-in-rows", cut(30, *_ROWS), _CUT),
    Damage("cut-in-a-head", cut(7, *_ROWS), _CUT),
    Damage("cut-in-a-transaction", cut(0, "Xid"), _OPEN),
    Damage("bit-in-a-row", flipped(35, *_ROWS), _CHECKSUM),
    Damage("bit-in-a-table-map", flipped(35, "Table_map"), _CHECKSUM),
    Damage("bit-in-a-checksum", flipped(-1, "Xid"), _CHECKSUM),
    Damage("size-too-small", sized(10, *_ROWS), "refused: an event is smaller than its head"),
    Damage("size-too-large", sized(0x7FFFFFF0, *_ROWS), "refused: an event is larger than the file"),
    Damage("zeros-behind", lambda log, _: log + bytes(64), "refused: bytes behind the last event are none", 0),
    Damage("copied-as-text", lambda log, _: log.replace(b"\n", b"\r\n"), "refused: line ends were changed", None),
    Damage("other-magic", lambda log, _: b"\xfebim" + log[4:], "refused: no binary log", None),
)
PACKED_DAMAGES = (
    Damage("bit-in-a-payload", flipped(60, "Transaction_payload"), _CHECKSUM, 4),
    Damage("cut-in-a-payload", cut(60, "Transaction_payload"), _CUT, 4),
)


def damage(cases: Path) -> None:
    """Writes the damaged copies, each a case of its own."""
    for base, damages in [*((base, DAMAGES) for base in _BASES), (_PACKED, PACKED_DAMAGES)]:
        if (cases / f"{base}.json").is_file():
            for kind in damages:
                write(cases, base, kind)


def write(cases: Path, base: str, kind: Damage) -> None:
    from corpus.record import write_case

    case = json.loads((cases / f"{base}.json").read_text(encoding="utf-8"))
    name = f"{base.removesuffix('-transactions')}-damaged-{kind.name}"
    (events,) = case["events"]
    log = (cases / case["files"][0]).read_bytes()
    (cases / f"{name}.000001").write_bytes(kind.change(log, events))
    changes = case["changes"]
    kept = changes[: len(changes) - (len(changes) if kind.lost is None else kind.lost)]
    case |= {
        "about": f"damaged: {kind.name.replace('-', ' ')}",
        "base": base,
        "files": [f"{name}.000001"],
        "outcome": kind.outcome,
        "statements": [],
        "events": [],
        "changes": kept,
    }
    case["source"] = {"rows": f"those of {base} before the damage", "outcome": "what was done to the bytes"}
    if kind.outcome.startswith("open"):
        case["logged"] = changes
    write_case(cases / f"{name}.json", case)
