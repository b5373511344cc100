"""Spark Connect: this process's session on a server, reached by gRPC.

Put here: opening it, sessions beside it, interrupting and releasing them. Not here: sessions of a JVM of this process
(spark_session.py), or what Spark's errors mean (engine_errors.py).

A session beside another is a further client on the connection of the first. PySpark has no ``newSession()`` here, and a
clone takes over settings that are one commit's, and copies what was uploaded. The server keeps a session until it is
released: whoever opens the next one releases those that nobody refers to any more.
"""

import atexit
import copy
import importlib
import logging
import os
import re
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from spark_jobs.errors import ConfigError, JvmEnded, StratalogError
from spark_jobs.text.disclosure import foreign

if TYPE_CHECKING:  # its packages come with stratalog[connect]
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder, SparkConnectClient

log = logging.getLogger(__name__)

_MODULE = "pyspark.sql.connect"
_OF_A_COMMIT = {"spark.databricks.delta.write.txnAppId", "spark.databricks.delta.commitInfo.userMetadata"}
_MODULES = ("grpc", "grpc_status", "google.rpc.error_details_pb2", "zstandard")
_FIRST: dict[str, Any] = {"max_retries": 4, "initial_backoff": 50, "backoff_multiplier": 4.0}
"""Attempts at the first call, and at all calls to a server of this machine: four seconds where nobody listens."""
_LATER: dict[str, Any] = {"max_retries": 9, "initial_backoff": 50, "backoff_multiplier": 4.0, "max_backoff": 10_000}
"""Attempts at later calls: a minute. PySpark's own continue for more than ten, without a word."""
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Logger by which PySpark logs errors as JSON on standard error, with the server's trace and the statement's
literals."""
_DETAILS = re.compile(r'^\s*details = "(.*?)"?$', re.MULTILINE)
_HOST = re.compile(r"\w+://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d+)?(?=[/;?#]|$)")
_LOST = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
_FORGOTTEN = re.compile(r"INVALID_HANDLE\.SESSION_|INVALID_HANDLE\.OPERATION_NOT_FOUND|NO_ACTIVE_SESSION")
_ENDED = (
    "spark.remote: {where}: the server {what} in the middle of the work, and every table is at its last commit; start "
    "the server where it is down, then run again"
)
_KEPT_SESSION_ENDED = (
    "spark.keep: the Spark server that stays between runs {what} in the middle of the work: killed, or out of memory "
    "(spark: conf: spark.driver.memory); {where} has its output. Every table is at its last commit; run it "
    "again, and a new one starts"
)
_ANSWERING = 10
"""Seconds that a server of this machine has for its first answer."""


Settings = frozenset[tuple[str, str]]


class _Borrowed:
    """The connection of another client, which closes it."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        """Do nothing: it is open for as long as the session that opened it."""


class _ConnectServer:
    """Sessions that this process has open on a server: a first one, and those attached to it."""

    def __init__(
        self,
        location: str,
        first: "SparkSession",
        confs: Mapping[str, str],
        archive: str | None = None,
        detach: Callable[[], None] | None = None,
    ) -> None:
        self.location = location
        """Address of the server, or the log of a standing one."""
        self.first = first
        self._confs = dict(confs)
        self._archive = archive
        self.detach = detach or (lambda: None)
        self.is_kept = detach is not None
        self._attached: weakref.WeakValueDictionary[Settings, SparkSession] = weakref.WeakValueDictionary()
        self._abandoned: deque[str] = deque()
        self._lock = threading.Lock()

    def open(self, confs: Mapping[str, str]) -> "SparkSession":
        """The session with these settings beside the first, on the first one's connection.

        It is one for all who ask for the same settings, since rows of two sessions cannot be joined.
        """
        settings = frozenset({**self._confs, **confs}.items())
        with self._lock:
            self._release_abandoned()
            session = self._attached.get(settings)
            if session is None:
                session = _remote_session(_sharing(_client(self.first)), _FIRST if self.is_kept else _LATER)
                _set_confs(_client(session), dict(settings))
                if self._archive and not confs.keys() & _OF_A_COMMIT:  # which runs no task of ours
                    session.addArtifacts(self._archive, archive=True)
                weakref.finalize(session, self._abandoned.append, _client(session)._session_id).atexit = False
                self._attached[settings] = session
        return session

    def sessions(self) -> "list[SparkSession]":
        with self._lock:
            return [self.first, *self._attached.values()]

    def close(self) -> None:
        """Release every session, and close the connection."""
        with self._lock:
            self._release_abandoned()
        for session in reversed(self.sessions()):
            session.stop()

    def _release_abandoned(self) -> None:
        while self._abandoned:
            _release(_client(self.first), self._abandoned.popleft())


_server: _ConnectServer | None = None
"""One of a process, as PySpark has one session of it."""


def is_connect(spark: "SparkSession") -> bool:
    """True if a session, which is started, is a server's."""
    return type(spark).__module__.startswith(_MODULE)


def connected(
    remote: str,
    confs: Mapping[str, str],
    optional: Mapping[str, str],
    *,
    archive: str | None = None,
) -> "SparkSession":
    """Session of this process on a server, opened at the first call.

    Args:
        remote: its address, sc://host:port.
        confs: settings of this session and of those beside it.
        optional: settings of the user; those that no session can set are a warning.
        archive: of the environment, and the folder that it is unpacked into; every session uploads it for itself.

    Raises:
        ConfigError: packages are missing, or the address or what answers there is not what is needed.
        JvmEnded: nothing answers.
    """
    global _server  # noqa: PLW0603 - as above
    # A server that closed the session, or was started again, gets a new one.
    if _server is None or _client(_server.first).is_closed:
        with _explained(remote):
            first = _first(remote)
            _require_spark(first.version)
            settings = {**optional, **confs}
            refused = _set_confs(_client(first), settings)
            _require_delta(first)
            if archive:
                first.addArtifacts(archive, archive=True)
            _prepare(_client(first), _LATER)
        # Settings of a server's cluster cannot be set by a session: that is a warning, and the work continues without.
        unsettable = [key for key in optional if key in refused]
        if unsettable:
            log.warning("spark.conf: %s: no session can set it; set it where the server starts", ", ".join(unsettable))
        _server = _ConnectServer(
            _address(remote), first, {key: value for key, value in settings.items() if key not in refused}, archive
        )
        atexit.register(disconnect)
    return _server.first


def current() -> "SparkSession | None":
    """Session of this process on a server, where one is open."""
    return None if _server is None or _client(_server.first).is_closed else _server.first


def on_this_machine(port: int, token: str, log_file: str, detach: Callable[[], None]) -> "SparkSession":
    """Session of this process on a server that was started for it and others, with all settings.

    Args:
        port: of 127.0.0.1; the caller has seen whose it is.
        token: that each call carries.
        log_file: where the server says what it says.
        detach: is called when the session ends.

    Raises:
        ConfigError: packages are missing.
        JvmEnded: nothing answers, or not in time.
    """
    global _server  # noqa: PLW0603 - as above
    with _explained("", "spark.keep"):
        first = _first_here(port, token)
    _server = _ConnectServer(log_file, first, {}, detach=detach)
    atexit.register(disconnect)
    return first


def attach_channel(confs: Mapping[str, str]) -> "SparkSession":
    """A session of this process's server with settings that no other session sees."""
    assert _server is not None
    return _server.open(confs)


def conf_values(spark: "SparkSession", keys: tuple[str, ...]) -> dict[str, str]:
    """Settings of a session, by one call."""
    return {key: str(value) for key, value in zip(keys, _client(spark).get_configs(*keys), strict=True)}


def interrupt_all() -> None:
    """End what runs for this process on its server; without a word where that is gone."""
    for session in _server.sessions() if _server is not None else ():
        with suppress(Exception):
            session.interruptAll()


def disconnect() -> None:
    """Release what this process has on its server; without a word where that is gone."""
    global _server
    if _server is None:
        return
    atexit.unregister(disconnect)
    server, _server = _server, None
    try:
        with suppress(Exception):  # it forgets its sessions by itself, in time
            server.close()
    finally:
        server.detach()
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)  # or this process could have no session of another kind


def ended_by(error: Exception) -> JvmEnded | None:
    """Error that an error means which comes of the server's end, or of its having forgotten this process.

    None for others.
    """
    global _server
    if _server is None or isinstance(error, StratalogError):
        return None
    # A status alone says that nothing answers; that this process was forgotten is in the text.
    status = _status(error)
    if status in _LOST:
        event = "is gone"
    elif status and _FORGOTTEN.search(str(error)):
        event = "was restarted, or has dropped the session,"
    else:
        return None
    server, _server = _server, None
    atexit.unregister(disconnect)
    for session in server.sessions():
        _client(session).close()
    server.detach()
    if server.is_kept:
        return JvmEnded(_KEPT_SESSION_ENDED.format(where=server.location, what=event))
    return JvmEnded(_ENDED.format(where=server.location, what=event))


def is_grpc_error(error: Exception) -> bool:
    """True if a call to a server raised it, and PySpark did not put an error of its own in its place."""
    grpc = sys.modules.get("grpc")
    return grpc is not None and isinstance(error, grpc.RpcError)


def _status(error: Exception) -> str:
    """The name of gRPC's status that an error of a call has; empty for other errors."""
    code = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    status = code() if callable(code) else None
    return str(getattr(status, "name", ""))


def _address(remote: str) -> str:
    """An address for messages: its host and port, without the token that may follow or a password before."""
    shown = _HOST.match(remote)
    return shown[0] if shown else "an address that cannot be shown"


@contextmanager
def _explained(remote: str, key: str = "spark.remote") -> Iterator[None]:
    """Error that is raised before there is a session, as ConfigError or JvmEnded."""
    address = f"{key}: {_address(remote)}" if remote else key
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{address}: Spark Connect needs packages that are not installed ({error}); install stratalog[connect] "
            "(stratalog docs clusters/connect)"
        ) from error
    except StratalogError as error:
        raise type(error)(f"{address}: {error}") from error
    except Exception as error:
        # What neither gRPC nor PySpark raised is a mistake of ours and continues as it is.
        if not (_status(error) or isinstance(error, _errors_of_pyspark())):
            raise
        details = _DETAILS.search(str(error))
        reason = foreign(details[1] if details else str(error), 1)
        if _status(error) in _LOST:
            raise JvmEnded(f"{address}: cannot be reached: {reason}; start the server, then run again") from error
        raise ConfigError(
            f"{address}: {reason}; an address is sc://host:port (stratalog docs clusters/connect)"
        ) from error


def _errors_of_pyspark() -> type[Exception]:
    from pyspark.errors import PySparkException

    return PySparkException


def _first(remote: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    from spark_jobs.config.values import remote_text  # what it loads, a verb without a lake does not need

    try:
        remote_text(remote)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    _prepare_process()
    session = SparkSession.builder.remote(remote).getOrCreate()
    _prepare(_client(session), _FIRST)
    return session


def _first_here(port: int, token: str) -> "SparkSession":
    """A session on a port of this machine that has answered; PySpark's own work finds it, as it would the JVM's."""
    _prepare_process()
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session = _remote_session(_local_builder(port, token), _FIRST)
    _require_answer(_client(session))
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as PySpark does for an address
    ConnectSession._default_session = cast("ConnectSession", session)
    ConnectSession._active_session.session = cast("ConnectSession", session)
    return session


def _prepare_process() -> None:
    for module in _MODULES:  # where PySpark looks for them, it ends a program that has no file of its own
        importlib.import_module(module)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")


def _local_builder(port: int, token: str) -> "DefaultChannelBuilder":
    """The connection to a port of this machine: with a token, to no other address, and through no proxy."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(f"sc://127.0.0.1:{port}", [("grpc.enable_http_proxy", 0)])
    builder.set(builder.PARAM_TOKEN, token)
    credentials = grpc.composite_channel_credentials(
        grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
    )
    open_channel = builder._secure_channel
    cast("Any", builder).toChannel = lambda: open_channel(f"ipv4:127.0.0.1:{port}", credentials)
    return builder


def _require_answer(client: "SparkConnectClient") -> None:
    """Make a first call. Raises gRPC's error where it is not answered in time: PySpark's calls wait without end."""
    from pyspark.sql.connect.proto import ConfigRequest, UserContext

    request = ConfigRequest(
        session_id=client._session_id,
        user_context=UserContext(user_id=client._user_id or ""),
        client_type=client._builder.userAgent,
        operation=ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=["spark.app.name"])),
    )
    client._stub.Config(request, metadata=client._builder.metadata(), timeout=_ANSWERING)


def _remote_session(builder: "DefaultChannelBuilder", attempts: dict[str, Any]) -> "SparkSession":
    from pyspark.sql.connect import session as remote

    session = cast("SparkSession", remote.SparkSession(connection=builder))
    _prepare(_client(session), attempts)
    return session


def _prepare(client: "SparkConnectClient", attempts: dict[str, Any]) -> None:
    from pyspark.logger import PySparkLogger
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client.set_retry_policies([DefaultPolicy(**attempts)])
    atexit.unregister(client._on_exit)
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _client(spark: "SparkSession") -> "SparkConnectClient":
    return spark.client


def _sharing(client: "SparkConnectClient") -> "DefaultChannelBuilder":
    """Factory of a client of a session of its own on the connection of another."""
    builder: Any = copy.copy(client._builder)  # PySpark opens a connection a session
    builder._params = {key: value for key, value in builder._params.items() if key != builder.PARAM_SESSION_ID}
    builder.toChannel = lambda: _Borrowed(client._channel)
    return cast("DefaultChannelBuilder", builder)


def _set_confs(client: "SparkConnectClient", confs: Mapping[str, str]) -> set[str]:
    """Set what a session can set, by one call. Returns the keys that it cannot."""
    from pyspark.sql.connect.proto import ConfigRequest, KeyValue

    pairs = [KeyValue(key=key, value=value) for key, value in confs.items()]
    answer = client.config(ConfigRequest.Operation(set=ConfigRequest.Set(pairs=pairs, silent=True)))
    return {key for key in confs if any(text.startswith(f"Failed to set {key} to ") for text in answer.warnings)}


def _release(client: "SparkConnectClient", session_id: str) -> None:
    """Make the server forget a session of which nothing is left here; one that it has forgotten already is well."""
    import grpc
    from pyspark.sql.connect.proto import ReleaseSessionRequest, UserContext

    request = ReleaseSessionRequest(
        session_id=session_id,
        user_context=UserContext(user_id=client._user_id or ""),
        client_type=client._builder.userAgent,
    )
    with suppress(grpc.RpcError):
        client._stub.ReleaseSession(request, metadata=client._builder.metadata())


def _require_spark(server: str) -> None:
    import pyspark

    if server.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        client = pyspark.__version__
        raise ConfigError(f"the server is Spark {server}, and stratalog runs with pyspark {client}; use a server of it")


def _require_delta(spark: "SparkSession") -> None:
    """Check that a server knows Delta's statements. Raises ConfigError."""
    from pyspark.errors import PySparkException

    try:
        spark.sql("DESCRIBE DETAIL delta.`/stratalog/of/no/table`")
    except PySparkException as error:
        if not str(error.getCondition()).startswith("DELTA_"):
            if _status(error) in _LOST:
                raise
            raise ConfigError(
                "the server does not have Delta Lake; start it with the settings that python -m "
                "spark_jobs.runtime.server_conf pipeline.yaml prints (stratalog docs clusters/connect)"
            ) from error
