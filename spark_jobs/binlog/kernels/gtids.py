"""GTID events in a scan: MySQL's, plain, anonymous and tagged, and MariaDB's.

Put here: how a GTID event fills in its transaction. Not here: GTID sets and texts.
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.event_cells import (
    GTID,
    GTID_DOMAIN,
    GTID_MARIADB,
    GTID_MYSQL,
    GTID_TAG,
    TX_COMMITTED,
    TX_GTID,
    TX_HIGH,
    TX_LOW,
    TX_NUMBER,
    TX_TAG,
)
from spark_jobs.binlog.kernels.intrinsics import load8, load32, load48, load64


@kernel
def _varlen(offset: int, end: int) -> Any:
    """(value, offset after it) of a variable-length integer; offset -1 where it reaches beyond ``end``.

    As many ones as the first byte ends in, so many bytes follow; eight of them are the number itself
    (libs/mysql/serialization/readme.md).
    """
    if offset >= end:
        return np.uint64(0), np.int64(-1)
    first = load8(offset)
    extra = 0
    while extra < 8 and (first >> np.uint8(extra)) & np.uint8(1):
        extra += 1
    if offset + 1 + extra > end:
        return np.uint64(0), np.int64(-1)
    value = np.uint64(0)
    for k in range(extra):
        value |= np.uint64(load8(offset + 1 + k)) << np.uint64(8 * k)
    if extra < 8:
        value = value << np.uint64(7 - extra) | np.uint64(first) >> np.uint64(extra + 1)
    return value, offset + 1 + extra


@kernel
def _tagged_uuid(transaction: Array, offset: int, end: int) -> Any:
    """Sixteen variable-length integers, a byte each."""
    for k in range(16):
        value, offset = _varlen(offset, end)
        if offset < 0:
            return offset
        transaction[TX_HIGH + k // 8] |= np.int64((value & np.uint64(255)) << np.uint64(8 * (k % 8)))
    return offset


@kernel
def _tag(transaction: Array, offset: int, end: int) -> Any:
    """A length of at most 32 and as many characters."""
    length, offset = _varlen(offset, end)
    if offset < 0 or length > np.uint64(32) or offset + np.int64(length) > end:
        return np.int64(-1)
    for k in range(np.int64(length)):
        transaction[TX_TAG + k // 8] |= np.int64(load8(offset + k)) << np.int64(8 * (k % 8))
    return offset + np.int64(length)


@kernel
def read_tagged_gtid(transaction: Array, body: int, count: int) -> Any:
    """A GTID_TAGGED_LOG event (libs/mysql/binlog/event/control_events.h, Gtid_event): numbered fields in rising order.

    Fields: 0 flags, 1 UUID, 2 number (signed), 3 tag, 4 and 5 logical clock, 6 immediate commit µs; more follow.
    Returns whether it could be read.
    """
    # The serialization's version and size, and the last field that a reader must know.
    end = body + count
    version, offset = _varlen(body, end)
    if offset < 0 or version != np.uint64(1):
        return False
    size, offset = _varlen(offset, end)
    if offset < 0 or size != np.uint64(count):
        return False
    last_field, offset = _varlen(offset, end)
    if offset < 0 or last_field > np.uint64(11):
        return False
    transaction[TX_GTID] = GTID_TAG
    # Fields by their number; those after 6 say nothing that is wanted here.
    while offset < end:
        number, offset = _varlen(offset, end)
        if offset < 0:
            return False
        if number > np.uint64(6):
            break
        if number == np.uint64(1):
            offset = _tagged_uuid(transaction, offset, end)
        elif number == np.uint64(3):
            offset = _tag(transaction, offset, end)
        else:
            value, offset = _varlen(offset, end)
            if number == np.uint64(2):
                transaction[TX_NUMBER] = np.int64(value >> np.uint64(1))
            elif number == np.uint64(6):
                transaction[TX_COMMITTED] = np.int64(value)
        if offset < 0:
            return False
    return transaction[TX_NUMBER] > 0


@part
def read_gtid(transaction: Array, meaning: int, header: int, body: int, count: int) -> Any:
    """Fills in GTID and commit time from a GTID event's ``count`` bytes of body (sql/log_event.h Gtid_log_event)."""
    if meaning == GTID_MARIADB:
        transaction[TX_GTID] = GTID_DOMAIN
        transaction[TX_HIGH] = np.int64(load32(body + 8))
        transaction[TX_LOW] = np.int64(load32(header + 5))
        transaction[TX_NUMBER] = np.int64(load64(body))
        return
    if meaning == GTID:
        transaction[TX_GTID] = GTID_MYSQL
        transaction[TX_HIGH] = np.int64(load64(body + 1))
        transaction[TX_LOW] = np.int64(load64(body + 9))
        transaction[TX_NUMBER] = np.int64(load64(body + 17))
    if count >= 49:  # 8.0.1 and later: 55 bits of µs, and a bit that tells of an original timestamp after them
        transaction[TX_COMMITTED] = load48(body + 42) | np.int64(load8(body + 48) & np.uint8(0x7F)) << 48


@part
def has_no_effect(body: int, count: int) -> Any:
    """True if MariaDB's GTID is of a START ALTER or ROLLBACK ALTER (binlog_alter_two_phase).

    The statement takes effect by a COMMIT ALTER, in a transaction of its own, which has its text again. Extra flags
    come after the number of a group commit, and after an XID (sql/log_event.cc, Gtid_log_event).
    """
    flags = load8(body + 12)
    at = np.int64(13)
    if flags & np.uint8(0x02):  # FL_GROUP_COMMIT_ID
        at += 8
    if flags & np.uint8(0xC0):  # FL_PREPARED_XA, FL_COMPLETED_XA
        if at + 6 > count:
            return False
        at += 6 + np.int64(load8(body + at + 4)) + np.int64(load8(body + at + 5))
    if at >= count:
        return False
    return load8(body + at) & np.uint8(0x0A) != 0  # FL_START_ALTER_E1, FL_ROLLBACK_ALTER_E1


@part
def gtid_length(meaning: int) -> Any:
    """The least body of a GTID event: flags 1, UUID 16, number 8; MariaDB: number 8, domain 4, flags 1."""
    return 13 if meaning == GTID_MARIADB else 25
