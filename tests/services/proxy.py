"""A TCP proxy that cuts connections, and what proxies of tests have in common.

Put here: listening, and cutting. Not here: what must survive it.
"""

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Self

COM_BINLOG_DUMP = 0x12


class Listener(ABC):
    """Accepts connections until the ``with`` block ends, by default on a free port of the loopback address."""

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._listener = socket.create_server(address)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._accept_client(client)

    @abstractmethod
    def _accept_client(self, client: socket.socket) -> None:
        """Takes over a connection, and returns at once."""


class Proxy(Listener):
    """Stands before a server. Each dump through it is cut after so many bytes of the dump: the next of ``cuts``.

    When there are none left, and for connections that ask for no dump, nothing is cut. It sees where a dump begins on
    connections without TLS only; with ``in_full`` it counts from a connection's first byte on, whatever that carries.
    With ``stalls`` a connection stays open where it would be cut, and nothing more comes.
    """

    def __init__(
        self,
        host: str,
        port: int,
        cuts: Iterable[int] = (),
        *,
        in_full: bool = False,
        stalls: bool = False,
        address: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self._upstream = (host, port)
        self._cuts: Iterator[int] = iter(cuts)
        self._in_full = in_full
        self.stalls = stalls
        self.dumps = 0
        self.cut = 0
        super().__init__(address)

    def _accept_client(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._upstream)
        except OSError:  # the server is down, and may come back
            client.close()
            return
        _Connection(self, client, server, next(self._cuts, None) if self._in_full else None).start()

    def next_cut(self) -> int | None:
        """Takes note of a dump; how many of its bytes go through."""
        self.dumps += 1
        return None if self._in_full else next(self._cuts, None)


class _Connection:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket, remaining: int | None) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._remaining = remaining

    def start(self) -> None:
        threading.Thread(target=self._questions, daemon=True).start()
        threading.Thread(target=self._answers, daemon=True).start()

    def _questions(self) -> None:
        with suppress(OSError):
            while question := self._client.recv(1 << 16):
                if question[3:5] == bytes([0, COM_BINLOG_DUMP]):
                    self._remaining = self._proxy.next_cut()
                self._server.sendall(question)
        self._close()

    def _answers(self) -> None:
        with suppress(OSError):
            while answer := self._server.recv(1 << 16):
                remaining = self._remaining
                if remaining is None:
                    self._client.sendall(answer)
                    continue
                self._client.sendall(answer[:remaining])
                self._remaining = remaining - len(answer)
                if self._remaining <= 0:
                    self._proxy.cut += 1
                    if self._proxy.stalls:
                        return
                    break
        self._close()

    def _close(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
