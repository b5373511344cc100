"""Times that depend on a statement's session: CURRENT_TIMESTAMP, and texts that a time zone makes instants of.

Source: MySQL manual, "MySQL Server Time Zone Support", "Automatic Initialization and Updating for TIMESTAMP and
DATETIME"; what a replica sets before it carries out a statement (``Query_log_event::do_apply_event``).

Put here: when and where such a time is. Not here: which columns have one (columns.py), or reading it out of an event
(binlog/events/query_event.py).
"""

import datetime as dt
from dataclasses import replace

from spark_jobs.binlog import Moment
from spark_jobs.config.time_zones import zone_of
from spark_jobs.errors import Unsupported

_SYSTEM = "SYSTEM"


def now(moment: Moment, digits: int) -> dt.datetime:
    """CURRENT_TIMESTAMP with so many digits of its fraction, cut off and not rounded, in UTC.

    Raises Unsupported where the log does not tell them.
    """
    if digits and moment.micros is None:
        raise Unsupported("the fraction of its second is not in the log")
    step = 10 ** (6 - digits)
    return dt.datetime.fromtimestamp(moment.seconds, dt.UTC).replace(microsecond=(moment.micros or 0) // step * step)


def local(at: dt.datetime, zone: str | None) -> dt.datetime:
    """An instant as the clocks of a session's time zone showed it. Raises Unsupported for one that is not known."""
    return at.astimezone(_zone(zone)).replace(tzinfo=None)


def instant(local: dt.datetime, zone: str | None) -> dt.datetime:
    """The instant, in UTC, at which clocks showed something. Raises Unsupported where there were two, or none."""
    moments = {local.replace(tzinfo=_zone(zone), fold=fold).astimezone(dt.UTC) for fold in (0, 1)}
    if len(moments) > 1:
        raise Unsupported(f"the time comes twice, or never, in the time zone {zone}")
    return moments.pop()


def with_zone(moment: Moment | None, system: str | None) -> Moment | None:
    """Moment in the zone that the configuration names, where its session had the server's own, which no log names."""
    if moment and system and (moment.zone or "").upper() == _SYSTEM:
        return replace(moment, zone=system)
    return moment


def _zone(name: str | None) -> dt.tzinfo:
    if name is None:
        raise Unsupported("its session's time zone is not in the log")
    if name.upper() == _SYSTEM:
        raise Unsupported(
            "its session's time zone is the server's own (SYSTEM), which the log does not name; name it in the "
            "configuration (system_time_zone of the source)"
        )
    zone = zone_of(name)
    if zone is None:
        raise Unsupported(f"its session's time zone {name!r} is not known here")
    return zone
