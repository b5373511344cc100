"""Signature Version 4 of AWS: requests that show who sends them, and no key.

Put here: signing. Not here: keys (aws.py), or what is asked.

Source: docs.aws.amazon.com, "Signature Version 4".
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Keys that sign: of a user, or with ``session`` of a role for some time. Their text shows nothing."""

    access: str = field(repr=False)
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SignatureScope:
    """Scope of a signature: a service in a region, at a moment (UTC)."""

    region: str
    service: str
    now: datetime

    @property
    def text(self) -> str:
        return f"{self.now:%Y%m%d}/{self.region}/{self.service}/aws4_request"

    @property
    def moment(self) -> str:
        return f"{self.now:%Y%m%dT%H%M%SZ}"


def signature(secret: str, scope: SignatureScope, request: str) -> str:
    """The signature of a request in its canonical form, in hex."""
    text = f"AWS4-HMAC-SHA256\n{scope.moment}\n{scope.text}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.text.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def signed_headers(keys: AwsKeys, scope: SignatureScope, url: str, body: bytes) -> Mapping[str, str]:
    """The headers of a POST of a form to the root of a service."""
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "host": urlsplit(url).netloc,
        "x-amz-date": scope.moment,
    } | ({"x-amz-security-token": keys.session} if keys.session else {})
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    names = ";".join(headers)
    request = f"POST\n{urlsplit(url).path or '/'}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    by = f"Credential={keys.access}/{scope.text}, SignedHeaders={names}"
    return headers | {"Authorization": f"AWS4-HMAC-SHA256 {by}, Signature={signature(keys.secret, scope, request)}"}
