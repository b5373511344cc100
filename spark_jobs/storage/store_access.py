"""Access to object stores: the settings in use, by the address of a bucket, and the credentials for each.

Put here: settings and credentials in the form that each library takes. Not here: whose they are (credentials.py), or
requests (objects.py).

Settings are registered when a pipeline's lake or session is opened, and travel with Spark's tasks
(``with_registered_stores``); credentials never do: every process finds them in its own environment.
"""

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from spark_jobs.config.store import (
    AZURE,
    GOOGLE,
    LakeStore,
    ObjectStore,
    account_of,
    blob_endpoint,
    container_of,
    root_of,
    store_scheme,
)
from spark_jobs.errors import ConfigError
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.identity.google import credentials_file
from spark_jobs.storage.credentials import Credential, credential_of, no_identity

if TYPE_CHECKING:
    from obstore.store import (
        AzureConfig,
        AzureCredential,
        ClientConfig,
        GCSConfig,
        GCSCredential,
        RetryConfig,
        S3Config,
        S3Credential,
    )

_TIMEOUT = "60s"
_RETRIES: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
_registered: dict[str, ObjectStore] = {}
_shown: dict[str, tuple[str, str]] = {}
Client = AzureStore | GCSStore | S3Store
Task = TypeVar("Task")
Part = TypeVar("Part")


def register_store(store: LakeStore | None) -> None:
    """Register how the bucket of a lake is reached; nothing for a lake that is on none."""
    if store is not None:
        _registered[store.root] = store.settings


def registered_stores() -> Mapping[str, ObjectStore]:
    """The settings of every bucket that is registered."""
    return dict(_registered)


def settings_of(root: str) -> ObjectStore:
    """Settings of a bucket, by its address; those of the cloud itself by default."""
    return _registered.get(root) or ObjectStore()


def with_registered_stores(
    work: Callable[[Iterator[Task]], Iterator[Part]],
) -> Callable[[Iterator[Task]], Iterator[Part]]:
    """A function of Spark's tasks that reaches the stores that its driver reaches."""
    settings = registered_stores()
    if not settings:
        return work

    def run(batches: Iterator[Task]) -> Iterator[Part]:
        _register(settings)
        yield from work(batches)

    return run


def _register(settings: Mapping[str, ObjectStore]) -> None:
    """A function by name: what is pickled into a task has copies of the variables that it uses."""
    _registered.update(settings)


def credential(root: str) -> Credential:
    """The credential for a bucket's store now. Raises ConfigError, OSError if a service does not answer any more."""
    try:
        found = credential_of(root, settings_of(root))
    except CredentialsError as error:
        if root not in _shown:
            raise no_identity(root, error) from None
        raise OSError(errno.EIO, f"{error}; run again, once it answers", root) from None
    _shown[root] = found.kind, found.origin
    return found


def last_credential(root: str) -> tuple[str, str] | None:
    """The kind and the origin of what was shown to a bucket's store last; None before anything was."""
    return _shown.get(root)


def client(root: str) -> Client:
    """The client for a bucket's objects; a new one where settings or what is shown change.

    Raises ConfigError, OSError.
    """
    return _client(root, settings_of(root), credential(root), os.getpid())


@lru_cache(16)
def _client(root: str, settings: ObjectStore, _credential: Credential, _process: int) -> Client:
    options: ClientConfig = {"timeout": _TIMEOUT, "allow_http": _is_http(settings)}
    if settings.ca:
        options["root_certificate"] = _certificates(settings)
    scheme = store_scheme(root)
    if scheme == AZURE:
        return _azure(root, settings, options)
    return _google(root, settings, options) if scheme == GOOGLE else _amazon(root, settings, options)


def _expiry_time(found: Credential) -> datetime | None:
    return None if found.end is None else datetime.fromtimestamp(found.end, UTC)


def _azure(root: str, settings: ObjectStore, options: "ClientConfig") -> AzureStore:
    # A client asks before each request whose time may be over, also during a long listing.
    def now() -> "AzureCredential":
        found = credential(root)
        (value,), end = found.values, _expiry_time(found)
        if found.kind == "account key":
            return {"access_key": value, "expires_at": end}
        if found.kind == "token":
            return {"token": value, "expires_at": end}
        return {"sas_token": value, "expires_at": end}

    account: AzureConfig = {"account_name": account_of(root), "endpoint": blob_endpoint(root, settings)}
    return AzureStore(
        container_of(root), config=account, client_options=options, retry_config=_RETRIES, credential_provider=now
    )


def _google(root: str, settings: ObjectStore, options: "ClientConfig") -> GCSStore:
    def now() -> "GCSCredential":
        found = credential(root)
        return {"token": found.values[0], "expires_at": _expiry_time(found)}

    config: GCSConfig = {"base_url": settings.endpoint} if settings.endpoint else {}
    return GCSStore(
        urlsplit(root).netloc, config=config, client_options=options, retry_config=_RETRIES, credential_provider=now
    )


def _amazon(root: str, settings: ObjectStore, options: "ClientConfig") -> S3Store:
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": not settings.is_path_style,
    }
    if settings.endpoint:
        config["endpoint"] = settings.endpoint

    # Keys in the settings would be joined by a token of the environment that belongs to others.
    def now() -> "S3Credential":
        found = credential(root)
        access, secret, session = found.values
        return {
            "access_key_id": access,
            "secret_access_key": secret,
            "token": session or None,
            "expires_at": _expiry_time(found),
        }

    return S3Store(
        urlsplit(root).netloc, config=config, client_options=options, retry_config=_RETRIES, credential_provider=now
    )


def deltalake_options(path: str) -> dict[str, str] | None:
    """The ``storage_options`` for a table; None for one on a file system.

    They have what is shown now: a table is opened for seconds. Raises ConfigError, OSError.
    """
    scheme = store_scheme(path)
    if scheme is None:
        return None
    root = root_of(path)
    settings, found = settings_of(root), credential(root)
    options = {"allow_http": str(_is_http(settings)).lower(), "timeout": _TIMEOUT}
    if settings.ca:
        options["root_certificate"] = _certificates(settings)
    if scheme == GOOGLE:
        # deltalake takes no token of Google: it asks by itself, for the identity that was found here.
        if file := credentials_file(os.environ):
            options["google_application_credentials"] = file
        return options | ({"google_base_url": settings.endpoint} if settings.endpoint else {})
    if scheme == AZURE:
        name = {
            "account key": "azure_storage_account_key",
            "shared access signature": "azure_storage_sas_token",
            "token": "azure_storage_token",
        }[found.kind]
        account = {"azure_storage_account_name": account_of(root), name: found.values[0]}
        return options | account | {"azure_storage_endpoint": blob_endpoint(root, settings)}
    options |= {
        "aws_access_key_id": found.values[0],
        "aws_secret_access_key": found.values[1],
        "aws_session_token": found.values[2],  # else one of the environment that belongs to other keys
        "aws_region": settings.region,
        "aws_virtual_hosted_style_request": str(not settings.is_path_style).lower(),
    }
    if settings.endpoint:
        options["aws_endpoint_url"] = settings.endpoint
    return options


def _certificates(settings: ObjectStore) -> str:
    assert settings.ca is not None
    try:
        return settings.ca.read_text()
    except OSError as error:
        raise ConfigError(f"store.ca: {settings.ca}: {error.strerror} on {socket.gethostname()}") from error


def _is_http(settings: ObjectStore) -> bool:
    return (settings.endpoint or "").startswith("http://")
