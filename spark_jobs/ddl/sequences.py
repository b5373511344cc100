"""MariaDB's sequences, which a log has among its tables: objects of one row, of which each row event replaces that row.

They are left out of silver and downstream: nothing but the server reads them, and the log has a row for each range of
numbers that it takes, not for each number that it gives.

Source: MariaDB server, sql/sql_sequence.cc (``sequence_structure``); Knowledge Base, "CREATE SEQUENCE".

Put here: telling a sequence by its columns. Not here: what a run does about it (spark_jobs/pipeline/planner.py).
"""

from spark_jobs.binlog import TableDefinition

REASON = "a sequence, not a table of rows: it is ignored"
OPEN = (
    "its columns have the types of a sequence's, and nothing names them: whether it is one is not known; name a schema "
    "dump (schema_dump: of a source of files), or leave it out (tables:)"
)
_LONG, _TINY = 8, 1
_COLUMNS = {
    "next_not_cached_value": _LONG,
    "minimum_value": _LONG,
    "maximum_value": _LONG,
    "start_value": _LONG,
    "increment": _LONG,
    "cache_size": _LONG,
    "cycle_option": _TINY,
    "cycle_count": _LONG,
}


def may_be_sequence(definition: TableDefinition) -> bool:
    """True if a table has the types of a sequence's columns; a log without metadata tells no more."""
    types = [(column.type_code, column.nullable) for column in definition.columns]
    return types == [(code, False) for code in _COLUMNS.values()]


def is_sequence(definition: TableDefinition) -> bool:
    """True if a table has a sequence's columns, by their names too."""
    names = [column.name for column in definition.columns]
    return names == list(_COLUMNS) and may_be_sequence(definition)
