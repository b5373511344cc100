"""Addresses that telemetry is sent to, as messages name them.

Put here: an address without what may be secret. Not here: sending (otlp.py, openlineage.py).
"""

from urllib.parse import urlsplit


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL: neither user nor password, nor a query with a key."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{host}:{port}" if port else f"{parts.scheme}://{host}"


def has_login(url: str) -> bool:
    """True if a URL has a user or a password."""
    return "@" in url.partition("://")[2].partition("/")[0]
