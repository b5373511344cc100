"""A pipeline under write load while its processes, its server and its connections die at random moments.

``python -m tests.soaks.soak SECONDS FOLDER`` prints each fault as it comes, and at the end how often each was tried and
what was lost and doubled. Everything is a process of its own, as users have it: the server, and each ``stratalog run``.

Put here: the faults, and the account. Not here: faults at chosen positions, which have tests of their own
(pipeline/test_faults.py, pipeline/test_server_faults.py, pipeline/test_cut_connections.py).
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from spark_jobs.demo import shop
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.writers import Traffic, Writers, rotate
from tests.fix_spark import lighten_jvms
from tests.services.proxy import Proxy

SOURCE = "shop"
ROWS = 3_000
PATIENCE = 600
"""Seconds after which a run that nobody disturbs counts as hung."""
BRIEF = {"spark.driver.memory": "1g"}

FAIR = re.compile(
    r"Lost connection|Can't connect|server has gone away|Connection reset|Broken pipe|tried \d+ times"
    r"|another writer|another run delivers|committed first|Server shutdown|Connection was killed|cannot be reached"
    r"|did not answer|Spark's JVM ended|Spark did not start"
)
"""What a run may say when its server or another run got in its way; anything else that ends a run ends the soak."""


@dataclass
class Account:
    """Number of times that each fault was tried, how the runs under it ended, and what the comparisons found."""

    faults: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    cuts: int = 0
    comparisons: int = 0
    rows: int = 0
    missing: int = 0
    doubled: int = 0
    different: int = 0
    files: int = 0
    bytes: int = 0
    transactions: int = 0

    def __str__(self) -> str:
        lines = ["| fault | times |", "| --- | --- |", *(f"| {name} | {n} |" for name, n in self.faults.most_common())]
        ended = ", ".join(f"{n} {outcome}" for outcome, n in self.ended.most_common())
        return "\n".join(
            [
                *lines,
                f"| connections cut by the proxy | {self.cuts} |",
                "",
                f"runs: {ended}",
                f"writers: {self.transactions} transactions",
                f"rows compared with the server's: {self.rows:,} in {self.comparisons} comparisons",
                f"rows lost {self.missing}, doubled or extra {self.doubled}, different {self.different}",
                f"bronze exported: {self.files} files, {self.bytes:,} bytes, each byte the server's",
            ]
        )


class Run:
    """A ``stratalog`` command in a process group of its own: Python, and the JVM and workers that it starts."""

    def __init__(self, *command: str) -> None:
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.cli", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def signal(self, number: int, *, all_of_it: bool) -> None:
        """To the whole group, as where a machine goes, or to Python alone, whose JVM may live a little longer."""
        if self.process.poll() is None:
            (os.killpg if all_of_it else os.kill)(self.process.pid, number)

    def kill_jvm(self) -> None:
        """Its JVM alone, as the system does where memory runs out."""
        process = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "java"], capture_output=True, text=True, check=False
        )
        for pid in process.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Waits; exit status and what it said."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output

    def lasts(self, seconds: float) -> bool:
        """True if it still goes on after so many seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False


class Cuts(Iterator[int]):
    """Number of bytes of each dump that the proxy lets through: as good as all, unless it is asked to be rough."""

    def __init__(self, generator: random.Random) -> None:
        self.generator, self.rough = generator, False

    def __next__(self) -> int:
        return int(2 ** self.generator.uniform(5, 22)) if self.rough and self.generator.random() < 0.8 else 1 << 60


class Soak:
    """One server, one lake, and the writers; ``round()`` does one fault, ``compare()`` tells whether all is there."""

    rows = ROWS

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.generator = random.Random(seed)
        self.account = Account()
        self.usual = 20.0
        self._cuts = Cuts(self.generator)
        self._stack = ExitStack()
        self._writers: Writers | None = None
        self._numbers = 0

    def __enter__(self) -> Self:
        options = {"ssl": "OFF", "max_binlog_size": 1 << 20}  # the proxy must see where a dump begins; many files
        self.server = self._stack.enter_context(MySQLServer(self.folder / "server", options))
        self.proxy = self._stack.enter_context(Proxy(self.server.host, self.server.port, self._cuts))
        with self.server.connect() as connection:
            shop.create(connection)
            shop.fill(connection, self.rows)
        login = {"host": self.server.host, "port": self.proxy.port, "user": self.server.user}
        document = {
            "lake": str(self.folder / "lake"),
            "sources": {SOURCE: {"mysql": login | {"password": self.server.password}}},
            "tables": list(shop.TABLES),
            "spark": {"master": "local[2]", "conf": BRIEF},
        }
        self.config = self.folder / "pipeline.yaml"
        self.config.write_text(yaml.safe_dump(document))
        self._write_load()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pause_writers()
        self._stack.__exit__(kind, error, trace)

    # Writers

    def _write_load(self) -> None:
        connection = self.server.connect()
        self._writers = Writers(Traffic(connection, first=self._numbers + 1), pause=0.01)
        self._writers.start()

    def _pause_writers(self) -> None:
        """Ends them; that a server's death has ended them already is no concern here."""
        if self._writers is not None:
            self._writers.__exit__(KeyboardInterrupt)
            self.account.transactions += self._writers.traffic.last - self._numbers
            # The one that a server's death interrupted may have been committed: its number is not used again.
            self._numbers = self._writers.traffic.last + 1
        self._writers = None

    # Faults

    def round(self) -> None:
        """One fault, chosen at random, while a run goes on."""
        fault = self.generator.choice(self._faults())
        self.account.faults[fault.__name__.strip("_").replace("_", " ")] += 1
        fault()

    def _faults(self) -> list[Callable[[], None]]:
        return [
            self._run_killed,
            self._run_killed_its_jvm_not,
            self._jvm_killed,
            self._server_killed,
            self._server_restarted,
            self._connections_cut,
            self._two_runs_at_once,
            self._a_run_asleep_while_another_overtakes_it,
            self._nothing_but_a_new_file,
        ]

    def _moment(self) -> float:
        return self.generator.uniform(0.2, 1.1) * self.usual

    def _start_run(self) -> Run:
        return Run("run", "-c", str(self.config))

    def _count_end(self, run: Run) -> None:
        """Takes note of how a run ended; an end that its fault does not explain is the soak's end."""
        status, output = run.end()
        # PySpark's server of accumulators shows what it meets when its JVM goes, between two lines; what the run says
        # itself may stand anywhere within.
        alone = re.sub(r"-{40}\nException occurred during processing.*?EOFError\n-{40}\n", "", output, flags=re.DOTALL)
        if status == 0:
            self.account.ended["well"] += 1
            self.usual = 0.7 * self.usual + 0.3 * (time.monotonic() - run.began)
        elif status == -signal.SIGKILL:
            self.account.ended["killed"] += 1
        elif status in (1, 2) and FAIR.search(output) and "Traceback" not in alone:
            self.account.ended["with a message"] += 1
        else:
            raise AssertionError(f"a run ended with status {status} and said:\n{output}")

    def _struck(self, strike: Callable[[Run], None]) -> None:
        """A run in the middle of which something happens."""
        run = self._start_run()
        run.lasts(self._moment())
        strike(run)
        self._count_end(run)

    def _run_killed(self) -> None:
        self._struck(lambda run: run.signal(signal.SIGKILL, all_of_it=True))

    def _run_killed_its_jvm_not(self) -> None:
        self._struck(lambda run: run.signal(signal.SIGKILL, all_of_it=False))

    def _jvm_killed(self) -> None:
        self._struck(Run.kill_jvm)

    def _server_killed(self) -> None:
        self._struck(lambda _: self._without_server(self.server.kill))

    def _server_restarted(self) -> None:
        self._struck(lambda _: self._without_server(self.server.stop))

    def _without_server(self, end: Callable[[], None]) -> None:
        end()
        self._pause_writers()
        self.server.start()
        self._write_load()

    def _connections_cut(self) -> None:
        self._cuts.rough = True
        try:
            self._count_end(self._start_run())
        finally:
            self._cuts.rough = False

    def _two_runs_at_once(self) -> None:
        first, second = self._start_run(), self._start_run()
        self._count_end(first)
        self._count_end(second)

    def _a_run_asleep_while_another_overtakes_it(self) -> None:
        sleeper = self._start_run()
        if sleeper.lasts(self._moment()):
            sleeper.signal(signal.SIGSTOP, all_of_it=True)
            self._count_end(self._start_run())
            sleeper.signal(signal.SIGCONT, all_of_it=True)
        self._count_end(sleeper)

    def _nothing_but_a_new_file(self) -> None:
        with self.server.connect() as connection:
            rotate(connection)
        self._count_end(self._start_run())

    # What is there

    def compare(self) -> None:
        """Every row with the server's own, while the writers go on."""
        status, output = Run("verify", "-c", str(self.config), "--json").end()
        verdicts = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        if not verdicts:
            raise AssertionError(f"verify ended with status {status} and said:\n{output}")
        self.account.comparisons += 1
        self.account.rows += sum(verdict["source_rows"] for verdict in verdicts)
        for verdict in verdicts:
            self.account.missing += verdict["missing"]
            self.account.doubled += verdict["extra"]
            self.account.different += verdict["different"]
        fine = {"equal"} if self._writers is None else {"equal", "changing"}
        if status or any(table_verdict["state"] not in fine for table_verdict in verdicts):
            raise AssertionError(f"{self.account}\n{output}")

    def export(self) -> None:
        """Every closed file out of bronze, compared with the server's own."""
        out = self.folder / "exported"
        status, output = Run("export", "-c", str(self.config), "--source", SOURCE, "--to", str(out)).end()
        if status:
            raise AssertionError(f"export ended with status {status} and said:\n{output}")
        for path in sorted(out.iterdir()):
            server_bytes = bytearray((self.server.data / path.name).read_bytes())
            server_bytes[4 + 17] &= 0xFE  # a file's in-use flag, which a dump clears
            content = path.read_bytes()
            if content != server_bytes[: len(content)]:
                raise AssertionError(f"{path.name}: exported bytes are not the server's")
            self.account.files += 1
            self.account.bytes += len(content)

    def finish(self) -> None:
        """The writers stop; then all rows, and all bytes."""
        self._pause_writers()
        self.compare()
        self.export()
        self.account.cuts = self.proxy.cut


def soak(seconds: float, folder: Path, seed: int, print_line: Callable[[str], object]) -> Account:
    """Faults for so many seconds, a comparison every tenth round. Raises AssertionError at the first loss."""
    over = time.monotonic() + seconds
    with Soak(folder, seed) as running_soak:
        rounds = 0
        while time.monotonic() < over:
            running_soak.round()
            rounds += 1
            print_line(f"{rounds}: {dict(running_soak.account.faults)}, runs {dict(running_soak.account.ended)}")
            if rounds % 10 == 0:
                running_soak.compare()
        running_soak.finish()
        return running_soak.account


def main(of: Callable[..., Account], seconds: str, folder: str) -> None:
    lighten_jvms()
    print_line, seed = print, int(os.environ.get("STRATALOG_SEED", time.time()))
    print_line(f"seed {seed}")
    print_line(str(of(float(seconds), Path(folder), seed, print_line)))


if __name__ == "__main__":
    main(soak, *sys.argv[1:])
