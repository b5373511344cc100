"""Rows that may not take effect: those of XA transactions and of rollbacks in a slice.

The rows of an XA transaction take effect when an XA COMMIT comes, in a transaction of its own that may stand many files
later, or never. MySQL 5.7 and later log ``XA START``, the rows, ``XA END`` and an XA_PREPARE event, which ends the
transaction and tells whether it was committed at once (XA COMMIT … ONE PHASE); then ``XA COMMIT`` or ``XA ROLLBACK``
(sql/xa.cc; libs/mysql/binlog/event/control_events.h, XA_prepare_event). MariaDB 10.5 and later mark the GTID instead of
logging ``XA START``, and log a commit in one phase like any other (sql/log_event.h, FL_PREPARED_XA, FL_COMPLETED_XA).
Servers before these log the rows at the commit, in an ordinary transaction.

A ROLLBACK (or ROLLBACK TO a savepoint) is logged behind rows where a table without transactions took part: its rows
stay, all others go, and which are which is not in the log.

Put here: reading what a slice decides. Not here: keeping rows until it is decided.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from spark_jobs.binlog.events.format_description import HEADER
from spark_jobs.binlog.events.query_event import read_query
from spark_jobs.binlog.events.scanner import Bytes, Scan, TableMaps, open_slice
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.events.types import EVENT_TYPES
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import DecodeError

_XA_PREPARE = 38
_DECIDES = re.compile(r"XA\s+(COMMIT|ROLLBACK)\s+(X'[0-9a-f]*',X'[0-9a-f]*',\d+)\s*", re.IGNORECASE)
_BOUNDS = re.compile(r"XA\s+(START|BEGIN|END)\s", re.IGNORECASE)
_QUERIES = (event_cells.QUERY, event_cells.LOAD_QUERY, event_cells.QUERY_COMPRESSED)


@dataclass(frozen=True, slots=True)
class XaStep:
    """Action of a slice on an XA transaction.

    Xid: as the server writes it, ``X'6131',X'',1``; None where it is not told yet.

    part: it holds rows of a transaction that continues in the next slice. prepared: it ends such a transaction, and its
    rows wait for a decision. at once: it ends one that is committed with it. committed, rolled back: it decides one
    that was prepared. undone: it undoes rows of an ordinary transaction whose beginning lies in an earlier slice.
    statement: database and text of the first statement inside that is not about the transaction as a whole: rows logged
    as a statement, or a ROLLBACK TO past rows.
    """

    kind: Literal["part", "prepared", "at once", "committed", "rolled back", "undone"]
    xid: str | None
    statement: tuple[str, str] | None = None


def xa_step(
    file: str, start: int, context: bytes | None, payload: Bytes, transaction_start: int, *, inside: bool
) -> XaStep | None:
    """Action of a slice on rows that may not take effect; None where it is about none. Raises DecodeError.

    inside: whether the slice before it was a part of the transaction that this one continues.
    """
    maps = TableMaps()
    scanner, scan = open_slice(file, start, context, payload, maps, transaction_start=transaction_start)
    inside_of = f"{file}:{start}: Transaction_payload event: content"  # where an event is inside, its offset says
    steps = [_step(opened.inner, 0, inside_of) for opened in Payloads(file, scanner.format, maps).open(scan)]
    flags = int(np.bitwise_or.reduce(scan.transactions[:, event_cells.TX_FLAGS], initial=0))
    if not inside and not flags & event_cells.TX_XA:
        return XaStep("undone", None) if flags & event_cells.TX_ROLLED_BACK and transaction_start < start else None
    steps.append(_step(scan, scanner.format.footer, file))
    statement = next((step.statement for step in steps if step.statement), None)
    return replace(next((step for step in steps if step.kind != "part"), steps[-1]), statement=statement)


def _step(scan: Scan, footer: int, file: str) -> XaStep:
    """Action of the events of one scan. footer: bytes of checksum after each."""
    statement = None
    marked = (scan.mark & event_cells.MARK_STATEMENT != 0) | (scan.code == _XA_PREPARE)
    for event in np.flatnonzero(marked).tolist():
        location = f"{file}:{scan.base + int(scan.offset[event])}"
        if scan.code[event] == _XA_PREPARE:
            return replace(_prepared(scan.bytes_of(event), footer, location), statement=statement)
        if EVENT_TYPES[int(scan.code[event])].meaning not in _QUERIES:
            continue
        database, text = read_query(scan.bytes_of(event), footer, location)
        if scan.mark[event] & event_cells.MARK_ENDS:
            return replace(_decision(text, location), statement=statement)
        if statement is None and not _BOUNDS.match(text):
            statement = database, text
    return XaStep("part", None, statement)


def _decision(text: str, location: str) -> XaStep:
    match = _DECIDES.fullmatch(text)
    if not match:
        raise DecodeError(f"{location}: Query event: {text!r} is no end of an XA transaction that is known")
    return XaStep("committed" if match[1].upper() == "COMMIT" else "rolled back", match[2].lower().replace("x", "X"))


def _prepared(event: bytes, footer: int, location: str) -> XaStep:
    """XA_PREPARE: one phase 1, format id 4, length of the global part 4, of the branch part 4, the two parts."""
    body = event[HEADER : len(event) - footer]
    lengths = [int.from_bytes(body[at : at + 4], "little") for at in (5, 9)]
    if len(body) < 13 or len(body) != 13 + sum(lengths):
        raise DecodeError(f"{location}: XA_prepare event: its parts do not fit into its {len(event)} bytes")
    middle = 13 + lengths[0]
    xid = f"X'{body[13:middle].hex()}',X'{body[middle:].hex()}',{int.from_bytes(body[1:5], 'little')}"
    return XaStep("at once" if body[0] else "prepared", xid)
