"""Columns of tables of each mode, and the source tables of which they can be made.

Put here: the columns of a mode, its current rows, and what it cannot be. Not here: which table has which mode
(config/modes.py), or how its rows come about (engine/).
"""

from collections.abc import Iterator, Mapping

from spark_jobs.config.modes import Mode
from spark_jobs.errors import TableStopped
from spark_jobs.silver.table import Columns

MODE_COLUMNS: Mapping[Mode, Mapping[str, str]] = {
    Mode.MIRROR: {},
    Mode.SOFT_DELETE: {"_deleted": "BOOLEAN", "_deleted_at": "TIMESTAMP"},
    Mode.APPEND: {"_op": "STRING", "_gtid": "STRING"},
    Mode.HISTORY: {
        "_op": "STRING",
        "_valid_from": "TIMESTAMP",
        "_valid_to": "TIMESTAMP",
        "_is_current": "BOOLEAN",
    },
}
"""Columns that a table's rows have besides a mirror's, by its mode."""
CURRENT_VALUES: Mapping[Mode, Mapping[str, bool]] = {
    Mode.MIRROR: {},
    Mode.SOFT_DELETE: {"_deleted": False},
    Mode.HISTORY: {"_is_current": True},
}
"""Values of the mode's columns in the rows of a table that the source has now; rows of mode append do not tell."""
CURRENT_ROWS: Mapping[Mode, str] = {
    mode: " AND ".join(name if value else f"NOT {name}" for name, value in values.items()) or "TRUE"
    for mode, values in CURRENT_VALUES.items()
}
"""The same rows as SQL."""
_INTERMEDIATE_COLUMNS = {"_gtid", "_lacks", "_cuts", "_named_at", "_place"}
"""Columns that rows have besides on their way into such tables."""


def require_supported(columns: Columns, mode: Mode) -> None:
    """Check that a source table with these columns can have the mode. Raises TableStopped."""
    problem = next(_problems(columns, mode), None) if mode is not Mode.MIRROR else None
    if problem:
        raise TableStopped(problem)


def _problems(columns: Columns, mode: Mode) -> Iterator[str]:
    added = {*MODE_COLUMNS[mode], *_INTERMEDIATE_COLUMNS}
    for name in (name for name in columns.types if name.casefold() in added):
        yield f"its column {name} has the name of one that mode: {mode} adds; rename it"
