"""Servers as keys of pipeline.yaml: how one is reached, and what every model of keys is.

Put here: the keys of a server, and the base class of models. Not here: what is read from a server (model.py), or what
is delivered to one (deliveries.py).
"""

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from spark_jobs.config.values import LocalPath


class Model(BaseModel):
    """The text below a key is its line in docs/reference/configuration.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Tls(Model):
    """Encryption of the connection to a server; paths are local to the machine that connects."""

    enabled: bool = True
    """True if the connection is encrypted at all."""
    ca: LocalPath | None = None
    """The CA that must have signed the server's certificate; without it, those that this machine trusts."""
    cert: LocalPath | None = None
    """A certificate that the client shows."""
    key: LocalPath | None = None
    """The key of ``cert``."""
    verify: bool = True
    """True if the server's certificate is verified."""


class MySQL(Model):
    """A live MySQL or MariaDB server. The user needs REPLICATION SLAVE, REPLICATION CLIENT and SELECT."""

    host: str = "127.0.0.1"
    """Name or address."""
    port: int = Field(3306, ge=1, le=65535)
    """TCP port."""
    user: str
    """The user that logs in."""
    password: SecretStr = SecretStr("")
    """Its password: write ``${NAME}``, which reads the environment."""
    tls: Tls | None = None
    """Encryption of the connection; without it, it is encrypted where the server can, and nothing is verified."""
    connect_timeout: int = Field(10, ge=1)
    """Seconds until the login is complete: TCP, TLS, authentication and the session's settings."""
    read_timeout: int = Field(60, ge=1)
    """Seconds without a byte before a read is given up."""


class Endpoint(Model):
    """One of several servers that have the same log: a primary, a replica. What it does not say, ``mysql`` says."""

    host: str
    """Name or address."""
    port: int | None = Field(None, ge=1, le=65535)
    """As in ``mysql``, and so are the others."""
    user: str | None = None
    """As in ``mysql``."""
    password: SecretStr | None = None
    """As in ``mysql``."""
    tls: Tls | None = None
    """As in ``mysql``."""
    connect_timeout: int | None = Field(None, ge=1)
    """As in ``mysql``."""
    read_timeout: int | None = Field(None, ge=1)
    """As in ``mysql``."""

    def server(self, shared: MySQL) -> MySQL:
        """The server with what all of them share."""
        settings = {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}
        return shared.model_copy(update=settings)
