"""Tokens of RDS and Aurora: a request that is signed here and never sent, by keys of the usual AWS environment.

Put here: what is signed. Not here: the keys and the signature (identity/).

Sources: docs.aws.amazon.com, "Signature Version 4" (query parameters) and RDS, "Connecting with an authentication
token".
"""

import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from spark_jobs.config.servers import MySQL
from spark_jobs.identity.aws import identity_of
from spark_jobs.identity.aws_signature import AwsKeys, SignatureScope, signature
from spark_jobs.identity.errors import CredentialsError

_LIFETIME_SECONDS = 900
"""Longest that RDS takes; it counts at a login alone."""
_HOST_REGION = re.compile(r"\.([a-z0-9-]+)\.rds\.amazonaws\.com(?:\.cn)?\.?$", re.IGNORECASE)


def token(settings: MySQL) -> str:
    """A token for a login within 15 minutes. Raises CredentialsError."""
    region = _region(settings, os.environ)
    keys = identity_of(os.environ, region, settings.connect_timeout).keys
    return presigned(settings, region, keys, datetime.now(UTC))


def presigned(settings: MySQL, region: str, keys: AwsKeys, now: datetime) -> str:
    """The URL of ``connect`` without its scheme, signed by Signature Version 4 in its query."""
    scope = SignatureScope(region, "rds-db", now)
    parameters = {
        "Action": "connect",
        "DBUser": settings.user,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access}/{scope.text}",
        "X-Amz-Date": scope.moment,
        "X-Amz-Expires": str(_LIFETIME_SECONDS),
        "X-Amz-SignedHeaders": "host",
    } | ({"X-Amz-Security-Token": keys.session} if keys.session else {})
    quoted = [f"{name}={quote(value, safe='-_.~')}" for name, value in parameters.items()]
    address = f"{settings.host}:{settings.port}"
    empty_hash = hashlib.sha256(b"").hexdigest()
    # The signature is of the parameters by name.
    request = f"GET\n/\n{'&'.join(sorted(quoted))}\nhost:{address.lower()}\n\nhost\n{empty_hash}"
    return f"{address}/?{'&'.join(quoted)}&X-Amz-Signature={signature(keys.secret, scope, request)}"


def _region(settings: MySQL, environment: Mapping[str, str]) -> str:
    match = _HOST_REGION.search(settings.host)
    region = (
        settings.region
        or (match and match[1])
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
    )
    if not region:
        raise CredentialsError("the region is not known; set region, or AWS_REGION in the environment")
    return region
