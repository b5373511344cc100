"""Cells and codes of scanned events: what the scan writes, and what its callers and other kernels read.

Put here: constants of events, transactions and the scan's state. Not here: functions; cells of rows (row_cells.py).
"""

import numpy as np

# What an event means for the walk. binlog/events/types.py gives every type code one of these.
(
    UNKNOWN,  # no type of this number is known
    STOPS,  # known, and it cannot be skipped
    FORMAT,
    CONTROL,  # stands outside transactions: file head, rotation, stop
    IGNORED,  # known to be irrelevant; counted
    INNER,  # belongs to the statement whose QUERY follows; counted as irrelevant by itself
    GTID,
    GTID_TAGGED,
    GTID_ANONYMOUS,
    GTID_MARIADB,
    QUERY,
    LOAD_QUERY,  # EXECUTE_LOAD_QUERY: a QUERY with 13 more bytes of post-header
    QUERY_COMPRESSED,
    TABLE_MAP,
    ROWS,
    PAYLOAD,
    XID,
    XA_PREPARE,
) = range(18)

# Bits of a scanned event's mark.
MARK_BEGINS = 1  # first event of a transaction
MARK_ENDS = 2  # last event of a transaction
MARK_CONTROL = 4  # outside any transaction
MARK_STATEMENT = 8  # a QUERY whose text somebody has to read
MARK_ROWS = 16  # a row event
MARK_STATEMENT_ENDS = 32  # a row event with STMT_END_F: the table maps open until here are closed
MARK_IGNORED = 64  # known to be irrelevant
MARK_ANY_TABLE = 128  # may touch tables that its header does not name

# Columns of the transactions' array (int64).
TX_START = 0  # file offset of the first event
TX_STOP = 1  # file offset after the last event; 0 while the end has not been seen
TX_GTID = 2  # which GTID: one of GTID_NONE …
TX_HIGH = 3  # MySQL: first 8 bytes of the UUID, little-endian; MariaDB: domain id
TX_LOW = 4  # MySQL: last 8 bytes of the UUID, little-endian; MariaDB: server id
TX_NUMBER = 5  # transaction number within the UUID or domain
TX_COMMITTED = 6  # µs since 1970 UTC: immediate commit timestamp, else the first event's second
TX_FLAGS = 7  # the bits TX_HAS_ROWS …
TX_TAG = 8  # four cells: up to 32 characters of a GTID's tag, zeros behind them
TX_COLUMNS = 12

GTID_NONE, GTID_MYSQL, GTID_TAG, GTID_DOMAIN, GTID_GIVEN = range(5)
TX_HAS_ROWS, TX_XA, TX_ROLLED_BACK = 1, 2, 4
TX_NO_EFFECT = 8  # its statement changes nothing: an ALTER that only begins, or that fails

# Cells of the scan's state (int64), kept from one buffer to the next.
S_EVENTS = 0  # events noted of this buffer
S_TRANSACTIONS = 1  # rows of the transactions' array in use; the last one may be open
S_MAPS = 2  # table maps open in the statement
S_PHASE = 3  # OUTSIDE …
S_FLAVOR = 4  # 1 for MariaDB: its GTID event begins the transaction, a BEGIN may still follow
S_GROUP = 5  # bytes of the fragments that begin where the scan has stopped for them; 0: nobody has looked at them
S_GROUP_BODY = 6  # where the body of their row event begins, from there on
S_RECENT = 7  # ordinals + 1 of the last maps by table id: a body is compared with the one before it, not hashed again
RECENT = 64
S_CELLS = S_RECENT + RECENT

OUTSIDE, BEGUN, INSIDE = range(3)  # BEGUN: a GTID was read and the next QUERY decides

# Why a scan stopped.
(
    SCANNED,  # every whole event is done
    NEW_MAP,  # a TABLE_MAP body that was not seen before: register it and continue
    MAPS_FULL,  # more maps open in one statement than the array holds: enlarge it and continue
    BAD_LENGTH,  # shorter than its fixed parts, or longer than a server writes
    BAD_CHECKSUM,
    NOT_KNOWN,
    CANNOT_PASS,
    NO_MAP,  # a row event whose table id no open TABLE_MAP has
    NOT_ENDED,  # a transaction begins, or the file ends by an event, inside another one
    AGAIN_FORMAT,  # a second FORMAT_DESCRIPTION
    EVENTS_FULL,  # more events or transactions than the arrays hold: enlarge them and continue
    FRAGMENTS,  # a row event in fragments: find out where they end and continue
) = range(12)

# Cells of a row event whose rows are to be decoded.
(
    E_ADDRESS,  # in memory; as many bytes as the row kernel reads beyond an event are readable after it
    E_LENGTH,  # without a checksum
    E_OFFSET,  # in the file; of the payload event for what was inside one
    E_COMMIT,  # its transaction's commit time (µs)
    E_LEAD,  # rows of other tables between the event before it and itself, where both have one offset
    E_GROUP,  # whose its rows are
) = range(6)
E_CELLS = 6
E_BYTES = 8 * E_CELLS

HEADER = 19
START_ENCRYPTION = np.uint8(164)
LONGEST_EVENT = (1 << 30) + (1 << 16)  # max_allowed_packet is at most 1 GiB; an event adds its own head
IGNORABLE = np.uint8(28)
LAST_PLAIN = np.uint8(32)
FRAGMENT = np.uint8(172)
CHOSEN_ANY_TABLE, CHOSEN_PACKED, CHOSEN_BLANKED, CHOSEN_UNDECIDED = 1, 2, 4, 8
"""A payload; a row event that is not plain; one whose content was left out; a transaction of XA or with a ROLLBACK."""

SLICE_CONTROL, SLICE_ROWS, SLICE_STATEMENT = range(3)
