"""The object store of a lake: which addresses name one, and the key ``store`` of pipeline.yaml.

Put here: addresses of lakes, and how their store is reached. Not here: requests to it (spark_jobs/storage).
"""

import re
from dataclasses import dataclass
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from spark_jobs.config.values import LocalPath, local_path

S3 = "s3a"
"""The scheme that paths on S3 have throughout; ``s3://`` and ``s3n://`` are read as it."""
AZURE = "abfss"
"""The scheme that paths on Azure have throughout; ``abfs://`` is read as it."""
GOOGLE = "gs"
"""The scheme of paths on Google Cloud Storage."""
_SPELLINGS = {"s3": S3, "s3n": S3, S3: S3, "abfs": AZURE, AZURE: AZURE, GOOGLE: GOOGLE}
_NEVER_RUN = {
    "wasb": "Azure",
    "wasbs": "Azure",
    "az": "Azure",
    "adl": "Azure",
    "oss": "Alibaba Cloud",
}
_OF_SPARK_ALONE = {"hdfs": "HDFS"}
"""Settings that Spark takes, and commits that are made without Spark do not."""
_BUCKETS = {
    S3: (re.compile(r"[a-z0-9][a-z0-9._-]+"), "a bucket, as s3a://bucket/prefix, and neither keys nor a port"),
    AZURE: (
        re.compile(r"[a-z0-9][a-z0-9-]+@[a-z0-9]{3,24}\.dfs\.[a-z0-9.-]+"),
        "a container and an account, as abfss://container@account.dfs.core.windows.net/prefix, and no key",
    ),
    GOOGLE: (re.compile(r"[a-z0-9][a-z0-9._-]+"), "a bucket, as gs://bucket/prefix, and neither keys nor a port"),
}
_SUPPORTED = "use a local path, s3a://, abfss:// or gs://"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def store_scheme(path: str) -> str | None:
    """The scheme of the store that a path is on, ``s3a``, ``abfss`` or ``gs``; None where it is on none."""
    scheme, separator, _ = path.partition("://")
    return _SPELLINGS.get(scheme.lower()) if separator else None


def lake_text(text: str) -> str:
    """The address of a lake, in the one spelling that its tables' paths have. Raises ValueError."""
    # Stores that were never run, or do not work, are refused by name.
    local_path(text)
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme in _NEVER_RUN:
        raise ValueError(
            f"a lake on {_NEVER_RUN[scheme]} ({scheme}://) is not supported: it was never run; {_SUPPORTED}"
        )
    if scheme in _OF_SPARK_ALONE:
        raise ValueError(
            f"a lake on {_OF_SPARK_ALONE[scheme]} ({scheme}://) is not supported: Spark alone reaches it, and not "
            f"every commit is Spark's; {_SUPPORTED}"
        )
    # A path stays as it is; the address of a store has to name a bucket.
    store = store_scheme(text)
    if store is None:
        return text
    address = f"{store}://{text.partition('://')[2]}"
    bucket, form = _BUCKETS[store]
    if not bucket.fullmatch(urlsplit(address).netloc):
        raise ValueError(f"must name {form}")  # without the text: keys may stand in it
    return address


def variable_name(text: str) -> str:
    if not _VARIABLE_NAME.fullmatch(text):
        raise ValueError("must be the name of a variable of the environment, without $: the value never stands here")
    return text


def endpoint_text(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError("must be an address like https://s3.internal:9000")
    if parts.username or parts.password:
        raise ValueError("must hold no user and no password: keys come from the environment")
    return text.rstrip("/")


VariableName = Annotated[str, AfterValidator(variable_name)]


class ObjectStore(BaseModel):
    """Access to the object store of an ``s3a://``, ``abfss://`` or ``gs://`` lake, by Spark and without it.

    Keys and identities come from the environment, of this process and of executors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    endpoint: Annotated[str, AfterValidator(endpoint_text)] | None = None
    """The address of a store that is compatible with S3, like ``https://s3.internal:9000``, or of one that is
    compatible with Azure's and has the account in the path of requests, or with Google's; by default AWS, Azure or
    Google."""
    region: str = Field("us-east-1", min_length=1)
    """S3: the region that requests are signed for."""
    path_style: bool | None = None
    """S3: whether the bucket is in the path of a request in place of its host; by default with an ``endpoint``."""
    ca: LocalPath | None = None
    """A PEM file of certificates that sign the endpoint's, besides those that the system trusts."""
    access_key_env: VariableName | None = None
    """S3: the variable of the environment with the access key, in place of the identity that AWS's own programs find;
    with ``secret_key_env``."""
    secret_key_env: VariableName | None = None
    """S3: the variable of the environment with the secret key."""
    session_token_env: VariableName | None = None
    """S3: the variable of the environment with the token of temporary keys; it may be missing."""
    account_key_env: VariableName | None = None
    """Azure: the variable of the environment with the key of the storage account; by default AZURE_STORAGE_KEY, and
    where that is not set, a shared access signature or an identity."""
    sas_token_env: VariableName | None = None
    """Azure: the variable of the environment with a shared access signature; by default AZURE_STORAGE_SAS_TOKEN."""

    @model_validator(mode="after")
    def _whole_keys(self) -> Self:
        if (self.access_key_env is None) != (self.secret_key_env is None):
            raise ValueError("access_key_env and secret_key_env are named together, or neither is")
        if self.session_token_env and not self.access_key_env:
            raise ValueError("session_token_env is for the keys of access_key_env and secret_key_env")
        if self.account_key_env and self.sas_token_env:
            raise ValueError("account_key_env and sas_token_env are each a way in; keep one of them")
        return self

    @property
    def is_path_style(self) -> bool:
        return self.endpoint is not None if self.path_style is None else self.path_style


@dataclass(frozen=True, slots=True)
class LakeStore:
    """A bucket, and how it is reached; no secret is in it."""

    bucket: str
    """Name of the bucket; on Azure ``container@account.dfs.core.windows.net``."""
    settings: ObjectStore
    scheme: str = S3

    @property
    def root(self) -> str:
        """The address of the bucket."""
        return f"{self.scheme}://{self.bucket}"


def store_of(lake: str, settings: ObjectStore) -> LakeStore | None:
    """The store of a lake; None where it is on none."""
    scheme = store_scheme(lake)
    return LakeStore(urlsplit(lake).netloc, settings, scheme) if scheme else None


def root_of(path: str) -> str:
    """The address of the bucket of a path that is on a store."""
    return f"{store_scheme(path)}://{urlsplit(path).netloc}"


def account_of(root: str) -> str:
    """The storage account in the address of a container on Azure."""
    return urlsplit(root).netloc.partition("@")[2].partition(".")[0]


def container_of(root: str) -> str:
    """The container in its address on Azure."""
    return urlsplit(root).netloc.partition("@")[0]


def blob_endpoint(root: str, settings: ObjectStore) -> str:
    """The address at which an account on Azure takes requests about blobs.

    Those about blobs go there in accounts with a hierarchical namespace, too.
    """
    host = urlsplit(root).netloc.partition("@")[2]
    if settings.endpoint:
        return f"{settings.endpoint}/{account_of(root)}"
    return f"https://{host.replace('.dfs.', '.blob.', 1)}"


def environment_names(settings: ObjectStore) -> tuple[str, ...]:
    """The variables that a store's settings name; what else the environment has is then not looked at."""
    fields = ("access_key_env", "secret_key_env", "session_token_env", "account_key_env", "sas_token_env")
    return tuple(name for field in fields if (name := getattr(settings, field)))
