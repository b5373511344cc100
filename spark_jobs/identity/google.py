"""Tokens of Google, by Application Default Credentials.

Put here: the identities and what they ask. Not here: what a token is for (source/login/google.py, storage/).

Sources: cloud.google.com, "Application Default Credentials"; "Using OAuth 2.0 for server to server applications" (the
assertion), RFC 7523. Identities of other clouds (type external_account) are not read.
"""

import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from spark_jobs.identity import service
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.identity.leases import TimedSecret, leased

VARIABLES = ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GCE_METADATA_HOST")
"""Variables that decide whose tokens are found."""
_TOKEN_ADDRESS = "https://oauth2.googleapis.com/token"  # noqa: S105 -- an address
_METADATA = "metadata.google.internal"
_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME_SECONDS = 3600


def origin_of(environment: Mapping[str, str]) -> str:
    """The identity that an environment has, in words."""
    return credentials_file(environment) or "the service account of this machine"


def token(environment: Mapping[str, str], scope: str, seconds: float) -> TimedSecret:
    """An access token of the first of these that is there, and else of the metadata server (GKE's workload identity).

    The file that GOOGLE_APPLICATION_CREDENTIALS names, the file that gcloud leaves in its folder: a service account's
    key, or a user's.

    Args:
        environment: of the process.
        scope: what the token may be used for.
        seconds: until a service that does not answer is given up.

    Raises CredentialsError; where there is none, with what was looked for.
    """
    if path := credentials_file(environment):
        return _token_of_credentials_file(path, scope, seconds)
    # A machine's own server, which only requests with this header reach.
    label = "Google's metadata server"
    host = environment.get("GCE_METADATA_HOST") or _METADATA
    address = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    url = f"{address}?{urlencode({'scopes': scope})}"
    headers = {"Metadata-Flavor": "Google"}

    def request() -> TimedSecret:
        return service.token_lease(label, service.answer(label, url, seconds=seconds, headers=headers))

    try:
        return leased(("google", url), request)
    except CredentialsError as error:
        raise CredentialsError(
            f"there is no GOOGLE_APPLICATION_CREDENTIALS and no {_gcloud_file(environment)}; {error}", error.is_passing
        ) from None


def credentials_file(environment: Mapping[str, str]) -> str | None:
    """Path of the file of credentials; None where there is none."""
    if path := environment.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return path
    file = _gcloud_file(environment)
    return str(file) if file.is_file() else None


def _gcloud_file(environment: Mapping[str, str]) -> Path:
    folder = environment.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")  # noqa: PTH111 -- as it is without a home
    return Path(folder, "application_default_credentials.json")


def _token_of_credentials_file(path: str, scope: str, seconds: float) -> TimedSecret:
    """A token for the identity in a file, which is read for each request."""
    label = "Google's token endpoint"
    text = service.file_text("the file of Google's credentials", path)
    kind, address = service.fields_of(path, text.encode(), "type", "token_uri")
    if kind not in ("service_account", "authorized_user"):
        raise CredentialsError(
            f"{path} is of type {kind[:40] or 'none'}, which is not read; use a service account's key, or the metadata "
            "server"
        )

    def request() -> TimedSecret:
        values = json.loads(text)
        form = _assertion(path, scope, values) if kind == "service_account" else _refresh(scope, values)
        return service.token_lease(label, service.answer(label, address or _TOKEN_ADDRESS, seconds=seconds, form=form))

    return leased(("google", path, scope, hash(text)), request)


def _refresh(scope: str, values: Mapping[str, Any]) -> dict[str, str]:
    names = ("client_id", "client_secret", "refresh_token")
    return {"grant_type": "refresh_token", "scope": scope} | {name: str(values.get(name) or "") for name in names}


def _assertion(path: str, scope: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Claims of a service account for an hour, signed by its key (RS256)."""
    now = int(time.time())
    claims = {
        "iss": values.get("client_email"),
        "scope": scope,
        "aud": values.get("token_uri") or _TOKEN_ADDRESS,
        "iat": now,
        "exp": now + _LIFETIME_SECONDS,
    }
    head = {"alg": "RS256", "typ": "JWT", "kid": values.get("private_key_id")}
    # A JSON Web Token: head and claims, and the signature of both.
    text = b".".join(_url_base64(json.dumps(part).encode()) for part in (head, claims))
    key = None
    with suppress(ValueError, TypeError):
        key = serialization.load_pem_private_key(str(values.get("private_key")).encode(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise CredentialsError(f"{path} has no private key of RSA")
    signature = key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    return {"grant_type": _ASSERTION, "assertion": (text + b"." + _url_base64(signature)).decode()}


def _url_base64(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")
