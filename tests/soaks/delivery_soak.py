"""Deliveries into two servers under write load, while their processes and their targets die at random moments.

``python -m tests.soaks.delivery_soak SECONDS FOLDER`` prints how often each fault came, at the end what was lost and
doubled.

Put here: a soak whose runs are deliveries, in both ways of applying. Not here: faults and the account (soak.py), kills
at each statement (spark_jobs/delivery/test_transactions.py).
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from spark_jobs.demo import shop
from spark_jobs.demo.server import MySQLServer
from tests.soaks.soak import Account, Run, Soak, main

ROUNDS = 8
"""Faults between one run of the pipeline and the next, which brings something new to deliver."""


class DeliverySoak(Soak):
    """A lake that two deliveries are made of, each into a server of its own."""

    rows = 1_000

    def __enter__(self) -> Self:
        super().__enter__()
        self.usual = 3.0
        self._targets = {
            apply: self._stack.enter_context(MySQLServer(self.folder / apply, {})) for apply in ("net", "ordered")
        }
        # The pipeline's own configuration delivers nothing, so that what is new waits for the faults.
        deliveries = {
            apply: {"mysql": self._login(apply), "apply": apply, "batch_rows": 10, "workers": 3}
            for apply in self._targets
        }
        document = yaml.safe_load(self.config.read_text()) | {"deliveries": deliveries}
        self._delivering = self.folder / "delivering.yaml"
        self._delivering.write_text(yaml.safe_dump(document))
        self._extract()
        return self

    def _login(self, apply: str) -> dict[str, Any]:
        """Of a user of the target who may write there."""
        server = self._targets[apply]
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
            cursor.execute("GRANT ALL ON *.* TO writer@'%'")
        return {"host": server.host, "port": server.port, "user": "writer", "password": "writes"}

    def _extract(self) -> None:
        """A run of the pipeline that nobody disturbs, and one that dies in the middle before it."""
        usual = self.usual
        killed = Run("run", "-c", str(self.config))
        killed.lasts(self.generator.uniform(0.1, 1.0) * 20)
        killed.signal(9, all_of_it=True)
        self.account.faults["run killed"] += 1
        self._count_end(killed)
        self._count_end(Run("run", "-c", str(self.config)))
        self.usual = usual

    def _start_run(self) -> Run:
        return Run("deliver", "-c", str(self._delivering))

    def _faults(self) -> list[Callable[[], None]]:
        return [
            self._delivery_killed,
            self._delivery_killed,
            self._delivery_killed,
            self._delivery_killed,
            self._target_killed,
            self._two_runs_at_once,
            self._a_run_asleep_while_another_overtakes_it,
        ]

    def _delivery_killed(self) -> None:
        self._run_killed()

    def _target_killed(self) -> None:
        """It is started again at once."""

        def killed(_: Run) -> None:
            target = self._targets[self.generator.choice(sorted(self._targets))]
            target.kill()
            target.start()

        self._struck(killed)

    def run_cycle(self) -> None:
        """Something new, faults while it is delivered, and what is left in the end."""
        self._extract()
        for _ in range(ROUNDS):
            self.round()
        self._count_end(self._start_run())

    def compare(self) -> None:
        """Every row of both targets with the source's. The writers have ended, and all is delivered."""
        super().compare()
        with self.server.connect() as source, source.cursor() as cursor:
            cursor.execute(f"SHOW TABLES FROM {shop.SCHEMA}")
            tables = [name for (name,) in cursor.fetchall() if not name.startswith("audit_")]
            for table in tables:
                select = f"SELECT * FROM {shop.SCHEMA}.`{table}`"
                cursor.execute(select)
                expected = Counter(cursor.fetchall())
                for server in self._targets.values():
                    with server.connect() as target, target.cursor() as reading:
                        reading.execute(select)
                        delivered = Counter(reading.fetchall())
                    self.account.rows += expected.total()
                    self.account.missing += (expected - delivered).total()
                    self.account.doubled += (delivered - expected).total()

    def complete(self) -> None:
        """What the writers wrote up to their end, delivered without a fault."""
        self._pause_writers()
        self._extract()
        self._count_end(self._start_run())
        self.compare()


def soak_of_deliveries(seconds: float, folder: Path, seed: int, print_line: Callable[[str], object]) -> Account:
    """Faults for so many seconds, then a delivery to its end and a comparison of all rows."""
    over = time.monotonic() + seconds
    with DeliverySoak(folder, seed) as soak:
        while time.monotonic() < over:
            soak.run_cycle()
            print_line(f"{dict(soak.account.faults)}, deliveries {dict(soak.account.ended)}")
        soak.complete()
        return soak.account


if __name__ == "__main__":
    main(soak_of_deliveries, *sys.argv[1:])
