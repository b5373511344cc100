"""Time zones as MySQL and MariaDB write them: an offset (``+05:30``), or a name of the time zone database.

Source: MySQL manual, "MySQL Server Time Zone Support".

Put here: what a name means. Not here: whose zone counts where (ddl/session_time.py).
"""

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"([+-])(\d{1,2}):([0-5]\d)")


def zone_of(name: str) -> dt.tzinfo | None:
    """The zone; None where it is not known here. SYSTEM is none: it stands for the server's own."""
    match = _OFFSET.fullmatch(name)
    if match:
        offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return dt.timezone(offset if match[1] == "+" else -offset) if offset < dt.timedelta(days=1) else None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
