"""QUERY events in a scan: where the text begins, and what its first words mean for the transaction.

Put here: what is read of a statement without parsing it. Not here: its session variables (events/query_event.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, part
from spark_jobs.binlog.kernels.event_cells import (
    INSIDE,
    LOAD_QUERY,
    MARK_ENDS,
    MARK_IGNORED,
    MARK_STATEMENT,
    OUTSIDE,
    QUERY,
    S_FLAVOR,
    S_PHASE,
    TX_FLAGS,
    TX_HAS_ROWS,
    TX_ROLLED_BACK,
    TX_XA,
)
from spark_jobs.binlog.kernels.intrinsics import load8, load16

Q_OTHER, Q_BEGIN, Q_COMMIT, Q_ROLLBACK, Q_SAVEPOINT, Q_XA_START, Q_XA_END, Q_XA, Q_ROLLBACK_TO = range(9)


@part
def _word(address: int, count: int) -> Any:
    """Little-endian word of up to eight bytes, letters in lower case."""
    value = np.uint64(0)
    for k in range(count):
        value |= np.uint64(load8(address + k) | np.uint8(0x20)) << np.uint64(8 * k)
    return value


def _spelled(text: bytes) -> int:
    return int.from_bytes(bytes(byte | 0x20 for byte in text), "little")


_BEGIN = _spelled(b"BEGIN")
_COMMIT = _spelled(b"COMMIT")
_ROLLBACK = _spelled(b"ROLLBACK")
_SAVEPOINT = (_spelled(b"SAVEPOIN"), _spelled(b"T "))
_TO = _spelled(b" TO ")
_RELEASE = (_spelled(b"RELEASE "), _spelled(b"SAVEPOIN"))
_XA = _spelled(b"XA ")
_XA_START = (_spelled(b"START"), _spelled(b"BEGIN"), _spelled(b"END"))


@part
def query_class(text: int, count: int) -> Any:  # noqa: PLR0911 - one a keyword
    """Class (Q_OTHER …) of the ``count`` bytes of a QUERY's text. The server writes these words itself, bare."""
    # By length first: these two are most of a log.
    if count == 5 and _word(text, 5) == np.uint64(_BEGIN):
        return Q_BEGIN
    if count == 6 and _word(text, 6) == np.uint64(_COMMIT):
        return Q_COMMIT
    if count > 3 and _word(text, 3) == np.uint64(_XA):
        if count > 8:
            word = _word(text + 3, 5)
            if word == np.uint64(_XA_START[0]) or word == np.uint64(_XA_START[1]):
                return Q_XA_START
        if count > 6 and _word(text + 3, 3) == np.uint64(_XA_START[2]):
            return Q_XA_END
        return Q_XA
    if count < 8:
        return Q_OTHER
    # Longer keywords by their first eight bytes in one word.
    word = _word(text, 8)
    if word == np.uint64(_ROLLBACK):
        if count == 8:
            return Q_ROLLBACK
        if count > 12 and _word(text + 8, 4) == np.uint64(_TO):
            return Q_ROLLBACK_TO
    if word == np.uint64(_SAVEPOINT[0]) and count > 10 and _word(text + 8, 2) == np.uint64(_SAVEPOINT[1]):
        return Q_SAVEPOINT
    if word == np.uint64(_RELEASE[0]) and count > 17 and _word(text + 8, 8) == np.uint64(_RELEASE[1]):
        return Q_SAVEPOINT
    return Q_OTHER


@part
def query_text(body: int, count: int, meaning: int) -> Any:
    """Offset of a QUERY's text within its body, or -1 where its parts do not fit."""
    fixed = 26 if meaning == LOAD_QUERY else 13
    if count < fixed + 1:
        return np.int64(-1)
    text = fixed + np.int64(load16(body + 11)) + np.int64(load8(body + 8)) + 1
    return text if text <= count else np.int64(-1)


@part
def read_query(  # noqa: PLR0911 - one a keyword
    body: int,
    count: int,
    meaning: int,
    state: Array,
    transaction: Array,
) -> Any:
    """The mark of a QUERY event in a transaction; moves the state on. -1: its parts do not fit; -2: nested BEGIN."""
    # The class of the statement: compressed and loading ones are none that control a transaction.
    text = query_text(body, count, meaning)
    if text < 0:
        return -1
    query = Q_OTHER
    if meaning == QUERY:
        query = query_class(body + text, count - text)
    # BEGIN and XA START begin a transaction.
    if query in (Q_BEGIN, Q_XA_START):
        if state[S_PHASE] == INSIDE and not state[S_FLAVOR]:
            return -2
        state[S_PHASE] = INSIDE
        if query == Q_XA_START:
            transaction[TX_FLAGS] |= TX_XA
            return MARK_STATEMENT
        return 0
    # COMMIT and ROLLBACK end it. A rollback is logged where a table without transactions took part.
    if query == Q_COMMIT:
        state[S_PHASE] = OUTSIDE
        return MARK_ENDS
    if query == Q_ROLLBACK:
        state[S_PHASE] = OUTSIDE
        transaction[TX_FLAGS] |= TX_ROLLED_BACK
        return MARK_ENDS | MARK_STATEMENT
    if query == Q_ROLLBACK_TO and transaction[TX_FLAGS] & TX_HAS_ROWS:
        # Logged where a table without transactions took part: its rows stay, others since the savepoint do not.
        transaction[TX_FLAGS] |= TX_ROLLED_BACK
        return MARK_STATEMENT
    # Savepoints change no row; XA END stands before XA PREPARE or the commit.
    if query in (Q_SAVEPOINT, Q_ROLLBACK_TO):
        return MARK_IGNORED
    if query == Q_XA_END:
        transaction[TX_FLAGS] |= TX_XA
        return MARK_STATEMENT
    # Any other statement is a change by itself inside a transaction, and the whole of one outside.
    if query == Q_XA:
        transaction[TX_FLAGS] |= TX_XA
    elif state[S_PHASE] == INSIDE:
        return MARK_STATEMENT
    state[S_PHASE] = OUTSIDE
    return MARK_ENDS | MARK_STATEMENT
