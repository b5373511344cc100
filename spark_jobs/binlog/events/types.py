"""Registry of event types: number, name, and how this reader treats each.

An event is decoded, known to be irrelevant and counted, or stops the run; there is no fourth case. Numbers 1–43 are
MySQL's (libs/mysql/binlog/event/binlog_event.h, ``Log_event_type``), 160–172 MariaDB's (sql/log_event.h). Names are as
SHOW BINLOG EVENTS spells them.

Put here: one line an event type. Not here: their layouts (FORMAT.md) or what reading them does (kernels/event_scan.py,
binlog/rows/decoder.py).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.kernels import event_cells


@dataclass(frozen=True, slots=True)
class EventType:
    """name: SHOW BINLOG EVENTS spelling. meaning: one of event_cells.CONTROL …."""

    name: str
    meaning: int


def _type(name: str, meaning: int) -> EventType:
    return EventType(name, meaning)


FRAGMENT = int(event_cells.FRAGMENT)
"""PARTIAL_ROW_DATA: one of several events that a row event is logged as."""

NO_FOREIGN_KEY_CHECKS = 0x02
"""A flag of a row event: its session had ``foreign_key_checks = 0``, and no foreign key changed a row by it."""
CASCADES_LOGGED = 0x10
"""A flag of a row event: what foreign keys did by it is in the log as row events of its own (MySQL 9.6 and later).

Source of both: MySQL libs/mysql/binlog/event/rows_event.h (``NO_FOREIGN_KEY_CHECKS_F``, ``USE_SQL_FOREIGN_KEY_F``);
MariaDB sql/log_event.h has the first, and nothing at 0x10.
"""

EVENT_TYPES: dict[int, EventType] = {
    1: _type("Start_v3", event_cells.STOPS),
    2: _type("Query", event_cells.QUERY),
    3: _type("Stop", event_cells.CONTROL),
    4: _type("Rotate", event_cells.CONTROL),
    5: _type("Intvar", event_cells.INNER),
    6: _type("Load", event_cells.STOPS),
    7: _type("Slave", event_cells.STOPS),
    8: _type("Create_file", event_cells.STOPS),
    9: _type("Append_block", event_cells.INNER),
    10: _type("Exec_load", event_cells.STOPS),
    11: _type("Delete_file", event_cells.INNER),
    12: _type("New_load", event_cells.STOPS),
    13: _type("RAND", event_cells.INNER),
    14: _type("User var", event_cells.INNER),
    15: _type("Format_desc", event_cells.FORMAT),
    16: _type("Xid", event_cells.XID),
    17: _type("Begin_load_query", event_cells.INNER),
    18: _type("Execute_load_query", event_cells.LOAD_QUERY),
    19: _type("Table_map", event_cells.TABLE_MAP),
    20: _type("Write_rows_event_old", event_cells.STOPS),
    21: _type("Update_rows_event_old", event_cells.STOPS),
    22: _type("Delete_rows_event_old", event_cells.STOPS),
    23: _type("Write_rows_v1", event_cells.ROWS),
    24: _type("Update_rows_v1", event_cells.ROWS),
    25: _type("Delete_rows_v1", event_cells.ROWS),
    26: _type("Incident", event_cells.STOPS),
    27: _type("Heartbeat", event_cells.IGNORED),
    28: _type("Ignorable", event_cells.IGNORED),
    29: _type("Rows_query", event_cells.IGNORED),
    30: _type("Write_rows", event_cells.ROWS),
    31: _type("Update_rows", event_cells.ROWS),
    32: _type("Delete_rows", event_cells.ROWS),
    33: _type("Gtid", event_cells.GTID),
    34: _type("Anonymous_Gtid", event_cells.GTID_ANONYMOUS),
    35: _type("Previous_gtids", event_cells.CONTROL),
    36: _type("Transaction_context", event_cells.IGNORED),
    37: _type("View_change", event_cells.IGNORED),
    38: _type("XA_prepare", event_cells.XA_PREPARE),
    39: _type("Update_rows_partial", event_cells.ROWS),
    40: _type("Transaction_payload", event_cells.PAYLOAD),
    41: _type("Heartbeat_v2", event_cells.IGNORED),
    42: _type("Gtid_tagged_log_event", event_cells.GTID_TAGGED),
    43: _type("Large_transaction_header", event_cells.IGNORED),
    160: _type("Annotate_rows", event_cells.IGNORED),
    161: _type("Binlog_checkpoint", event_cells.IGNORED),
    162: _type("Gtid", event_cells.GTID_MARIADB),
    163: _type("Gtid_list", event_cells.CONTROL),
    164: _type("Start_encryption", event_cells.STOPS),
    165: _type("Query_compressed", event_cells.QUERY_COMPRESSED),
    166: _type("Write_rows_compressed_v1", event_cells.ROWS),
    167: _type("Update_rows_compressed_v1", event_cells.ROWS),
    168: _type("Delete_rows_compressed_v1", event_cells.ROWS),
    169: _type("Write_rows_compressed", event_cells.ROWS),
    170: _type("Update_rows_compressed", event_cells.ROWS),
    171: _type("Delete_rows_compressed", event_cells.ROWS),
    FRAGMENT: _type("Partial_rows", event_cells.ROWS),
}


def _meanings() -> NDArray[np.uint8]:
    table = np.full(256, event_cells.UNKNOWN, np.uint8)
    for code, event in EVENT_TYPES.items():
        table[code] = event.meaning
    return table


MEANINGS: NDArray[np.uint8] = _meanings()
"""uint8[256]: what the scan kernel does with each type number."""


def type_name(code: int) -> str:
    """The name of a type number, or ``Unknown(number)``."""
    event = EVENT_TYPES.get(code)
    return event.name if event else f"Unknown({code})"
