"""Connections of a delivery's threads, with a server that is only noted."""

import threading
from concurrent.futures import Future

import pytest

from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery import workers as module
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.workers import Workers


class NotedConnection(Connection):
    """A connection that connects to nothing."""

    opened: list["NotedConnection"]

    def __init__(self, *arguments: object) -> None:
        self.threads: set[int] = set()
        self.is_closed = False
        self.opened.append(self)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[NotedConnection]:
    """The connections that workers open."""
    NotedConnection.opened = []
    monkeypatch.setattr(module, "Connection", NotedConnection)
    return NotedConnection.opened


def workers_of(count: int) -> Workers:
    return Workers("copy", Delivery.model_validate({"mysql": {"user": "w"}, "workers": count}))


@pytest.mark.parametrize("count", [1, 3])
def test_a_thread_has_a_connection(connections: list[NotedConnection], count: int) -> None:
    barrier = threading.Barrier(count, timeout=10)

    def work(connection: Connection) -> int:
        assert isinstance(connection, NotedConnection)
        connection.threads.add(threading.get_ident())
        assert not connection.is_closed
        return barrier.wait()

    with workers_of(count) as workers:
        assert connections == [], "none before its first use"
        for _ in range(4):
            numbers = [workers.submit(work) for _ in range(count)]
            assert sorted(number.result() for number in numbers) == [*range(count)]
        assert [len(connection.threads) for connection in connections] == [1] * count
        assert not any(connection.is_closed for connection in connections)
    assert all(connection.is_closed for connection in connections)


def test_an_error_comes_out_of_its_future(connections: list[NotedConnection]) -> None:
    def failing(_: Connection) -> int:
        raise OSError("cut")

    with workers_of(1) as workers:
        failure, success = workers.submit(failing), workers.submit(lambda _: 7)
        assert isinstance(failure.exception(), OSError)
        assert success.result() == 7, "the next work is done, by the same connection"
    assert [connection.is_closed for connection in connections] == [True]


def test_an_error_of_the_caller_leaves_no_work_and_no_connection(connections: list[NotedConnection]) -> None:
    going, end = threading.Event(), threading.Event()

    def first_work(_: Connection) -> int:
        going.set()
        return int(end.wait(10))

    def stopped_caller() -> None:
        with workers_of(1) as workers:
            futures.extend([workers.submit(first_work), workers.submit(lambda _: 7)])
            assert going.wait(10)
            threading.Timer(0.05, end.set).start()
            raise KeyError

    futures: list[Future[int]] = []
    with pytest.raises(KeyError):
        stopped_caller()
    assert (futures[0].result(), futures[1].cancelled()) == (1, True)
    assert [connection.is_closed for connection in connections] == [True]
