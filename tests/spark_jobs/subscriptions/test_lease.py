"""A consumer that is killed at any moment loses nothing: what it acknowledged stays, all else comes again.

Consumers are forks of a process that has imported what they need, so that each begins at once.
"""

import errno
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.errors import LakeError, StratalogError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.storage import files
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.lease import Lease
from spark_jobs.subscriptions.records import Record, Records
from tests.lakes.consumers import Shop, ids, orders

Send = Callable[[str, list[int]], None]


def consume(folder: Path, send: Send) -> None:
    with Shop(folder).subscription(lease=0.5, wait=30) as subscription:
        while batch := subscription.get_without_ack(7):
            send("took", ids(batch))
            subscription.ack(batch.id)


def consume_noting(folder: Path, send: Send) -> None:
    """Sends what it acknowledged too, and whether it was refused."""
    try:
        with Shop(folder).subscription(lease=0.5, wait=30) as subscription:
            while batch := subscription.get_without_ack(3):
                send("took", ids(batch))
                subscription.ack(batch.id)
                send("acknowledged", ids(batch))
    except StratalogError as error:
        send(f"refused {error}", [])


def _run(consumer: Callable[[Path, Send], None], folder: Path, output: Connection) -> None:
    consumer(folder, lambda event, numbers: output.send((event, numbers)))


@contextmanager
def consumer_process(consumer: Callable[[Path, Send], None], folder: Path) -> Iterator[tuple[BaseProcess, Connection]]:
    """A consumer in a process of its own, and the end of the pipe that it sends to."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(consumer, folder, writer))
    process.start()
    writer.close()
    with reader:
        yield process, reader
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)


def received(reader: Connection) -> Iterator[tuple[str, list[int]]]:
    """What is sent until the process ends."""
    with suppress(EOFError):
        while True:
            yield reader.recv()


@pytest.mark.thorough
def test_kills_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*orders(60), *orders(1, 61), *orders(139, 62)])
    lines: list[tuple[str, list[int]]] = []
    for attempt in range(12):
        is_last = attempt == 11
        with consumer_process(consume, tmp_path) as (process, reader):
            for line in received(reader):
                lines.append(line)
                if not is_last and len(lines) % 3 == 0:
                    time.sleep(0.002 * attempt)
                    break
            if not is_last:
                process.kill()
            lines += received(reader)
    numbers = [number for _, numbers in lines for number in numbers]
    firsts = list(dict.fromkeys(numbers))
    assert firsts == list(range(1, 201)), "every change came, and in order"
    with shop.subscription(wait=5) as subscription:
        assert ids(subscription.get(1)) == []


@pytest.mark.thorough
def test_a_consumer_that_slept_beyond_its_lease_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    """Stopped by SIGSTOP at any moment, overdelivered, then woken. An acknowledgement that was written counts."""
    shop = Shop(tmp_path)
    shop.log([*orders(1_000), *orders(1_000, 1_001)])
    delivered: list[int] = []
    acknowledged: list[int] = []
    refused: list[str] = []
    for attempt in range(6):
        with consumer_process(consume_noting, tmp_path) as (process, reader):
            lines = [reader.recv() for _ in range(1 + attempt % 3)]
            first = len(delivered)
            time.sleep(0.003 * attempt)
            assert process.pid
            os.kill(process.pid, signal.SIGSTOP)
            # What it sent before it was stopped is in the pipe; who overtakes it goes on behind what it acknowledged.
            with shop.subscription(lease=0.5, wait=60) as overtaking:
                for _ in range(2):
                    batch = overtaking.get_without_ack(4)
                    overdelivered = ids(batch)
                    overtaking.ack(batch.id)
                    delivered += overdelivered
                    acknowledged += overdelivered
                os.kill(process.pid, signal.SIGCONT)
                lines += received(reader)
        assert process.exitcode == 0
        # Where its lease was lost between two batches it says so as it ends, in place of raising.
        refused += [event for event, _ in lines if "was taken over" in event or "delivered over" in event][:1]
        delivered[first:first] = [number for event, numbers in lines if event == "took" for number in numbers]
        acknowledged += [number for event, numbers in lines if event == "acknowledged" for number in numbers]
    with shop.subscription(wait=30) as subscription:
        rest = ids(subscription.get(2_000))
    assert list(dict.fromkeys(delivered + rest)) == list(range(1, 2_001)), "every change came, and in order"
    assert len(set(acknowledged + rest)) == len(acknowledged + rest), "none is acknowledged twice"
    assert len(refused) == 6, refused


def test_an_acknowledgement_whose_answer_was_lost_is_not_undone_by_what_is_written_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, at = Records(Lake(str(tmp_path)), "shop"), [Cursor(Position("b.000001", 100 * part)) for part in range(4)]
    lease = Lease.take(records, "g", make=lambda: Record("g", 0, at[0]), tables=(), lease=60.0, wait=0.0)
    create = files.create

    def answer_lost(*arguments: Any, **options: Any) -> bool:
        create(*arguments, **options)
        raise OSError(errno.EIO, "the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(files, "create", answer_lost)
        with pytest.raises(LakeError, match="the answer was lost"):
            lease.move(at[2], 1)
    # What renews the lease writes what it knew; gc may have removed the log before the acknowledged cursor.
    lease.move(lease.record.cursor, lease.record.batch)
    newest = records.read("g")
    assert newest is not None
    assert (newest.cursor, newest.batch, lease.record.cursor) == (at[2], 1, at[2])
    # Nor does an earlier entry that was delivered again meanwhile, and is acknowledged.
    lease.move(at[1], 2)
    newest = records.read("g")
    assert newest is not None
    assert newest.cursor == at[2]
    lease.move(at[3], 3)
    lease.give_up()
    newest = records.read("g")
    assert newest is not None
    assert (newest.cursor, newest.batch, newest.consumer) == (at[3], 3, None)
