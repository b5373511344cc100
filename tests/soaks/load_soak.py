"""Loads of tables under write load while their processes and their server die at random moments.

``python -m tests.soaks.load_soak SECONDS FOLDER`` prints each fault as it comes, and at the end what was lost and
doubled.

Put here: a soak whose runs are loads. Not here: faults and comparisons (soak.py), loads cut at chosen positions
(pipeline/test_load.py, pipeline/test_load_moves.py).
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from spark_jobs.demo.writers import rotate
from tests.soaks.soak import Account, Run, Soak, main

ROWS = 12_000
CHUNK = 300
"""Rows of a range: so few that a load is killed in the middle of a table."""


class LoadSoak(Soak):
    """Tables whose log has been purged, so that all of their rows must be loaded."""

    rows = ROWS

    def __enter__(self) -> Self:
        super().__enter__()
        self._pause_writers()
        with self.server.connect() as connection, connection.cursor() as cursor:
            rotate(connection)
            cursor.execute("SHOW MASTER STATUS")
            cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchall()[0][0]}'")
        self._write_load()
        return self

    def _start_run(self) -> Run:
        return Run("load", "-c", str(self.config), "--chunk-rows", str(CHUNK))

    def _faults(self) -> list[Callable[[], None]]:
        return [
            self._run_killed,
            self._run_killed,
            self._run_killed_its_jvm_not,
            self._jvm_killed,
            self._server_killed,
            self._run_between,
            self._nothing_but_a_new_file,
        ]

    def _run_between(self) -> None:
        """A plain run between two loads, which may be in the middle of a table."""
        self._count_end(Run("run", "-c", str(self.config)))

    def complete(self) -> None:
        """A load that nobody disturbs."""
        self._count_end(self._start_run())


def soak_of_loads(seconds: float, folder: Path, seed: int, print_line: Callable[[str], object]) -> Account:
    """Faults for so many seconds, then one load to its end and a comparison of all rows."""
    over = time.monotonic() + seconds
    with LoadSoak(folder, seed) as soak:
        while time.monotonic() < over:
            soak.round()
            print_line(f"{dict(soak.account.faults)}, loads {dict(soak.account.ended)}")
        soak.complete()
        soak.finish()
        return soak.account


if __name__ == "__main__":
    main(soak_of_loads, *sys.argv[1:])
