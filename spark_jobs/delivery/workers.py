"""The connections of a delivery that write rows side by side.

Put here: the pool. Not here: what they write (table_delivery.py, ordered/), or one connection (target.py).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery.target import Connection


class Workers:
    """The connections of a delivery: one a thread, opened at its first use."""

    def __init__(self, name: str, settings: Delivery) -> None:
        self.name = name
        self.settings = settings
        self.pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="deliver")
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()

    def submit(self, work: Callable[[Connection], int]) -> "Future[int]":
        """Work for one of the connections."""
        return self.pool.submit(self._run_work, work)

    def _run_work(self, work: Callable[[Connection], int]) -> int:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Connection(self.name, self.settings.mysql)
            with self._lock:
                self._connections.append(connection)
        return work(connection)
