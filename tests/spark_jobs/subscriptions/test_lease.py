"""A consumer that is killed at any moment loses nothing: what it acknowledged stays, all else comes again."""

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.storage import files
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.lease import Lease
from spark_jobs.subscriptions.records import Record, Records
from tests.consumers import Shop, ids, orders

CONSUMER = """
import sys
from pathlib import Path
from tests.consumers import Shop, ids
shop = Shop(Path(sys.argv[1]))
with shop.subscription(lease=0.5, wait=30) as subscription:
    while batch := subscription.get_without_ack(7):
        print(*ids(batch), flush=True)
        subscription.ack(batch.id)
"""


@pytest.mark.thorough
def test_kills_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*orders(60), *orders(1, 61), *orders(139, 62)])
    lines: list[str] = []
    for attempt in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", CONSUMER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
        )
        assert process.stdout
        is_last = attempt == 11
        for line in process.stdout:
            lines.append(line)
            if not is_last and len(lines) % 3 == 0:
                time.sleep(0.002 * attempt)
                break
        if not is_last:
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        process.stdout.close()
        assert process.wait(60) in (0, -signal.SIGKILL)
    numbers = [int(word) for line in lines for word in line.split()]
    firsts = list(dict.fromkeys(numbers))
    assert firsts == list(range(1, 201)), "every change came, and in order"
    with shop.subscription(wait=5) as subscription:
        assert ids(subscription.get(1)) == []


SLOW_CONSUMER = """
import sys
from pathlib import Path
from spark_jobs.errors import StratalogError
from tests.consumers import Shop, ids
shop = Shop(Path(sys.argv[1]))
try:
    with shop.subscription(lease=0.5, wait=30) as subscription:
        while batch := subscription.get_without_ack(3):
            print("took", *ids(batch), flush=True)
            subscription.ack(batch.id)
            print("acknowledged", *ids(batch), flush=True)
except StratalogError as error:
    print("refused", error, flush=True)
"""


@pytest.mark.thorough
def test_a_consumer_that_slept_beyond_its_lease_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    """Stopped by SIGSTOP at any moment, overdelivered, then woken. An acknowledgement that was written counts."""
    shop = Shop(tmp_path)
    shop.log([*orders(1_000), *orders(1_000, 1_001)])
    delivered: list[int] = []
    acknowledged: list[int] = []
    refused: list[str] = []
    for attempt in range(6):
        command = [sys.executable, "-c", SLOW_CONSUMER, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(1 + attempt % 3)]
        first = len(delivered)
        time.sleep(0.003 * attempt)
        process.send_signal(signal.SIGSTOP)
        # What it printed before it was stopped is in the pipe; who overtakes it goes on behind what it acknowledged.
        with shop.subscription(lease=0.5, wait=60) as overtaking:
            for _ in range(2):
                batch = overtaking.get_without_ack(4)
                overdelivered = ids(batch)
                overtaking.ack(batch.id)
                delivered += overdelivered
                acknowledged += overdelivered
            process.send_signal(signal.SIGCONT)
            lines += process.stdout.readlines()
        process.stdout.close()
        assert process.wait(60) == 0
        # Where its lease was lost between two batches it says so as it ends, in place of raising.
        refused += [line for line in lines if "was taken over" in line or "delivered over" in line][:1]
        delivered[first:first] = [int(word) for line in lines if line.startswith("took ") for word in line.split()[1:]]
        acknowledged += [int(word) for line in lines if line.startswith("acknowledged ") for word in line.split()[1:]]
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

    def answer_lost(target: Any, content: bytes) -> bool:
        create(target, content)
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
