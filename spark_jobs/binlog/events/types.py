"""The registry of event types: number, name, and what each means to this reader.

An event is decoded, known to be irrelevant and counted, or stops the run; there is no fourth case. Numbers 1–43 are
MySQL's (libs/mysql/binlog/event/binlog_event.h, ``Log_event_type``), 160–172 MariaDB's (sql/log_event.h). Names are as
SHOW BINLOG EVENTS spells them.

Put here: one line an event type. Not here: their layouts (FORMAT.md) or what reading them does (kernels/event_scan.py,
binlog/rows/decoder.py).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog import kernels


@dataclass(frozen=True, slots=True)
class EventType:
    """name: SHOW BINLOG EVENTS spelling. meaning: one of kernels.CONTROL …."""

    name: str
    meaning: int


def _type(name: str, meaning: int) -> EventType:
    return EventType(name, meaning)


FRAGMENT = int(kernels.FRAGMENT)
"""PARTIAL_ROW_DATA: one of several events that a row event is logged as."""

NO_FOREIGN_KEY_CHECKS = 0x02
"""A flag of a row event: its session had ``foreign_key_checks = 0``, and no foreign key changed a row by it."""
CASCADES_LOGGED = 0x10
"""Of one: what foreign keys did by its rows is in the log as row events of its own (MySQL 9.6 and later).

Source of both: MySQL libs/mysql/binlog/event/rows_event.h (``NO_FOREIGN_KEY_CHECKS_F``, ``USE_SQL_FOREIGN_KEY_F``);
MariaDB sql/log_event.h has the first, and nothing at 0x10.
"""

EVENT_TYPES: dict[int, EventType] = {
    1: _type("Start_v3", kernels.STOPS),
    2: _type("Query", kernels.QUERY),
    3: _type("Stop", kernels.CONTROL),
    4: _type("Rotate", kernels.CONTROL),
    5: _type("Intvar", kernels.INNER),
    6: _type("Load", kernels.STOPS),
    7: _type("Slave", kernels.STOPS),
    8: _type("Create_file", kernels.STOPS),
    9: _type("Append_block", kernels.INNER),
    10: _type("Exec_load", kernels.STOPS),
    11: _type("Delete_file", kernels.INNER),
    12: _type("New_load", kernels.STOPS),
    13: _type("RAND", kernels.INNER),
    14: _type("User var", kernels.INNER),
    15: _type("Format_desc", kernels.FORMAT),
    16: _type("Xid", kernels.XID),
    17: _type("Begin_load_query", kernels.INNER),
    18: _type("Execute_load_query", kernels.LOAD_QUERY),
    19: _type("Table_map", kernels.TABLE_MAP),
    20: _type("Write_rows_event_old", kernels.STOPS),
    21: _type("Update_rows_event_old", kernels.STOPS),
    22: _type("Delete_rows_event_old", kernels.STOPS),
    23: _type("Write_rows_v1", kernels.ROWS),
    24: _type("Update_rows_v1", kernels.ROWS),
    25: _type("Delete_rows_v1", kernels.ROWS),
    26: _type("Incident", kernels.STOPS),
    27: _type("Heartbeat", kernels.IGNORED),
    28: _type("Ignorable", kernels.IGNORED),
    29: _type("Rows_query", kernels.IGNORED),
    30: _type("Write_rows", kernels.ROWS),
    31: _type("Update_rows", kernels.ROWS),
    32: _type("Delete_rows", kernels.ROWS),
    33: _type("Gtid", kernels.GTID),
    34: _type("Anonymous_Gtid", kernels.GTID_ANONYMOUS),
    35: _type("Previous_gtids", kernels.CONTROL),
    36: _type("Transaction_context", kernels.IGNORED),
    37: _type("View_change", kernels.IGNORED),
    38: _type("XA_prepare", kernels.XA_PREPARE),
    39: _type("Update_rows_partial", kernels.ROWS),
    40: _type("Transaction_payload", kernels.PAYLOAD),
    41: _type("Heartbeat_v2", kernels.IGNORED),
    42: _type("Gtid_tagged_log_event", kernels.GTID_TAGGED),
    43: _type("Large_transaction_header", kernels.IGNORED),
    160: _type("Annotate_rows", kernels.IGNORED),
    161: _type("Binlog_checkpoint", kernels.IGNORED),
    162: _type("Gtid", kernels.GTID_MARIADB),
    163: _type("Gtid_list", kernels.CONTROL),
    164: _type("Start_encryption", kernels.STOPS),
    165: _type("Query_compressed", kernels.QUERY_COMPRESSED),
    166: _type("Write_rows_compressed_v1", kernels.ROWS),
    167: _type("Update_rows_compressed_v1", kernels.ROWS),
    168: _type("Delete_rows_compressed_v1", kernels.ROWS),
    169: _type("Write_rows_compressed", kernels.ROWS),
    170: _type("Update_rows_compressed", kernels.ROWS),
    171: _type("Delete_rows_compressed", kernels.ROWS),
    FRAGMENT: _type("Partial_rows", kernels.ROWS),
}


def _meanings() -> NDArray[np.uint8]:
    table = np.full(256, kernels.UNKNOWN, np.uint8)
    for code, event in EVENT_TYPES.items():
        table[code] = event.meaning
    return table


MEANINGS: NDArray[np.uint8] = _meanings()
"""uint8[256]: what the scan kernel does with each type number."""


def type_name(code: int) -> str:
    """The name of a type number, or ``Unknown(number)``."""
    event = EVENT_TYPES.get(code)
    return event.name if event else f"Unknown({code})"
