"""The object store of a lake: which addresses name one, and the key ``store`` of pipeline.yaml.

Put here: addresses of lakes, and how their store is reached. Not here: requests to it (spark_jobs/storage).
"""

import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from spark_jobs.config.values import LocalPath, local_path

S3 = "s3a"
"""The scheme that paths on S3 have throughout; ``s3://`` and ``s3n://`` are read as it."""
_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)
_NEVER_RUN = {
    "abfs": "Azure",
    "abfss": "Azure",
    "wasb": "Azure",
    "wasbs": "Azure",
    "az": "Azure",
    "adl": "Azure",
    "gs": "Google Cloud Storage",
    "oss": "Alibaba Cloud",
}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]+")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_s3(path: str) -> bool:
    """Whether a path is on S3."""
    return _S3.match(path) is not None


def lake_text(text: str) -> str:
    """The address of a lake, in the one spelling that its tables' paths have. Raises ValueError."""
    local_path(text)
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme in _NEVER_RUN:
        raise ValueError(
            f"a lake on {_NEVER_RUN[scheme]} ({scheme}://) is not supported: it was never run; use a local path, "
            "s3a:// or hdfs://"
        )
    if not is_s3(text):
        return text
    address = _S3.sub(f"{S3}://", text)
    if not _BUCKET.fullmatch(urlsplit(address).netloc):
        raise ValueError(f"{text!r} must name a bucket, as s3a://bucket/prefix, and neither keys nor a port")
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
    """How the object store of an ``s3a://`` lake is reached, by Spark and without it.

    Keys are read from the environment, of this process and of executors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    endpoint: Annotated[str, AfterValidator(endpoint_text)] | None = None
    """The address of a store that is compatible with S3, like ``https://s3.internal:9000``; by default AWS."""
    region: str = Field("us-east-1", min_length=1)
    """The region that requests are signed for."""
    path_style: bool | None = None
    """Whether the bucket is in the path of a request in place of its host; by default with an ``endpoint``."""
    ca: LocalPath | None = None
    """A PEM file of certificates that sign the endpoint's, besides those that the system trusts."""
    access_key_env: VariableName = "AWS_ACCESS_KEY_ID"
    """The variable of the environment with the access key."""
    secret_key_env: VariableName = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a name
    """The variable of the environment with the secret key."""
    session_token_env: VariableName = "AWS_SESSION_TOKEN"  # noqa: S105 - a name
    """The variable of the environment with the token of temporary keys; it may be missing."""

    @property
    def is_path_style(self) -> bool:
        return self.endpoint is not None if self.path_style is None else self.path_style


@dataclass(frozen=True, slots=True)
class LakeStore:
    """A bucket, and how it is reached; no secret is in it."""

    bucket: str
    settings: ObjectStore


def store_of(lake: str, settings: ObjectStore) -> LakeStore | None:
    """The store of a lake; None where it is not on S3."""
    return LakeStore(urlsplit(lake).netloc, settings) if is_s3(lake) else None
