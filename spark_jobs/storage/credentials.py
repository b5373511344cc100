"""Credentials for an object store: keys of variables, or of the identity that the process has in the cloud.

Put here: the choice, by the settings of a store and the environment. Not here: how an identity is found (identity/), or
the form that each library takes (store_access.py).
"""

import binascii
import os
import socket
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from spark_jobs.config.store import AZURE, GOOGLE, ObjectStore, environment_names, store_scheme
from spark_jobs.errors import ConfigError
from spark_jobs.identity import aws, azure, google
from spark_jobs.identity.errors import CredentialsError

RESOURCE = "https://storage.azure.com"
"""Resource that tokens of Azure are for."""
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
"""Scope that tokens of Google are for."""
SECONDS = 5.0
"""Seconds until a service of the cloud that does not answer is given up."""
_ACCOUNT_KEY, _SAS = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"
_VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AZURE: (_ACCOUNT_KEY, _SAS, *azure.VARIABLES),
        GOOGLE: google.VARIABLES,
    }
)


@dataclass(frozen=True, slots=True)
class Credential:
    """Secrets that a store is shown, whose they are, and their end: seconds since 1970, or None for no end."""

    kind: Literal["keys", "account key", "shared access signature", "token"]
    values: tuple[str, ...] = field(repr=False)
    """The secrets: for ``keys`` access key, secret key, and the token of a session or an empty text; otherwise one."""
    origin: str
    """A variable of the environment, or the identity in words."""
    end: float | None = None


def variables_of(scheme: str, settings: ObjectStore) -> tuple[str, ...]:
    """Every variable of the environment that decides who a process is to a store."""
    return environment_names(settings) or _VARIABLES.get(scheme, aws.VARIABLES)


def credential_of(root: str, settings: ObjectStore) -> Credential:
    """The credential for a bucket, by its address; one that a service lends, renewed before it ends.

    Raises ConfigError where there is none, with what was looked for; CredentialsError, which ``is_passing``, where a
    service does not answer.
    """
    scheme = store_scheme(root)
    try:
        if scheme == AZURE:
            return _azure_credential(root, settings)
        if scheme == GOOGLE:
            lease = google.token(os.environ, SCOPE, SECONDS)
            return Credential("token", (str(lease.value),), google.origin_of(os.environ), lease.end)
        return _aws_credential(root, settings)
    except CredentialsError as error:
        if error.is_passing:
            raise
        raise no_identity(root, error) from None


def no_identity(root: str, error: CredentialsError) -> ConfigError:
    """The error of a store that nobody can be shown to."""
    return ConfigError(
        f"{root}: this process on {socket.gethostname()} has no identity that the store could be shown: {error}; "
        "give it one of these (stratalog docs object-stores#identities), and on a cluster each executor"
    )


def kind_on_azure(settings: ObjectStore, environment: Mapping[str, str]) -> tuple[str, str]:
    """The kind of a credential on Azure, and the variable that holds it; no variable for a token."""
    if settings.account_key_env or settings.sas_token_env:
        name = settings.account_key_env
        return ("account key", name) if name else ("shared access signature", settings.sas_token_env or "")
    for kind, name in (("account key", _ACCOUNT_KEY), ("shared access signature", _SAS)):
        if environment.get(name):
            return kind, name
    return "token", ""


def _aws_credential(root: str, settings: ObjectStore) -> Credential:
    if settings.access_key_env and settings.secret_key_env:
        values = [_variable(root, name) for name in (settings.access_key_env, settings.secret_key_env)]
        session = os.environ.get(settings.session_token_env or "") or ""
        return Credential("keys", (*values, session), settings.access_key_env)
    identity = aws.identity_of(os.environ, settings.region, SECONDS)
    keys = identity.keys
    return Credential("keys", (keys.access, keys.secret, keys.session), identity.origin, identity.end)


def _azure_credential(root: str, settings: ObjectStore) -> Credential:
    kind, name = kind_on_azure(settings, os.environ)
    if kind == "token":
        lease = azure.token(os.environ, RESOURCE, SECONDS)
        return Credential("token", (str(lease.value),), azure.origin_of(os.environ), lease.end)
    value = _variable(root, name)
    if kind == "shared access signature":
        return Credential("shared access signature", (value.removeprefix("?"),), name)
    try:
        b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"{root}: {name} is no key of a storage account: set it") from error
    return Credential("account key", (value,), name)


def _variable(root: str, name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ConfigError(
            f"{root}: the environment of this process on {socket.gethostname()} has no variable {name}; "
            "set it for the process, and on a cluster for executors"
        )
    return value
