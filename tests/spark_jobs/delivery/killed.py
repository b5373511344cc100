"""Delivers, and dies at a statement: ``killed.py pipeline.yaml NAME``, then lines ``NUMBER before|after`` on stdin.

Each line is answered by how the delivery ended: 0, 1, or -9 where it died. Each is a process of its own, forked from
this one, which has all modules and no thread.

Put here: counting the statements that a delivery executes, of all its connections. Not here: what must survive it
(test_transactions.py).
"""

import itertools
import os
import signal
import sys
import threading
from pathlib import Path

from spark_jobs.config.loader import load
from spark_jobs.delivery.deliver import deliver
from spark_jobs.delivery.target import Connection

_, config, name = sys.argv
execute = Connection.execute


def delivered(number: int, moment: str) -> int:
    """Dies before or after a statement, if there is one of that number."""
    counter, lock = itertools.count(1), threading.Lock()

    def counted(connection: Connection, statement: str | bytes) -> int:
        # Only counting is one at a time: a statement may wait for another connection's COMMIT.
        with lock:
            is_last = next(counter) == number
        if is_last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        rows = execute(connection, statement)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    Connection.execute = counted  # type: ignore[method-assign, assignment]
    outcome = deliver(load(Path(config), {**os.environ, "SHOP_PASSWORD": ""}), name)
    return 1 if outcome.stopped else 0


for line in sys.stdin:
    asked_number, asked_moment = line.split()
    child = os.fork()
    if not child:
        try:
            os._exit(delivered(int(asked_number), asked_moment))
        finally:
            os._exit(2)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the answer
