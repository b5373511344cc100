"""Keys of a server in pipeline.yaml, and the base class of all models of keys.

Put here: the keys of a server, and the base class of models. Not here: what is read from a server (model.py), or what
is delivered to one (deliveries.py).
"""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from spark_jobs.config.values import LocalPath


class Model(BaseModel):
    """The text below a key is its line in docs/reference/configuration.md."""

    # Only what a configuration is read by is built, at its first use: each model by itself takes milliseconds.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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


Auth = Literal["aws-iam", "azure-entra", "gcp-iam"]


class MySQL(Model):
    """A live MySQL or MariaDB server. The user needs REPLICATION SLAVE, REPLICATION CLIENT and SELECT."""

    host: str = "127.0.0.1"
    """Name or address."""
    port: int = Field(3306, ge=1, le=65535)
    """TCP port."""
    user: str
    """The user that logs in."""
    password: SecretStr = SecretStr("")
    """The user's password: write ``${NAME}``, which reads the environment."""
    password_command: tuple[SecretStr, ...] = ()
    """Program and its arguments, in place of ``password``, run without a shell for each new connection; the first line
    of its output is the password. It may take ``connect_timeout`` seconds."""
    auth: Auth | None = None
    """Token in place of ``password``, for the identity that this process has in a cloud. ``aws-iam`` is for RDS and
    Aurora, ``azure-entra`` for Azure Database for MySQL, ``gcp-iam`` for Cloud SQL. Needs ``tls`` that verifies."""
    region: str | None = None
    """The server's region for ``aws-iam``; without it, the one in its host name, or else of AWS_REGION or
    AWS_DEFAULT_REGION in the environment."""
    tls: Tls | None = None
    """Encryption of the connection; without it, it is encrypted where the server can, and nothing is verified."""
    connect_timeout: int = Field(10, ge=1)
    """Seconds until the login is complete: TCP, TLS, authentication and the session's settings."""
    read_timeout: int = Field(60, ge=1)
    """Seconds without a byte before a read is given up."""

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if problem := problem_of_login(self):
            raise ValueError(problem)
        return self


def problem_of_login(settings: MySQL) -> str | None:
    """Problem of the keys with which a server is logged in to; None where there is none."""
    listed = [name for name in ("password", "password_command", "auth") if getattr(settings, name)]
    if len(listed) > 1:
        return f"{' and '.join(listed)} are each a way to log in; keep one of them"
    if settings.password_command and not settings.password_command[0].get_secret_value():
        return "password_command must begin with the name of a program"
    if settings.region and settings.auth != "aws-iam":
        return "region is for auth: aws-iam"
    tls = settings.tls
    if settings.auth and not (tls and tls.enabled and tls.verify):
        return f"auth: {settings.auth} needs tls that verifies the server; write tls: {{ca: FILE}}"
    return None


def problem_of_servers(servers: Sequence[MySQL]) -> str | None:
    """Problem of the servers of one source, in the order of its endpoints; None where there is none."""
    paths = [(server.host, server.port) for server in servers]
    for at, (host, port) in enumerate(paths):
        if paths.count((host, port)) > 1:
            return f"endpoints: {host}:{port} is there twice"
        if problem := problem_of_login(servers[at]):
            return f"endpoints[{at}]: {problem}"
    return None


_LOGIN = {"password": SecretStr(""), "password_command": (), "auth": None}
"""Keys with a login's secret, of which there is one, and their defaults."""


class Endpoint(Model):
    """One of several servers that have the same log: a primary, a replica. What it does not say, ``mysql`` says."""

    host: str
    """Name or address."""
    port: int | None = Field(None, ge=1, le=65535)
    """TCP port; without it, that of ``mysql``."""
    user: str | None = None
    """The user that logs in; without it, that of ``mysql``."""
    password: SecretStr | None = None
    """The user's password, in place of whatever ``mysql`` has to log in with."""
    password_command: tuple[SecretStr, ...] | None = None
    """A program that prints the password, as in ``mysql``; in place of whatever ``mysql`` has to log in with."""
    auth: Auth | None = None
    """A token for the identity of this process, as in ``mysql``; in place of whatever ``mysql`` has to log in with."""
    region: str | None = None
    """The server's region for ``aws-iam``; without it, that of ``mysql``."""
    tls: Tls | None = None
    """Encryption of the connection; without it, that of ``mysql``."""
    connect_timeout: int | None = Field(None, ge=1)
    """Seconds until the login is complete; without it, those of ``mysql``."""
    read_timeout: int | None = Field(None, ge=1)
    """Seconds without a byte before a read is given up; without it, those of ``mysql``."""

    def server(self, shared: MySQL) -> MySQL:
        """The server with what all of them share."""
        settings = {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}
        if settings.keys() & _LOGIN.keys():
            settings = {**_LOGIN, **settings}
        return shared.model_copy(update=settings)
