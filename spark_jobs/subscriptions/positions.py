"""Start positions of groups, and moving them.

Put here: locations as positions at which a group can stand. Not here: how a location is found in the log
(bronze/seek.py).
"""

from spark_jobs.bronze.boundaries import transaction_at
from spark_jobs.bronze.seek import LogSeeker
from spark_jobs.bronze.table import BronzeSnapshot, require_held
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position


def start_of(snapshot: BronzeSnapshot, location: str) -> Position:
    """The transaction's begin that a location means: earliest, latest, a position, a GTID set or a time.

    Raises ConfigError for what is no location or lies beyond the end, SourceError, LakeError where bronze lacks it.
    """
    match location:
        case "earliest":
            return snapshot.oldest
        case "latest":
            return snapshot.end
    position = LogSeeker(snapshot).position(location)
    require_held(snapshot.source, snapshot.checkpoint, max(position, snapshot.earliest))
    if snapshot.end < position:
        raise ConfigError(
            f"{snapshot.source}: {position} is after the end of the log in bronze, {snapshot.end}; name an "
            "earlier position, or execute stratalog run first"
        )
    return transaction_at(snapshot.table, snapshot.version, position) or position
