"""Requests to the services that give identities: metadata of a machine, token endpoints.

Put here: one request and its answer. Not here: what is asked (aws.py, azure.py, google.py).
"""

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from spark_jobs.identity.errors import CredentialsError
from spark_jobs.identity.leases import TimedSecret

_LARGEST = 1 << 20
_TOO_MANY = 429
_SERVER_ERRORS = 500
_CODE = re.compile(rb'"(?:error|code|Code)"\s*:\s*"([A-Za-z_]{1,60})"|<Code>([A-Za-z]{1,60})</Code>')
"""An error's name in an answer; its text may quote what was asked."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token would go where it leads."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def answer(
    service: str,
    url: str,
    *,
    seconds: float,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    is_put: bool = False,
) -> bytes:
    """The body of an answer of status 200. Raises CredentialsError, with the service's name and an error's name.

    Args:
        service: what it is called in messages.
        url: http or https.
        seconds: without a byte, until it is given up.
        headers: of the request.
        form: what is posted; nothing where it is None.
        is_put: True if it is a PUT without content; else a GET, or a POST with a form.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise CredentialsError(f"{service}: its address is none of http or https")
    data = None if form is None else urllib.parse.urlencode(form).encode()
    try:
        request = urllib.request.Request(url, data, dict(headers or {}), method="PUT" if is_put else None)  # noqa: S310 -- as above
        # Token endpoints are posted to. What is asked else is of the machine itself, and no proxy may see it.
        proxies: dict[str, str] | None = None if form is not None else {}
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler(proxies))
        with opener.open(request, timeout=seconds) as reply:
            return bytes(reply.read(_LARGEST))
    except urllib.error.HTTPError as error:
        match = _CODE.search(error.read(_LARGEST))
        code = f" ({(match[1] or match[2]).decode()})" if match else ""
        is_passing = error.code == _TOO_MANY or error.code >= _SERVER_ERRORS
        raise CredentialsError(f"{service} answered with status {error.code}{code}", is_passing) from None
    except (OSError, HTTPException) as error:
        origin = error.reason if isinstance(error, urllib.error.URLError) else error
        reason = (isinstance(origin, OSError) and origin.strerror) or type(origin).__name__
        raise CredentialsError(f"{service} cannot be reached: {reason}", True) from None
    except ValueError:  # a header with a line's end, a port that is no number
        raise CredentialsError(f"{service}: the request has characters that are not allowed in one") from None


def fields_of(service: str, body: bytes, *names: str) -> list[str]:
    """Values of a JSON object as text, by names; "" for one that is absent. Raises CredentialsError."""
    values = None
    with suppress(ValueError):
        values = json.loads(body)
    if not isinstance(values, dict):
        raise CredentialsError(f"{service}: its answer is no JSON object", True)
    return [str(values.get(name) or "") for name in names]


def token_lease(label: str, body: bytes) -> TimedSecret:
    """An access token of OAuth 2.0 with the seconds that it lives. Raises CredentialsError."""
    text, seconds = fields_of(label, body, "access_token", "expires_in")
    if not (text and seconds.isdecimal()):
        raise CredentialsError(f"{label}: its answer has no access token with an expiration", True)
    return TimedSecret(text, time.time() + int(seconds))


def file_text(label: str, path: str) -> str:
    """Text of a file with a token or keys. Raises CredentialsError."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 -- a name from the environment
            return file.read(_LARGEST)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        raise CredentialsError(f"{label} ({path}) cannot be read: {reason}") from None
