"""A server that has the password itself sent, as those of clouds do, before a real server that does the rest.

Put here: the handshake up to the login, and bytes in both directions after it. Not here: what is a right password.

It greets with TLS and another plugin, asks for mysql_clear_password (MySQL's "Protocol::AuthSwitchRequest"), and logs
in at the real server by an account of its own. What goes over the network is kept, as a listener there would see it.
"""

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pymysql
from pymysql.constants import CLIENT

from spark_jobs.demo.server import MySQLServer
from tests.services.proxy import Listener

_CAPABILITIES = (
    CLIENT.LONG_PASSWORD
    | CLIENT.FOUND_ROWS
    | CLIENT.LONG_FLAG
    | CLIENT.PROTOCOL_41
    | CLIENT.TRANSACTIONS
    | CLIENT.SECURE_CONNECTION
    | CLIENT.MULTI_STATEMENTS
    | CLIENT.MULTI_RESULTS
    | CLIENT.PLUGIN_AUTH
    | CLIENT.PLUGIN_AUTH_LENENC_CLIENT_DATA
)
_AUTOCOMMIT = 2


class ClearPasswordGateway(Listener):
    """Takes a login where ``accepts`` says so, of the user and what came as the password.

    Without ``tls``, a certificate with its key beside it, it asks for the password over a connection that anybody
    reads. ``cut``: so many bytes of the real server after which, once, a connection ends.
    """

    def __init__(
        self,
        server: MySQLServer,
        tls: Path | None,
        accepts: Callable[[str, str], bool],
        *,
        plugin: str = "mysql_clear_password",
        cut: int | None = None,
    ) -> None:
        self._server, self._accepts, self._plugin, self._cut = server, accepts, plugin, cut
        self._context = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(tls, tls.with_suffix(".key"))
        self.wire = bytearray()
        """All that came from clients, as it came."""
        self.passwords: list[str] = []
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        super().__init__()

    def __exit__(self, *arguments: object) -> None:
        super().__exit__(*arguments)
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _accept_client(self, client: socket.socket) -> None:
        inner, outer = socket.socketpair()
        self._ends += [client, inner, outer]
        for target, arguments in (
            (_copy_bytes, (client, outer, self.wire)),
            (_copy_bytes, (outer, client, None)),
            (self._serve_session, (inner,)),
        ):
            self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
            self._threads[-1].start()

    def _serve_session(self, stream: socket.socket) -> None:
        with stream, suppress(OSError, EOFError):
            self._log_in(stream)

    def _log_in(self, stream: socket.socket) -> None:
        with self._server.connect() as asking:
            version: str = asking.get_server_info()  # type: ignore[no-untyped-call]
        flags = _CAPABILITIES | (CLIENT.SSL if self._context else 0)
        greeting = b"\x0a" + version.encode() + b"\0" + struct.pack("<I", 1) + b"saltsalt\0"
        greeting += struct.pack("<HBHHB10x", flags & 0xFFFF, 45, _AUTOCOMMIT, flags >> 16, 21)
        _send(stream, 0, greeting + b"saltsaltsalt\0caching_sha2_password\0")
        number, packet = _receive(stream)
        if self._context and len(packet) == 32:
            with self._context.wrap_socket(stream, server_side=True) as encrypted:
                self._authenticate(encrypted, *_receive(encrypted))
        else:
            self._authenticate(stream, number, packet)

    def _authenticate(self, stream: socket.socket, number: int, packet: bytes) -> None:
        """The client's answer to the greeting, then the password, then the real server."""
        client_flags = struct.unpack_from("<I", packet)[0] & _CAPABILITIES
        user = packet[32 : packet.index(0, 32)].decode()
        question = b"\0" if self._plugin == "mysql_clear_password" else b"\x04Password: "
        _send(stream, number + 1, b"\xfe" + self._plugin.encode() + b"\0" + question.removeprefix(b"\0"))
        number, packet = _receive(stream)
        password = packet.removesuffix(b"\0").decode()
        self.passwords.append(password)
        if not self._accepts(user, password):
            text = f"Access denied for user '{user}'@'127.0.0.1' (using password: YES)"
            _send(stream, number + 1, b"\xff" + struct.pack("<H", 1045) + b"#28000" + text.encode())
            return
        login = {"user": self._server.user, "password": self._server.password, "client_flag": client_flags}
        upstream = pymysql.connect(
            host=self._server.host,
            port=self._server.port,
            charset="utf8mb4",
            autocommit=None,
            ssl_disabled=True,
            **login,
        )
        with upstream:
            _send(stream, number + 1, b"\0\0\0" + struct.pack("<HH", _AUTOCOMMIT, 0))
            self._relay(stream, upstream._sock)  # type: ignore[attr-defined]

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """In one thread, since no two may use a connection of TLS at once."""
        total = 0
        while self._cut is None or total <= self._cut:
            pending = isinstance(client, ssl.SSLSocket) and client.pending()
            for source in [client] if pending else select.select([client, server], [], [])[0]:
                data = source.recv(65536)
                if not data:
                    return
                (server if source is client else client).sendall(data)
                total += len(data) if source is server else 0
        self._cut = None


def _copy_bytes(source: socket.socket, sink: socket.socket, kept: bytearray | None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if kept is not None:
                kept += data
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _send(stream: socket.socket, number: int, payload: bytes) -> None:
    stream.sendall(len(payload).to_bytes(3, "little") + bytes([number]) + payload)


def _receive(stream: socket.socket) -> tuple[int, bytes]:
    head = _exactly(stream, 4)
    return head[3], _exactly(stream, int.from_bytes(head[:3], "little"))


def _exactly(stream: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = stream.recv(count - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content
