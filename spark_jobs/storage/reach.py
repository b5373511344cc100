"""How object stores are reached: the settings in use, by bucket, and keys from the environment.

Put here: settings and keys in the form that each library takes. Not here: requests (objects.py).

Settings are registered when a pipeline's lake or session is opened, and travel with Spark's tasks (``carried``); keys
never do: every process reads them from its own environment.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from obstore.store import S3Store

from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

_TIMEOUT = "60s"
_RETRIES: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
_in_use: dict[str, ObjectStore] = {}
Task = TypeVar("Task")
Part = TypeVar("Part")


def use(store: LakeStore | None) -> None:
    """Registers how the bucket of a lake is reached; nothing for a lake that is on none."""
    if store is not None:
        _in_use[store.bucket] = store.settings


def in_use() -> Mapping[str, ObjectStore]:
    """The settings of every bucket that is registered."""
    return dict(_in_use)


def settings_of(bucket: str) -> ObjectStore:
    """How a bucket is reached; as AWS by default."""
    return _in_use.get(bucket) or ObjectStore()


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


def keys_of(bucket: str) -> tuple[str, str, str | None]:
    """Access key, secret key and token from the environment. Raises ConfigError where one is missing."""
    settings = settings_of(bucket)
    for name in (settings.access_key_env, settings.secret_key_env):
        if not os.environ.get(name):
            raise ConfigError(
                f"s3a://{bucket}: the environment of this process on {socket.gethostname()} has no variable {name}; "
                "set it for the process, and on a cluster for executors"
            )
    token = os.environ.get(settings.session_token_env) or None
    return os.environ[settings.access_key_env], os.environ[settings.secret_key_env], token


def client(bucket: str) -> S3Store:
    """The client for a bucket's objects; a new one where keys or settings change. Raises ConfigError."""
    return _client(bucket, settings_of(bucket), keys_of(bucket), os.getpid())


@lru_cache(16)
def _client(bucket: str, settings: ObjectStore, keys: tuple[str, str, str | None], _process: int) -> S3Store:
    access_key, secret_key, token = keys
    options: ClientConfig = {"timeout": _TIMEOUT, "allow_http": _is_http(settings)}
    if settings.ca:
        options["root_certificate"] = _certificates(settings)
    config: S3Config = {
        "region": settings.region,
        "virtual_hosted_style_request": not settings.is_path_style,
    }
    keys_now: S3Credential = {
        "access_key_id": access_key,
        "secret_access_key": secret_key,
        "token": token,
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
    if not path.startswith("s3a://"):
        return None
    bucket = urlsplit(path).netloc
    settings, (access_key, secret_key, token) = settings_of(bucket), keys_of(bucket)
    options = {
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret_key,
        "aws_session_token": token or "",  # else one of the environment that belongs to other keys
        "aws_region": settings.region,
        "aws_virtual_hosted_style_request": str(not settings.is_path_style).lower(),
        "allow_http": str(_is_http(settings)).lower(),
        "timeout": _TIMEOUT,
    }
    if settings.endpoint:
        options["aws_endpoint_url"] = settings.endpoint
    if settings.ca:
        options["root_certificate"] = _certificates(settings)
    return options


def _certificates(settings: ObjectStore) -> str:
    assert settings.ca is not None
    try:
        return settings.ca.read_text()
    except OSError as error:
        raise ConfigError(f"store.ca: {settings.ca}: {error.strerror} on {socket.gethostname()}") from error


def _is_http(settings: ObjectStore) -> bool:
    return (settings.endpoint or "").startswith("http://")
