"""Connections to a server: options, TLS, and the meaning of its errors.

Put here: what every connection to a server shares. Not here: what is asked of it (server.py) or its dump
(binlog_dump.py).
"""

import re
import socket
import ssl
import struct
import threading
import time
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.cursors import DictCursor

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.errors import AccessDenied, SourceError, about
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.login.credentials import password_of
from spark_jobs.text.server_errors import printable_answer

_HINTS = {
    2012: "correct host and port",
    1045: "check the user or password of {user!r}",
    1698: "check the user or password of {user!r}",
    1044: "check the privileges of {user!r}",
    1142: "check the privileges of {user!r}",
    1227: "GRANT {privilege} ON *.* TO {user!r}@'…'; stratalog check --connect names the account",
}
_DENIED = {1045, 1698}
_UNTIL_CHANGED = _DENIED | {1044, 1130, 1142, 1143, 1227, 1251, 1370, 1820, 1862, 3118, 3159, 4151}
"""Numbers of errors by which a server refuses an account, its password, its host, its way in, or a privilege."""
_IDENTITY_HINT = (
    "check that {user!r} is made for auth: {auth} at the server, and that this process's identity may log in as it "
    "(stratalog docs managed-servers)"
)
_PRIVILEGES = re.compile(r"the ([A-Z ,_]+) privilege")
"""Privileges that error 1227 names; any one suffices, the narrowest comes last."""
_CERTIFICATE = (
    "the server's certificate is not trusted: name the CA that signed it as tls.ca (it is {ca}), connect by the host "
    "name that stands in it, or set tls.verify to false to connect without knowing who answers"
)
_NO_TLS = (
    "its TLS is of another kind than this machine's: let the server use TLS 1.2 or later, or set tls.enabled to false "
    "where the network between may be trusted"
)
_PASSING = {1040, 1053, 1152, 1158, 1159, 1160, 1161, 1317, 1927, 2002, 2003, 2006, 2013, 2055, 3169, 4031}
"""Numbers of errors that another try may not meet: connections lost, killed or too many, a server that stops."""


_NO_SERVER = 2012
"""The client's number for a handshake that it cannot read."""
_UNREACHED = {2002, 2003, 2005}
_BROKEN = {2006, 2013, 2055}
"""Numbers that the client gives: nobody answered, or nobody does any more."""
_OF_THE_CLIENT = range(2000, 3000)
"""Numbers of the client library's own errors, which quote nothing that a server sent of rows."""


def connect(name: str, settings: MySQL) -> "pymysql.Connection[DictCursor]":
    """A connection whose session speaks UTC; ``name`` is the source's. Raises SourceError."""
    try:
        with about(name):
            return open_connection(settings)
    except (pymysql.MySQLError, RuntimeError, OSError) as error:
        raise refused_by(name, settings, error) from error


def open_connection(settings: MySQL) -> "pymysql.Connection[DictCursor]":
    """A connection as ``connect`` makes it; raises what PyMySQL and the operating system raise."""
    return log_in(settings, cursorclass=DictCursor, autocommit=True)


def log_in(settings: MySQL, **arguments: Any) -> "pymysql.Connection[Any]":
    """A connection whose login is complete, at most ``connect_timeout`` seconds later.

    PyMySQL's own connect_timeout ends when TCP connects; a server that then says nothing, or a byte at a time, would
    keep it waiting for ever. A password that a program or a service gives is got before, in a time of its own.
    arguments: PyMySQL's, beside ``connection_options``. Raises what PyMySQL and the operating system raise,
    LoginTimeout, and CredentialsError.
    """
    options = connection_options(settings) | {"read_timeout": None, "write_timeout": None} | arguments
    connection = _Connection(**options, defer_connect=True)
    with _Deadline(settings.connect_timeout) as deadline:
        stream = _reach(settings, deadline)
        deadline.watch(stream)
        try:
            connection.connect(stream)  # TLS, authentication, SET NAMES, init_command
        except (IndexError, ValueError, struct.error) as error:
            raise pymysql.OperationalError(_NO_SERVER, "what it sends is no greeting of a MySQL server") from error
    # For writing too: PyMySQL sets that before each command, and a dump is read without setting another.
    for name in ("_read_timeout", "_write_timeout"):
        setattr(connection, name, settings.read_timeout)
    return connection


_CLEAR = (b"mysql_clear_password", b"dialog")
"""Plugins of a server that has the password itself sent: a cloud's tokens, LDAP, PAM."""


class _Connection(pymysql.Connection):
    """PyMySQL's, which would send a password in clear to whoever asks for it so.

    It also reads the machine's certificates (20 ms) for each connection, though it verifies none then.
    """

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        return super()._create_ssl_ctx(sslp) if sslp else _unverifying()  # type: ignore[misc]

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name in _CLEAR and not self._knows_server:
            raise CredentialsError(
                f"the server asks for the password itself ({plugin_name.decode()}), which goes only to a server whose "
                "certificate was verified; set tls, with the CA that signed it as tls.ca"
            )
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    @property
    def _knows_server(self) -> bool:
        """True if the connection has TLS, and the server showed a certificate of its name."""
        stream = self._sock  # type: ignore[attr-defined]
        return (
            isinstance(stream, ssl.SSLSocket)
            and stream.context.verify_mode == ssl.CERT_REQUIRED
            and stream.context.check_hostname
        )


@lru_cache(1)
def _unverifying() -> ssl.SSLContext:
    """TLS with whoever answers, as PyMySQL has it where nothing is said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class LoginTimeout(TimeoutError):
    """A server that did not complete a login in time; the text says how far it came."""


class _Deadline:
    """Shuts a connection down when its login takes too long, whatever it waits for. Raises LoginTimeout."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._stream: socket.socket | None = None
        self._has_expired = False

    @property
    def remaining(self) -> float:
        """Seconds; a little where none are left, since 0 would mean not to wait."""
        return max(self._end - time.monotonic(), 0.001)

    def watch(self, stream: socket.socket) -> None:
        """The connection is watched by a descriptor of its own: TLS takes the first one away."""
        self._stream = stream.dup()
        self._timer = threading.Timer(self.remaining, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        with self._lock, suppress(OSError):  # the peer may have closed it already
            if self._stream is not None:
                self._has_expired = True
                self._stream.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # The timer and the login end at the same time: whichever takes the lock first decides which error is told.
        with self._lock:
            if self._timer:
                self._timer.cancel()
            if self._stream:
                self._stream.close()
            self._stream = None
        if self._has_expired and (kind is None or issubclass(kind, Exception)):
            raise LoginTimeout(
                f"the login was not complete after {self._seconds:g} s; check that a MySQL server listens at this port "
                "and is not overloaded, or raise connect_timeout"
            ) from error
        if isinstance(error, TimeoutError) and error.errno is None:
            raise LoginTimeout(
                f"cannot be reached: no connection after {self._seconds:g} s; correct host and port, let the network "
                "pass them, or raise connect_timeout"
            ) from error


def _reach(settings: MySQL, deadline: _Deadline) -> socket.socket:
    """A TCP connection to the host's first address that answers; each has its share of the time. Raises OSError."""
    addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    for remaining, (family, kind, protocol, _, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        stream = socket.socket(family, kind, protocol)
        try:
            stream.settimeout(deadline.remaining / remaining)
            stream.connect(address)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except BaseException as error:
            stream.close()
            if remaining == 1 or not isinstance(error, OSError):
                raise
        else:
            return stream
    raise AssertionError("getaddrinfo gives an address or raises")


def connection_options(settings: MySQL) -> dict[str, Any]:
    """PyMySQL's arguments for a configured server, with a password as of now.

    Raises SourceError for files of ``tls`` that are none, and CredentialsError.
    """
    return {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user.encode("utf-8", "surrogateescape"),  # as passwords: password_of
        "password": password_of(settings),
        "charset": "utf8mb4",
        "init_command": "SET time_zone = '+00:00'",
    } | _tls_options(settings.tls)


def _tls_options(tls: Tls | None) -> dict[str, Any]:
    """Options of TLS; without any, PyMySQL encrypts when the server can and verifies nothing, as servers' tools do."""
    if tls is None:
        return {}
    return {"ssl": _context(tls)} if tls.enabled else {"ssl_disabled": True}


def _context(tls: Tls) -> ssl.SSLContext:
    """Certificate and host name are verified together or not at all, against ``ca`` or what the machine trusts."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as error:
        files = ", ".join(
            f"{key} {path}" for key, path in tls.model_dump(include={"ca", "cert", "key"}).items() if path
        )
        raise SourceError(f"the files of tls ({files}) cannot be used: {error.strerror or error}") from error
    # Servers make themselves certificates that lack the extensions which this flag insists on from Python 3.13 on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def error_number(error: BaseException | None) -> int | None:
    """The server's or the client library's number of an error."""
    return error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else None


def answer_of(error: BaseException) -> str:
    """Answer of a server, on one line, without values of rows: of a text whose shape is not known, its number."""
    text = re.sub(r"\s+", " ", str(error.args[-1] if error.args else error))
    number = error_number(error)
    if not isinstance(number, int) or number in _OF_THE_CLIENT:
        return text
    return printable_answer(number, getattr(error, "sqlstate", None), text)


def may_pass(error: BaseException) -> bool:
    """True if trying again may help: a connection that was lost, not one that was refused."""
    if isinstance(error, CredentialsError):
        return error.is_passing
    if isinstance(error, pymysql.MySQLError):
        return error_number(error) in _PASSING and not isinstance(_origin(error), ssl.SSLCertVerificationError)
    return isinstance(error, OSError) and not isinstance(error, ssl.SSLCertVerificationError)


def is_denial(error: BaseException) -> bool:
    """True if a server refuses what it will refuse again, or if the user has no password to show."""
    if isinstance(error, CredentialsError):
        return not error.is_passing
    return error_number(error) in _UNTIL_CHANGED


def refused_by(label: str, settings: MySQL, error: BaseException) -> SourceError:
    """The error that says a ``refusal``; AccessDenied where another try cannot help."""
    return (AccessDenied if is_denial(error) else SourceError)(refusal(label, settings, error))


def refusal(label: str, settings: MySQL, error: BaseException) -> str:
    """Refusal of a server, where it was, and what to look at; never with a secret."""
    text = answer_of(error)
    if isinstance(error, LoginTimeout | CredentialsError):
        return f"{label}: {settings.host}:{settings.port}: {text}"
    # What to look at: by the kind of failure in TLS, or by the server's number.
    origin = _origin(error)
    if isinstance(origin, ssl.SSLCertVerificationError):
        ca = settings.tls.ca if settings.tls and settings.tls.ca else "not set"
        look = "; " + _CERTIFICATE.format(ca=ca)
    elif isinstance(origin, ssl.SSLError):
        look = "; " + _NO_TLS
    else:
        number = error_number(error) or 0
        hint = _IDENTITY_HINT if settings.auth and number in _DENIED else _HINTS.get(number)
        listed = _PRIVILEGES.search(text)
        privilege = listed[1].split(",")[-1].strip() if listed else "the privilege"
        look = f"; {hint.format(user=settings.user, privilege=privilege, auth=settings.auth)}" if hint else ""
    return f"{label}: {settings.host}:{settings.port}{_answer(error, text)}{look}"


def _answer(error: BaseException, text: str) -> str:
    """Answer of a server, or that it gave none."""
    number, origin = error_number(error), _origin(error)
    if isinstance(origin, ssl.SSLError):
        return f" answered: {text}"
    if number in _UNREACHED or isinstance(error, OSError):
        reason = origin.strerror if isinstance(origin, OSError) and origin.strerror else text
        return f" cannot be reached: {reason}"
    if number in _BROKEN:
        return f": {text}"
    return f" answered: {text}"


def _origin(error: BaseException) -> BaseException | None:
    """The error of the operating system that PyMySQL made one of its own of."""
    return getattr(error, "original_exception", None) or error
