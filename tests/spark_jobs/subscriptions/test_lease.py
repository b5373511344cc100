"""A consumer that is killed at any moment loses nothing: what it acknowledged stays, all else comes again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
