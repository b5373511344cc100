"""Access to object stores: the settings in use, by the address of a bucket, and keys from the environment.

Put here: settings and keys in the form that each library takes. Not here: requests (objects.py).

Settings are registered when a pipeline's lake or session is opened, and travel with Spark's tasks (``carried``); keys
never do: every process reads them from its own environment.
"""

import binascii
import os
import socket
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from obstore.store import AzureStore, S3Store

from spark_jobs.config.store import (
    AZURE,
    LakeStore,
    ObjectStore,
    account_of,
    blob_endpoint,
    container_of,
    root_of,
    store_scheme,
)
from spark_jobs.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3Config, S3Credential

_TIMEOUT = "60s"
_RETRIES: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
_in_use: dict[str, ObjectStore] = {}
Task = TypeVar("Task")
Part = TypeVar("Part")


def use(store: LakeStore | None) -> None:
    """Registers how the bucket of a lake is reached; nothing for a lake that is on none."""
    if store is not None:
        _in_use[store.root] = store.settings


def in_use() -> Mapping[str, ObjectStore]:
    """The settings of every bucket that is registered."""
    return dict(_in_use)


def settings_of(root: str) -> ObjectStore:
    """Settings of a bucket, by its address; as AWS or Azure by default."""
    return _in_use.get(root) or ObjectStore()


def carried(work: Callable[[Iterator[Task]], Iterator[Part]]) -> Callable[[Iterator[Task]], Iterator[Part]]:
    """A function of Spark's tasks that reaches the stores that its driver reaches."""
    settings = in_use()
    if not settings:
        return work

    def run(batches: Iterator[Task]) -> Iterator[Part]:
        _register(settings)
        yield from work(batches)

    return run


def _register(settings: Mapping[str, ObjectStore]) -> None:
    """A function by name: what is pickled into a task has copies of the variables that it uses."""
    _in_use.update(settings)


def keys_of(root: str) -> tuple[str, ...]:
    """Access key, secret key and token (or an empty text) of S3, or the account's key, from the environment.

    Raises ConfigError where one is missing.
    """
    settings = settings_of(root)
    if store_scheme(root) == AZURE:
        key = _variable(root, settings.account_key_env)
        try:
            b64decode(key, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{root}: {settings.account_key_env} is no key of a storage account: set it") from error
        return (key,)
    keys = (_variable(root, settings.access_key_env), _variable(root, settings.secret_key_env))
    return (*keys, os.environ.get(settings.session_token_env) or "")


def _variable(root: str, name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ConfigError(
            f"{root}: the environment of this process on {socket.gethostname()} has no variable {name}; "
            "set it for the process, and on a cluster for executors"
        )
    return value


def client(root: str) -> S3Store | AzureStore:
    """The client for a bucket's objects; a new one where keys or settings change. Raises ConfigError."""
    return _client(root, settings_of(root), keys_of(root), os.getpid())


@lru_cache(16)
def _client(root: str, settings: ObjectStore, keys: tuple[str, ...], _process: int) -> S3Store | AzureStore:
    options: ClientConfig = {"timeout": _TIMEOUT, "allow_http": _is_http(settings)}
    if settings.ca:
        options["root_certificate"] = _certificates(settings)
    if store_scheme(root) == AZURE:
        account: AzureConfig = {
            "account_name": account_of(root),
            "account_key": keys[0],
            "endpoint": blob_endpoint(root, settings),
        }
        return AzureStore(container_of(root), config=account, client_options=options, retry_config=_RETRIES)
    return _amazon(urlsplit(root).netloc, settings, keys, options)


def _amazon(bucket: str, settings: ObjectStore, keys: tuple[str, ...], options: "ClientConfig") -> S3Store:
    access_key, secret_key, token = keys
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": not settings.is_path_style,
    }
    keys_now: S3Credential = {
        "access_key_id": access_key,
        "secret_access_key": secret_key,
        "token": token or None,
        "expires_at": None,
    }
    if settings.endpoint:
        config["endpoint"] = settings.endpoint
    # Keys in the settings would be joined by a token of the environment that belongs to others.
    return S3Store(
        bucket, config=config, client_options=options, retry_config=_RETRIES, credential_provider=lambda: keys_now
    )


def deltalake_options(path: str) -> dict[str, str] | None:
    """The ``storage_options`` for a table; None for one on a file system. Raises ConfigError."""
    if store_scheme(path) is None:
        return None
    root = root_of(path)
    settings, keys = settings_of(root), keys_of(root)
    options = {"allow_http": str(_is_http(settings)).lower(), "timeout": _TIMEOUT}
    if settings.ca:
        options["root_certificate"] = _certificates(settings)
    if store_scheme(root) == AZURE:
        account = {"azure_storage_account_name": account_of(root), "azure_storage_account_key": keys[0]}
        return options | account | {"azure_storage_endpoint": blob_endpoint(root, settings)}
    options |= {
        "aws_access_key_id": keys[0],
        "aws_secret_access_key": keys[1],
        "aws_session_token": keys[2],  # else one of the environment that belongs to other keys
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
