"""XA transactions as changes of a described file. Put here: how one is logged. Not here: what is made of it."""

import struct
from typing import Any

from tests.binlogs.segment_spec import Change, Query, RawEvent, Statement

XA = "X'7831',X'',1"
XA_START = Statement("", f"XA START {XA}")
XA_END = Query("", f"XA END {XA}")


def xa_prepare(*, one_phase: bool = False, name: bytes = b"x1") -> RawEvent:
    body = struct.pack("<BIII", one_phase, 1, len(name), 0) + name
    return RawEvent(38, body, ends=True)


def prepared(*rows: Change, **options: Any) -> list[Change]:
    """An XA transaction that is prepared."""
    return [XA_START, *rows, XA_END, xa_prepare(**options)]
